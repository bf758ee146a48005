"""One walk along a Solana chain: list what came to the accounts that are watched, and read what is new of it.

A listing may lag behind the slot that it was asked for. So what is newer than the last final slot is listed
again each time, and an account's cursor moves over what is final only. What is final is listed a second time
from another node, and up to a moment before everything is read: so far windows close.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from itertools import chain
from typing import Final, NamedTuple

import structlog
import trio
from solders.pubkey import Pubkey

from payd.actors.account_list import AccountList, Lookout
from payd.actors.account_reading import (
    SLOT_MS,
    AccountReader,
    Listing,
    Tips,
    name_of,
    slot_cursor,
    slot_max,
    unique,
)
from payd.actors.account_refusals import History, Pace
from payd.actors.account_vanished import find_missing, take_vanished
from payd.actors.walk import GONE_S, Lagging, Step, Troubled, by, plausible_s
from payd.chains.rpc import Node, NodesDown, Rpc
from payd.chains.solana.answers import Landed, Listed
from payd.chains.solana.terms import Commitment
from payd.chains.unread import Unread
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.store.chain_accounts import AccountCursor, account_cursors, keep_accounts, move_accounts
from payd.store.chain_cursors import Cursor, CursorKind, find_cursor, move_cursor
from payd.store.db import Database, Tx
from payd.store.sightings import (
    Noted,
    Seen,
    Sighting,
    TurnedBack,
    blocks_of,
    record,
    rewind,
    sightings_between,
)
from payd.store.watches import closing_bindings, known_bindings

log = structlog.get_logger("payd.watcher")

# Transactions read in one step; the others are read in the next one.
READ_MAX: Final = 500
# Payments that are looked up by their reference at once, as their windows close.
CLOSING_MAX: Final = 200
# Accounts where nothing is open are listed this often, and so many of them in one step: with the clocks and
# some open ones they fit into one POST.
QUIET_S: Final = 60.0
QUIET_MAX: Final = 80
# An index is behind its own chain by less than this, after the slots were final already. So long no account
# is done with, and no window closes.
INDEX_SLOTS: Final = 32
INDEX_S: Final = math.ceil(INDEX_SLOTS * SLOT_MS / 1000)
# An account that is new on the list is listed from a moment before: whoever paid had to be told first.
BEGIN_SLOTS: Final = 150
# By the chain's time. A second reading costs as much as the first, and a window may close a moment later.
SECOND_S: Final = 4
# Transactions that are listed again for a while, and need not be read again.
READ_KEPT_MAX: Final = 20_000

_COMMITMENT: Final[dict[CursorKind, Commitment]] = {"head": "confirmed", "final": "finalized"}


class _Round(NamedTuple):
    """What a listing of accounts came to.

    Attributes:
        moved: How far accounts are listed by it.
        read: The transactions that are new, and could be read.
        seen: What they paid.
        left: Those that were not read.
        trouble: Why one of them cannot be read.
        is_cut: Whether some are left for the next time.
    """

    moved: Sequence[AccountCursor]
    read: Sequence[Landed]
    seen: Sequence[Seen]
    left: Set[str]
    trouble: Unread | None
    is_cut: bool

    @property
    def is_whole(self) -> bool:
        """Whether everything was read."""
        return self.trouble is None and not self.is_cut

    @property
    def is_ahead(self) -> bool:
        """Whether less is left than before."""
        return bool(self.moved or self.read)


class AccountWalk:
    """Along one chain.

    Args:
        db: The realm's store.
        clock: The realm's clock.
        rpc: The chain's nodes.
        chain: Its id.
        accounts: What is looked for.

    Attributes:
        reader: Reads for it, for the first time.
        skipped, skipped_again: Transactions that no node can tell of and that are read past; see `Walk`.
        reorgs: How often what most votes were for had vanished once its slot was final.
        deepest: How many slots the deepest took.
        lost: How many payments were told to have succeeded by what had vanished.
    """

    def __init__(self, db: Database, clock: Clock, rpc: Rpc, chain: ChainId, accounts: AccountList) -> None:
        self._db = db
        self._clock = clock
        self._rpc = rpc
        self._name = str(chain)
        self._accounts = accounts
        self._cursors: dict[CursorKind, dict[str, AccountCursor]] = {}
        self._listed_s: dict[CursorKind, dict[str, float]] = {"head": {}, "final": {}}
        self._read: dict[CursorKind, dict[str, int]] = {"head": {}, "final": {}}
        self._looked_up: set[bytes] = set()
        self._at_once = READ_MAX
        self._pace = Pace(clock)
        self._history = History(self._name)
        self._read_by: tuple[Node | None, int] = None, 0  # who lists now, and above which slot it listed all
        self.reader = AccountReader(rpc, chain, self._known)
        self._second_reader = AccountReader(rpc, chain, self._known)
        self.skipped = self.reader.skipped
        self.skipped_again = self._second_reader.skipped
        self.reorgs = 0
        self.deepest = 0
        self.lost = 0

    def cursor(self, kind: CursorKind) -> Cursor | None:
        """head: the slot up to which each open account was listed. final: the same, from another node too."""
        return self._db.point(find_cursor, self._name, kind)

    def read_until_s(self) -> int:
        """The time up to which everything is read; 0 before the first."""
        final = self.cursor("final")
        return 0 if final is None else final.time_s

    async def step(self, node: Node, *, lag_s: float = 0.0) -> Step:
        """List accounts, and read what is new.

        Args:
            node: Asked.
            lag_s: For how long no node has been as far as the cursor: after a while the chain was started
                anew, and is read from where it is.

        Raises:
            Lagging: The node is behind the cursor.
            Unread, BadAnswer, NodesDown: Nothing was read.
            StoreUnavailable, OutcomeUnknown: Nothing may have been stored.
        """
        before = self.cursor("head")
        if before is None:
            before = await self._begin(node)
        if self._read_by[0] is not node:
            self._read_by = node, before.number
        final = self.cursor("final") or before
        lookout = await self._accounts.at(node, final.time_s)
        cursors = await self._due("head", lookout, final)
        try:
            tips, listings = await self.reader.listings(node, cursors, "confirmed", before.number)
        except Lagging:
            if lag_s < GONE_S:
                raise
            return await self._begin_again(node)
        self._pace.check(node, before, tips.head)
        done = await self._round(node, "head", lookout, unique(listings), listings, tips)
        after = tips.head if done.is_whole else before
        noted, _ = await self._commit("head", before, after, done)
        return Step(
            tips.head, tips.final, after, noted, more=done.is_cut and done.is_ahead, trouble=done.trouble
        )

    async def second_reading(
        self, nodes: Sequence[Node], final: Cursor, read: Cursor
    ) -> tuple[Sequence[Noted], bool]:
        """List accounts once more up to what is final, and the references of windows that close.

        Args:
            nodes: Another one than reads now comes first, where there is one, and is enough for what the one
                that reads now has listed. Of what came before it did, nobody knows by whom: both list it, and
                the references, which nobody has listed before.
            final: The last final slot.
            read: Up to where the chain was read for the first time.

        Returns:
            What was stored, and whether there is more to be read again.

        Raises:
            Troubled: With that node nothing was read.
            Unread, BadAnswer, NodesDown: With the first one.
            StoreUnavailable, OutcomeUnknown: Nothing may have been stored.
        """
        node, before = nodes[0], self.cursor("final")
        if before is None:
            await self._db.write(move_cursor, self._name, "final", None, self._opened(final))
            return (), False
        # Nor in time: no window closes over what the first one could not read yet, whatever is shown again.
        to, closing_s = min(final.number, read.number), min(_known_at(one).time_s for one in (final, read))
        if to <= before.number or closing_s - before.time_s < SECOND_S:
            return (), False
        await self._history.check(node, self.reader, before.number, to)
        lookout = await self._accounts.at(node, before.time_s)
        cursors = await self._due("final", lookout, before)
        references, are_all = await self._closing(before, closing_s)
        asked = [*cursors, *references]
        by_both = asked if before.number < self._read_by[1] else references
        others = nodes[1:] if by_both else ()
        with self._asking_for(len(references)):
            to, tips, listings = await self._listed_again(node, asked, before, to)
            also = [await by(one, self.reader.listings(one, by_both, "finalized", to)) for one in others]
        told = [listings, *(more for _, more in also)]
        # One reference after the other: whatever names it is read to its end, and the next one has its turn.
        ends = [len(one) - len(references) for one in told]
        of_references = (one[end:] for one, end in zip(told, ends, strict=True))
        named = [unique(of_one) for of_one in zip(*of_references, strict=True)]
        of_accounts = (one[:end] for one, end in zip(told, ends, strict=True))
        listed = [*unique(chain(*of_accounts)), *chain(*named)]
        shown = await self._db.look(sightings_between, self._name, before.number, to)
        missing = await find_missing(self._rpc, shown, listed)
        listed = [*missing.elsewhere, *listed]
        done = await self._round(node, "final", lookout, listed, listings[: len(cursors)], tips)
        if done.trouble is not None:
            raise done.trouble
        is_whole = done.is_whole and are_all
        # No node alone makes the chain's clock go ahead: windows would close while somebody pays.
        time_s = plausible_s(min(closing_s, _known_at(tips.final).time_s), self._clock.now_ms())
        time_s = max(before.time_s, time_s)
        after = slot_cursor(to, time_s) if is_whole else before
        noted, lost = await self._commit("final", before, after, done, missing.gone if is_whole else ())
        self.skipped.difference_update(one.tx_id for one in done.read)
        if is_whole and missing.gone:
            self._note_gone(lost, read.number - min(one.block_number for one in missing.gone))
        some = {
            bytes(Pubkey.from_string(reference.address))
            for reference, entries in zip(references, named, strict=True)
            if done.left.isdisjoint(one.tx_id for one in entries)
        }
        self._looked_up = set() if is_whole else self._looked_up | some
        return noted, not is_whole and (done.is_ahead or bool(references))

    async def _listed_again(
        self, node: Node, asked: Sequence[AccountCursor], before: Cursor, to: int
    ) -> tuple[int, Tips, list[Listing]]:
        """What a node lists up to a slot, or up to its own last final one; and up to which.

        Another operator's node is a few slots behind at any time: it never has what is final just now.
        """
        try:
            return to, *await self.reader.listings(node, asked, "finalized", to)
        except Lagging:
            own = min(to, (await self.reader.tips(node)).final.number)
            if own <= before.number:
                raise
            return own, *await self.reader.listings(node, asked, "finalized", own)

    async def _begin(self, node: Node) -> Cursor:
        """The first time ever: nothing was offered before, so that there is nothing to look for."""
        tips = await self.reader.tips(node)
        await self._db.write(_begin, self._name, tips.head, self._opened(tips.final))
        log.info("chain.begun", chain=self._name, block=tips.head.number)
        return tips.head

    def _opened(self, final: Cursor) -> Cursor:
        """Where windows begin to close, at the first time ever: a little before now, whatever a node says."""
        return _known_at(slot_cursor(final.number, min(final.time_s, self._clock.now_ms() // 1000)))

    async def _begin_again(self, node: Node) -> Step:
        """Every node is behind what was read, and stays so: that is not of this chain's history."""
        tips = await self.reader.tips(node)
        log.critical("chain.other_history", chain=self._name, node=node.name, from_block=tips.head.number)
        # Before, not after it: of a write nobody may know whether it was stored.
        self._cursors.clear()
        for read in self._read.values():
            read.clear()
        turned = await self._db.write(_begin_again, self._name, tips)
        self._note_gone(turned.lost, 0)
        return Step(tips.head, None, tips.head, also=turned.paid_by_others)

    # What is listed.

    async def _due(self, kind: CursorKind, lookout: Lookout, since: Cursor) -> list[AccountCursor]:
        """The accounts to be listed now: those that are open, and quiet ones whose turn it is."""
        if kind not in self._cursors:
            self._cursors[kind] = await self._db.look(account_cursors, self._name, kind)
        now_s, last_s = trio.current_time(), self._listed_s[kind]
        quiet = [one for one in map(str, lookout.quiet) if now_s - last_s.get(one, -QUIET_S) >= QUIET_S]
        quiet = sorted(quiet, key=lambda one: last_s.get(one, -QUIET_S))[:QUIET_MAX]
        last_s |= dict.fromkeys(quiet, now_s)
        known = self._cursors[kind]
        return [
            known.get(one) or AccountCursor(one, "", max(0, since.number - BEGIN_SLOTS))
            for one in (*map(str, lookout.open), *quiet)
        ]

    async def _closing(self, before: Cursor, until_s: int) -> tuple[list[AccountCursor], bool]:
        """The references of payments whose windows close: a wallet may have paid to some other account."""
        from_ms, to_ms = before.time_s * 1000, until_s * 1000
        bindings = await self._db.look(closing_bindings, self._name, from_ms, to_ms)
        left = [one for one in bindings if one not in self._looked_up]
        some = [AccountCursor(str(Pubkey(one)), "", 0) for one in left[: min(CLOSING_MAX, self._at_once)]]
        return some, len(some) == len(left)

    async def _round(
        self,
        node: Node,
        kind: CursorKind,
        lookout: Lookout,
        listed: Sequence[Listed],
        listings: Sequence[Listing],
        tips: Tips,
    ) -> _Round:
        """Read what is new of what was listed, in its order, and say how far that brings the accounts."""
        fresh = await self._fresh(kind, listed)
        some = sorted(fresh[: min(READ_MAX, self._at_once)], key=lambda one: one.slot)
        reader = self._reader_of(kind)
        with self._asking_for(len(some)):
            landed, trouble = await reader.transactions(node, some, _COMMITMENT[kind])
        seen = await reader.seen(landed, lookout.watched, tips.head)
        unread = {one.tx_id for one in fresh} - {one.tx_id for one in landed} - reader.skipped
        moved = [_moved(one, unread, tips.final.number) for one in listings]
        known = self._cursors[kind]
        moved = [one for one in moved if known.get(one.address) != one]
        is_cut = len(fresh) > len(some) or not all(one.is_whole for one in listings)
        return _Round(moved, landed, seen, unread, trouble, is_cut)

    @contextmanager
    def _asking_for(self, count: int) -> Iterator[None]:
        """Ask for less at once where a node answers nothing, and for more again once it answers all.

        A node that limits calls by the second would refuse the same ones for ever, and all payments wait for
        them: also where a stranger made them.
        """
        try:
            yield
        except (NodesDown, Troubled):
            self._at_once = count // 2 or self._at_once
            raise
        self._at_once = max(self._at_once, 2 * count)

    async def _fresh(self, kind: CursorKind, listed: Sequence[Listed]) -> list[Listed]:
        """Those that did something, and that were not read where they are now.

        What one node tells of a transaction another one tells again; but for what is said to pay, because
        that several nodes have to prove.
        """
        skipped = self._reader_of(kind).skipped
        once = {one.tx_id: one for one in listed}.values()
        at = self.cursor("head")
        last = math.inf if at is None else slot_max(at, self._clock.now_ms())
        did = [one for one in once if one.err is None and one.tx_id not in skipped and one.slot <= last]
        is_second = self._is_second(kind)
        read = self._read["final" if is_second else "head"]
        left = [one for one in did if read.get(one.tx_id) != one.slot]
        stored = await self._stored([one.tx_id for one in left], paying=is_second)
        return [one for one in left if (one.tx_id, name_of(one.slot)) not in stored]

    async def _stored(self, tx_ids: Sequence[str], *, paying: bool) -> set[tuple[str, str]]:
        if not tx_ids:
            return set()
        return await self._db.look(lambda tx: blocks_of(tx, self._name, tx_ids, paying=paying))

    async def _known(self, bindings: Sequence[bytes]) -> set[tuple[bytes, str]]:
        return await self._db.look(known_bindings, bindings, self._name)

    # What comes of it.

    async def _commit(
        self, kind: CursorKind, before: Cursor, after: Cursor, done: _Round, gone: Sequence[Sighting] = ()
    ) -> tuple[list[Noted], tuple[str, ...]]:
        """Store it, then remember it. Returns what was noted, and the payments that lost their transfer."""
        news = _News(kind, before, after, done.moved, done.seen, gone)
        noted, lost = await self._db.write(_advance, self._name, news, self._clock.now_ms())
        known = self._cursors[kind]
        known |= {one.address: one for one in done.moved}
        await self._remember("final" if self._is_second(kind) else "head", done.read)
        return noted, lost

    async def _remember(self, kind: CursorKind, landed: Sequence[Landed]) -> None:
        """What pays for nothing here is listed again until it is final."""
        stored = await self._stored([one.tx_id for one in landed], paying=kind == "final")
        read = self._read[kind]
        if len(read) + len(landed) > READ_KEPT_MAX:
            read.clear()
        read |= {one.tx_id: one.slot for one in landed if (one.tx_id, name_of(one.slot)) not in stored}

    def _reader_of(self, kind: CursorKind) -> AccountReader:
        return self._second_reader if kind == "final" else self.reader

    def _is_second(self, kind: CursorKind) -> bool:
        """Whether it is another node's reading than the first."""
        return kind == "final" and len(self._rpc.nodes) > 1

    def _note_gone(self, lost: Sequence[str], depth: int) -> None:
        self.reorgs += 1
        self.deepest = max(self.deepest, depth)
        self.lost += len(lost)
        log.warning("chain.reorg", chain=self._name, depth=depth, lost=len(lost))
        for payment_id in lost:
            log.critical("chain.reorg_after_success", chain=self._name, payment_id=payment_id)


