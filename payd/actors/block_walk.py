"""One walk along a chain: read on from the cursor, turn back where a reorg begins, read again what is final.

What is found is stored in the transaction that moves the cursor. A node that cannot be believed ends the step
with `Unread`, and nothing has moved.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, Literal

import msgspec
import structlog
import trio

from payd.actors.block_forks import Forks
from payd.actors.block_refusals import BlockHistory
from payd.actors.node_choice import SECOND_WAIT_S
from payd.actors.walk import GONE_S, LAG_S, Lagging, Step, by, plausible_s
from payd.actors.watch_list import WatchList
from payd.chains.evm.answers import Block
from payd.chains.evm.proof import Watched
from payd.chains.evm.reading import Piece, Reader, Tips, TooWide
from payd.chains.rpc import Node, NodesDown, Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.unread import Contradicted, Unread
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.core.option import QUOTE_GRACE_MS
from payd.store.chain_cursors import (
    BLOCKS_KEPT,
    Cursor,
    CursorKind,
    blocks_below,
    find_cursor,
    keep_blocks,
    move_cursor,
)
from payd.store.db import Database, Tx
from payd.store.sightings import Noted, Seen, TurnedBack, record, rewind
from payd.store.watches import first_closing_ms, known_bindings

log = structlog.get_logger("payd.watcher")

# So many new blocks are read each by its hash; more in one range that ends as far below the head.
BY_HASH_MAX: Final = 8
RANGE_MAX: Final = 1000
# With all their transactions, blocks have up to some 500 kB.
FULL_RANGE_MAX: Final = 16
# Nearly every reorg is found with the first look, and none is looked for in vain for long.
ANCESTORS_FIRST: Final = 32
ANCESTORS_MORE: Final = 96


class BlockWalk:
    """Along one chain.

    Args:
        db: The realm's store.
        clock: The realm's clock.
        rpc: The chain's nodes.
        chain: Its id.
        watch_list: What is looked for.
        final: The tag of the last final block, or how many blocks deep one is final.

    Attributes:
        reader: Reads for it, for the first time.
        skipped, skipped_again: Transactions that no node can tell of and that are read past; see `Walk`.
        reorgs: How many were followed.
        deepest: How many blocks the deepest took.
        lost: How many payments were told to have succeeded by what a reorg then took.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        rpc: Rpc,
        chain: ChainId,
        watch_list: WatchList,
        final: int | Literal["finalized"],
    ) -> None:
        self._db = db
        self._clock = clock
        self._rpc = rpc
        self._name = str(chain)
        self._watch_list = watch_list
        self._final = final
        self._width = RANGE_MAX
        self._waits_since_s: float | None = None
        self._is_closing = False
        self._read_by: tuple[Node | None, int] = None, 0  # who reads now, and above which block it read all
        self.reader = Reader(rpc, chain, self._known)
        self._second_reader = Reader(rpc, chain, self._known)
        self._forks = Forks(db, clock, rpc, chain, self.reader)
        self._history = BlockHistory(rpc, self._name)
        self._final_history = BlockHistory(rpc, self._name)
        self.skipped = self.reader.skipped
        self.skipped_again = self._second_reader.skipped
        self.reorgs = 0
        self.deepest = 0
        self.lost = 0

    def cursor(self, kind: CursorKind) -> Cursor | None:
        """Up to where the chain was read."""
        return self._db.point(find_cursor, self._name, kind)

    def read_until_s(self) -> int:
        """The time of the last block that was read; while a window that has ended is to be closed, up to when
        windows close. 0 before the first.
        """
        read = self.cursor("closed" if self._is_closing else "head")
        return 0 if read is None else read.time_s

    async def step(self, node: Node, *, lag_s: float = 0.0) -> Step:
        """Read on by one piece, all of it from one node.

        Args:
            node: Read.
            lag_s: For how long no node has been as far as the cursor. A node that is on another fork is then
                followed after a while although that is shorter, and later whichever node there is: what was
                read was made up, or the chain was started anew.

        Raises:
            Lagging: The node is behind the cursor.
            Unread, BadAnswer, NodesDown: Nothing was read.
            StoreUnavailable, OutcomeUnknown: Nothing may have been stored.
        """
        cursor = self.cursor("head")
        if cursor is None:
            cursor = await self._begin(node)
        tips = await self.reader.tips(node, cursor.number, self._final_at(cursor.number))
        turned = None
        if tips.head.number < cursor.number:
            if lag_s < GONE_S and not (lag_s >= LAG_S and await self._forks.is_elsewhere(node, tips.head)):
                words = f"{node.name} is {cursor.number - tips.head.number} blocks behind what was read"
                raise Lagging(words)
            cursor, turned = await self._turn_back(node, cursor, tips.head)
        elif tips.at_cursor is None:
            raise Unread(f"{node.name} does not have block {cursor.number}, and newer ones")
        elif tips.at_cursor.hash != cursor.hash:
            cursor, turned = await self._turn_back(node, cursor, tips.head)
        noted: Sequence[Noted] = ()
        if self._read_by[0] is not node:
            self._read_by = node, cursor.number
        if tips.head.number > cursor.number:
            cursor, noted = await self._read_on(node, cursor, tips)
        noted = [*noted, *await self._close(node, cursor)]
        final = None if tips.final is None else _cursor(tips.final)
        also = () if turned is None else turned.paid_by_others
        more = cursor.number < tips.head.number
        return Step(_cursor(tips.head), final, cursor, noted, also, more)

    async def second_reading(
        self, nodes: Sequence[Node], final: Cursor, read: Cursor
    ) -> tuple[Sequence[Noted], bool]:
        """Read a piece of what has become final once more: what one node hid, another one shows.

        Args:
            nodes: Each reads it. Two, where there are: who read it first may be either.
            final: The last final block.
            read: Up to where the chain was read for the first time.

        Returns:
            What was stored, and whether there is more to be read again.

        Raises:
            Troubled: With that node nothing was read.
            Contradicted: The nodes contradict each other.
            StoreUnavailable, OutcomeUnknown: Nothing may have been stored.
        """
        before = self.cursor("final")
        if before is None:
            await self._db.write(move_cursor, self._name, "final", None, final)
            return (), False
        to = min(final.number, read.number)
        if to <= before.number:
            return (), False
        watched = await self._watch_list.at(before.time_s)
        reader, last = self._second_reader, before.number
        if watched.tokens and watched.destinations:
            given = {node: partial(reader.gives, node, watched) for node in nodes}
            nodes, last = await self._final_history.who_has(given, last, final.number)
        first, *others = nodes
        if last > before.number:
            block = await by(first, self._header(first, min(last, to)))
            await self._db.write(move_cursor, self._name, "final", before, _cursor(block))
            return (), True
        piece = await by(first, self._range(reader, first, watched, before, to))
        if piece.last.number == final.number and piece.last.hash != final.hash:
            raise Contradicted(f"the nodes name different final blocks {final.number}")
        for node in others:
            other = await by(node, self._whole(reader, node, watched, before, piece.last.number))
            piece = _together(piece, other)
        noted = await self._commit("final", before, piece)
        self.skipped.difference_update(one.tx_id for one in piece.transfers)
        return noted, piece.last.number < to

    # Windows that end.

    async def _close(self, node: Node, read: Cursor) -> Sequence[Noted]:
        """Have what was read read by another node too, where a window ends in it: one alone may hide what was
        paid, or have blocks and times of its own. Gives what was stored.

        One by another is enough, where all was read by this one. While the others are away, windows stay
        open; but not for ever. While one contradicts this one, they do.

        Raises:
            Unread: Two others go on along another fork, and this one is alone on its own.
        """
        closed = self.cursor("closed")
        if closed is None:
            await self._db.write(move_cursor, self._name, "closed", None, self._opened(read))
            return ()
        until_s = plausible_s(read.time_s, self._clock.now_ms())
        first_ms = await self._db.look(first_closing_ms, self._name, closed.time_s * 1000, until_s * 1000)
        self._is_closing = first_ms is not None
        if first_ms is None:
            self._waits_since_s = None
            return ()
        before = self._read_twice(closed)
        if read.number <= before.number:
            return await self._move_closed(closed, before, min(before.time_s, until_s))
        if self._waits_since_s is None:
            self._waits_since_s = trio.current_time()
        for other in self._rpc.nodes:
            if other is node or not other.is_healthy:
                continue
            try:
                return await self._read_closing(node, other, closed, read)
            except (NodesDown, Unread, BadAnswer) as trouble:
                log.debug("chain.not_closed", chain=self._name, node=other.name, why=str(trouble))
        waited_s = trio.current_time() - self._waits_since_s
        if waited_s > LAG_S and await self._forks.is_contradicted(node, read):
            return ()
        if len(self._rpc.nodes) == 1 or waited_s > SECOND_WAIT_S:
            seen = await self._read_itself(node, before, read)
            log.info("chain.closed_alone", chain=self._name, node=node.name, block=read.number)
            return await self._move_closed(closed, read, until_s, seen)
        return ()

    async def _read_itself(self, node: Node, before: Cursor, read: Cursor) -> Sequence[Seen]:
        """What a node shows, where it closes alone, of what was read before it did, or before a start.

        The one that read it may have been replaced since, because it hid something.
        """
        to = min(self._read_by[1], read.number)
        if to <= before.number:
            return ()
        watched = await self._watch_list.at(before.time_s)
        return (await self._whole(self.reader, node, watched, before, to)).transfers

    async def _read_closing(self, node: Node, other: Node, closed: Cursor, read: Cursor) -> Sequence[Noted]:
        """Read a piece of what was read, up to the newest block that the other node has as well.

        Of what was read before this node did, or before a start, nobody knows by whom: both read it.
        """
        before = self._read_twice(closed)
        head = (await self.reader.tips(other, None, "latest")).head
        [(number, block_hash)] = self._db.point(blocks_below, self._name, head.number + 1, 1) or [(0, "")]
        if number <= before.number:
            raise Lagging(f"{other.name} is behind where windows end")
        watched = await self._watch_list.at(before.time_s)
        piece = await self._range(self.reader, other, watched, before, number)
        last = piece.last.number
        if piece.last.hash != (block_hash if last == number else (await self._header(node, last)).hash):
            raise Unread(f"{other.name} has another block {last}")
        if before.number < self._read_by[1]:
            own = await self._whole(self.reader, node, watched, before, piece.last.number)
            piece = _together(piece, own)
        time_s = plausible_s(min(piece.last.time_s, read.time_s), self._clock.now_ms())
        return await self._move_closed(closed, _cursor(piece.last), time_s, piece.transfers)

    async def _move_closed(
        self, closed: Cursor, to: Cursor, time_s: int, seen: Sequence[Seen] = ()
    ) -> Sequence[Noted]:
        """Note that windows close up to this time, of this block; with what another node showed."""
        self._waits_since_s = None
        after = Cursor(to.number, to.hash, max(closed.time_s, time_s))
        return await self._db.write(_close, self._name, closed, after, seen, self._clock.now_ms())

    def _read_twice(self, closed: Cursor) -> Cursor:
        """Up to where two nodes were read."""
        final = self.cursor("final")
        return closed if final is None else max(final, closed, key=lambda cursor: cursor.number)

    def _opened(self, read: Cursor) -> Cursor:
        """Where windows begin to close, at the first time ever: a little before now, whatever a node says."""
        now_s = self._clock.now_ms() // 1000
        return Cursor(read.number, read.hash, min(read.time_s, now_s) - QUOTE_GRACE_MS // 1000)

    async def _begin(self, node: Node) -> Cursor:
        """The first time ever: nothing was offered before, so that there is nothing to look for.

        The second reading begins here too: whenever its first turn comes, it leaves out nothing since.
        """
        head = (await self.reader.tips(node, None, "latest")).head
        final = (await self.reader.tips(node, None, self._final_at(head.number))).final
        cursor = _cursor(head)
        opened = self._opened(cursor)
        await self._db.write(_begin_at, self._name, head, final, opened, self._clock.now_ms())
        log.info("chain.begun", chain=self._name, block=cursor.number)
        return cursor

    def _final_at(self, cursor: int) -> int | str:
        return self._final if isinstance(self._final, str) else max(0, cursor - self._final)

    async def _read_on(self, node: Node, cursor: Cursor, tips: Tips) -> tuple[Cursor, Sequence[Noted]]:
        watched, head = await self._watch_list.at(cursor.time_s), tips.head
        if watched.tokens and watched.destinations:
            gives = partial(self.reader.gives, node, watched)
            after = await self._history.check(node, gives, cursor.number, head.number)
            if after > cursor.number:
                return await self._pass(node, cursor, after, tips.final), ()
        if not watched.destinations:
            piece = Piece((head,), ())
        elif head.number - cursor.number <= BY_HASH_MAX:
            piece = await self.reader.blocks(node, watched, (cursor.number, cursor.hash), head)
        else:
            to = head.number - BY_HASH_MAX
            piece = await self._range(self.reader, node, watched, cursor, to, is_first=True)
        noted = await self._commit("head", cursor, piece)
        return _cursor(piece.last), noted

    async def _pass(self, node: Node, cursor: Cursor, to: int, final: Block | None) -> Cursor:
        """Go on behind blocks that no node gives, in both readings."""
        if final is None or final.number < to:
            raise Unread(f"{node.name} gives nothing of blocks up to {to}, which are not final yet")
        block = await self._header(node, to)
        await self._db.write(_pass, self._name, cursor, block)
        return _cursor(block)

    async def _range(
        self, reader: Reader, node: Node, watched: Watched, after: Cursor, to: int, *, is_first: bool = False
    ) -> Piece:
        """As many blocks as the node gives at once, of those that are wanted.

        `is_first`: windows may close by it alone, so that who gives the logs has to have the last block.
        """
        if not watched.destinations:
            [last] = await self.reader.headers(node, [to])
            if last is None:
                raise Unread(f"{node.name} does not have block {to}")
            return Piece((last,), ())
        while True:
            width = min(self._width, to - after.number, _width_max(watched))
            number = after.number + width
            last = await self._header(node, number) if is_first else None
            try:
                piece = await reader.range(node, watched, (after.number, after.hash), number, last)
            except TooWide:
                self._width = max(1, width // 2)
                log.info("chain.range_halved", chain=self._name, node=node.name, blocks=self._width)
                continue
            except (NodesDown, Unread):
                # Some say nothing of a range that they are too slow for, or only that their time was over.
                self._width = max(1, width // 2)
                raise
            if width == self._width:
                self._width = min(RANGE_MAX, width + width // 8 + 1)
            return piece

    async def _whole(self, reader: Reader, node: Node, watched: Watched, after: Cursor, to: int) -> Piece:
        """All blocks up to that one, in as many pieces as the node needs."""
        piece = await self._range(reader, node, watched, after, to)
        while piece.last.number < to:
            more = await self._range(reader, node, watched, _cursor(piece.last), to)
            piece = Piece(more.blocks, piece.transfers + more.transfers)
        return piece

    async def _commit(self, kind: CursorKind, before: Cursor, piece: Piece) -> list[Noted]:
        return await self._db.write(_advance, self._name, kind, before, piece, self._clock.now_ms())

    async def _known(self, bindings: Sequence[bytes]) -> set[tuple[bytes, str]]:
        return await self._db.look(known_bindings, bindings, self._name)

    # Reorgs.

    async def _turn_back(self, node: Node, cursor: Cursor, head: Block) -> tuple[Cursor, TurnedBack]:
        """Go back to the newest block that is still one of the chain's."""
        if await self._forks.is_left(node, cursor, head):
            raise Unread(f"{node.name} has another block {cursor.number} than nodes which are as far")
        to = await self._ancestor(node, cursor, head)
        turned = await self._db.write(rewind, self._name, _cursor(to))
        depth = cursor.number - to.number
        self.reorgs += 1
        self.deepest = max(self.deepest, depth)
        self.lost += len(turned.lost)
        log.warning(
            "chain.reorg", chain=self._name, depth=depth, block=cursor.number, transfers=turned.transfers
        )
        for payment_id in turned.lost:
            log.critical("chain.reorg_after_success", chain=self._name, payment_id=payment_id)
        return _cursor(to), turned

    async def _ancestor(self, node: Node, cursor: Cursor, head: Block) -> Block:
        below, limit = min(cursor.number, head.number + 1), ANCESTORS_FIRST
        while kept := self._db.point(blocks_below, self._name, below, limit):
            blocks = await self.reader.headers(node, [number for number, _ in kept])
            for (number, block_hash), block in zip(kept, blocks, strict=True):
                if block is None:
                    raise Unread(f"{node.name} does not have block {number}, and newer ones")
                if block.hash == block_hash:
                    return block
            below, limit = kept[-1][0], ANCESTORS_MORE
        return await self._last_resort(node, min(cursor.number - 1, head.number))

    async def _last_resort(self, node: Node, highest: int) -> Block:
        """Not one block that is kept is the chain's any more: begin again where it was final.

        Where that is not the chain's either, well below: it was made up, and who knows since which block.
        """
        final = self.cursor("final")
        number = highest if final is None else min(final.number, highest)
        if final is not None:
            block = await self._header(node, number)
            if block.hash == final.hash:
                return block
        block = await self._header(node, max(0, number - BLOCKS_KEPT))
        log.critical("chain.other_history", chain=self._name, node=node.name, from_block=block.number)
        return block

    async def _header(self, node: Node, number: int) -> Block:
        [block] = await self.reader.headers(node, [number])
        if block is None:
            raise Unread(f"{node.name} does not have block {number}, and newer ones")
        return block


def _advance(
    tx: Tx, chain: str, kind: CursorKind, before: Cursor | None, piece: Piece, now_ms: int
) -> list[Noted]:
    """Store what a piece showed and that it was read, in one step."""
    move_cursor(tx, chain, kind, before, _cursor(piece.last))
    if kind == "head":
        keep_blocks(tx, chain, ((block.number, block.hash) for block in piece.blocks))
    return record(tx, piece.transfers, now_ms)


def _pass(tx: Tx, chain: str, before: Cursor, block: Block) -> None:
    """Note that both readings go on behind a block."""
    _advance(tx, chain, "head", before, Piece((block,), ()), 0)
    move_cursor(tx, chain, "final", find_cursor(tx, chain, "final"), _cursor(block))


def _together(one: Piece, other: Piece) -> Piece:
    """What two nodes show of the same blocks: each may hide something, and neither is right alone.

    Raises:
        Contradicted: They contradict each other.
    """
    if one.last.hash != other.last.hash:
        raise Contradicted(f"the nodes name different final blocks {one.last.number}")
    shown = {(seen.tx_id, seen.log_index): seen for seen in one.transfers}
    for seen in other.transfers:
        if shown.setdefault((seen.tx_id, seen.log_index), seen) != seen:
            raise Contradicted(f"the nodes do not show the same of {seen.tx_id}")
    # A node whose clock is ahead is not believed before the other one is as far.
    time_s = min(one.last.time_s, other.last.time_s)
    last = msgspec.structs.replace(one.last, time_s=time_s)
    return Piece((*one.blocks[:-1], last), tuple(shown.values()))


def _close(
    tx: Tx, chain: str, before: Cursor, after: Cursor, seen: Sequence[Seen], now_ms: int
) -> list[Noted]:
    """Store what another node showed, and that windows close up to there, in one step."""
    move_cursor(tx, chain, "closed", before, after)
    return record(tx, seen, now_ms)


def _begin_at(tx: Tx, chain: str, head: Block, final: Block | None, opened: Cursor, now_ms: int) -> None:
    """Note where both readings begin."""
    _advance(tx, chain, "head", None, Piece((head,), ()), now_ms)
    move_cursor(tx, chain, "closed", None, opened)
    if final is not None:
        move_cursor(tx, chain, "final", None, _cursor(final))


def _cursor(block: Block) -> Cursor:
    return Cursor(block.number, block.hash, block.time_s)


def _width_max(watched: Watched) -> int:
    return RANGE_MAX if watched.native is None else FULL_RANGE_MAX
