"""A shop whose server sees its chain through nodes that fail, lag or lie as told, and moments to wait for.

A test waits until something has happened so many blocks, or so many questions, later; never for a time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from payd.actors.live_chain import LiveChain
from payd.actors.watcher import WatcherStats
from payd.clock import WallMs, system_wall_ms
from tests.live.chain import LocalChain
from tests.live.proxy import FlakyProxy, open_proxy
from tests.live.street import Street, furnish_chain, open_street

BLOCK_S: Final = 0.1
# Two are final, and two are the depth: after so many blocks more, whatever can happen has happened.
LONG: Final = 10


@dataclass
class Behind:
    """A shop and the nodes that it asks.

    Attributes:
        street: The shop.
        nodes: As they are configured, the preferred one first.
    """

    street: Street
    nodes: list[FlakyProxy]

    @property
    def chain(self) -> LocalChain:
        """The chain as it is."""
        return self.street.chain

    @property
    def room(self) -> LiveChain:
        """Who works on the chain in the server."""
        [room] = self.street.house.realms["live"].live_chains
        return room

    @property
    def stats(self) -> WatcherStats:
        """How the reading goes."""
        return self.room.watcher.stats()

    def fail(self) -> None:
        """Have every node answer 503 from now on."""
        for node in self.nodes:
            node.status = 503

    def recover(self) -> None:
        """Have every node be good again."""
        for node in self.nodes:
            node.status, node.lag, node.rewrite = None, 0, None

    async def blocks(self, more: int = LONG) -> None:
        """Return when the chain has so many blocks more."""
        target = await self.chain.head() + more

        async def is_there() -> bool:
            return await self.chain.head() >= target

        await self.street.wait_for(is_there)

    async def read(self, more: int = LONG) -> None:
        """Return when the server has read so many blocks beyond what is now the newest."""
        target = await self.chain.head() + more

        async def is_read() -> bool:
            await trio.lowlevel.checkpoint()
            return (self.stats.read or 0) >= target

        await self.street.wait_for(is_read)

    async def mined(self, blocks: int = LONG) -> None:
        """Mine so many blocks, and return when the server has read the last of them."""
        await self.chain.mine(blocks)
        self.street.wake()
        head = await self.chain.head()

        async def is_read() -> bool:
            await trio.lowlevel.checkpoint()
            return (self.stats.read or 0) >= head

        await self.street.wait_for(is_read)

    async def followed(self, reorgs: int) -> None:
        """Return when the server has followed so many reorgs since its start."""

        async def is_followed() -> bool:
            await trio.lowlevel.checkpoint()
            return self.stats.reorgs >= reorgs

        await self.street.wait_for(is_followed)

    async def unread(self, ticks: int = 3) -> None:
        """Return when reading has failed so often more."""
        target = self.stats.failures + ticks

        async def has_failed() -> bool:
            await trio.lowlevel.checkpoint()
            return self.stats.failures >= target

        await self.street.wait_for(has_failed)

    async def asked(self, node: int, method: str, times: int = 3) -> None:
        """Return when a node was asked this so often more."""
        calls = self.nodes[node].calls
        target = calls[method] + times

        async def was_asked() -> bool:
            await trio.lowlevel.checkpoint()
            return calls[method] >= target

        await self.street.wait_for(was_asked)


@asynccontextmanager
async def open_behind(
    folder: Path,
    chain: LocalChain,
    nodes: int = 2,
    *,
    block_s: float | None = BLOCK_S,
    wall: WallMs = system_wall_ms,
    lines: str = "depth = 2",
    poll_ms: str = "50",
) -> AsyncIterator[Behind]:
    """A running shop on a fresh chain.

    Args:
        folder: For its data.
        chain: A fresh one.
        nodes: How many there are in front of the chain.
        block_s: A block comes so often, besides those of transactions; None: only with these.
        wall: The server's clock.
        lines: More of its [[chains]].
        poll_ms: How often the nodes are asked for new blocks.
    """
    await furnish_chain(chain)
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(open_proxy(chain.anvil)) for _ in range(nodes)]
        urls = [proxy.url for proxy in proxies]
        opened = open_street(folder, chain, urls, block_s=block_s, wall=wall, lines=lines, poll_ms=poll_ms)
        yield Behind(await stack.enter_async_context(opened), proxies)
