"""A watcher in a test: a till, a chain in memory, and the nodes that tell of it, all in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from payd.actors.block_watcher import block_watcher
from payd.actors.watcher import Watcher
from payd.chains.assets import AssetBook
from payd.chains.evm.binding import payment_tag
from payd.chains.rpc import Rpc
from payd.clock import Clock
from payd.core.caip import parse_chain
from payd.store.db import Database
from tests.chains.fake_chain import FakeChain, FakeTransaction, View, token_transfer
from tests.chains.rpc_node import FakeNode, open_rpc
from tests.receiver import Does
from tests.till import CHAIN, PRICE, START_MS, Till
from tests.virtual_wall import VirtualWall

DOWN: Final = Does(status=503)


@dataclass
class Watching:
    """One watcher and everything around it.

    Attributes:
        told: Ids of payments that were told of news, in order.
        wakes: How often the relayer was woken.
    """

    till: Till
    chain: FakeChain
    views: tuple[View, ...]
    nodes: tuple[FakeNode, ...]
    rpc: Rpc
    clock: Clock
    watcher: Watcher
    told: list[str] = field(default_factory=list)
    wakes: int = 0

    def pay(self, payment_id: str, value: int = PRICE, **more: Any) -> FakeTransaction:
        """A transfer of the price with the payment's tag, in a new block."""
        transaction = token_transfer(value, payment_tag(payment_id), **more)
        self.chain.mine(transaction)
        return transaction

    async def posts(self) -> int:
        """How many requests a round of all that is due takes."""
        before = self.rpc.posts
        await self.watcher.run_once()
        return self.rpc.posts - before

    def another(self, **more: Any) -> Watcher:
        """A watcher over the same rows, as after a restart."""
        return make_watcher(self, **more)


def make_watcher(watching: Watching, **more: Any) -> Watcher:
    """A watcher that tells `watching`."""

    async def news(payment_id: str, chain: str) -> None:
        assert chain == CHAIN
        watching.told.append(payment_id)

    def wake() -> None:
        watching.wakes += 1

    options: dict[str, Any] = {"poll_ms": 2000, "final": "finalized", **more}
    return block_watcher(
        db=watching.till.db,
        clock=watching.clock,
        rpc=watching.rpc,
        chain=parse_chain(CHAIN),
        book=AssetBook(),
        news=news,
        wake_relayer=wake,
        **options,
    )


@asynccontextmanager
async def open_watching(
    db: Database, nodes: int = 1, *, final: int | Literal["finalized"] = "finalized", begun: bool = True
) -> AsyncIterator[Watching]:
    """A till that is open, a chain of 100 blocks, and nodes that tell the truth of it.

    Args:
        db: The realm's.
        nodes: How many.
        final: As the watcher's.
        begun: Whether the watcher has seen the chain before the test.
    """
    chain = FakeChain()
    views = tuple(View(chain) for _ in range(nodes))
    told = tuple(view.node() for view in views)
    till = await Till(db).open()
    async with open_rpc(*told) as rpc:
        clock = Clock(VirtualWall(START_MS))
        # The watcher tells `watching`, which it is a part of.
        watching = Watching(till, chain, views, told, rpc, clock, None)  # type: ignore[arg-type]
        watching.watcher = make_watcher(watching, final=final)
        if begun:
            assert await watching.watcher.run_once()
            watching.wakes = 0
        yield watching
