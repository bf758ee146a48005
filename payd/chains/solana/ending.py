"""What became of a commitment that no transfer shows: whether anything of ours can still land.

An unknown outcome is never failure. A payment ends unpaid when its transaction never left payd, or when the
nodes agree that it failed for good, or that it is nowhere and its blockhash has expired. Where another amount
came than was signed, because a token began to take a fee, that is no failure: it ends as its window closes.

Where payd was stopped for longer than nodes remember, nobody can tell any more. Such a payment expires
`GIVEN_UP_S` after its window, when no node knows its transaction.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
import structlog
from solders.pubkey import Pubkey

from payd.chains.asking import answered
from payd.chains.following import never_left
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
from payd.chains.solana.asking import (
    FIRST_SLOT_CALL,
    height_call,
    listing_call,
    slot_call,
    statuses_call,
    transaction_call,
)
from payd.chains.solana.evidence import Evidence, watched_for
from payd.chains.solana.failures import failure_words
from payd.chains.solana.proof import paid_by
from payd.chains.solana.terms import Terms
from payd.chains.solana.track import Track
from payd.core.failure import BROADCAST_FAILED, PAID_NOTHING
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
# As on EVM chains: half as long as late money is looked for.
GIVEN_UP_S: Final = 12 * 3600

End = PaymentFailed | WindowClosed


class _Said(msgspec.Struct, frozen=True):
    """What one node says of a transaction; all of the rest is nothing where it lacks something.

    Attributes:
        may_pay: Whether it shows it at all, and not that it failed.
        failed: Why it came to nothing, which is final; None: it did not.
        is_other: Whether it paid the merchant, which is final; another amount, unless it may pay.
        is_gone: Whether it is nowhere, and cannot come any more.
        height: Of the newest final block.
        others: Transactions that name the payment and succeeded, and may be the payment.
        is_crowded: Whether more name it than are read here; then none of them is among `others`.
    """

    may_pay: bool = False
    failed: str | None = None
    is_other: bool = False
    is_gone: bool = False
    height: int = -1
    others: frozenset[str] = frozenset()
    is_crowded: bool = False


class _Agreed(NamedTuple):
    """The end that nodes agree on, if none of `others` pays; `waits`: once the window has closed."""

    end: End
    others: frozenset[str]
    waits: bool


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
        stayed = never_left(submission)
        if stayed is not None and others_until is None:
            return stayed
        agreed = await self._evidence.decided(
            _calls(track),
            lambda results: self._said(payment, track, results, now_ms),
            lambda said: self._agreed(said, stayed, others_until),
        )
        if agreed is None:
            return None
        # The buyer's wallet may send another one, as long as it is asked to.
        is_asked = submission is None and isinstance(agreed.end, WindowClosed)
        if (is_asked or agreed.waits) and not _is_over(payment, read):
            return None
        return agreed.end if await self._pay_nothing(track, agreed.others) else None

    def _agreed(
        self, said: Sequence[_Said], stayed: PaymentFailed | None, others_until: int | None
    ) -> _Agreed | None:
        """What as many nodes as must agree say, unless another one shows what may pay.

        Who is behind, or has no history, says nothing: that is in nobody's way.
        """
        if any(one.may_pay for one in said):
            return None
        told = [one for one in said if one.height > (-1 if others_until is None else others_until)]
        enough = self._evidence.witnesses
        end: End | None = stayed if len(told) >= enough else None
        if stayed is None:
            reasons = [one.failed for one in told if one.failed is not None]
            reason = self._evidence.agreed(reasons)
            if reason is None and len(reasons) >= enough and len(said) == self._evidence.nodes:
                # That it failed they agree on, and nobody is left to ask which of them has the words for it.
                reason = reasons[0]
            if reason is not None:
                end = PaymentFailed(reason, BROADCAST_FAILED)
            elif sum(one.is_gone or one.is_other for one in told) + bool(reasons) >= enough:
                # Who forgot what failed says as much: it has not paid, and cannot any more.
                end = WindowClosed()
        others = frozenset[str]().union(*(one.others for one in told))
        waits = any(one.is_crowded or one.is_other for one in told)
        return None if end is None else _Agreed(end, others, waits)

    def _said(self, payment: Payment, track: Track, results: Results, now_ms: int) -> _Said:
        try:
            return self._read(payment, track, results, now_ms)
        except BadAnswer as bad:
            log.debug("chain.bad_answer", chain=str(self._terms.chain), why=str(bad))
            return _Said(may_pay=_shows(track, results))

    def _read(self, payment: Payment, track: Track, results: Results, now_ms: int) -> _Said:
        """Raises BadAnswer where something is missing."""
        height, slot, first = (decode_count(answered(result)) for result in results[:3])
        final, landed = (decode_landed(answered(result), track.tx_id) for result in results[3:5])
        known_at, [status] = decode_statuses(answered(results[5]), 1)
        listed = decode_listing(answered(results[6]))
        is_crowded = len(listed) > LISTED_MAX
        others = frozenset(() if is_crowded else (one.tx_id for one in listed if one.err is None))
        said = _Said(height=height, others=others, is_crowded=is_crowded)
        if final is not None:
            failed, paid = self._failure(track, final), self._paid(track, final)
            may_pay = int(track.value) in paid
            return msgspec.structs.replace(said, failed=failed, may_pay=may_pay, is_other=bool(paid))
        if landed is not None or status is not None:
            return _Said(may_pay=_shows(track, results))
        # Behind one address may be several nodes: one that lags knows no status yet.
        if known_at < slot or track.valid_until_height is None:
            return _Said()
        can_tell = self._remembers(payment, slot, first, now_ms) or _is_given_up(payment, now_ms)
        is_gone = height > track.valid_until_height and can_tell
        return msgspec.structs.replace(said, is_gone=is_gone)

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

        def decide(said: Sequence[Sequence[bool | None]]) -> bool | None:
            if any(True in one for one in said):
                return False
            enough = self._evidence.witnesses
            return True if all(of_one.count(False) >= enough for of_one in zip(*said, strict=True)) else None

        calls = [transaction_call(one, "finalized") for one in wanted]
        found = await self._evidence.decided(
            calls,
            lambda results: [
                self._pays(track, tx_id, result) for tx_id, result in zip(wanted, results, strict=True)
            ],
            decide,
        )
        return found is True

    def _pays(self, track: Track, tx_id: str, result: object) -> bool | None:
        """Whether a node shows that a final transaction pays what it must; None where it does not show it."""
        try:
            landed = decode_landed(answered(result), tx_id)
        except BadAnswer:
            return None
        return None if landed is None else int(track.value) in self._paid(track, landed)


def _is_given_up(payment: Payment, now_ms: int) -> bool:
    """Whether it is long ago that its transaction was of use."""
    assert payment.processing is not None
    since_ms = max(payment.expires_at_ms, payment.processing.processing_at_ms)
    return now_ms >= since_ms + GIVEN_UP_S * 1000


def _shows(track: Track, results: Results) -> bool:
    """Whether a node shows a transaction that did not fail, whatever else it cannot tell."""
    errors: list[object] = []
    for result in results[3:5]:
        with suppress(BadAnswer):
            landed = decode_landed(answered(result), track.tx_id)
            errors += [] if landed is None else [landed.err]
    with suppress(BadAnswer):
        errors += [one.err for one in decode_statuses(answered(results[5]), 1)[1] if one is not None]
    return None in errors


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
