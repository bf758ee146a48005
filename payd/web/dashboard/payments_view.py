"""What a payment looks like in a list: words and shapes, nothing that a page has to work out.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import msgspec

from payd.actors.simulation import Target, allowed_targets
from payd.core.money import AmountWire, format_units, short_units
from payd.core.payment import Payment
from payd.core.status import Status
from payd.core.text import is_seen
from payd.web.dashboard.visit import Visit
from payd.web.schema import Words


class Mark(msgspec.Struct, frozen=True):
    """A word for a state and the shape beside it: good, bad, wait or soft."""

    word: str
    kind: str


STATUS_WORDS: Final = MappingProxyType(
    {
        Status.REQUIRES_ACTION.value: Mark("Waiting for the buyer", "soft"),
        Status.PROCESSING.value: Mark("Processing", "wait"),
        Status.SUCCEEDED.value: Mark("Succeeded", "good"),
        Status.FAILED.value: Mark("Failed", "bad"),
        Status.EXPIRED.value: Mark("Expired", "soft"),
        Status.CANCELLED.value: Mark("Cancelled", "soft"),
    }
)
"""How each status is called."""


class Move(msgspec.Struct, frozen=True):
    """A simulation that is possible now; `sends` are the events that the webhook hears."""

    to: Target
    label: str
    sends: tuple[str, ...]


_LABELS: Final[dict[Target, str]] = {
    "processing": "Commit funds",
    "succeeded": "Succeed",
    "failed": "Fail",
    "expired": "Expire",
    "cancelled": "Cancel",
    "settled": "Settle",
}


class Row(msgspec.Struct, frozen=True):
    """One line of the list.

    Attributes:
        paid: What the buyer committed, such as `27.13 USDC`; empty: nothing yet, or it came to nothing.
        paid_on: Its network.
        moves: What can be simulated; none in live mode, or for who may not.
    """

    id: str
    version: int
    href: str
    reference: str
    merchant: str
    created_at_ms: int
    amount: str
    paid: str
    paid_on: str
    status: Mark
    settled: bool
    moves: tuple[Move, ...]
    simulate_at: str


def row_of(visit: Visit, payment: Payment, words: Words, merchant: str) -> Row:
    """A payment as a line."""
    came_to_nothing = payment.is_final and payment.status is not Status.SUCCEEDED
    processing = None if came_to_nothing else payment.processing
    paid = None if processing is None else processing.option_amount
    href = visit.to(f"payments/{payment.id}")
    return Row(
        id=payment.id,
        version=payment.version,
        href=href,
        reference=reference_of(payment),
        merchant=merchant,
        created_at_ms=payment.created_at_ms,
        amount=amount_words(payment.amount, words),
        paid="" if paid is None else amount_words(paid, words),
        paid_on="" if paid is None else words.display(paid.unit).network_name or "",
        status=STATUS_WORDS[payment.status.value],
        settled=payment.settled is not None,
        moves=moves_of(visit, payment),
        simulate_at=f"{href}/simulate",
    )


def reference_of(payment: Payment) -> str:
    """What a payment is called here: its reference, or its id where nobody can see that one."""
    return payment.reference_id if is_seen(payment.reference_id) else payment.id


def moves_of(visit: Visit, payment: Payment) -> tuple[Move, ...]:
    """What this person can have happen to a payment: in test mode alone, and only what is allowed."""
    if visit.realm.live or not visit.may("simulate"):
        return ()
    return tuple(Move(to, _LABELS[to], _sends(payment, to)) for to in allowed_targets(payment))


def _sends(payment: Payment, to: Target) -> tuple[str, ...]:
    last = f"payment.{to}"
    if to == "succeeded" and payment.status is Status.REQUIRES_ACTION:
        return ("payment.processing", last)
    return (last,)


def amount_words(amount: AmountWire, words: Words) -> str:
    """`25.00 EUR`, `27.13 USDC`: currencies with all their digits, assets with those that say something."""
    shown = words.display(amount.unit)
    in_words = format_units if amount.unit.startswith("iso4217/") else short_units
    return f"{in_words(int(amount.value), shown.decimals)} {shown.asset_symbol}"
