"""A transfer that a chain shows: whether it pays the payment that it is bound to, and what it is if not.

A transfer never changes a payment by itself; what does not pay is kept and shown to people, with the reason.

Source: DESIGN.md, "5. A payment is an actor"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from payd.core.caip import canonical_account, canonical_asset, parse_account, parse_asset
from payd.core.option import Quote
from payd.core.status import OVER, Status

Kind = Literal["matched", "late", "partial", "surplus", "unmatched"]
"""matched: it pays. late: the payment is over, or its quotes are. partial, surplus: another amount than was
asked for, or what is paid already. unmatched: it is for nothing that payd asked for."""


class Sighting(msgspec.Struct, frozen=True):
    """A transfer in a block. Asset and recipient are canonical, `value` is in smallest units."""

    asset: str
    value: int
    recipient: str
    block_at_ms: int


class Claim(msgspec.Struct, frozen=True):
    """The payment that a transfer is bound to.

    Attributes:
        status: Where it stands.
        quotes: Everything that was handed out for it, in any asset, valid or not.
        committed: Asset (canonical) and amount that the buyer committed; None before that.
        held: Whether nothing else pays: a wallet signed it, and payd brings it to the chain, as long as it
            can. What a chain showed, or a wallet told of, may never stay or land there: that holds nobody to
            it.
        paid_by_another: Whether another transfer, that the chain still shows, is matched to it.
    """

    status: Status
    quotes: Sequence[Quote]
    committed: tuple[str, int] | None = None
    held: bool = True
    paid_by_another: bool = False


class Classified(msgspec.Struct, frozen=True):
    """What a transfer is, and why, in a line for people."""

    kind: Kind
    reason: str


def classify(transfer: Sighting, claim: Claim | None) -> Classified:
    """What a transfer is for the payment that it is bound to.

    Args:
        transfer: What the chain shows.
        claim: None where nothing binds it to a payment.
    """
    if claim is None:
        return Classified("unmatched", "Nothing in the transaction binds it to a payment.")
    quotes = [quote for quote in claim.quotes if _is_for(quote, transfer)]
    if not quotes:
        return Classified("unmatched", "The payment was never offered in this asset to this destination.")
    if claim.status in OVER:
        return Classified("late", f"The payment was {claim.status.value} when the transfer was found.")
    if claim.paid_by_another:
        return Classified("surplus", "Another transfer pays for the payment.")
    if claim.status is Status.REQUIRES_ACTION:
        return _against_quotes(transfer, quotes)
    if (transfer.asset, transfer.value) == claim.committed:
        # Whenever it lands: it was checked against its quote.
        return Classified("matched", "It is what the buyer committed.")
    if claim.held:
        return Classified("surplus", "The payment is paid in another asset or amount.")
    return _against_quotes(transfer, quotes)


def _against_quotes(transfer: Sighting, quotes: Sequence[Quote]) -> Classified:
    """While nothing holds the buyer to one: any counts that was valid at the time of the block."""
    valid = [quote for quote in quotes if quote.covers_transfer_at(transfer.block_at_ms)]
    if not valid:
        if transfer.block_at_ms < min(quote.valid_from_ms for quote in quotes):
            return Classified("unmatched", "The transfer is older than everything that was offered.")
        return Classified("late", "No quote was valid any more at the time of the block.")
    if any(quote.settlement_value == transfer.value for quote in valid):
        return Classified("matched", "It pays a quote that was valid at the time of the block.")
    newest = max(valid, key=lambda quote: (quote.valid_from_ms, quote.settlement_value))
    asked = newest.settlement_value
    if transfer.value < asked:
        return Classified(
            "partial", f"It is {asked - transfer.value} smallest units less than was asked for."
        )
    return Classified("surplus", f"It is {transfer.value - asked} smallest units more than was asked for.")


def _is_for(quote: Quote, transfer: Sighting) -> bool:
    asset = canonical_asset(parse_asset(quote.asset))
    destination = canonical_account(parse_account(quote.destination))
    return (asset, destination) == (transfer.asset, transfer.recipient)
