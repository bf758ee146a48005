"""Asking one node of Solana what came to accounts: listings, and the transactions that are behind them.

Whatever a node says is held against what it said a moment before. A provider's URL is many nodes, and they
lag: each is told which slot it must have come to, and refuses rather than to answer from the past.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from typing import Final, NamedTuple

import msgspec
import structlog
from solders.pubkey import Pubkey

from payd.actors.node_choice import SKIPPED_MAX
from payd.actors.walk import Lagging
from payd.chains.rpc import Call, Node, Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.chains.solana.answers import (
    Landed,
    Listed,
    decode_accounts,
    decode_clock,
    decode_landed,
    decode_listing,
    first_in,
)
from payd.chains.solana.asking import (
    FIRST_SLOT_CALL,
    LISTED_MAX,
    clock_call,
    listing_call,
    transaction_call,
)
from payd.chains.solana.proof import Watched, candidate_bindings, paid_by
from payd.chains.solana.terms import Commitment
from payd.chains.unread import Unread, good
from payd.core.caip import ChainId
from payd.store.chain_accounts import AccountCursor
from payd.store.chain_cursors import Cursor
from payd.store.sightings import Seen

log = structlog.get_logger("payd.watcher")

# What an account got while nobody looked is taken from its oldest end on, so much of it at once.
KEPT_MAX: Final = 5_000
# Transactions that are held as nodes tell them: anybody can make one that is told of in a megabyte.
HELD_MAX: Final = 50
# Of a listing that somebody would have to pay hundreds of dollars for; who gives more makes them up.
PAGES_MAX: Final = 1_000
# A slot takes about so long.
SLOT_MS: Final = 400
# So fast slots never pass, by far; and so many more there may be than were read.
SLOT_MIN_MS: Final = 100
SLOTS_ROOM: Final = 1_000
# The node has not come to the slot that it must not answer from before; the transaction is of a version to
# come.
MIN_SLOT_CODE: Final = -32016
VERSION_CODE: Final = -32015
# The node does not know the transaction that a listing is to end at.
CURSOR_CODE: Final = -32020

Known = Callable[[Sequence[bytes]], Awaitable[Set[tuple[bytes, str]]]]
"""Those of the bindings that were handed out, each with the canonical asset that it was handed out for."""


class Tips(NamedTuple):
    """What a node says of its chain: the newest slot with most votes, and the last that is final."""

    head: Cursor
    final: Cursor


class Listing(NamedTuple):
    """What came to an account after its cursor, the oldest first; `is_whole`: nothing newer was left out."""

    cursor: AccountCursor
    entries: Sequence[Listed]
    is_whole: bool = True


class AccountReader:
    """Reads one chain.

    Args:
        rpc: Its nodes.
        chain: Its id.
        known: Looks up bindings.

    Attributes:
        skipped: Transactions that no node can tell of and that are read past; see `Unread.tx_id`.
    """

    def __init__(self, rpc: Rpc, chain: ChainId, known: Known) -> None:
        self._rpc = rpc
        self._chain = chain
        self._known = known
        self.skipped: set[str] = set()

    async def tips(self, node: Node) -> Tips:
        """Where the node is.

        Raises:
            Unread, BadAnswer, NodesDown: It does not say.
        """
        return _tips(await self._rpc.batch(_CLOCKS, node=node))

    async def first_slot(self, node: Node) -> int:
        """The oldest slot whose transactions the node has; 0 where it does not say.

        Raises:
            BadAnswer, NodesDown: Its answer is none.
        """
        [first] = await self._rpc.batch([FIRST_SLOT_CALL], node=node)
        return first_in(first)

    async def listings(
        self, node: Node, cursors: Sequence[AccountCursor], commitment: Commitment, min_slot: int
    ) -> tuple[Tips, list[Listing]]:
        """Where the node is, and what came to accounts after their cursors: one POST, but for long listings.

        Args:
            node: Asked.
            cursors: Up to where each account was listed.
            commitment: Of what is listed.
            min_slot: The node has to be there.

        Raises:
            Lagging: It is not.
            Unread, BadAnswer, NodesDown: Nothing was read.
        """
        calls = [_listing(one, commitment, min_slot) for one in cursors]
        results = await self._rpc.batch([*_CLOCKS, *calls], node=node)
        tips = _tips(results)
        at = tips.head if commitment == "confirmed" else tips.final
        if at.number < min_slot:
            raise Lagging(f"{node.name} is {min_slot - at.number} slots behind what was read")
        found = []
        for cursor, result in zip(cursors, results[len(_CLOCKS) :], strict=True):
            ends = cursor
            if isinstance(result, RpcError) and result.code == CURSOR_CODE and cursor.tx_id:
                # It keeps less history. The slot says as well where to end.
                ends = msgspec.structs.replace(cursor, tx_id="")
                [result] = await self._rpc.batch([_listing(ends, commitment, min_slot)], node=node)
            page = _page(result, node)
            entries, is_whole = await self._whole(node, ends, page, commitment, min_slot)
            found.append(Listing(_ended(cursor, ends, page), entries, is_whole))
        return tips, found

    async def transactions(
        self, node: Node, listed: Sequence[Listed], commitment: Commitment
    ) -> tuple[list[Landed], Unread | None]:
        """The transactions that were listed, and what is wrong with the first one that cannot be read."""
        found: list[Landed] = []
        trouble: Unread | None = None
        for start in range(0, len(listed), HELD_MAX):
            some = listed[start : start + HELD_MAX]
            calls = [transaction_call(one.tx_id, commitment) for one in some]
            for one, result in zip(some, await self._rpc.batch(calls, node=node), strict=True):
                try:
                    landed = self._landed(one, result)
                except Unread as unread:
                    trouble = trouble or unread
                    continue
                if landed is not None:
                    found.append(landed)
        return found, trouble

    async def seen(self, landed: Sequence[Landed], watched: Watched, now: Cursor) -> list[Seen]:
        """What transactions paid, and for what.

        Args:
            landed: They.
            watched: What is looked for.
            now: Some slot and its time: a node may not know when a slot was.
        """
        bindings = [binding for one in landed for binding in candidate_bindings(one)]
        known = await self._known(bindings) if bindings else set()
        return [
            Seen(
                chain=str(self._chain),
                tx_id=one.tx_id,
                log_index=paid.account_index,
                asset=paid.asset,
                value=paid.value,
                sender=paid.sender,
                recipient=paid.recipient,
                block_number=one.slot,
                block_hash=name_of(one.slot),
                block_time_s=_time_s(one, now),
                binding=paid.binding,
            )
            for one in landed
            for paid in paid_by(self._chain, one, watched, known)
        ]

    def _landed(self, listed: Listed, result: object) -> Landed | None:
        """A listed transaction, where it is what the listing said; None of what can never be read."""
        tx_id = listed.tx_id
        if isinstance(result, RpcError) and result.code == VERSION_CODE:
            log.error("chain.transaction_skipped", tx_id=tx_id, why=result.message)
            if len(self.skipped) >= SKIPPED_MAX:
                self.skipped.remove(min(self.skipped))  # whichever: what is listed again is skipped again
            self.skipped.add(tx_id)
            return None
        try:
            landed = decode_landed(good(result), tx_id)
        except (BadAnswer, Unread) as error:
            raise Unread(f"{tx_id}: {error}", tx_id) from error
        if landed is None:
            raise Unread(f"the node does not have {tx_id}, which it listed", tx_id)
        if landed.slot != listed.slot:
            raise Unread(f"the node has {tx_id} in more than one slot", tx_id)
        return landed

    async def _whole(
        self, node: Node, ends: AccountCursor, page: list[Listed], commitment: Commitment, min_slot: int
    ) -> tuple[Sequence[Listed], bool]:
        """The oldest end of a listing down to `ends`, however long it is; whether that is all of it.

        Raises:
            Unread: The node gives the same page again, whichever is asked for, or pages without end.
        """
        kept: deque[Listed] = deque(maxlen=KEPT_MAX)
        is_whole = True
        for _ in range(PAGES_MAX):
            fresh = [one for one in page if one.slot >= ends.slot]
            is_whole = is_whole and len(kept) + len(fresh) <= KEPT_MAX
            kept.extend(fresh)
            if len(page) < LISTED_MAX or len(fresh) < len(page):
                return tuple(reversed(kept)), is_whole
            call = _listing(ends, commitment, min_slot, page[-1].tx_id)
            [result] = await self._rpc.batch([call], node=node)
            before, page = {one.tx_id for one in page}, _page(result, node)
            if len(page) == LISTED_MAX and page[-1].tx_id in before:
                raise Unread(f"{node.name} lists {ends.address} no further than its newest transactions")
        raise Unread(f"{node.name} lists {ends.address} without end")


# What is final comes first: where each block is final at once, there is a newer one between the two answers.
_CLOCKS: Final[tuple[Call, ...]] = (clock_call("finalized"), clock_call("confirmed"))


def name_of(slot: int) -> str:
    """What stands for a block's hash: a transaction that lands again does so in another slot."""
    return f"slot:{slot}"


