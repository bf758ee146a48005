"""What a payment looks like to its buyer: buyer-safe, in words, ready for the template.

Source: DESIGN.md, "11. Pages"; SPEC.md, "POST /v1/merchant/payment".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from payd.actors.simulation import Target, allowed_targets
from payd.core.event import iso_ms
from payd.core.money import exponent, format_units
from payd.core.payment import Payment
from payd.core.status import Status
from payd.web.checkout.words import say
from payd.web.schema import Words

MOVES: Final[tuple[Target, ...]] = ("succeeded", "failed", "expired", "cancelled")
"""The moves of the Test Console, in its order."""

# Fewer digits than this after the point look like no amount of money.
ASSET_DIGITS_MIN: Final = 2


@dataclass(frozen=True, slots=True)
class Move:
    """A button of the Test Console."""

    to: Target
    label: str
    allowed: bool


@dataclass(frozen=True, slots=True)
class Back:
    """The way back to the shop, with the payment's id in the query; `host` is what the buyer is told."""

    url: str
    host: str


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant for people and for scripts."""

    iso: str
    text: str


@dataclass(frozen=True, slots=True)
class PaymentView:
    """What the template shows. Times are Unix milliseconds of the payment's realm."""

    id: str
    live: bool
    status: str
    version: int
    is_final: bool
    merchant: str
    number: str
    currency: str
    reference: str
    expires_at_ms: int
    now_ms: int
    left: str
    title: str
    paid: str | None
    tx_id: str | None
    date: Moment | None
    was_sent: bool
    failure: str | None
    back: Back | None
    moves: tuple[Move, ...]


def view_of(payment: Payment, words: Words, merchant: str, *, live: bool, now_ms: int) -> PaymentView:
    """A payment as its page shows it now."""
    number, currency = fiat_number(payment), payment.currency
    amount = f"{number} {currency}"
    return PaymentView(
        id=payment.id,
        live=live,
        status=payment.status.value,
        version=payment.version,
        is_final=payment.is_final,
        merchant=merchant,
        number=number,
        currency=currency,
        reference=payment.reference_id,
        expires_at_ms=payment.expires_at_ms,
        now_ms=now_ms,
        left=time_left(payment.expires_at_ms - now_ms),
        title=_title(payment, amount, merchant),
        paid=_paid(payment, words),
        tx_id=payment.success.tx_id if payment.success else None,
        date=moment(payment.success.succeeded_at_ms) if payment.success else None,
        was_sent=payment.processing is not None,
        failure=payment.failed.reason if payment.failed else None,
        back=way_back(payment),
        moves=() if live or payment.is_final else _moves(payment),
    )


def fiat_number(payment: Payment) -> str:
    """The amount in major units, grouped, with all its decimals: `1,250.00`, or `2,500` yen."""
    whole, point, decimals = format_units(payment.value, exponent(payment.currency)).partition(".")
    return f"{int(whole):,}{point}{decimals}"


def asset_number(value: int, decimals: int) -> str:
    """An on-chain amount in major units without the zeros that say nothing: `12.50`, `0.004125`."""
    whole, point, digits = format_units(value, decimals).partition(".")
    digits = digits.rstrip("0").ljust(min(ASSET_DIGITS_MIN, decimals), "0")
    return f"{int(whole):,}{point}{digits}"


def time_left(left_ms: int) -> str:
    """`14:59`, or `1:00:00` from an hour on; never below zero."""
    minutes, seconds = divmod(max(0, left_ms // 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def moment(at_ms: int) -> Moment:
    """An instant in UTC; a script shows it in the buyer's own zone."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return Moment(iso_ms(at_ms), f"{at.day} {at:%b %Y, %H:%M} UTC")


def way_back(payment: Payment) -> Back | None:
    """Where a final page leads: the merchant's URL, its query and fragment kept, `payment_id` added."""
    if payment.checkout is None or not payment.is_final:
        return None
    paid = payment.status is Status.SUCCEEDED
    try:
        url = urlsplit(payment.checkout.success_url if paid else payment.checkout.error_url)
    except ValueError:
        return None  # such as half an IPv6 address: a browser would not go there either
    query = f"{url.query}&payment_id={payment.id}" if url.query else f"payment_id={payment.id}"
    return Back(urlunsplit(url._replace(query=query)), url.netloc)


def _title(payment: Payment, amount: str, merchant: str) -> str:
    if payment.status is Status.REQUIRES_ACTION:
        return say("title.requires_action", amount=amount, merchant=merchant)
    heading = say(f"{payment.status.value}.heading")
    return say("title", heading=heading, amount=amount, merchant=merchant)


def _paid(payment: Payment, words: Words) -> str | None:
    if payment.processing is None:
        return None
    amount = words.amount(payment.processing.option_amount)
    shown = amount.display
    text = f"{asset_number(int(amount.value), shown.decimals)} {shown.asset_symbol}"
    return text if shown.network_name is None else say("paid.on", amount=text, network=shown.network_name)


def _moves(payment: Payment) -> tuple[Move, ...]:
    allowed = allowed_targets(payment)
    return tuple(Move(to, say(f"move.{to}"), to in allowed) for to in MOVES)
