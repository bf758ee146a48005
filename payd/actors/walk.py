"""What a watcher needs of who reads a chain for it, by blocks or by accounts.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from payd.chains.asking import unavailable
from payd.chains.rpc import Node, NodesDown, Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.unread import Unread
from payd.chains.witnesses import WITNESSES
from payd.core.option import QUOTE_GRACE_MS
from payd.store.chain_cursors import Cursor, CursorKind
from payd.store.sightings import Noted, Sighting

T = TypeVar("T")

# A node that is behind catches up within moments; else what it is behind of may not be the chain.
LAG_S: Final = 120.0
GONE_S: Final = 900.0
# Money that comes after a window has closed is looked for this long.
LATE_MS: Final = 24 * 3_600_000


class Lagging(Unread):
    """The node is not as far as the chain was read: it lags, which is no reorg."""


class Troubled(Exception):
    """One of several nodes that read together is in trouble, and this is what with."""

    def __init__(self, node: Node, trouble: Exception) -> None:
        super().__init__(_named(node, trouble))
        self.node = node
        self.trouble = trouble


def _named(node: Node, trouble: Exception) -> str:
    """What a node is in trouble with; nodes that are down are named already."""
    return str(trouble) if isinstance(trouble, NodesDown) else f"{node.name}: {trouble}"


async def by(node: Node, reading: Awaitable[T]) -> T:
    """What one of several nodes reads.

    Raises:
        Troubled: What it is in trouble with, and its name.
    """
    try:
        return await reading
    except (NodesDown, Unread, BadAnswer) as trouble:
        raise Troubled(node, trouble) from trouble


async def told_by(
    rpc: Rpc, ask: Callable[[Node], Awaitable[T]], evidence: Callable[[T], object | None]
) -> list[T]:
    """What nodes say of a single transaction, one after the other, until `WITNESSES` bear each other out.

    Of more nodes one may have forgotten it, or lie: what two others show is no less true for that.

    Args:
        rpc: The chain's nodes.
        ask: Asks one.
        evidence: What nodes must agree on, of what one says; None where it shows nothing.

    Returns:
        What those said who bear each other out; where none do, what all said.

    Raises:
        ChainUnavailable: None answers.
    """
    told: list[T] = []
    troubles: list[str] = []
    for node in rpc.nodes:
        if not node.is_usable:
            continue
        try:
            told.append(await ask(node))
        except (NodesDown, Unread, BadAnswer) as trouble:
            troubles.append(_named(node, trouble))
            continue
        shown = evidence(told[-1])
        same = [one for one in told if shown is not None and evidence(one) == shown]
        if len(same) >= WITNESSES:
            return same
    if not told:
        raise unavailable("; ".join(troubles))
    return told


def plausible_s(time_s: int, now_ms: int) -> int:
    """A block's time; where it is ahead of our clock by more than quotes allow for, one that is not.

    Args:
        time_s: By the chain, as a node tells it.
        now_ms: Unix milliseconds, ours.
    """
    now_s, room_s = now_ms // 1000, QUOTE_GRACE_MS // 1000
    return time_s if time_s <= now_s + room_s else now_s - room_s


class Step(NamedTuple):
    """How far a step came.

    Attributes:
        head: The newest block, as the node names it.
        final: The last final one; None where the node does not know.
        cursor: Up to where everything is read now.
        noted: What was stored.
        also: Payments that have news besides: another transfer pays for them than before.
        more: Whether there is more to be read now.
        trouble: A transaction that could not be read; nothing but the cursor waits for it.
    """

    head: Cursor
    final: Cursor | None
    cursor: Cursor
    noted: Sequence[Noted] = ()
    also: Sequence[str] = ()
    more: bool = False
    trouble: Unread | None = None


class Walk(Protocol):
    """Reads one chain, piece by piece; all that is found is stored in the step that moves the cursor.

    Attributes:
        skipped: Transactions that no node can tell of and that are read past; see `Unread.tx_id`. The second
            reading, a while later, tries them once more.
        skipped_again: Those that the second reading reads past. Who reads single ones later takes them out.
        reorgs: How many were noticed.
        deepest: How many blocks the deepest took.
        lost: How many payments were told to have succeeded by what a reorg then took.
    """

    skipped: set[str]
    skipped_again: set[str]
    reorgs: int
    deepest: int
    lost: int

    def cursor(self, kind: CursorKind) -> Cursor | None:
        """Up to where the chain was read."""

    def read_until_s(self) -> int:
        """The time, by the chain's clock, up to which everything is read; 0 before the first."""

    async def step(self, node: Node, *, lag_s: float = 0.0) -> Step:
        """Read on by one piece, all of it from one node.

        Args:
            node: Read.
            lag_s: For how long no node has been as far as the cursor.

        Raises:
            Lagging: The node is behind the cursor.
            Unread, BadAnswer, NodesDown: Nothing was read.
            StoreUnavailable, OutcomeUnknown: Nothing may have been stored.
        """

    async def second_reading(
        self, nodes: Sequence[Node], final: Cursor, read: Cursor
    ) -> tuple[Sequence[Noted], bool]:
        """Read a piece of what has become final once more: what one node hid, another one shows.

        Args:
            nodes: Another one than reads now, and the one that does; or one where there is no other. Who read
                the piece for the first time may have been either.
            final: The last final block.
            read: Up to where the chain was read for the first time.

        Returns:
            What was stored, and whether there is more to be read again.

        Raises:
            Troubled, Unread, BadAnswer, NodesDown: Nothing was read.
            StoreUnavailable, OutcomeUnknown: Nothing may have been stored.
        """


Outcome = Literal["recorded", "unknown", "not_mined", "reverted", "not_ours", "not_read_yet", "disagreement"]

UNCERTAIN: Final[frozenset[Outcome]] = frozenset({"unknown", "not_mined", "not_read_yet", "disagreement"})
"""After these it may come to something else later."""
WORDS: Final[dict[Outcome, str]] = {
    "recorded": "Recorded.",
    "unknown": "No node of this chain knows such a transaction. Is it on another chain?",
    "not_mined": "The transaction waits to be mined. It is found by itself once it is.",
    "reverted": "The transaction was mined and reverted: it moved nothing.",
    "not_ours": "The transaction pays none of the destinations that are registered here.",
    "not_read_yet": "The transaction is in a block that is about to be read, and is found by itself.",
    "disagreement": "The nodes do not agree about the transaction. Try again in a minute.",
}


class MatchResult(msgspec.Struct, frozen=True):
    """What became of a transaction whose id somebody pasted.

    Attributes:
        outcome: For programs.
        words: For people.
        sightings: What the transaction paid, as it is stored now; of any account.
    """

    outcome: Outcome
    words: str
    sightings: tuple[Sighting, ...] = ()

    @classmethod
    def of(cls, outcome: Outcome) -> MatchResult:
        """Of what is not recorded."""
        return cls(outcome, WORDS[outcome])

    @classmethod
    def recorded(cls, sightings: Sequence[Sighting]) -> MatchResult:
        """Of what is stored now; nothing: it is not ours."""
        if not sightings:
            return cls.of("not_ours")
        kinds = ", ".join(sorted({one.kind for one in sightings}))
        return cls("recorded", f"{WORDS['recorded']} It is {kinds}.", tuple(sightings))


class Repair(Protocol):
    """Reads single transactions by hand."""

    async def match(self, tx_id: str) -> MatchResult:
        """Read a transaction and record what it paid; see `Watcher.match`."""
