"""What is stored of a commitment, which transfer pays it, and when it is looked at again; of every chain.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import msgspec

from payd.chains.base import Found
from payd.chains.witnesses import Proof
from payd.core.caip import canonical_account, canonical_chain, parse_account, parse_asset
from payd.core.failure import BROADCAST_FAILED, NOT_BROUGHT
from payd.core.fee import Fee
from payd.core.money import asset_amount
from payd.core.option import Quote
from payd.core.payment import Payment, PaymentFailed, Processing
from payd.store.relays import Job
from payd.store.sightings import Sighting
from payd.store.submissions import StoredSubmission
from payd.store.transfers import Follow


def paying(payment: Payment, matched: Iterable[Sighting], chain: str) -> Sighting | None:
    """The transfer that pays it, on this chain; of several the one that it was told to be paid by."""
    rows = [row for row in matched if row.chain == chain]
    told = None if payment.success is None else payment.success.tx_id
    return next((row for row in rows if row.tx_id == told), next(iter(rows), None))


class Notes(msgspec.Struct, frozen=True, array_like=True):
    """What the notes of a commitment begin with on every kind of chain.

    Attributes:
        asset: Canonical CAIP-19.
        recipient: Canonical CAIP-10.
        value: What reaches the recipient, in smallest units, as text: it may have 256 bits.
    """

    asset: str
    recipient: str
    value: str


def commitment(quote: Quote, notes: Notes, now_ms: int, *, buyer: str, fee: Fee | None = None) -> Processing:
    """The processing block of a payment whose funds are committed.

    Args:
        quote: What the buyer was asked for.
        notes: What is noted of it on its kind of chain.
        now_ms: Unix milliseconds of the realm.
        buyer: CAIP-10 of who pays.
        fee: The operator's, if it is in what was signed.
    """
    return Processing(
        processing_at_ms=now_ms,
        option_amount=asset_amount(quote.asset, quote.amount),
        settlement_amount=asset_amount(quote.asset, int(notes.value)),
        buyer=buyer,
        chain=str(canonical_chain(parse_asset(quote.asset).chain)),
        fee=fee,
        track=msgspec.msgpack.encode(notes),
    )


def recipient_of(quote: Quote) -> str:
    """The canonical CAIP-10 of who is paid."""
    return canonical_account(parse_account(quote.destination))


def never_left(owed: Job | StoredSubmission | None) -> PaymentFailed | None:
    """The failure of what is dead and never left us; None of anything else."""
    if owed is None or owed.state != "dead" or owed.left_us:
        return None
    return PaymentFailed(f"{NOT_BROUGHT}{owed.reason}", BROADCAST_FAILED)


def is_here(payment: Payment, chain: str) -> bool:
    """Whether it was committed on this chain: what came of that, no other one can tell."""
    return payment.processing is not None and payment.processing.chain == chain


def is_committed(payment: Payment, row: Sighting) -> bool:
    """Whether a transfer is what the buyer was committed to.

    It is not where what was seen first was never mined, or a reorg took it, and the buyer paid in another
    asset, maybe on another chain; or where the same was paid to another address that was offered.
    """
    if payment.processing is None or not is_here(payment, row.chain):
        return False
    notes = msgspec.msgpack.decode(payment.processing.track, type=Notes)
    return (row.asset, row.recipient, str(row.value)) == (notes.asset, notes.recipient, notes.value)


def is_account(account: str, canonical: str) -> bool:
    """Whether an account, CAIP-10 as anybody may write it, is the one of this canonical name."""
    return canonical_account(parse_account(account)) == canonical


async def proven(
    payment: Payment,
    processing: Processing,
    prove: Callable[[Processing, str | None], Awaitable[Proof]],
    show: Callable[[], Awaitable[Processing | None]],
    *,
    is_signed: bool,
) -> tuple[Processing, Proof]:
    """What a transfer paid, and whether that is proven, and who paid.

    Args:
        payment: What it pays.
        processing: What it seems to have paid.
        prove: Whether that is so; with CAIP-10 of who must have paid, or whoever.
        show: What nodes show of it now.
        is_signed: Whether the payment was committed by what its buyer signed for us.

    Raises:
        ChainUnavailable: Too few nodes answer.
    """
    proof = await prove(processing, processing.buyer)
    if proof != "none" or processing is not payment.processing:
        return processing, proof
    # Who was committed may not be who paid: one node told so alone, or a stranger signed or named it first.
    again = await show()
    if again is not None and again.buyer != processing.buyer:
        return again, await prove(again, again.buyer)
    # Where nodes only contradict each other on who paid, it is who signed.
    return processing, await prove(processing, None) if is_signed else proof


def until_final(row: Sighting) -> Follow:
    """Look again when the transfer's block is final."""
    return Follow(row.chain, row.tx_id, block_of(row), "final")


def later(row: Sighting, follow: Follow) -> Found | None:
    """Only the time of the next look, if it is another than what is stored."""
    if (row.awaits, row.look_at) == (follow.awaits, follow.look_at):
        return None
    return Found(None, follow=follow)


def block_of(row: Sighting) -> str:
    """The block that shows it."""
    assert row.block_hash is not None, "the chain shows it"
    return row.block_hash
