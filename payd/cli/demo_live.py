"""`payd demo --mode live`: one payment on a chain, as a merchant and a wallet live it, until it has settled.

Live webhooks go to https on public addresses only, so it follows the account's feed, which has the same
events.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Final

import click
import msgspec
import trio

from payd import logs
from payd.cli import seed, wallet
from payd.cli.chain_wallet import ChainWallet, Landed, open_wallet
from payd.cli.demo_plan import Plan
from payd.cli.failure import Refused, Unreachable
from payd.cli.feed_connection import Greeting, Message, Place, SecretNews, TurnedAway, read_feed
from payd.cli.running import base_url_of, do, interruptible, undo
from payd.cli.show import show_json
from payd.cli.timeline import Timeline
from payd.cli.wallet import Rest, close_shop
from payd.clock import system_wall_ms
from payd.config import FILE_NAME, Config, EvmChainConfig
from payd.core.caip import parse_asset
from payd.core.money import format_units
from payd.entropy import new_id
from payd.net.http import Client
from payd.web.checkout.view import short_account

EVENTS: Final = ("payment.created", "payment.processing", "payment.succeeded", "payment.settled")
LOCAL_S: Final = 60.0  # blocks come each second, and the tenth settles
REAL_S: Final = 3600.0  # what settles on a rollup is final on Ethereum: a quarter of an hour, or three
STATUS_POLL_MS: Final = 10_000
# A live key has no right to change where money goes unless it is given.
SCOPES: Final = ("merchants:write", "settlements:write", "payments:read", "payments:write", "webhooks:read")


class LiveJob:
    """One live payment, from its creation until it has settled.

    Attributes:
        events: The payment's, by type.
        option: The way that was taken.
        before: What `buyer` and `merchant` had of its asset, in smallest units; `after`: what they have.
        landed: What the chain has of the transaction that paid.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.payment_id = ""
        self.merchant_id = ""
        self.status: dict[str, Any] = {}
        self.events: dict[str, dict[str, Any]] = {}
        self.option: dict[str, Any] = {}
        self.before: dict[str, int] = {}
        self.after: dict[str, int] = {}
        self.landed: Landed | None = None
        self.key = new_id("demo_", system_wall_ms())
        self.settled = trio.Event()

    @property
    def tx_id(self) -> str | None:
        """The transaction that paid."""
        found: str | None = (self.status.get("info") or {}).get("txId")
        return found

    @property
    def settlement(self) -> int:
        """What the merchant is to get of it, in smallest units."""
        processing = self.events.get("payment.processing", {}).get("processing") or {}
        return int(processing.get("settlement_amount", {}).get("value", 0))

    @property
    def received(self) -> int:
        """What the merchant has more than before, in smallest units."""
        return self.after.get("merchant", 0) - self.before.get("merchant", 0)

    def take(self, message: Message | SecretNews) -> bool:
        """A message of the feed; False once no more are wanted."""
        if isinstance(message, SecretNews):
            return True
        event = msgspec.json.decode(message.event)
        data = event["data"]
        if data["merchant_id"] != self.merchant_id:
            return True
        self.events[event["type"]] = data
        self.timeline.add("event", f"{event['type']}, version {data['payment_state_version']}", fg="green")
        if event["type"] != EVENTS[-1]:
            return True
        self.settled.set()
        return False

    def missing(self) -> list[str]:
        """What a finished job would have and this one has not."""
        lacks = [f"the event {kind}" for kind in EVENTS if kind not in self.events]
        if self.status.get("status") != "succeeded":
            lacks.append(f"the status succeeded by REST (it is {self.status.get('status')})")
        if self.landed is None or not self.landed.is_good:
            lacks.append("a transaction that succeeded on the chain")
        if not self.settlement or self.received < self.settlement:
            lacks.append("the money at the merchant's address")
        return lacks


def run(config: Config, plan: Plan, account: str | None, as_json: bool) -> None:
    """Do it, and show it.

    Raises:
        Refused: It cannot be done, or something was missing at its end.
        Unreachable: No server runs.
    """
    logs.configure("auto", "error")  # to standard error: what is printed is the answer
    with interruptible():
        job = trio.run(live_through, config, plan, account, as_json)
    missing = job.missing()
    if as_json:
        show_json(
            {
                "ok": not missing,
                "missing": missing,
                "paymentId": job.payment_id,
                "txId": job.tx_id,
                "status": job.status,
                "events": {kind: data["payment_state_version"] for kind, data in job.events.items()},
                "balances": {"before": job.before, "after": job.after},
                "timeline": job.timeline.entries,
            }
        )
    elif job.after:
        _show_end(job)
    if missing:
        raise Refused(f"Missing: {'; '.join(missing)}.")
    if not as_json:
        click.secho("Done: paid on the chain, succeeded, settled.", fg="green", bold=True)


