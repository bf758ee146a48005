"""What nodes say of transactions that can land by their blockhash alone, and whether they agree on an end.

Nobody's silence is believed by itself: a transaction is nowhere once its blockhash has expired in what is
final, and the same answer knows all slots up to there, from those on in which it could land first. Of a node
that does not remember these, nobody knows whether it forgot it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import structlog
import trio

from payd.chains.asking import answered
from payd.chains.rpc import Call, Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.chains.solana.answers import Status, decode_count, decode_statuses, first_in
from payd.chains.solana.asking import FIRST_SLOT_CALL, STATUSES_MAX, height_call, slot_call, statuses_call
from payd.chains.solana.ending import GIVEN_UP_S
from payd.chains.solana.lifetime import BLOCKHASH_BLOCKS
from payd.chains.witnesses import needed

log = structlog.get_logger("payd.relayer")

End = Literal["landed", "failed", "nowhere"]
"""landed: final, and did what it says. failed: final, and did nothing. nowhere: it cannot land any more."""

Told = End | Literal["forgotten"]
"""forgotten: it cannot land any more, and the node cannot tell whether it did."""

# Where one node says that it is final and another does not know it: that one forgot it, or stands still.
DOUBT_S: Final = 60.0
# Some slots have no block; in the long run more have one than not.
SLOTS_A_BLOCK: Final = 2

_HEADS: Final[tuple[Call, ...]] = (height_call("finalized"), slot_call("finalized"))


class Word(NamedTuple):
    """What one node says.

    Attributes:
        height: Of the newest final block.
        statuses: By transaction; None: the node knows nothing of it.
        slot: Of the same block.
        at: The slot up to which the statuses know everything.
        first: The slot from which on they do; 0 where nothing old was asked for.
    """

    height: int
    slot: int
    at: int
    statuses: Mapping[str, Status | None]
    first: int = 0

    def end_of(self, tx_id: str, valid_until_height: int) -> Told | None:
        """How a transaction has ended by this; None while it has not."""
        status = self.statuses[tx_id]
        if status is None:
            if self.at < self.slot or self.height <= valid_until_height:
                return None
            return "nowhere" if self._remembers(valid_until_height) else "forgotten"
        if status.commitment != "finalized":
            return None
        return "landed" if status.err is None else "failed"

    def _remembers(self, valid_until_height: int) -> bool:
        """Whether the node has all slots in which such a transaction can have landed."""
        blocks = self.height - valid_until_height + BLOCKHASH_BLOCKS
        return self.first == 0 or self.slot - self.first >= blocks * SLOTS_A_BLOCK


async def ask_one(rpc: Rpc, tx_ids: Sequence[str], *, search_history: bool) -> Word:
    """What the first node says that answers with sense.

    Raises:
        NodesDown: None answers.
        BadAnswer: None with sense.
    """
    try:
        return _word(tx_ids, await rpc.batch(_calls(tx_ids, search_history)))
    except BadAnswer:
        words = await ask_all(rpc, tx_ids)
        if not words:
            raise
        return words[0]


async def ask_all(rpc: Rpc, tx_ids: Sequence[str]) -> list[Word]:
    """What every healthy node says, with all that it remembers; who makes no sense is left out."""
    words = []
    for node, results in await rpc.ask_all(_calls(tx_ids, True)):
        try:
            words.append(_word(tx_ids, results))
        except BadAnswer as bad:
            log.debug("submitter.bad_answer", node=node.name, why=str(bad))
    return words


async def ask_enough(rpc: Rpc, tx_ids: Sequence[str]) -> list[Word]:
    """The same for an end: nothing, where fewer nodes make sense than must agree on a payment."""
    words = await ask_all(rpc, tx_ids)
    return words if len(words) >= needed(rpc) else []


def agreed_end(words: Sequence[Word], tx_id: str, valid_until_height: int, enough: int) -> End | None:
    """The end on which so many agree, and all that know one; None where there is none.

    Who is behind or has forgotten it knows none, and is in nobody's way. What any of them has at all is not
    nowhere; but of what failed on one and is nowhere on another, both say that it did nothing.
    """
    ends = (word.end_of(tx_id, valid_until_height) for word in words)
    said = [end for end in ends if end is not None and end != "forgotten"]
    if len(said) >= enough and set(said) == {"failed", "nowhere"}:
        return "failed"
    if len(said) < enough or len(set(said)) != 1:
        return None
    is_known = any(word.statuses[tx_id] is not None for word in words)
    return None if said[0] == "nowhere" and is_known else said[0]


def is_forgotten(words: Sequence[Word], tx_id: str, valid_until_height: int) -> bool:
    """Whether a transaction cannot land any more, and none shows that it did, and one may have forgotten."""
    said = {word.end_of(tx_id, valid_until_height) for word in words}
    return "forgotten" in said and said <= {"forgotten", "nowhere", "failed"}


class Doubts:
    """Transactions that nodes do not agree on, each since when.

    Args:
        rpc: They.
        ends: Those that are believed after `DOUBT_S`, if a single node says so.
    """

    def __init__(self, rpc: Rpc, *ends: End) -> None:
        self._enough = needed(rpc)
        self._ends = ends
        self._since_s: dict[str, float] = {}

    def end_of(self, words: Sequence[Word], tx_id: str, valid_until_height: int, age_ms: int) -> Told | None:
        """How a transaction has ended by these; None while that is not known.

        Of what they forgot it never is: that is given up at the age of `GIVEN_UP_S`.
        """
        end = agreed_end(words, tx_id, valid_until_height, self._enough)
        if end is not None:
            return end
        if age_ms >= GIVEN_UP_S * 1000 and is_forgotten(words, tx_id, valid_until_height):
            return "forgotten"
        ends = {word.end_of(tx_id, valid_until_height) for word in words}
        said = [one for one in self._ends if one in ends]
        if not said:
            return None
        since_s = self._since_s.setdefault(tx_id, trio.current_time())
        return said[0] if trio.current_time() - since_s >= DOUBT_S else None

    def keep(self, tx_ids: Collection[str]) -> None:
        """Forget all others."""
        self._since_s = {tx_id: since_s for tx_id, since_s in self._since_s.items() if tx_id in tx_ids}


def _calls(tx_ids: Sequence[str], search_history: bool) -> list[Call]:
    statuses = [statuses_call(chunk, search_history=search_history) for chunk in _chunks(tx_ids)]
    # What a node forgets between two calls, it says that it has not.
    return [*_HEADS, *statuses, *([FIRST_SLOT_CALL] if search_history else [])]


def _chunks(tx_ids: Sequence[str]) -> list[Sequence[str]]:
    return [tx_ids[start : start + STATUSES_MAX] for start in range(0, len(tx_ids), STATUSES_MAX)]


def _word(tx_ids: Sequence[str], results: Results) -> Word:
    chunks = _chunks(tx_ids)
    height, slot = (decode_count(answered(result)) for result in results[: len(_HEADS)])
    told, first = results[len(_HEADS) :][: len(chunks)], results[len(_HEADS) + len(chunks) :]
    statuses: dict[str, Status | None] = {}
    oldest = []
    for chunk, result in zip(chunks, told, strict=True):
        at, found = decode_statuses(answered(result), len(chunk))
        oldest.append(at)
        statuses.update(zip(chunk, found, strict=True))
    return Word(height, slot, min(oldest, default=0), statuses, *map(first_in, first))
