"""One payment: what it is, what happened to it, and what can be done with it.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import msgspec

from payd.actors.simulation import TARGETS
from payd.core.caip import parse_account
from payd.core.errors import Forbidden, InvalidParams, NotFound, PaymentNotFound
from payd.core.money import WORTH_DECIMALS, round_worth, short_units
from payd.core.payment import Payment, cancelled_words
from payd.core.status import Status
from payd.core.timeline import Acted, Refunded
from payd.store.deliveries import find_delivery
from payd.store.endpoints import find_endpoint
from payd.store.timeline import Timeline, read_timeline
from payd.store.users import names_of
from payd.web.call import Answer
from payd.web.checkout.progress import explorer_of
from payd.web.dashboard.payment_story import deliveries_of, lines_of
from payd.web.dashboard.payments_view import STATUS_WORDS, Mark, Move, amount_words, moves_of, reference_of
from payd.web.dashboard.visit import Visit
from payd.web.lookup import who_is_paid
from payd.web.payments import gateway_url
from payd.web.qr import qr_svg
from payd.web.schema import Words


class Fact(msgspec.Struct, frozen=True):
    """A line of the summary.

    Attributes:
        kind: `text`, `code` (copied whole), or `time`.
        href: Somebody else's page about it.
    """

    name: str
    value: str = ""
    kind: str = "text"
    at_ms: int = 0
    href: str = ""


class Shown(msgspec.Struct, frozen=True):
    """A payment as its page shows it."""

    id: str
    version: int
    amount: str
    reference: str
    status: Mark
    settled: bool
    facts: tuple[Fact, ...]
    link: str
    qr: str


class Acts(msgspec.Struct, frozen=True):
    """What this person can do with it now; where it is empty, they cannot."""

    moves: tuple[Move, ...]
    simulate: str
    cancel: str
    refund: str
    match: str
    resend: str


async def page(visit: Visit) -> Answer:
    """GET /d/{mode}/payments/{payment}: everything about it, kept up to date."""
    story = await own_story(visit)
    payment, words = story.payment, visit.realm.words
    name, _ = who_is_paid(visit.realm, payment)
    actors = sorted({one.actor for one in story.entries if isinstance(one, Acted)})
    people = visit.house.office.point(names_of, actors)
    refunded = any(isinstance(one, Refunded) for one in story.entries)
    values: dict[str, Any] = {
        "p": shown_of(visit, payment, words, name),
        "lines": lines_of(story.entries, words, people),
        "is_whole": story.is_whole,
        "deliveries": deliveries_of(story.entries, visit.realm.db.point(find_endpoint, visit.account_id)),
        "acts": acts_of(visit, payment, refunded=refunded),
        "collected": await _collected(visit, payment),
        "may_see_buyers": visit.may("view_buyers"),
    }
    mark = hashlib.sha256(repr(values).encode()).hexdigest()[:16]
    values |= {"mark": mark, "back": visit.to("payments")}
    values["requests"] = visit.to("log", request=payment.id) if visit.may("view_log") else ""
    values["forget"] = kept_under(payment) if refunded else ""
    here = visit.to(f"payments/{payment.id}")
    if not visit.is_fragment:
        return visit.page("payment.html", here=here, **values)
    same = visit.query("mark") == mark
    return visit.page("payment_live.html", same=same, **values)


async def cancel(visit: Visit) -> Answer:
    """POST /d/{mode}/payments/{payment}/cancel."""
    payment = own(visit)
    await visit.ask("POST", f"/v1/payments/{payment.id}/cancel")
    return visit.redirect(f"payments/{payment.id}", "The payment is cancelled.")


async def simulate(visit: Visit) -> Answer:
    """POST /d/{mode}/payments/{payment}/simulate: in test mode alone.

    Raises:
        Forbidden: The payment is real.
    """
    payment = own(visit)
    if visit.realm.live:
        raise Forbidden("Only test payments can be simulated.")
    to = visit.typed("to")
    if to not in TARGETS:
        raise InvalidParams("Choose what is to happen.")
    await visit.ask("POST", f"/v1/test/payments/{payment.id}/simulate", {"to": to})
    said = f"Simulated. The payment is {visit.realm.payments.find(payment.id).status.value}."
    if visit.typed("from") == "list":
        return visit.redirect("payments", f"{reference_of(payment)}: {said}")
    return visit.redirect(f"payments/{payment.id}", said)


async def resend(visit: Visit) -> Answer:
    """POST /d/{mode}/payments/{payment}/resend: one of its webhooks, once more."""
    payment = own(visit)
    delivery_id = visit.typed("delivery")
    row = visit.realm.db.point(find_delivery, visit.account_id, delivery_id)
    if row is None or row.payment_id != payment.id:
        raise NotFound("There is no such delivery.")
    sent = await visit.ask("POST", f"/v1/webhooks/deliveries/{delivery_id}/resend")
    last = sent["attemptLog"][-1] if sent["attemptLog"] else None
    answered = "" if last is None else f" Your server answered {last['status'] or last['errorClass']}."
    return visit.redirect(f"payments/{payment.id}", f"{row.event_type} was sent again.{answered}")


def own(visit: Visit) -> Payment:
    """The payment in the path.

    Raises:
        PaymentNotFound: Not of this account and mode.
    """
    payment = visit.realm.payments.find(visit.params["payment"])
    if payment.account_id != visit.account_id:
        raise PaymentNotFound("There is no such payment.")
    return payment


async def own_story(visit: Visit) -> Timeline:
    """The payment in the path, and what happened to it.

    Raises:
        PaymentNotFound: Not of this account and mode.
    """
    story = await visit.realm.db.read(read_timeline, visit.account_id, own(visit).id)
    if story is None:
        raise PaymentNotFound("There is no such payment.")
    return story


def shown_of(visit: Visit, payment: Payment, words: Words, merchant: str) -> Shown:
    """The payment's head and summary; the link and its code as long as it can be paid."""
    link = gateway_url(visit.house.base_url, payment.id)
    is_open = payment.status is Status.REQUIRES_ACTION
    return Shown(
        id=payment.id,
        version=payment.version,
        amount=amount_words(payment.amount, words),
        reference=reference_of(payment),
        status=STATUS_WORDS[payment.status.value],
        settled=payment.settled is not None,
        facts=tuple(facts_of(payment, words, merchant)),
        link=link,
        qr=qr_svg(link) if is_open else "",
    )