def _show_end(job: LiveJob) -> None:
    display = job.option["amount"]["display"]
    click.echo(f"\nTransaction {job.tx_id}\n")
    click.echo(f"{display['assetSymbol']:<10}{'before':>30}{'after':>30}")
    for who, before in job.before.items():
        shown = [f"{format_units(units, display['decimals']):>30}" for units in (before, job.after[who])]
        click.echo(f"{who:<10}{''.join(shown)}")
    click.echo()


async def live_through(config: Config, plan: Plan, account: str | None, quiet: bool) -> LiveJob:
    """The whole job, on the running server. What it makes is taken back at the end; the payment stays."""
    from payd.chains.rpc import Rpc
    from payd.live import dialect_of

    job = LiveJob(Timeline(quiet=quiet))
    async with AsyncExitStack() as stack:
        rpc = Rpc(plan.chain.rpc, dialect_of(plan.chain))
        stack.push_async_callback(rpc.aclose)
        buyer = await trio.to_thread.run_sync(open_wallet, plan, rpc)
        await _look_at_chain(job, plan, buyer)
        base_url = await _server(config)
        job.timeline.add("server", base_url)
        await _with_key(job, config, plan, buyer, base_url, account)
    return job


async def _look_at_chain(job: LiveJob, plan: Plan, buyer: ChainWallet) -> None:
    with _nodes_told(plan):
        head = await buyer.head()
    kind = "a test chain, nothing real" if plan.is_local else "real money"
    # The id of a Solana chain is most of a line.
    name = plan.chain.id if isinstance(plan.chain, EvmChainConfig) else plan.chain.shipped.name
    job.timeline.add("chain", f"{name} is {head}: {kind}")


@contextmanager
def _nodes_told(plan: Plan) -> Iterator[None]:
    """What nodes refuse, or do not answer, in words."""
    from payd.chains.rpc import NodesDown, RpcError
    from payd.chains.rpc_errors import BadAnswer

    try:
        yield
    except NodesDown as down:
        hint = "\nDoes it run? scripts/nodes starts one, and writes its payd.toml." if plan.is_local else ""
        raise Refused(f"No node of {plan.chain.id} answers: {down}{hint}") from down
    except (RpcError, BadAnswer) as error:
        raise Refused(f"A node of {plan.chain.id} refused: {error}") from error


async def _server(config: Config) -> str:
    base_url = await base_url_of(config.data_dir)
    if base_url is not None:
        return base_url
    where = "" if config.file is None else f" --config {config.file}"
    if config.file == config.data_dir / FILE_NAME:  # which is found; by name its data may lie elsewhere
        where = f" --data-dir {config.data_dir}"
    raise Unreachable(
        f"No server runs on {config.data_dir}. Start it in another terminal: scripts/run{where}\n"
        "(One that was started for an earlier chain is of no use on this one: stop it first.)"
    )


async def account_of(config: Config, wanted: str | None) -> str:
    """Whose payment it is: a live endpoint of the account hears of it, as of any other.

    Raises:
        Refused: There are several accounts, and none was named, or there is none and none can be made.
    """
    if wanted is not None:
        return wanted
    accounts = await do(config, "account.list", {})
    if not accounts:
        try:
            accounts = [await do(config, "account.create", {"name": seed.ACCOUNT})]
        except Refused:
            # A server that was just started with --demo made it at the same moment.
            accounts = await do(config, "account.list", {})
            if not accounts:
                raise
    if len(accounts) > 1:
        raise Refused("There are several accounts. Choose one with --account NAME|ID")
    return str(accounts[0]["id"])