def slot_cursor(slot: int, time_s: int) -> Cursor:
    """A slot as the cursor of a chain."""
    return Cursor(slot, name_of(slot), time_s)


def slot_max(read: Cursor, now_ms: int) -> int:
    """The last slot that there can be by now: what is told of a later one no node could ever deny.

    Args:
        read: Up to where the chain was read.
        now_ms: Unix milliseconds, ours.
    """
    return read.number + SLOTS_ROOM + max(0, now_ms - read.time_s * 1000) // SLOT_MIN_MS


def _listing(cursor: AccountCursor, commitment: Commitment, min_slot: int, before: str | None = None) -> Call:
    until = cursor.tx_id or None
    address = Pubkey.from_string(cursor.address)
    return listing_call(address, until, before, commitment=commitment, min_slot=min_slot)


def _ended(cursor: AccountCursor, ends: AccountCursor, page: Sequence[Listed]) -> AccountCursor:
    """The cursor with a transaction to end at, the newest before its slot, where it was listed without one.

    Else an account that nobody pays comes with the thousand newest of its whole life, time and again.
    """
    older = None if ends.tx_id else next((one.tx_id for one in page if one.slot < ends.slot), None)
    return cursor if older is None else msgspec.structs.replace(cursor, tx_id=older)


def _tips(results: Results) -> Tips:
    final, head = (_tip(result) for result in results[: len(_CLOCKS)])
    # Behind one address may be several nodes, and the one that was asked for the newest slot may lag.
    return Tips(head, min(final, head, key=lambda one: one.number))


