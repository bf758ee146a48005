"""`payd demo`: the main job in one command, as a merchant, a wallet and a webhook receiver live it.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import trio
import trio_websocket

from payd.cli import demo_live, seed, wallet
from payd.cli.demo_plan import Asked, plan_of
from payd.cli.failure import Refused
from payd.cli.options import config_options, load_config
from payd.cli.pasted import pasted
from payd.cli.receiver import Received, Receiver
from payd.cli.running import base_url_of, do, interruptible, undo
from payd.cli.show import json_option, show_json
from payd.cli.teaching import teach
from payd.cli.timeline import Timeline
from payd.cli.wallet import Rest, close_shop
from payd.clock import system_wall_ms
from payd.config import VARIABLES, Config, load
from payd.core.errors import NotFound
from payd.entropy import new_id
from payd.net.http import Client, Target
from payd.web.admin import SOCKET_NAME, call_admin

START_S: Final = 20.0  # a cold start on a slow machine; a second is usual
STOP_S: Final = 20.0  # the server's own grace is 15 s
JOB_S: Final = 30.0  # confirmation and settlement take 2 s by default
LOOK_S: Final = 0.05
AMOUNT: Final = re.compile(r"([0-9]{1,7})(?:\.([0-9]{1,2}))?")


class Job:
    """One payment from its creation to its verified webhooks."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.deliveries: list[Received] = []
        self.seen: list[str] = []
        self.status: dict[str, Any] = {}
        self.payment_id = ""
        self.key = new_id("demo_", system_wall_ms())
        self._news = trio.Event()

    def receive(self, received: Received) -> None:
        """A webhook came in."""
        self.deliveries.append(received)
        kind = received.event.get("type", "?")
        if received.problem is None:
            version = received.event["data"]["payment_state_version"]
            words = f"{kind}, version {version}: signature verified by standardwebhooks"
            self.timeline.add("webhook", words, fg="green")
        else:
            self.timeline.add("webhook", f"refused: {received.problem}", fg="red")
        self._news.set()

    def missing(self) -> list[str]:
        """What a finished job would have and this one has not."""
        lacks = [f"a verified webhook {kind}" for kind in demo_live.EVENTS if kind not in self.verified()]
        lacks += [f"a webhook that verifies ({one.problem})" for one in self.deliveries if one.problem]
        if self.status.get("status") != "succeeded":
            lacks.append(f"the status succeeded by REST (it is {self.status.get('status')})")
        elif self.status["info"]["txId"] != f"test:{self.payment_id}":
            lacks.append("the transaction id of a test payment")
        if "succeeded" not in self.seen:
            lacks.append("the status succeeded on the payment's feed")
        return lacks

    def verified(self) -> dict[str, int]:
        """Version by event type, of the deliveries that are authentic and about this payment."""
        return {
            one.event["type"]: one.event["data"]["payment_state_version"]
            for one in self.deliveries
            if one.problem is None and one.event["data"]["payment_id"] == self.payment_id
        }

    async def wait_until_done(self) -> None:
        """Return when nothing is missing, or `JOB_S` are over."""
        with trio.move_on_after(JOB_S):
            while self.missing():
                await self._news.wait()
                self._news = trio.Event()

    async def follow(self, url: str, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch the payment's feed to its end."""
        async with _websocket(url) as feed:
            task_status.started()
            try:
                while True:
                    snapshot = msgspec.json.decode(await feed.get_message())
                    self.seen.append(snapshot["status"])
                    self.timeline.add("feed", f"{snapshot['status']}, version {snapshot['version']}")
                    self._news.set()
            except trio_websocket.ConnectionClosed:
                return


def _live_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds what is for `--mode live` alone; the function gets it as an `Asked`."""

    @functools.wraps(function)
    def command(**given: Any) -> None:
        typed = {name: given.pop(name) for name in (each.name for each in dataclasses.fields(Asked))}
        asked = Asked(**{**typed, "cents": cents_of(typed["cents"])})
        if given["mode"] == "test" and (asked != Asked() or given["account"] is not None):
            raise click.UsageError("That is for --mode live.")
        function(asked=asked, **given)

    file = click.Path(path_type=Path, dir_okay=False)
    for option in (
        click.option("--spend-real-money", "spends", is_flag=True, help="On a chain that is not for tests."),
        click.option("--amount", "cents", default="12.50", metavar="USD", help="What is paid. [12.50]"),
        click.option("--destination", metavar="ADDRESS", help="Where the money goes. [locally: nobody's]"),
        click.option(
            "--wallet-password-file",
            "password_file",
            type=file,
            metavar="FILE",
            help="Without, and without a .password file beside the keystore, you are asked.",
        ),
        click.option("--wallet", type=file, metavar="FILE", help="The buyer's keystore, or keypair file."),
        click.option("--account", metavar="NAME|ID", help="Whose payment. Needed when there are several."),
        click.option("--chain", metavar="ID", help="Which chain. [the only one, or a local first]"),
        click.option("--send", is_flag=True, help="On EVM: the wallet sends, and pays the gas."),
    ):
        command = option(command)
    return command


def cents_of(amount: str) -> int:
    """What was typed as US dollars. Raises click.BadParameter."""
    found = AMOUNT.fullmatch(amount)
    cents = int(found[1]) * 100 + int((found[2] or "").ljust(2, "0")) if found else 0
    if not cents:
        raise click.BadParameter(f"{amount} is no amount in US dollars, such as 12.50", param_hint="--amount")
    return cents


@click.command(
    epilog=teach(
        """
payd demo
payd demo --scratch --json
payd demo --mode live --chain eip155:31337
""",
        codes="something did not happen; the message says what",
    )
)
@click.option("--mode", type=click.Choice(["test", "live"]), default="test", help="Which realm. [test]")
@click.option("--scratch", is_flag=True, help="Start a server of its own, even where one runs.")
@_live_options
@json_option
@config_options
def demo(
    config_file: str | None,
    data_dir: str | None,
    mode: str,
    scratch: bool,
    account: str | None,
    asked: Asked,
    as_json: bool,
) -> None:
    """Live through the main job, from a created payment to a verified webhook.

    Uses the running server of the data directory if it has one account, and that no webhook endpoint in test
    mode; else starts a server on a free port, which leaves nothing behind. Exit code 0 means that everything
    was seen.

    With --mode live it pays on a chain of the running server, from --wallet, until the payment has settled:
    scripts/nodes makes a local one. The events come by the account's feed, as live webhooks go to public
    addresses only.
    """
    config = load_config(config_file, data_dir)
    if mode == "test":
        _demo_test(config, scratch, as_json)
    elif scratch:
        raise click.UsageError("--scratch is for --mode test.")
    else:
        demo_live.run(config, plan_of(config, asked), account, as_json)


def _demo_test(config: Config, scratch: bool, as_json: bool) -> None:
    with interruptible():
        job = trio.run(_main, config, scratch, as_json)
    missing = job.missing()
    if as_json:
        show_json(
            {
                "ok": not missing,
                "missing": missing,
                "paymentId": job.payment_id,
                "status": job.status,
                "webhooks": job.verified(),
                "timeline": job.timeline.entries,
            }
        )
    if missing:
        raise Refused(f"Missing: {'; '.join(missing)}.")
    if not as_json:
        click.secho("Done: paid, succeeded, settled, and all four webhooks verified.", fg="green", bold=True)


async def _main(config: Config, scratch: bool, quiet: bool) -> Job:
    timeline = Timeline(quiet=quiet)
    async with AsyncExitStack() as stack:
        account = None if scratch else await _free_account(config.data_dir, timeline)
        if account is None:
            config = await stack.enter_async_context(_own_server(timeline))
            account = (await do(config, "account.create", {"name": seed.ACCOUNT}))["id"]
        base_url = await base_url_of(config.data_dir)
        assert base_url is not None, "it answered a moment ago"
        timeline.add("server", base_url)
        return await _live_through(config, base_url, account, Job(timeline))


async def _live_through(config: Config, base_url: str, account: str, job: Job) -> Job:
    """The whole job. What it makes is taken back at the end; the payment stays, as payments do."""
    receiver = Receiver(job.receive)
    client = Client(may_call=lambda _address: True)
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        stack.callback(nursery.cancel_scope.cancel)
        stack.push_async_callback(client.aclose)
        await nursery.start(receiver.serve)
        of = {"mode": "test", "account": account}
        hint = f" Or run: {pasted('demo --scratch')}"
        made = await do(config, "webhook.set", {**of, "url": receiver.url}, hint)
        stack.push_async_callback(take_back_endpoint, config, of, made, job.timeline)
        receiver.secret = made["secret"]
        job.timeline.add("merchant", f"registered the webhook receiver {receiver.url}")
        key = await do(config, "key.create", {**of, "name": "demo"})
        stack.push_async_callback(undo, config, "key.revoke", {**of, "id": key["id"]})
        app = await do(config, "app.create", {**of, "name": "demo wallet"})
        stack.push_async_callback(undo, config, "app.revoke", {**of, "id": app["appId"]})
        shop = Rest(client, base_url, {"Api-Key": key["apiKey"]})
        buyer = Rest(client, base_url, {"App-Id": app["appId"], "Client-Id": "payd-demo"})
        with trio.move_on_after(2 * JOB_S):
            await _trade(job, shop, buyer, nursery, base_url, stack)
    return job


async def _trade(
    job: Job, shop: Rest, buyer: Rest, nursery: trio.Nursery, base_url: str, undo: AsyncExitStack
) -> None:
    """Merchant, destination, payment, wallet, status."""
    tell = job.timeline.add
    body = {"merchantName": seed.SHOP, "merchantEmail": seed.EMAIL}
    made = await shop.ask("POST", "/v1/merchants", body, Idempotency_Key=job.key)
    merchant_id = made["merchant"]["id"]
    undo.push_async_callback(close_shop, shop, merchant_id)
    tell("merchant", f"created {merchant_id}")
    settlements = [{"asset": asset, "destination": to} for asset, to in seed.DESTINATIONS]
    path = f"/v1/merchants/{merchant_id}/settlements/crypto"
    await shop.ask("POST", path, {"settlements": settlements}, Idempotency_Key=job.key)
    tell("merchant", f"registered {len(settlements)} destinations")
    payment = await shop.ask("POST", "/v1/payments", seed.order("DEMO-1"), Merchant_Id=merchant_id)
    job.payment_id = payment["id"]
    tell("merchant", f"created a payment over 12.50 USD: {payment['gatewayUrl']}")
    await nursery.start(job.follow, f"{base_url}/v1/payments/{job.payment_id}/feed")
    confirmed = await wallet.pay(buyer, job.payment_id, lambda words: tell("wallet", words))
    tell("wallet", f"is told {confirmed['status']}")
    status_path = f"/v1/payments/{job.payment_id}/status?maxPollMs={demo_live.STATUS_POLL_MS}"
    with trio.move_on_after(JOB_S):
        while not job.status.get("isFinal"):
            job.status = await shop.ask("GET", status_path, Merchant_Id=merchant_id)
    tx_id = (job.status.get("info") or {}).get("txId")
    tell("merchant", f"reads the status {job.status.get('status')}, transaction {tx_id}")
    await job.wait_until_done()


@asynccontextmanager
async def _websocket(url: str) -> AsyncIterator[trio_websocket.WebSocketConnection]:
    """A websocket on a stream of ours: the library leaves its own open when the server closes first."""
    target = Target.of(url)
    opening = trio.open_ssl_over_tcp_stream if target.scheme == "https" else trio.open_tcp_stream
    stream = await opening(target.host, target.port)
    async with stream, trio.open_nursery() as nursery:
        yield await trio_websocket.wrap_client_stream(nursery, stream, target.authority, target.path)


async def _free_account(data_dir: Path, timeline: Timeline) -> str | None:
    """The only account of the running server, if it has no webhook endpoint that would be overwritten."""
    if await base_url_of(data_dir) is None:
        return None
    accounts = (await call_admin(data_dir / SOCKET_NAME, "account.list", {})).result
    if len(accounts) != 1:
        timeline.add("server", f"the running one has {len(accounts)} accounts; starts one of its own")
        return None
    if await _endpoint_of(data_dir, {"mode": "test", "account": accounts[0]["id"]}) is not None:
        timeline.add("server", "the running one has a webhook endpoint, left alone; starts one of its own")
        return None
    return str(accounts[0]["id"])


async def _endpoint_of(data_dir: Path, of: dict[str, Any]) -> dict[str, Any] | None:
    """The webhook endpoint of a realm and account; None without one."""
    shown = await call_admin(data_dir / SOCKET_NAME, "webhook.show", of)
    if shown.error is None:
        return dict(shown.result)
    if shown.error.code == NotFound.code:
        return None
    raise Refused(f"webhook.show: {shown.error.message}")


async def take_back_endpoint(
    config: Config, of: dict[str, Any], made: dict[str, Any], timeline: Timeline
) -> None:
    """Delete the webhook endpoint that was made, unless somebody made it their own, or deleted it."""
    with trio.CancelScope(shield=True):
        found = await _endpoint_of(config.data_dir, of)
        if found is None:
            return
        if (found["id"], found["url"]) != (made["id"], made["url"]):
            timeline.add("server", "somebody set its webhook endpoint meanwhile: left alone")
            return
        await undo(config, "webhook.delete", of)


@asynccontextmanager
async def _own_server(timeline: Timeline) -> AsyncIterator[Config]:
    """A server on a free port with a scratch data directory; both are gone afterwards.

    Variables that configure the house on this machine are not for it: with that one's base URL, calls of the
    demo would go there.
    """
    with tempfile.TemporaryDirectory(prefix="payd-demo-") as folder:
        file = Path(folder) / "payd.toml"
        file.write_text(seed.LAPTOP_TOML)
        env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        env |= {"PAYD_DATA_DIR": folder, "PAYD_LISTEN": "127.0.0.1:0"}
        config = load(file, env)
        with _process(file, env) as process:
            with trio.move_on_after(START_S):
                # Another process has no event for us.
                while process.poll() is None and await base_url_of(config.data_dir) is None:  # noqa: ASYNC110
                    await trio.sleep(LOOK_S)
            if process.poll() is not None or await base_url_of(config.data_dir) is None:
                raise Refused(f"The server did not start.\n{_tail(Path(folder))}")
            timeline.add("server", "started, with an empty data directory")
            yield config
    timeline.add("server", "stopped")


@contextmanager
def _process(file: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "payd", "serve", "--config", str(file)]
    with (file.parent / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _tail(folder: Path) -> str:
    return (folder / "log").read_text(errors="replace")[-2000:]
