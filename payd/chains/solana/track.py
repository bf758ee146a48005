"""What is noted of a commitment on Solana: what will show it, and what may still bring it about.

Frozen with the commitment. A change of the configuration does not change what was committed under it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import msgspec

from payd.chains.following import Notes
from payd.chains.solana.terms import Commitment
from payd.core.caip import canonical_account, canonical_chain, parse_account, parse_asset
from payd.core.fee import Fee
from payd.core.money import asset_amount
from payd.core.option import Quote
from payd.core.payment import Payment, Processing


class Track(Notes, frozen=True, array_like=True):
    """The notes.

    Attributes:
        reference: The binding that its transaction carries, 32 bytes.
        depth: The commitment at which the payment has succeeded.
        tx_id: The transaction that pays: what we were given to bring, or what the chain showed first.
        valid_until_height: The last block height at which that can land; None: the chain showed it first.
        assigned: The merchant named the transaction; nothing in it has to bind it to the payment.
    """

    reference: bytes
    depth: Commitment
    tx_id: str
    valid_until_height: int | None = None
    assigned: bool = False


def read_track(payment: Payment) -> Track:
    """The notes of a payment that has them.

    Raises:
        msgspec.DecodeError: They are of another kind of chain.
    """
    assert payment.processing is not None
    return notes_of(payment.processing)


def notes_of(processing: Processing) -> Track:
    """The notes of a commitment on this kind of chain.

    Raises:
        msgspec.DecodeError: It is on another kind.
    """
    return msgspec.msgpack.decode(processing.track, type=Track)


def commitment(quote: Quote, track: Track, now_ms: int, *, buyer: str, fee: Fee | None = None) -> Processing:
    """The processing block of a payment whose funds are committed.

    Args:
        quote: What the buyer was asked for.
        track: The notes.
        now_ms: Unix milliseconds of the realm.
        buyer: CAIP-10 of who pays.
        fee: The operator's, if it is in the transaction.
    """
    return Processing(
        processing_at_ms=now_ms,
        option_amount=asset_amount(quote.asset, quote.amount),
        settlement_amount=asset_amount(quote.asset, int(track.value)),
        buyer=buyer,
        chain=str(canonical_chain(parse_asset(quote.asset).chain)),
        fee=fee,
        track=msgspec.msgpack.encode(track),
    )


def recipient_of(quote: Quote) -> str:
    """The canonical CAIP-10 of who is paid."""
    return canonical_account(parse_account(quote.destination))
