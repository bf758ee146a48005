"""What a chain is read for: the tokens, and the destinations of settlements and of open payments.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import trio

from payd.actors.walk import LATE_MS
from payd.chains.assets import AssetBook
from payd.chains.evm.proof import Watched
from payd.clock import Clock
from payd.core.caip import ChainId, canonical_account, canonical_asset, parse_account, parse_asset
from payd.store.db import Database, Tx
from payd.store.settlements import settled_on
from payd.store.watches import watched_by_open, watched_on

# What is watched in closed windows, and settlements, are many rows and change slowly.
REFRESH_S: Final = 60.0

_TOKENS: Final = "erc20"
_NATIVE: Final = "slip44"


class WatchList:
    """Of one chain.

    Args:
        db: The realm's store.
        clock: The realm's clock.
        chain: CAIP-2.
        book: Its tokens are read whether or not a merchant takes them: people pay with the wrong one.
    """

    def __init__(self, db: Database, clock: Clock, chain: ChainId, book: AssetBook) -> None:
        self._db = db
        self._clock = clock
        self._chain = chain
        keys = (canonical_asset(parse_asset(row.asset)) for row in book.rows_of(chain))
        self._assets = frozenset(keys)
        self._natives = frozenset(key for key in self._assets if parse_asset(key).namespace == _NATIVE)
        self._all: frozenset[tuple[str, str]] = frozenset()
        self._settled: frozenset[str] = frozenset()
        self._refreshed_ms = 0
        self._since_ms = 0
        self._stale_at_s = -float("inf")

    async def at(self, block_time_s: int) -> Watched:
        """What is looked for in blocks from this time on.

        By the time of the blocks: who comes back after a week reads the week with what was watched then.
        """
        now_ms = self._clock.now_ms()
        since_ms = min(now_ms, block_time_s * 1000) - LATE_MS
        is_set_back = now_ms < self._refreshed_ms  # the wall clock
        if trio.current_time() >= self._stale_at_s or since_ms < self._since_ms or is_set_back:
            await self._refresh(since_ms)
        # What was handed out since then is among the rows of windows that have not closed before it.
        fresh = await self._db.look(watched_on, str(self._chain), self._refreshed_ms)
        return self._watched(self._all | fresh, self._settled)

    async def everything(self) -> Watched:
        """What has been looked for as far as it is known, the chain's coin too: for a single transaction."""
        pairs, settled = await self._db.look(self._load, -1)
        return self._watched(pairs | {(native, "") for native in self._natives}, settled)

    async def _refresh(self, since_ms: int) -> None:
        refreshed_ms = self._clock.now_ms()
        self._all, self._settled = await self._db.look(self._load, since_ms)
        self._refreshed_ms, self._since_ms = refreshed_ms, since_ms
        self._stale_at_s = trio.current_time() + REFRESH_S

    def _load(self, tx: Tx, since_ms: int) -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
        name = str(self._chain)
        settled = {destination for _, destination in settled_on(tx, name)}
        accounts = frozenset(canonical_account(parse_account(one)) for one in settled)
        return frozenset(watched_on(tx, name, since_ms) | watched_by_open(tx, name)), accounts

    def _watched(self, pairs: frozenset[tuple[str, str]], settled: frozenset[str]) -> Watched:
        keys = {key for key, _ in pairs}
        destinations = {destination for _, destination in pairs if destination} | settled
        return Watched(
            tokens=frozenset(_references(self._assets | keys, _TOKENS)),
            destinations=frozenset(destination.rpartition(":")[2] for destination in destinations),
            native=min((key for key in keys if parse_asset(key).namespace == _NATIVE), default=None),
        )


def _references(keys: Iterable[str], namespace: str) -> Iterable[str]:
    assets = (parse_asset(key) for key in keys)
    return (asset.reference for asset in assets if asset.namespace == namespace)
