"""A shop that takes live payments on a local Solana, with its server in this process, and wallets that pay.

Everything goes the way it goes in the world: HTTP to the server, JSON-RPC to nodes, keys that sign.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import trio
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from payd.actors.account_walk import SECOND_S
from payd.chains.solana.fee_payer import fee_payer_from
from payd.clock import WallMs, system_wall_ms
from payd.store.chain_cursors import CursorKind, find_cursor
from payd.web.house import House
from tests.live.chain import RELAYER, account
from tests.live.front import (
    Front,
    Wall,
    furnish,
    running_house,
    save_headers,
    saved_headers,
    write_configuration,
)
from tests.live.node_process import NodeProcess
from tests.live.solana import (
    ASSETS,
    BUYER,
    CHAIN,
    LAMPORTS,
    MERCHANT,
    POOR,
    USDC,
    USDC_MINT,
    LocalSolana,
    Version,
    furnish_solana,
    keypair,
    pay_by_link,
    pubkey,
    tx_id_of,
)
from tests.live.street import write_keystore
from tests.live.svm_node import ServedNode, open_svm_node

SIGN: Final = "solana_signTransaction"
# The fee payer comes from the relayer's key.
FEE_PAYER: Final = fee_payer_from(bytes(account(RELAYER).key)).address

CONFIGURATION: Final = """
[rates]
source = "table"
table = { "USDC/USD" = "1", "USDT/USD" = "1", "PYUSD/USD" = "1", "SOL/USD" = "100" }

[relayer]
keystore = "relayer.json"
password_file = "password"

[fee]
@fee

[[chains]]
id = "@id"
rpc = @rpc
poll_ms = @poll
relays_per_buyer = @relays
@chain

[rate_limits]
per_key = 0
per_ip = 0