def kept_under(payment: Payment) -> str:
    """The name under which a browser keeps that a wallet was asked for a refund, until it is recorded."""
    return f"payd-refund-{payment.id}"


def acts_of(visit: Visit, payment: Payment, *, refunded: bool) -> Acts:
    """What is possible for this payment, and allowed to this person."""
    here = visit.to(f"payments/{payment.id}")
    moves_it = visit.may("move_payments")
    is_open = payment.status is Status.REQUIRES_ACTION
    pays_back = payment.status is Status.SUCCEEDED and not refunded and visit.may("record_refunds")
    return Acts(
        moves=moves_of(visit, payment),
        simulate=f"{here}/simulate",
        cancel=f"{here}/cancel" if is_open and moves_it else "",
        refund=f"{here}/refund" if pays_back else "",
        match=f"{here}/match" if visit.realm.live and moves_it else "",
        resend=f"{here}/resend" if visit.may("resend_webhooks") else "",
    )


def facts_of(payment: Payment, words: Words, merchant: str) -> list[Fact]:
    """The summary, line by line; what is not known yet has none."""
    facts = [
        Fact("Asked", amount_words(payment.amount, words)),
        Fact("Merchant", merchant or payment.merchant_id),
        Fact("Created", kind="time", at_ms=payment.created_at_ms),
        Fact("Can be paid until", kind="time", at_ms=payment.expires_at_ms),
    ]
    facts += _paid_facts(payment, words)
    if payment.failed is not None:
        facts.append(Fact("Failed because", payment.failed.reason))
    if payment.cancelled is not None:
        facts.append(Fact("Cancelled", cancelled_words(payment.cancelled.reason)))
    if payment.settled is not None:
        facts.append(Fact("Settled", amount_words(payment.settled.amount, words)))
    elif payment.status is Status.SUCCEEDED:
        facts.append(Fact("Settled", "Not yet: the transfer is not final on its chain."))
    if payment.checkout is not None:
        facts.append(Fact("Goes back to", payment.checkout.success_url))
    facts.append(Fact("Payment id", payment.id, "code"))
    return facts


def _paid_facts(payment: Payment, words: Words) -> list[Fact]:
    processing = payment.processing
    if processing is None:
        return []
    paid = amount_words(processing.option_amount, words)
    network = words.display(processing.option_amount.unit).network_name or processing.chain
    succeeded = payment.status is Status.SUCCEEDED
    facts = [Fact("Paid" if succeeded else "Committed", f"{paid} on {network}")]
    if processing.fee is not None and (succeeded or not payment.is_final):
        facts.append(Fact("Fee", amount_words(processing.fee.total_amount, words)))
        facts.append(Fact("You receive", amount_words(processing.settlement_amount, words)))
    rate = rate_words(payment, words)
    if rate:
        facts.append(Fact("Rate", rate))
    if processing.buyer is not None:
        facts.append(Fact("Buyer", parse_account(processing.buyer).address, "code"))
    tx_id = None if payment.success is None else payment.success.tx_id
    if tx_id is not None:
        explorer = explorer_of(processing.chain, tx_id)
        facts.append(Fact("Transaction", tx_id, "code", href="" if explorer is None else explorer.url))
    return facts


def rate_words(payment: Payment, words: Words) -> str:
    """`1 ETH = 2500 USD`: what one of the asset was worth; empty where that is no number."""
    assert payment.processing is not None
    amount = payment.processing.option_amount
    shown = words.display(amount.unit)
    value, exponent = int(amount.value), words.display(payment.amount.unit).decimals
    if value <= 0:
        return ""
    rounded = round_worth(Fraction(payment.value * 10**shown.decimals, value * 10**exponent))
    digits = short_units(rounded, WORTH_DECIMALS)
    return f"1 {shown.asset_symbol} = {digits} {payment.currency}" if rounded else ""


async def _collected(visit: Visit, payment: Payment) -> tuple[tuple[str, str], ...] | None:
    """What the buyer told of themselves, for who may see it; None where nothing was asked."""
    if not visit.may("view_buyers"):
        return None
    found = (await visit.ask("GET", f"/v1/payments/{payment.id}"))["collectedData"]
    if found is None:
        return None
    if found["fields"] is None:
        return (("Sealed with another key", "cannot be read"),)
    return tuple((one["name"], one["value"]) for one in found["fields"])
