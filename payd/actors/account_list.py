"""What a Solana chain is read for: the accounts whose transactions are listed, and the wallets behind them.

A token is received in the associated token account of the wallet that it is for, SOL in the wallet itself.
Where a payment is open, each reading lists; where only late money may come, now and then.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Final, NamedTuple

import structlog
import trio
from solders.pubkey import Pubkey

from payd.actors.walk import LATE_MS
from payd.chains.assets import AssetBook
from payd.chains.rpc import Node, Rpc
from payd.chains.solana.answers import decode_accounts
from payd.chains.solana.asking import ACCOUNTS_MAX, account_calls
from payd.chains.solana.keys import TOKEN_PROGRAMS, token_account
from payd.chains.solana.mints import mint_key, program_of
from payd.chains.solana.proof import Watched
from payd.chains.solana.subscription import Wanted
from payd.chains.unread import good
from payd.clock import Clock
from payd.core.caip import ChainId, canonical_account, canonical_asset, parse_account, parse_asset
from payd.store.chain_accounts import keep_accounts
from payd.store.db import Database, Tx
from payd.store.settlements import settled_on
from payd.store.watches import watched_by_open, watched_on

log = structlog.get_logger("payd.watcher")

Pair = tuple[str, str]
"""An asset and the destination that it is looked for at, both canonical."""

# What is watched in closed windows, and settlements, are many rows and change slowly. A token that no node
# knew is looked for again as often.
REFRESH_S: Final = 60.0

_TOKEN: Final = "token"  # a namespace of CAIP-19
_NATIVE: Final = "slip44"


class Lookout(NamedTuple):
    """What is looked for now.

    Attributes:
        open: Accounts that a payment may come to at any time.
        quiet: Accounts where nothing is open.
        watched: Whom a transaction may pay, in what.
    """

    open: tuple[Pubkey, ...]
    quiet: tuple[Pubkey, ...]
    watched: Watched


class AccountList:
    """Of one chain.

    Args:
        db: The realm's store.
        clock: The realm's clock.
        rpc: Its nodes.
        chain: CAIP-2.
        book: Its tokens are recognized whether or not a merchant takes them: people pay with the wrong one.
        wanted: Where it notes the accounts that a websocket is to tell of.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        rpc: Rpc,
        chain: ChainId,
        book: AssetBook,
        wanted: Wanted | None = None,
    ) -> None:
        self._db = db
        self._clock = clock
        self._rpc = rpc
        self._name = str(chain)
        self._wanted = wanted
        rows = book.rows_of(chain)
        self._book = frozenset(canonical_asset(parse_asset(row.asset)) for row in rows)
        # Of what is offered its row says so: a node that told otherwise would hide where it arrives.
        self._programs = {mint_key(row): program_of(row) for row in rows if row.kind == "spl"}
        self._unknown_s: dict[Pubkey, float] = {}
        self._places: dict[Pair, Pubkey] = {}
        self._waiting: frozenset[Pair] = frozenset()
        self._quiet: frozenset[Pair] = frozenset()
        self._lookout: tuple[Set[Pair], Set[Pair], Lookout] | None = None
        self._since_ms = 0
        self._stale_at_s = -float("inf")

    async def at(self, node: Node, read_until_s: int) -> Lookout:
        """What is looked for after this time of the chain.

        By the time of its blocks: who comes back after a week looks for what was watched then.

        Raises:
            NodesDown, Unread, BadAnswer: A token is new, and the node does not tell of it.
        """
        since_ms = min(self._clock.now_ms(), read_until_s * 1000) - LATE_MS
        stale = trio.current_time() >= self._stale_at_s or since_ms < self._since_ms
        if stale:
            self._waiting, self._quiet = await self._db.look(self._load, since_ms)
        # What was handed out since is among the rows of windows that are not read to their end.
        fresh = await self._db.look(watched_on, self._name, read_until_s * 1000)
        pairs_open = self._waiting | fresh
        pairs = pairs_open | self._quiet
        news = await self._learn(node, pairs)
        if stale or news or self._lookout is None or self._lookout[:2] != (pairs_open, pairs):
            self._lookout = pairs_open, pairs, self._look_out(pairs_open, pairs)
            if self._wanted is not None:
                self._wanted.want_addresses(map(str, self._lookout[2].open))
        if stale:
            await self._db.write(keep_accounts, self._name, {str(one) for one in self._places.values()})
            self._since_ms, self._stale_at_s = since_ms, trio.current_time() + REFRESH_S
        return self._lookout[2]

    async def now(self) -> Watched:
        """What is looked for at this moment, as far as it is known: for a transaction of an open payment."""
        fresh = await self._db.look(watched_on, self._name, self._clock.now_ms() - LATE_MS)
        return self._watched(self._waiting | self._quiet | fresh)

    async def everything(self) -> Watched:
        """What has been looked for as far as it is known, the chain's coin too: for a single transaction."""
        waiting, quiet = await self._db.look(self._load, -1)
        natives = {(asset, "") for asset in self._book if parse_asset(asset).namespace == _NATIVE}
        return self._watched(waiting | quiet | natives)

    def _look_out(self, pairs_open: Set[Pair], pairs: Set[Pair]) -> Lookout:
        self._places = {pair: place for pair in pairs if (place := self._place(pair)) is not None}
        places = {self._places[pair] for pair in pairs_open if pair in self._places}
        return Lookout(_sorted(places), _sorted(set(self._places.values()) - places), self._watched(pairs))

    def _load(self, tx: Tx, since_ms: int) -> tuple[frozenset[Pair], frozenset[Pair]]:
        settled = {
            (asset, canonical_account(parse_account(destination)))
            for asset, destination in settled_on(tx, self._name)
        }
        quiet = watched_on(tx, self._name, since_ms) | settled
        return frozenset(watched_by_open(tx, self._name)), frozenset(quiet)

    # Tokens.

    async def _learn(self, node: Node, pairs: Iterable[Pair]) -> bool:
        """Find out which program each token belongs to: the place where it is received depends on that.

        Of those that are in no row any more, a node is asked. Returns whether there was one to be found out.
        """
        mints = {mint for asset, _ in pairs if (mint := mint_of(asset)) is not None} - self._programs.keys()
        now_s = trio.current_time()
        asked = [one for one in _sorted(mints) if self._unknown_s.get(one, 0.0) <= now_s]
        if not asked:
            return False
        results = await self._rpc.batch(account_calls(asked), node=node)
        for start, result in zip(range(0, len(asked), ACCOUNTS_MAX), results, strict=True):
            some = asked[start : start + ACCOUNTS_MAX]
            for mint, account in zip(some, decode_accounts(good(result), len(some))[1], strict=True):
                if account is not None and account.owner in TOKEN_PROGRAMS:
                    self._programs[mint] = account.owner
                    continue
                self._unknown_s[mint] = now_s + REFRESH_S
                log.warning("chain.token_unknown", chain=self._name, mint=str(mint), node=node.name)
        return True

    def _place(self, pair: Pair) -> Pubkey | None:
        """Where the asset arrives; None while its token is unknown, or where it is none of this chain's."""
        if pair in self._places:
            return self._places[pair]
        asset, destination = pair
        owner, mint = _key(destination.rpartition(":")[2]), mint_of(asset)
        if owner is None:
            return None
        if mint is None:
            return owner if parse_asset(asset).namespace == _NATIVE else None
        program = self._programs.get(mint)
        return None if program is None else token_account(owner, mint, program)

    def _watched(self, pairs: Collection[Pair]) -> Watched:
        keys = {asset for asset, _ in pairs}
        owners = {_key(destination.rpartition(":")[2]) for _, destination in pairs if destination}
        mints: Mapping[Pubkey, str] = {
            mint: asset for asset in keys | self._book if (mint := mint_of(asset)) is not None
        }
        native = min((key for key in keys if parse_asset(key).namespace == _NATIVE), default=None)
        return Watched(frozenset(one for one in owners if one is not None), mints, native)


def mint_of(asset: str) -> Pubkey | None:
    """The mint of a canonical asset; None of what is no token."""
    parsed = parse_asset(asset)
    return _key(parsed.reference) if parsed.namespace == _TOKEN else None


def _key(text: str) -> Pubkey | None:
    try:
        return Pubkey.from_string(text)
    except ValueError:
        return None


def _sorted(keys: Collection[Pubkey]) -> tuple[Pubkey, ...]:
    return tuple(sorted(keys, key=bytes))