def _tip(result: object) -> Cursor:
    slot, [account] = decode_accounts(good(result), 1)
    if account is None:
        raise Unread("the node has no clock")
    clock = decode_clock(account.data)
    return slot_cursor(min(slot, clock.slot), clock.time_s)


def _page(result: object, node: Node) -> list[Listed]:
    if isinstance(result, RpcError) and result.code == MIN_SLOT_CODE:
        raise Lagging(f"{node.name} is behind what was read: {result.message}")
    return decode_listing(good(result))


def _time_s(landed: Landed, now: Cursor) -> int:
    """When it landed; about, where the node has no time for its slot: it was on the way at that moment."""
    if landed.block_time_s is not None:
        return landed.block_time_s
    return now.time_s - max(0, now.number - landed.slot) * SLOT_MS // 1000


def unique(listings: Iterable[Listing]) -> list[Listed]:
    """Each listed transaction once, in the order of the chain as far as it is known.

    One that any of them lists as having done something is read: a node alone hides nothing by an error.
    """
    found: dict[str, Listed] = {}
    for one in (one for listing in listings for one in listing.entries):
        known = found.get(one.tx_id)
        if known is None or (known.err is not None and one.err is None):
            found[one.tx_id] = one
    return sorted(found.values(), key=lambda one: one.slot)