async def _with_key(
    job: LiveJob, config: Config, plan: Plan, buyer: ChainWallet, base_url: str, account: str | None
) -> None:
    """Make what a shop and a wallet need, live through it, and take it back."""
    of = {"mode": "live", "account": await account_of(config, account)}
    async with AsyncExitStack() as stack:
        client = Client(may_call=lambda _address: True)
        stack.push_async_callback(client.aclose)
        key = await do(config, "key.create", {**of, "name": "demo", "scopes": list(SCOPES)})
        stack.push_async_callback(undo, config, "key.revoke", {**of, "id": key["id"]})
        app = await do(config, "app.create", {**of, "name": "demo wallet"})
        stack.push_async_callback(undo, config, "app.revoke", {**of, "id": app["appId"]})
        shop = Rest(client, base_url, {"Api-Key": key["apiKey"]})
        gateway = Rest(client, base_url, {"App-Id": app["appId"], "Client-Id": "payd-demo"})
        await _open_shop(job, plan, shop, stack)
        place = Place(base_url, key["apiKey"], of["account"])
        with trio.move_on_after(LOCAL_S if plan.is_local else REAL_S), _nodes_told(plan):
            async with trio.open_nursery() as nursery:
                await nursery.start(_follow, job, place)
                await _trade(job, plan, shop, gateway, buyer)
                nursery.cancel_scope.cancel()


async def _open_shop(job: LiveJob, plan: Plan, shop: Rest, undoing: AsyncExitStack) -> None:
    """A merchant who is paid in every asset of the chain."""
    body = {"merchantName": seed.SHOP, "merchantEmail": seed.EMAIL}
    made = await shop.ask("POST", "/v1/merchants", body, Idempotency_Key=job.key)
    job.merchant_id = made["merchant"]["id"]
    undoing.push_async_callback(close_shop, shop, job.merchant_id)
    job.timeline.add("merchant", f"created {job.merchant_id}")
    to = f"{plan.chain.id}:{plan.destination}"
    settlements = [{"asset": row.asset, "destination": to} for row in plan.assets]
    path = f"/v1/merchants/{job.merchant_id}/settlements/crypto"
    await shop.ask("POST", path, {"settlements": settlements}, Idempotency_Key=job.key)
    symbols = ", ".join(row.symbol for row in plan.assets)
    job.timeline.add("merchant", f"is paid at {short_account(plan.destination)} in {symbols}")


async def _follow(
    job: LiveJob, place: Place, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Read the account's feed until the payment has settled."""

    def greet(_greeting: Greeting) -> None:
        task_status.started()

    try:
        words = await read_feed(place, None, greet, job.take)
    except TurnedAway as turned:
        raise Refused(f"The server gives no feed: {turned}") from turned
    if words is not None:
        raise Refused(f"The feed of the server ended: {words}")


async def _trade(job: LiveJob, plan: Plan, shop: Rest, gateway: Rest, buyer: ChainWallet) -> None:
    """Payment, wallet, status, settlement, and what is on the chain then."""
    tell, whose = job.timeline.add, {"Merchant_Id": job.merchant_id}
    made = await shop.ask("POST", "/v1/payments", seed.order("DEMO-1", plan.cents), **whose)
    job.payment_id = made["id"]
    tell("merchant", f"created a payment over {format_units(plan.cents, 2)} USD")
    paying = _Paying(job, plan, buyer)
    confirmed = await wallet.pay(gateway, job.payment_id, lambda words: tell("wallet", words), paying)
    tell("wallet", f"is told {confirmed['status']}")
    path = f"/v1/payments/{job.payment_id}/status?maxPollMs={STATUS_POLL_MS}"
    while not job.status.get("isFinal"):
        job.status = await shop.ask("GET", path, **whose)
    tell("merchant", f"reads the status {job.status.get('status')}")
    if job.status.get("status") != "succeeded":
        return
    await job.settled.wait()
    job.landed = await buyer.landed(job.tx_id or "")
    tell("chain", "it is not there" if job.landed is None else job.landed.words)
    job.after = await balances(plan, job.option, buyer)


class _Paying:
    """The wallet as a `Buyer`, with balances noted before it pays."""

    def __init__(self, job: LiveJob, plan: Plan, buyer: ChainWallet) -> None:
        self._job, self._plan, self._buyer = job, plan, buyer
        self.accounts = buyer.accounts

    async def choose(self, options: Any) -> dict[str, Any]:
        """As the wallet does."""
        self._job.option = await self._buyer.choose(options)
        self._job.before = await balances(self._plan, self._job.option, self._buyer)
        return self._job.option

    async def do(self, option: dict[str, Any], call: dict[str, Any]) -> str:
        """As the wallet does."""
        return await self._buyer.do(option, call)


async def balances(plan: Plan, option: Mapping[str, Any], buyer: ChainWallet) -> dict[str, int]:
    """What buyer and merchant have of an option's asset, in smallest units."""
    asset = parse_asset(option["amount"]["unit"].removeprefix("caip19/"))
    return {
        "buyer": await buyer.balance(asset, buyer.address),
        "merchant": await buyer.balance(asset, plan.destination),
    }
