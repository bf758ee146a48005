"""What the chain says about a payment now: committed, deep enough, final, or come to nothing.

The store knows what the watcher found, and where. Whatever moves a payment is proven anew, by the nodes' own
data; what only waits for blocks is noted, and looked at again when these have come.

Source: DESIGN.md, "5. A payment is an actor"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import msgspec
import structlog

from payd.chains.base import Found
from payd.chains.defaults import Depth
from payd.chains.evm.actions import Sending, read_actions
from payd.chains.evm.answers import Transaction, decode_receipt, decode_transaction
from payd.chains.evm.binding import authorization_nonce, payment_tag
from payd.chains.evm.commitment import Commitments
from payd.chains.evm.ending import Endings
from payd.chains.evm.evidence import Evidence, has_come_to, watched_for
from payd.chains.evm.proof import paid_by
from payd.chains.evm.terms import Terms
from payd.chains.evm.track import Told, notes_of, read_track
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
from payd.chains.rpc import Call, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.chains.witnesses import Proof
from payd.core.caip import parse_account
from payd.core.option import Quote
from payd.core.payment import (
    FundsCommitted,
    Payment,
    Processing,
    SettlementCompleted,
    TransferConfirmed,
)
from payd.core.status import Status
from payd.store.chain_cursors import Cursor, find_cursor
from payd.store.db import Database
from payd.store.options import quotes_in
from payd.store.relays import find_job
from payd.store.sightings import Sighting, matched_of, sightings_in
from payd.store.transfers import Follow

log = structlog.get_logger("payd.chains")

# How often a tag is asked for that moves by itself.
SAFE_EVERY_MS: Final = 12_000
# An authorization cannot land once a block is this old; final blocks come later, and are asked for then.
EXPIRY_MARGIN_MS: Final = 60_000
# A transaction that a node showed is mined by then, or somebody should ask what became of it.
SENT_GRACE_MS: Final = 15 * 60_000


class _Shown(NamedTuple):
    """What nodes show of a transfer: who paid, canonical, in which transaction, and what binds it."""

    sender: str
    transaction: Transaction
    binding: bytes | None


class Looks:
    """The looks at one chain.

    Args:
        terms: What the operator set.
        db: The realm's store.
        commitments: Makes what is stored of what the chain shows first.
        evidence: Proves what moves a payment.
        endings: What becomes of what the chain never shows.
    """

    def __init__(
        self,
        terms: Terms,
        db: Database,
        commitments: Commitments,
        evidence: Evidence,
        endings: Endings,
    ) -> None:
        self._terms = terms
        self._name = str(terms.chain)
        self._db = db
        self._commitments = commitments
        self._evidence = evidence
        self._endings = endings

    async def look(self, payment: Payment, now_ms: int) -> Found | None:
        """What is new about a payment; None when nothing is.

        Raises:
            ChainUnavailable: Too few nodes answer.
        """
        # Before the transfers: a block that was read later may have one that is not among them.
        final = self._db.point(find_cursor, self._name, "final")
        matched = self._db.point(matched_of, payment.id)
        row = paying(payment, matched, self._name)
        match payment.status:
            case Status.REQUIRES_ACTION if row is not None:
                return await self._commit(payment, row, now_ms) or await self._take_back(payment, row, final)
            case Status.PROCESSING if row is not None:
                return await self._confirm(payment, row, final, now_ms)
            case Status.PROCESSING if not matched and is_here(payment, self._name):
                return await self._end(payment, final)
            case Status.SUCCEEDED if row is not None and payment.settled is None:
                return await self._settle(payment, row)
        return None

    def due_at_ms(self, payment: Payment) -> int | None:
        """When to ask what became of a payment that the chain has not shown; see `Chain.due_at_ms`."""
        if payment.status is not Status.PROCESSING or payment.processing is None:
            return None
        valid_until_s = read_track(payment).valid_until_s
        if valid_until_s is not None:
            return valid_until_s * 1000 + EXPIRY_MARGIN_MS
        return max(payment.expires_at_ms, payment.processing.processing_at_ms + SENT_GRACE_MS)

    async def _commit(self, payment: Payment, row: Sighting, now_ms: int) -> Found | None:
        """A transfer that pays, before any wallet told of it."""
        processing = await self._as_shown(payment, row, now_ms)
        if processing is None:
            return None
        follow = _follow(row, notes_of(processing).depth, row.block_number)
        return Found(FundsCommitted(processing), follow=follow)

    async def _as_shown(self, payment: Payment, row: Sighting, now_ms: int) -> Processing | None:
        """What a transfer that pays commits its buyer to; None if the nodes do not show it now."""
        tag, nonce = payment_tag(payment.id), authorization_nonce(payment.id)
        shown = await self._read(row, {(tag, row.asset), (nonce, row.asset)})
        if shown is None:
            return None
        sender, transaction, binding = shown
        quotes = self._quotes(payment, row)
        payer = parse_account(sender)
        for quote in quotes:
            legs = read_actions(quote.actions)
            if binding == nonce and not isinstance(legs, Sending) and legs[0].value == row.value:
                buyer = _buyer(quote, sender)
                return await self._commitments.signed(payment, quote, legs, now_ms, buyer=buyer)
        exact = next((quote for quote in quotes if quote.settlement_value == row.value), None)
        if exact is None:
            log.warning("chain.transfer_without_quote", payment_id=payment.id, tx_id=row.tx_id)
            return None
        # What reaches the merchant is all of its part, also where the operator's was to come by a signature.
        exact = msgspec.structs.replace(exact, amount=row.value, due=None)
        # Sent through somebody else's hands it may come again by other hands; what a merchant named, may not.
        assigned = binding is None
        direct = assigned or (binding == tag and transaction.sender == payer.address)
        told = Told(row.tx_id, transaction.sender, transaction.nonce if direct else None, assigned)
        return await self._commitments.sent(payment, exact, told, now_ms, buyer=_buyer(exact, sender))

    async def _take_back(self, payment: Payment, row: Sighting, final: Cursor | None) -> Found | None:
        """A transfer that is not proven: it pays nothing if it never was in its block, now that it is final.

        One node showed it, and others had none: what it seemed to pay is open for another transfer.
        """
        if final is None or final.number < row.block_number:
            return None
        if not await self._evidence.deny(row, self._terms.final):
            return None
        log.warning("chain.transfer_denied", payment_id=payment.id, chain=self._name, tx_id=row.tx_id)
        return Found(None, denied=row)

    async def _confirm(
        self, payment: Payment, row: Sighting, final: Cursor | None, now_ms: int
    ) -> Found | None:
        """A transfer that pays: whether it lies deep enough, and what it paid."""
        processing = payment.processing
        if not is_committed(payment, row):
            processing = await self._as_shown(payment, row, now_ms)
        if processing is None:
            return await self._take_back(payment, row, final)
        track = notes_of(processing)
        head = self._db.point(find_cursor, self._name, "head")
        at = row.block_number if head is None else head.number
        wait = _follow(row, track.depth, at + self._blocks_in(SAFE_EVERY_MS))
        if isinstance(track.depth, int) and wait.look_at is not None and at < wait.look_at:
            return later(row, wait)
        processing, proof = await proven(
            payment,
            processing,
            partial(self._prove, row),
            partial(self._as_shown, payment, row, now_ms),
            is_signed=track.told is None and not payment.is_only_seen,
        )
        match proof:
            case "deep":
                return Found(TransferConfirmed(row.tx_id, processing), follow=until_final(row))
            case "shallow":
                return later(row, wait)
        return await self._take_back(payment, row, final)

    async def _prove(self, row: Sighting, processing: Processing, payer: str | None) -> Proof:
        track = notes_of(processing)
        return await self._evidence.prove(row, track, track.depth, payer)

    async def _end(self, payment: Payment, final: Cursor | None) -> Found | None:
        """A payment without a transfer: whether none can come any more."""
        track, job = read_track(payment), self._db.point(find_job, payment.id)
        seen = [] if track.told is None else self._db.point(sightings_in, self._name, track.told.tx_hash)
        is_recorded = any(one.block_hash is not None for one in seen)
        end = await self._endings.end_of(payment, track, job, final, is_recorded)
        return None if end is None else Found(end)

    async def _settle(self, payment: Payment, row: Sighting) -> Found | None:
        """The transfer of a payment that has succeeded: whether nothing can take it back any more."""
        if not is_committed(payment, row):
            return None
        match await self._evidence.prove(row, read_track(payment), self._terms.final):
            case "deep":
                return Found(
                    SettlementCompleted(row.tx_id), follow=Follow(row.chain, row.tx_id, block_of(row), None)
                )
            case "shallow":
                return later(row, until_final(row))
        return None

    async def _read(self, row: Sighting, known: set[tuple[bytes, str]]) -> _Shown | None:
        """What the nodes show of a transfer; None if they show no such.

        What one node made up must not commit the buyer to it: what the buyer then pays is another thing, and
        who paid may have it back.
        """
        # How far the node is comes first: while it answers, it goes on.
        calls: list[Call] = [
            ("eth_blockNumber",),
            ("eth_getTransactionByHash", row.tx_id),
            ("eth_getTransactionReceipt", row.tx_id),
        ]
        return await self._evidence.shown(
            row.tx_id,
            calls,
            lambda results: self._shown(row, known, results[1:]),
            lambda results: has_come_to(row.block_number, results[0]),
        )

    def _shown(self, row: Sighting, known: set[tuple[bytes, str]], results: Results) -> _Shown | None:
        """What one node shows of it. Of what a merchant assigned, nothing has to bind the two."""
        if any(isinstance(result, RpcError) for result in results):
            return None
        try:
            transaction, receipt = decode_transaction(results[0]), decode_receipt(results[1])
            if transaction is None or receipt is None:
                return None
            watched = watched_for(row.asset, row.recipient)
            paid = paid_by(self._terms.chain, transaction, receipt, watched, known, row.log_index)
        except BadAnswer as bad:
            log.debug("chain.bad_answer", chain=self._name, why=str(bad))
            return None
        for one in paid:
            if one.log_index == row.log_index and (one.binding is not None or row.assigned):
                return _Shown(one.sender, transaction, one.binding)
        return None

    def _quotes(self, payment: Payment, row: Sighting) -> list[Quote]:
        """What was asked for where the transfer went, in its asset; what held at its time comes first."""
        quotes = [
            quote
            for quote in self._db.point(quotes_in, payment.id, row.asset)
            if recipient_of(quote) == row.recipient
        ]
        return sorted(quotes, key=lambda quote: not quote.covers_transfer_at(row.block_time_s * 1000))

    def _blocks_in(self, time_ms: int) -> int:
        return max(1, time_ms // self._terms.block_ms)


def _follow(row: Sighting, depth: Depth, safe_look_at: int) -> Follow:
    """When a transfer is to be looked at for this depth."""
    if depth == "finalized":
        return until_final(row)
    look_at = row.block_number + depth - 1 if isinstance(depth, int) else safe_look_at
    return Follow(row.chain, row.tx_id, block_of(row), "depth", look_at)


def _buyer(quote: Quote, sender: str) -> str | None:
    """Who paid; None where it is the account that was asked."""
    return None if is_account(quote.account, sender) else sender
