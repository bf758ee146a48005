"""A watcher that reads its chain by blocks: every EVM chain's.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from payd.actors.block_walk import BlockWalk
from payd.actors.match_repair import MatchRepair
from payd.actors.watch_list import WatchList
from payd.actors.watcher import FollowHeads, News, Watcher
from payd.chains.assets import AssetBook
from payd.chains.rpc import Rpc
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.store.db import Database


def block_watcher(
    *,
    db: Database,
    clock: Clock,
    rpc: Rpc,
    chain: ChainId,
    book: AssetBook,
    poll_ms: int,
    final: int | Literal["finalized"],
    news: News,
    wake_relayer: Callable[[], object] = lambda: None,
    follow_heads: FollowHeads | None = None,
) -> Watcher:
    """The watcher of an EVM chain.

    Args:
        db: The realm's store.
        clock: The realm's clock.
        rpc: The chain's nodes.
        chain: Its id, CAIP-2.
        book: The assets that are known by name.
        poll_ms: How often the head is asked for while something is open.
        final: The tag of the last final block, or how many blocks deep one is final.
        news: Told of payments that something was found for.
        wake_relayer: Called when there are new blocks.
        follow_heads: Tells of new blocks sooner than they are asked for.
    """
    watch_list = WatchList(db, clock, chain, book)
    walk = BlockWalk(db, clock, rpc, chain, watch_list, final)
    return Watcher(
        db=db,
        clock=clock,
        rpc=rpc,
        chain=chain,
        walk=walk,
        repair=MatchRepair(db, clock, rpc, chain, walk.reader, watch_list),
        poll_ms=poll_ms,
        news=news,
        wake_relayer=wake_relayer,
        follow_heads=follow_heads,
    )
