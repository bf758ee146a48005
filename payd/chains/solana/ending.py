"""What became of a commitment that no transfer shows: whether anything of ours can still land.

An unknown outcome is never failure. A payment ends unpaid when its transaction never left payd, or when the
nodes agree that it failed for good, or that it is nowhere and its blockhash has expired.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

import msgspec
import structlog
from solders.pubkey import Pubkey

from payd.chains.asking import answered
from payd.chains.rpc import Call
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.chains.solana.answers import (
    Landed,
    decode_count,
    decode_landed,
    decode_listing,
    decode_statuses,
)
from payd.chains.solana.asking import height_call, listing_call, slot_call, statuses_call, transaction_call
from payd.chains.solana.evidence import FIRST_SLOT_CALL, Evidence, watched_for
from payd.chains.solana.failures import failure_words
from payd.chains.solana.proof import paid_by
from payd.chains.solana.terms import Terms
from payd.chains.solana.track import Track
from payd.core.failure import BROADCAST_FAILED, NOT_BROUGHT, PAID_NOTHING
from payd.core.payment import Payment, PaymentFailed, WindowClosed
from payd.store.chain_cursors import Cursor
from payd.store.submissions import StoredSubmission

log = structlog.get_logger("payd.chains")

# Whoever knows a reference can name it in any transaction; so many are read for one that pays. Where more do,
# the watcher's reading of all of them has to do, which it ends as the window closes.
LISTED_MAX: Final = 20
# Slots do not come as regularly as their average, and may get shorter one day.
SLOTS_ROOM: Final = 2
SLOTS_MORE: Final = 1000

End = PaymentFailed | WindowClosed


class _Said(msgspec.Struct, frozen=True):
    """What one node says of a transaction.

    Attributes:
        failed: Why it came to nothing, which is final; None: it did not.
        is_gone: Whether it is nowhere, and cannot come any more.
        height: Of the newest final block.
        others: Transactions that name the payment and succeeded, and may be the payment.
        is_crowded: Whether more name it than are read here; then none of them is among `others`.
    """

    failed: str | None = None
    is_gone: bool = False
    height: int = 0
    others: frozenset[str] = frozenset()
    is_crowded: bool = False


_NOTHING: Final = _Said()


class Endings:
    """The endings of commitments on one chain.

    Args:
        terms: What the operator set.
        evidence: Its nodes.
    """

    def __init__(self, terms: Terms, evidence: Evidence) -> None:
        self._terms = terms
        self._evidence = evidence

    async def end_of(
        self,
        payment: Payment,
        track: Track,
        submission: StoredSubmission | None,
        others_until: int | None,
        read: Cursor | None,
        now_ms: int,
    ) -> End | None:
        """How a payment ends of whose transfer the chain showed nothing; None while it may still come.

        Args:
            payment: A processing one.
            track: Its notes.
            submission: What we bring to the chain for it; None: the buyer's wallet does.
            others_until: The last block height at which anything else can land that was built for it.
            read: Up to where what is final was read. No transfer that pays is in it.
            now_ms: Unix milliseconds.

        Raises:
            ChainUnavailable: Too few nodes answer.
        """
        stayed = _stayed(submission)
        if stayed is not None and others_until is None:
            return stayed
        answers = await self._evidence.ask(_calls(track))
        said = [self._said(payment, track, results, now_ms) for _, results in answers]
        if any(one.height <= (others_until or -1) for one in said):
            return None
        if stayed is not None:
            return stayed
        failed = said[0].failed
        if failed is not None and all(one.failed == failed for one in said):
            return PaymentFailed(failed, BROADCAST_FAILED)
        if not all(one.is_gone for one in said):
            return None
        # The buyer's wallet may send another one, as long as it is asked to.
        may_be_paid = submission is None or any(one.is_crowded for one in said)
        if may_be_paid and not _is_over(payment, read):
            return None
        others = frozenset[str]().union(*(one.others for one in said))
        return WindowClosed() if await self._pay_nothing(track, others) else None

    def _said(self, payment: Payment, track: Track, results: Results, now_ms: int) -> _Said:
        try:
            height, slot, first = (decode_count(answered(result)) for result in results[:3])
            final = decode_landed(answered(results[3]), track.tx_id)
            if final is not None:
                return _Said(failed=self._failure(track, final), height=height)
            if decode_landed(answered(results[4]), track.tx_id) is not None:
                return _NOTHING
            known_at, statuses = decode_statuses(answered(results[5]), 1)
            listed = decode_listing(answered(results[6]))
        except BadAnswer as bad:
            log.debug("chain.bad_answer", chain=str(self._terms.chain), why=str(bad))
            return _NOTHING
        is_crowded = len(listed) > LISTED_MAX
        others = frozenset(() if is_crowded else (one.tx_id for one in listed if one.err is None))
        # Behind one address may be several nodes: one that lags knows no status yet.
        is_unknown = statuses == [None] and known_at >= slot
        if not is_unknown or track.valid_until_height is None:
            return _NOTHING
        is_gone = height > track.valid_until_height and self._remembers(payment, slot, first, now_ms)
        return _Said(is_gone=is_gone, height=height, others=others, is_crowded=is_crowded)

    def _failure(self, track: Track, landed: Landed) -> str | None:
        """Why a transaction that is final has come to nothing; None where it paid."""
        if landed.err is not None:
            return failure_words(landed.err, landed.message)
        return None if self._paid(track, landed) else PAID_NOTHING

    def _paid(self, track: Track, landed: Landed) -> list[int]:
        """What a transaction pays the merchant for this payment, be it too much or too little."""
        watched = watched_for(track.asset, track.recipient)
        paid = paid_by(self._terms.chain, landed, watched, {(track.reference, track.asset)})
        return [one.value for one in paid if one.binding is not None or track.assigned]

    def _remembers(self, payment: Payment, slot: int, first: int, now_ms: int) -> bool:
        """Whether a node has all slots since the payment was committed: else it may have forgotten."""
        assert payment.processing is not None
        passed_ms = max(0, now_ms - payment.processing.processing_at_ms)
        return slot - first >= passed_ms * SLOTS_ROOM // self._terms.block_ms + SLOTS_MORE or first == 0

    async def _pay_nothing(self, track: Track, tx_ids: frozenset[str]) -> bool:
        """Whether as many nodes as must agree show that none of these transactions pays what it must."""
        if not tx_ids:
            return True
        wanted = sorted(tx_ids)
        for _, results in await self._evidence.ask([transaction_call(one, "finalized") for one in wanted]):
            for tx_id, result in zip(wanted, results, strict=True):
                try:
                    landed = decode_landed(answered(result), tx_id)
                except BadAnswer:
                    return False
                if landed is None or int(track.value) in self._paid(track, landed):
                    return False
        return True


def _stayed(submission: StoredSubmission | None) -> PaymentFailed | None:
    """The failure of what is dead and never left us."""
    if submission is None or submission.state != "dead" or submission.left_us:
        return None
    return PaymentFailed(f"{NOT_BROUGHT}{submission.reason}", BROADCAST_FAILED)


def _calls(track: Track) -> list[Call]:
    # How far a node is comes first: what it knows may only be newer than that.
    return [
        height_call("finalized"),
        slot_call("finalized"),
        FIRST_SLOT_CALL,
        transaction_call(track.tx_id, "finalized"),
        transaction_call(track.tx_id, "confirmed"),
        statuses_call([track.tx_id]),
        listing_call(Pubkey(track.reference), limit=LISTED_MAX + 1),
    ]


def _is_over(payment: Payment, read: Cursor | None) -> bool:
    """Whether all that came while the payment could be paid was read."""
    return read is not None and read.time_s * 1000 > payment.expires_at_ms
