"""A watcher that reads its chain by accounts: every Solana chain's.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Callable

from payd.actors.account_list import AccountList
from payd.actors.account_repair import AccountRepair
from payd.actors.account_walk import AccountWalk
from payd.actors.watcher import FollowNews, News, Watcher
from payd.chains.assets import AssetBook
from payd.chains.rpc import Rpc
from payd.chains.solana.subscription import Wanted
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.store.db import Database


def account_watcher(
    *,
    db: Database,
    clock: Clock,
    rpc: Rpc,
    chain: ChainId,
    book: AssetBook,
    poll_ms: int,
    news: News,
    wake_relayer: Callable[[], object] = lambda: None,
    wanted: Wanted | None = None,
    follow_news: FollowNews | None = None,
) -> Watcher:
    """The watcher of a Solana chain.

    Args:
        db: The realm's store.
        clock: The realm's clock.
        rpc: The chain's nodes.
        chain: Its id, CAIP-2.
        book: The assets that are known by name.
        poll_ms: How often accounts are listed while something is open.
        news: Told of payments that something was found for.
        wake_relayer: Called when there are new slots.
        wanted: Where it notes the accounts that a websocket is to tell of.
        follow_news: Tells of transactions sooner than they are found.
    """
    accounts = AccountList(db, clock, rpc, chain, book, wanted)
    walk = AccountWalk(db, clock, rpc, chain, accounts)
    repair = AccountRepair(db, clock, rpc, chain, walk.reader, accounts)
    return Watcher(
        db=db,
        clock=clock,
        rpc=rpc,
        chain=chain,
        walk=walk,
        repair=repair,
        find=repair.found,
        poll_ms=poll_ms,
        news=news,
        wake_relayer=wake_relayer,
        follow_news=follow_news,
    )
