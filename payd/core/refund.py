"""What a merchant's own wallet is asked to send so that a buyer has the money back.

payd holds nobody's funds: it can say what is to be paid back and to whom, and look on the chain afterwards.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from payd.core.caip import canonical_account, canonical_asset, parse_account, parse_asset
from payd.core.errors import InvalidParams, PaymentNotSucceeded
from payd.core.money import ASSET_PREFIX
from payd.core.payment import Payment
from payd.core.status import Status

NOT_TO_BUYER: Final = "the transaction pays nothing of the payment's asset to the buyer's account"
TOO_OLD: Final = "the transaction is older than the payment"
"""What is wrong with a transaction that a merchant names as a refund, on every chain."""
ANOTHERS: Final = (
    "The transaction is recorded as the refund of {}, of the same buyer. If it paid both back, leave txId"
    " out, and name it in the note."
)


class Repayment(msgspec.Struct, frozen=True):
    """A transfer that a wallet is to make. All texts are canonical.

    Attributes:
        chain: CAIP-2.
        asset: CAIP-19.
        amount: Smallest units; all that the buyer paid, the fee too. A merchant may send less.
        to: CAIP-10.
    """

    chain: str
    asset: str
    amount: int
    to: str


def repayment_of(payment: Payment) -> Repayment:
    """What pays a payment back.

    Raises:
        PaymentNotSucceeded: It was not paid.
        InvalidParams: Nobody knows who paid it.
    """
    if payment.status is not Status.SUCCEEDED:
        raise PaymentNotSucceeded(
            f"The payment is {payment.status.value}; only a succeeded one can be refunded."
        )
    processing = payment.processing
    assert processing is not None, "a succeeded payment was paid with something"
    if processing.buyer is None:
        raise InvalidParams("The buyer's account is not known; ask the buyer where to send the money.")
    return repayment(
        processing.option_amount.unit.removeprefix(ASSET_PREFIX),
        int(processing.option_amount.value),
        processing.buyer,
    )


def check_own(payment: Payment, others: Iterable[Payment]) -> None:
    """Refuse a transaction that paid the same buyer back for another payment, in the same asset.

    One may pay many buyers back. What it brought one of them is not counted twice.

    Args:
        payment: Whose refund it is said to be.
        others: Those whose refund it is already.

    Raises:
        InvalidParams: It is one of theirs.
    """
    way = _way_back(payment)
    for other in others:
        if way is not None and other.id != payment.id and _way_back(other) == way:
            raise InvalidParams(ANOTHERS.format(other.id))


def as_written(tx_id: str) -> str:
    """The id of a transaction as its chain writes it: a hash in lower case, a signature as it is."""
    return tx_id.lower() if tx_id.startswith("0x") else tx_id


def _way_back(payment: Payment) -> tuple[str, str] | None:
    """In which asset a payment is paid back and to whom, both canonical; None where nobody knows."""
    if payment.processing is None or payment.processing.buyer is None:
        return None
    found = repayment_of(payment)
    return found.asset, found.to


def repayment(asset: str, amount: int, sender: str) -> Repayment:
    """What sends a transfer back to whom it came from, such as one that was late.

    Args:
        asset: CAIP-19.
        amount: What came, smallest units.
        sender: CAIP-10.
    """
    known = parse_asset(asset)
    key, to = canonical_asset(known), canonical_account(parse_account(sender))
    # A token of a chain is paid on that chain, whatever the account was called there.
    assert to.startswith(f"{key.partition('/')[0]}:"), "an asset and its sender are on one chain"
    return Repayment(key.partition("/")[0], key, amount, to)