class _News(NamedTuple):
    """What a round changes."""

    kind: CursorKind
    before: Cursor
    after: Cursor
    moved: Sequence[AccountCursor]
    seen: Sequence[Seen]
    gone: Sequence[Sighting]


def _moved(listing: Listing, unread: Set[str], final: int) -> AccountCursor:
    """How far an account is listed: over what is final, and was for a moment, up to what is still unread."""
    cursor = listing.cursor
    for one in listing.entries:
        if one.tx_id in unread or one.slot > final - INDEX_SLOTS:
            break
        cursor = AccountCursor(cursor.address, one.tx_id, one.slot)
    return cursor


def _known_at(final: Cursor) -> Cursor:
    """A final slot, with the time up to which every index shows all that was paid by now."""
    return slot_cursor(final.number, final.time_s - INDEX_S)


def _advance(tx: Tx, chain: str, news: _News, now_ms: int) -> tuple[list[Noted], tuple[str, ...]]:
    """Store what a round showed and that it was read, in one step."""
    move_cursor(tx, chain, news.kind, news.before, news.after)
    move_accounts(tx, chain, news.kind, news.moved)
    lost = take_vanished(tx, news.gone)
    return record(tx, news.seen, now_ms), lost


def _begin(tx: Tx, chain: str, head: Cursor, final: Cursor) -> None:
    move_cursor(tx, chain, "head", None, head)
    move_cursor(tx, chain, "final", find_cursor(tx, chain, "final"), final)


def _begin_again(tx: Tx, chain: str, tips: Tips) -> TurnedBack:
    turned = rewind(tx, chain, tips.head)
    before = find_cursor(tx, chain, "final")
    # What was paid since that time was not read: windows that closed meanwhile are looked up by reference.
    final = _known_at(tips.final)
    time_s = final.time_s if before is None else min(before.time_s, final.time_s)
    move_cursor(tx, chain, "final", before, slot_cursor(final.number, time_s))
    keep_accounts(tx, chain, ())
    return turned
