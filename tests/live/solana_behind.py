"""A shop whose server sees Solana through nodes that fail, lag or lie as told, and moments to wait for.

A test waits until something has happened so many slots, or so many questions, later; never for a time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from payd.actors.live_chain import LiveChain
from payd.actors.relay_stats import RelayerStats
from payd.actors.watcher import WatcherStats
from payd.clock import WallMs, system_wall_ms
from payd.store.submissions import StoredSubmission, find_submission
from tests.live.conformance import ALL_EVENTS
from tests.live.solana import BUYER, POOR, USDC, LocalSolana, keypair, pay_by_link, pubkey
from tests.live.solana_proxy import SolanaProxy, open_solana_proxy
from tests.live.solana_street import SolanaStreet, open_solana_street
from tests.live.svm_ledger import Ledger
from tests.live.svm_methods import SvmNode

SLOT_S: Final = 0.05
# Four slots on top are final: after so many more, whatever can happen has happened.
LONG: Final = 20


@dataclass
class SolanaBehind:
    """A shop and the nodes that it asks.

    Attributes:
        street: The shop.
        nodes: As they are configured, the preferred one first.
    """

    street: SolanaStreet
    nodes: list[SolanaProxy]

    @property
    def chain(self) -> LocalSolana:
        """The chain as it is."""
        return self.street.chain

    @property
    def ledger(self) -> Ledger:
        """What is on it."""
        return ledger_of(self.chain)

    @property
    def room(self) -> LiveChain:
        """Who works on the chain in the server."""
        [room] = self.street.house.realms["live"].live_chains
        return room

    @property
    def stats(self) -> WatcherStats:
        """How the reading goes."""
        return self.room.watcher.stats()

    @property
    def brought(self) -> RelayerStats:
        """How the bringing goes."""
        assert self.room.relayer is not None
        return self.room.relayer.stats()

    def fail(self, status: int = 503) -> None:
        """Have every node answer that from now on."""
        for proxy in self.nodes:
            proxy.status = status

    def recover(self) -> None:
        """Have every node be good again."""
        for proxy in self.nodes:
            proxy.status, proxy.retry_after, proxy.rewrite = None, None, None
            proxy.node.mode, proxy.node.lag, proxy.node.index_lag = "normal", 0, 0
            proxy.node.forgotten.clear()
            proxy.node.censored.clear()

    def swallow(self) -> None:
        """Have every node take what is sent, and bring none of it to the chain."""
        for proxy in self.nodes:
            proxy.node.mode = "blackhole"

    def forget(self, tx_id: str) -> None:
        """Have every node know nothing of a transaction."""
        for proxy in self.nodes:
            proxy.node.forgotten.add(tx_id)

    async def true(self, question: Any) -> None:
        """Return when this is so."""

        async def is_so() -> bool:
            await trio.lowlevel.checkpoint()
            return bool(question())

        await self.street.wait_for(is_so)

    async def read(self, more: int = LONG) -> None:
        """Return when the server has read so many slots beyond what is now the newest."""
        target = self.ledger.tip.slot + more
        await self.true(lambda: (self.stats.read or 0) >= target)

    async def ticks(self, more: int = 3) -> None:
        """Return when the chain was read so often more, or that was tried."""
        target = self.stats.ticks + more
        await self.true(lambda: self.stats.ticks >= target)

    async def unread(self, ticks: int = 3) -> None:
        """Return when reading has failed so often more."""
        target = self.stats.failures + ticks
        await self.true(lambda: self.stats.failures >= target)

    async def asked(self, method: str, times: int = 3, node: int = 0) -> None:
        """Return when a node was asked this so often more."""
        calls = self.nodes[node].calls
        target = calls[method] + times
        await self.true(lambda: calls[method] >= target)

    def submission(self, payment_id: str) -> StoredSubmission:
        """What is brought to the chain for a payment."""
        found = self.street.house.realms["live"].db.point(find_submission, payment_id)
        assert found is not None
        return found

    def landed(self, tx_id: str) -> bool:
        """Whether a block has it, be it one that nobody has voted for yet."""
        return tx_id in self.ledger.landed

    async def slots(self, count: int = 1) -> None:
        """So many more blocks, and the server has read the last one that is confirmed then."""
        await self.chain.slots(count)
        self.street.wake()
        slot = self.ledger.at("confirmed").slot
        await self.true(lambda: (self.stats.read or 0) >= slot)


def ledger_of(solana: LocalSolana) -> Ledger:
    """What is on a chain of this process."""
    assert isinstance(solana.node, SvmNode)
    return solana.node.ledger


async def send(shop: SolanaBehind, asset: str = USDC) -> tuple[str, str]:
    """A payment that a wallet has paid by its link, of which nobody told the server, and the transaction."""
    payment_id = await shop.street.payment()
    return payment_id, await shop.street.pay_by_link(payment_id, asset)


async def link_of(shop: SolanaBehind, payment_id: str, asset: str = USDC) -> str:
    """What a wallet may pay by as long as it likes."""
    return (await shop.street.links(payment_id))[asset]


async def follow(shop: SolanaBehind, link: str) -> str:
    """Pay by a link; gives the transaction's id."""
    return await shop.chain.send(pay_by_link(link, pubkey(BUYER)), keypair(BUYER))


async def sign(shop: SolanaBehind) -> str:
    """A payment whose signed transaction was accepted."""
    payment_id = await shop.street.payment()
    told = await shop.street.pay(payment_id, USDC, POOR)
    assert (told.status_code, told.json()["status"]) == (200, "processing")
    return payment_id


async def assert_settled(shop: SolanaBehind, *payment_ids: str) -> None:
    """Each ends well, and was told of everything once."""
    for payment_id in payment_ids:
        await shop.street.until(payment_id, "settled")
        assert await shop.street.events(payment_id) == ALL_EVENTS


@asynccontextmanager
async def open_solana_behind(
    folder: Path,
    solana: LocalSolana,
    nodes: int = 2,
    *,
    slot_s: float | None = SLOT_S,
    wall: WallMs = system_wall_ms,
    lines: str = "",
    poll_ms: str = "50",
) -> AsyncIterator[SolanaBehind]:
    """A running shop on a furnished chain.

    Args:
        folder: For its data.
        solana: A furnished one.
        nodes: How many there are of it.
        slot_s: A block comes so often; None: when it is asked for.
        wall: The server's clock.
        lines: More of its [[chains]].
        poll_ms: How often the nodes are asked for what is new.
    """
    async with AsyncExitStack() as stack:
        proxies = [
            await stack.enter_async_context(open_solana_proxy(ledger_of(solana))) for _ in range(nodes)
        ]
        urls = [proxy.url for proxy in proxies]
        opened = open_solana_street(
            folder, solana, urls, slot_s=slot_s, wall=wall, lines=lines, poll_ms=poll_ms
        )
        yield SolanaBehind(await stack.enter_async_context(opened), proxies)
