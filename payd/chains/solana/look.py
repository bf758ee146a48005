"""What the chain says about a payment now: committed, deep enough, final, or come to nothing.

The store knows what the watcher found, and in which slot. Whatever moves a payment is proven anew, by the
nodes' own data.

Source: DESIGN.md, "5. A payment is an actor"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import msgspec
import structlog

from payd.chains.asking import answered
from payd.chains.base import Found
from payd.chains.following import (
    block_of,
    is_account,
    is_committed,
    is_here,
    later,
    paying,
    proven,
    recipient_of,
    until_final,
)
from payd.chains.rpc import Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.answers import Landed, decode_count, decode_landed
from payd.chains.solana.asking import slot_call, transaction_call
from payd.chains.solana.binding import reference_of
from payd.chains.solana.build import split
from payd.chains.solana.commitments import Commitments
from payd.chains.solana.ending import Endings
from payd.chains.solana.evidence import Evidence, watched_for
from payd.chains.solana.lifetime import lands_until
from payd.chains.solana.proof import paid_by
from payd.chains.solana.terms import Commitment, Terms
from payd.chains.solana.track import notes_of, read_track
from payd.chains.witnesses import Proof
from payd.core.caip import AccountId
from payd.core.option import Quote
from payd.core.payment import (
    FundsCommitted,
    Payment,
    Processing,
    SettlementCompleted,
    TransferConfirmed,
)
from payd.core.status import Status
from payd.store.builds import hash_message, last_height_of
from payd.store.chain_cursors import Cursor, find_cursor
from payd.store.db import Database
from payd.store.options import quotes_in
from payd.store.sightings import Sighting, matched_of
from payd.store.submissions import find_submission
from payd.store.transfers import Follow

log = structlog.get_logger("payd.chains")

# After this a transaction has landed or cannot any more: 150 blocks, skipped slots among them, until final.
LANDS_WITHIN_MS: Final = 120_000


class _Shown(NamedTuple):
    """What nodes show of a transfer: who paid, canonical, and what they paid the operator beside it."""

    sender: str
    fee: int


class Looks:
    """The looks at one chain.

    Args:
        terms: What the operator set.
        rpc: The chain's nodes.
        db: The realm's store.
        commitments: Makes what is stored of what the chain shows first.
        evidence: Proves what moves a payment.
        endings: What becomes of what the chain never shows.
    """

    def __init__(
        self,
        terms: Terms,
        rpc: Rpc,
        db: Database,
        commitments: Commitments,
        evidence: Evidence,
        endings: Endings,
    ) -> None:
        self._terms = terms
        self._name = str(terms.chain)
        self._rpc = rpc
        self._db = db
        self._commitments = commitments
        self._evidence = evidence
        self._endings = endings

    async def look(self, payment: Payment, now_ms: int) -> Found | None:
        """What is new about a payment; None when nothing is.

        Raises:
            ChainUnavailable: Too few nodes answer.
        """
        # Before the transfers: a slot that was read later may have one that is not among them.
        final = self._db.point(find_cursor, self._name, "final")
        matched = self._db.point(matched_of, payment.id)
        row = paying(payment, matched, self._name)
        match payment.status:
            case Status.REQUIRES_ACTION if row is not None:
                return await self._commit(payment, row, now_ms) or await self._take_back(payment, row, final)
            case Status.PROCESSING if row is not None:
                return await self._confirm(payment, row, final, now_ms)
            case Status.PROCESSING if not matched and is_here(payment, self._name):
                return await self._end(payment, final, now_ms)
            case Status.SUCCEEDED if row is not None and payment.settled is None:
                return await self._settle(payment, row)
        return None

    def due_at_ms(self, payment: Payment) -> int | None:
        """When to ask what became of a payment that the chain has not shown; see `Chain.due_at_ms`.

        While it is not known by then, whoever waits for it comes back with each window of due times.
        """
        if payment.status is not Status.PROCESSING or payment.processing is None:
            return None
        return payment.processing.processing_at_ms + LANDS_WITHIN_MS

    async def _commit(self, payment: Payment, row: Sighting, now_ms: int) -> Found | None:
        """A transfer that pays, before any wallet told of it."""
        processing = await self._as_shown(payment, row, now_ms)
        if processing is None:
            return None
        return Found(FundsCommitted(processing), follow=_follow(row, notes_of(processing).depth))

    async def _as_shown(self, payment: Payment, row: Sighting, now_ms: int) -> Processing | None:
        """What a transfer that pays commits its buyer to; None if the nodes do not show it now."""
        shown = await self._read(payment, row)
        if shown is None:
            return None
        quote = self._quote(payment, row)
        if quote is None:
            log.warning("chain.transfer_without_quote", payment_id=payment.id, tx_id=row.tx_id)
            return None
        return await self._commitments.made(
            payment,
            self._as_paid(quote, shown.fee, row),
            row.tx_id,
            await lands_until(self._rpc),
            now_ms,
            buyer=None if is_account(quote.account, shown.sender) else shown.sender,
            assigned=row.assigned,
        )

    async def _take_back(self, payment: Payment, row: Sighting, final: Cursor | None) -> Found | None:
        """A transfer that is not proven: it pays nothing if it is nowhere, now that its slot is final.

        What it seemed to pay is open for another transfer, and for the same one when it lands again.
        """
        if final is None or final.number < row.block_number:
            return None
        if not await self._evidence.deny(row):
            return None
        log.warning("chain.transfer_denied", payment_id=payment.id, chain=self._name, tx_id=row.tx_id)
        return Found(None, denied=row)

    async def _confirm(
        self, payment: Payment, row: Sighting, final: Cursor | None, now_ms: int
    ) -> Found | None:
        """A transfer that pays: whether it has come as far as it must, and what it paid."""
        processing = payment.processing
        if not is_committed(payment, row):
            processing = await self._as_shown(payment, row, now_ms)
        if processing is None:
            return await self._take_back(payment, row, final)
        depth = notes_of(processing).depth
        processing, proof = await proven(
            payment,
            processing,
            partial(self._prove, row),
            partial(self._as_shown, payment, row, now_ms),
            is_signed=not payment.is_only_seen,
        )
        match proof:
            case "deep":
                return Found(TransferConfirmed(row.tx_id, processing), follow=until_final(row))
            case "shallow":
                return later(row, _follow(row, depth))
        return await self._take_back(payment, row, final)

    async def _settle(self, payment: Payment, row: Sighting) -> Found | None:
        """The transfer of a payment that has succeeded: whether nothing can take it back any more."""
        if not is_committed(payment, row):
            return None
        match await self._evidence.prove(row, read_track(payment), "finalized"):
            case "deep":
                return Found(
                    SettlementCompleted(row.tx_id), follow=Follow(row.chain, row.tx_id, block_of(row), None)
                )
            case "shallow":
                return later(row, until_final(row))
        return None

    async def _prove(self, row: Sighting, processing: Processing, payer: str | None) -> Proof:
        track = notes_of(processing)
        return await self._evidence.prove(row, track, track.depth, payer)

    async def _end(self, payment: Payment, final: Cursor | None, now_ms: int) -> Found | None:
        """A payment without a transfer: whether none can come any more."""
        submission = self._db.point(find_submission, payment.id)
        track = read_track(payment)
        own = b"" if submission is None else hash_message(split(submission.raw)[1])
        others = self._db.point(last_height_of, self._name, payment.id, own)
        end = await self._endings.end_of(payment, track, submission, others, final, now_ms)
        return None if end is None else Found(end)

    async def _read(self, payment: Payment, row: Sighting) -> _Shown | None:
        """What the nodes show of a transfer; None if they show no such.

        What one node made up must not commit the buyer to it: what the buyer then pays is another thing, and
        who paid may have it back.
        """
        # How far the node is comes first: while it answers, it goes on.
        return await self._evidence.shown(
            row.tx_id,
            [slot_call("confirmed"), transaction_call(row.tx_id)],
            lambda results: self._shown(payment, row, results[1]),
            lambda results: _has_come_to(row.block_number, results[0]),
        )

    def _shown(self, payment: Payment, row: Sighting, result: object) -> _Shown | None:
        """The same, as one node shows it. Of what a merchant assigned, nothing has to bind it."""
        binding = reference_of(payment.id)
        try:
            landed = decode_landed(answered(result), row.tx_id)
        except BadAnswer as bad:
            log.debug("chain.bad_answer", chain=self._name, why=str(bad))
            return None
        if landed is None or landed.slot != row.block_number:
            return None
        watched = watched_for(row.asset, row.recipient)
        for one in paid_by(self._terms.chain, landed, watched, {(binding, row.asset)}):
            is_bound = one.binding == binding or row.assigned
            if (one.account_index, one.value) == (row.log_index, row.value) and is_bound:
                return _Shown(one.sender, self._fee_in(landed, row.asset))
        return None

    def _fee_in(self, landed: Landed, asset: str) -> int:
        fee = self._terms.fee
        if fee is None:
            return 0
        watched = watched_for(asset, str(AccountId(self._terms.chain, fee.address)))
        return sum(one.value for one in paid_by(self._terms.chain, landed, watched, set()))

    def _quote(self, payment: Payment, row: Sighting) -> Quote | None:
        """What was asked for that a transfer pays; what held at its time comes first."""
        exact = [
            quote
            for quote in self._db.point(quotes_in, payment.id, row.asset)
            if recipient_of(quote) == row.recipient and quote.settlement_value == row.value
        ]
        return min(
            exact, key=lambda quote: not quote.covers_transfer_at(row.block_time_s * 1000), default=None
        )

    def _as_paid(self, quote: Quote, fee: int, row: Sighting) -> Quote:
        """The quote, without the operator's part where the transaction has not that."""
        taken = quote.amount - quote.settlement_value
        if self._terms.fee is None or fee >= taken:
            return quote
        log.warning("chain.fee_left_out", payment_id=quote.payment_id, tx_id=row.tx_id)
        return msgspec.structs.replace(quote, amount=quote.settlement_value, due=None)


def _has_come_to(slot: int, result: object) -> bool:
    """Whether a node has what was confirmed in this slot, by its answer; not if it gives none."""
    try:
        return decode_count(answered(result), "the slot") >= slot
    except BadAnswer:
        return False


def _follow(row: Sighting, depth: Commitment) -> Follow:
    """When a transfer is to be looked at for this depth."""
    if depth == "finalized":
        return until_final(row)
    return Follow(row.chain, row.tx_id, block_of(row), "depth", row.block_number)