[webhooks]
canary = false
"""


def solana_configuration(
    urls: Sequence[str],
    lines: str = "",
    fee: str = "",
    poll_ms: str = "50",
    relays: str = "1000",
    chain: str = CHAIN,
) -> str:
    """payd.toml of a shop on these nodes.

    Args:
        urls: Of the nodes.
        lines: More lines of its [[chains]], and tables after it.
        fee: Lines of [fee].
        poll_ms: How often the nodes are asked for what is new.
        relays: How many of one buyer's payments are paid for.
        chain: CAIP-2 of the nodes' chain.
    """
    values = {
        "id": chain,
        "rpc": json.dumps(list(urls)),
        "chain": lines,
        "fee": fee,
        "poll": poll_ms,
        "relays": relays,
    }
    text = CONFIGURATION
    for name, value in values.items():
        text = text.replace(f"@{name}", value)
    return text


@dataclass
class SolanaShopfront(Front):
    """What people see of a shop on Solana.

    Attributes:
        chain: A local chain with tokens on it.
        paying: The payment of each option that was shown.
    """

    chain: LocalSolana
    paying: dict[str, str] = field(default_factory=dict, kw_only=True)

    async def block(self) -> None:
        """One more block."""
        await self.chain.slots(1)

    async def options(self, payment_id: str, *places: int) -> list[dict[str, Any]]:
        """What the accounts at these places are offered; the buyer's, when none is named."""
        offered = await self.offered(
            payment_id, *(self.chain.account_id(place) for place in places or (BUYER,))
        )
        self.paying |= {one["id"]: payment_id for one in offered}
        return offered

    async def option(self, payment_id: str, asset: str = USDC, place: int = BUYER) -> dict[str, Any]:
        """The option in this asset."""
        offered = await self.options(payment_id, place)
        return next(one for one in offered if one["amount"]["unit"] == f"caip19/{asset}")

    async def fetch(self, option: dict[str, Any]) -> httpx.Response:
        """Ask for the calls behind an option's only action."""
        [action] = option["actions"]
        assert action["type"] == "build"
        body = {"optionId": option["id"], "data": action["data"]}
        return await self.call("POST", f"/v1/gateway/payment/{self.paying[option['id']]}/fetch", body)

    async def handed_out(self, option: dict[str, Any], place: int = BUYER) -> bytes:
        """The transaction that a wallet is to sign for it."""
        fetched = await self.fetch(option)
        assert fetched.status_code == 200, fetched.text
        [action] = fetched.json()["actions"]
        assert (action["chain_id"], action["method"]) == (self.chain.id, SIGN)
        [asked] = json.loads(action["params"])
        assert asked["pubkey"] == str(pubkey(place))
        return base64.b64decode(asked["transaction"], validate=True)

    async def execute(self, option: dict[str, Any], place: int = BUYER) -> list[str]:
        """Do an option's action as a wallet does, and give its results."""
        return [base64.b64encode(signed(await self.handed_out(option, place), place)).decode()]

    async def pay(self, payment_id: str, asset: str = USDC, place: int = BUYER) -> httpx.Response:
        """Take the option in this asset, do it, confirm it."""
        option = await self.option(payment_id, asset, place)
        return await self.confirm(payment_id, option, *await self.execute(option, place))

    async def committed(self, place: int = POOR, asset: str = USDC) -> tuple[str, str]:
        """A payment whose transaction was taken, and that transaction's id."""
        payment_id = await self.payment()
        option = await self.option(payment_id, asset, place)
        [text] = await self.execute(option, place)
        told = await self.confirm(payment_id, option, text)
        assert told.status_code == 200, told.text
        return payment_id, tx_id_of(base64.b64decode(text))

    async def received(self) -> int:
        """What the merchant has in USDC."""
        return await self.chain.tokens(pubkey(MERCHANT), USDC_MINT)

    async def links(self, payment_id: str) -> dict[str, str]:
        """The transfer request links of a payment, by asset."""
        found = await self.call("GET", f"/v1/solana-pay/{payment_id}/links")
        assert found.status_code == 200, found.text
        return {one["asset"]: one["url"] for one in found.json()["links"]}

    async def pay_by_link(
        self, payment_id: str, asset: str = USDC, place: int = BUYER, *, version: Version = "legacy"
    ) -> str:
        """Scan the code of a transfer request, and send what it asks for; gives the transaction's id."""
        link = (await self.links(payment_id))[asset]
        return await self.chain.send(pay_by_link(link, pubkey(place)), keypair(place), version=version)

    async def pay_by_request(self, payment_id: str, asset: str = USDC, place: int = BUYER) -> str:
        """Scan the code of a transaction request, sign and send what it gives; gives the transaction's id."""
        path = f"/v1/solana-pay/{payment_id}?asset={asset}"
        given = await self.call("POST", path, {"account": str(pubkey(place))})
        assert given.status_code == 200, given.text
        raw = base64.b64decode(given.json()["transaction"], validate=True)
        return await self.chain.send_raw(signed(raw, place), skip_preflight=False)


@dataclass
class SolanaStreet(SolanaShopfront):
    """A shop whose server runs in this process.

    Attributes:
        house: The server's inside, for what no page shows.
    """

    house: House

    def wake(self) -> None:
        """Have the chain read now: where nothing is open, that is every 15 seconds."""
        for one in self.house.realms["live"].live_chains:
            one.watcher.wake()
            if one.relayer is not None:
                one.relayer.wake()

    async def later(self, seconds: int) -> None:
        """Let so much time go by, for the server and for the chain."""
        self.wall.ahead_ms += seconds * 1000
        await self.chain.rpc("payd_time", seconds)
        self.house.realms["live"].payments.tending.deadlines.reload()
        self.wake()

    async def caught_up(self, *, final: bool = True) -> None:
        """Wait until the server has read what is confirmed now; have it do all that is due.

        Args:
            final: And until it has read for the second time, from another node, what is final after that:
                some seconds go by and blocks come meanwhile.
        """
        if final:
            await self.later(SECOND_S + 1)
            await self.chain.slots(self.depth)
        wanted: list[tuple[CursorKind, int]] = [("head", await self._slot("confirmed"))]
        wanted += [("final", await self._slot("finalized"))] if final else []
        realm = self.house.realms["live"]

        async def there() -> bool:
            at = [(realm.db.point(find_cursor, CHAIN, kind), slot) for kind, slot in wanted]
            return all(cursor is not None and cursor.number >= slot for cursor, slot in at)

        await self.wait_for(there)
        realm.payments.tending.deadlines.reload()

    @property
    def depth(self) -> int:
        """So many blocks on top of one make it final."""
        assert isinstance(self.chain.node, ServedNode)
        return self.chain.node.ledger.depth["finalized"]

    async def _slot(self, commitment: str) -> int:
        return int(await self.chain.rpc("getSlot", {"commitment": commitment}))


def signed(raw: bytes, place: int = BUYER) -> bytes:
    """A transaction with this account's signature, and whoever else's are in it."""
    transaction = VersionedTransaction.from_bytes(raw)
    keys = list(transaction.message.account_keys)
    signatures = list(transaction.signatures)
    message = raw[1 + 64 * len(signatures) :]
    signatures[keys.index(pubkey(place))] = keypair(place).sign_message(message)
    return bytes(VersionedTransaction.populate(transaction.message, signatures))


async def furnish_street(chain: LocalSolana) -> None:
    """Tokens and buyers, a merchant who has a wallet, and a fee payer that is rich in SOL."""
    await furnish_solana(chain)
    await chain.fund(pubkey(MERCHANT), LAMPORTS)
    await chain.fund(FEE_PAYER)


async def furnish_shop(
    house: House,
    destination: Pubkey | None = None,
    chain: str = CHAIN,
    assets: Sequence[str] = ASSETS,
) -> dict[str, str]:
    """An account with a live key, and a merchant that is paid in these assets."""
    to = f"{chain}:{destination or pubkey(MERCHANT)}"
    return await furnish(house, dict.fromkeys(assets, to))


@asynccontextmanager
async def open_solana_street(
    folder: Path,
    solana: LocalSolana,
    /,
    urls: Sequence[str] = (),
    *,
    destination: Pubkey | None = None,
    slot_s: float | None = None,
    wall: WallMs = system_wall_ms,
    **configured: str,
) -> AsyncIterator[SolanaStreet]:
    """A running shop.

    Args:
        folder: For its data; one that was used before goes on.
        solana: Already furnished.
        urls: Of the nodes that the server asks; the chain's own when there is none.
        destination: The merchant's wallet.
        slot_s: A block comes so often.
        wall: The server's clock, which `SolanaStreet.later` puts forward.
        configured: As for `solana_configuration`.
    """
    nodes = urls or (_url_of(solana),)
    first = write_configuration(folder, solana_configuration(nodes, chain=solana.id, **configured))
    if first:
        write_keystore(folder)
    async with trio.open_nursery() as blocks:
        async with running_house(folder, Wall(wall)) as running:
            if slot_s is not None:
                blocks.start_soon(blocks_for_ever, solana, slot_s)
            street = SolanaStreet(running.url, running.http, solana, running.house, wall=running.wall)
            if first:
                made = await furnish_shop(running.house, destination, solana.id, solana.assets)
                save_headers(folder, made)
            street.headers = saved_headers(folder)
            yield street
        blocks.cancel_scope.cancel()


def _url_of(solana: LocalSolana) -> str:
    assert isinstance(solana.node, ServedNode | NodeProcess)
    return solana.node.url


async def blocks_for_ever(solana: LocalSolana, slot_s: float) -> None:
    """Blocks at the pace of a chain."""
    while True:
        await trio.sleep(slot_s)
        await solana.slots(1)


@asynccontextmanager
async def open_furnished(**made: Any) -> AsyncIterator[LocalSolana]:
    """A fresh chain with all that a street needs; the arguments are those of `open_svm_node`."""
    async with open_svm_node(**made) as node:
        local = LocalSolana(node)
        await furnish_street(local)
        yield local
