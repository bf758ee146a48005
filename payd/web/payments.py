"""Payments over REST, on both merchant paths.

Source: SPEC.md, "POST /v1/payments"; SPEC.md, "POST /v1/merchant/payment";
DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from payd.core.caip import MalformedCaip, canonical_asset, canonical_chain, parse_asset, parse_chain
from payd.core.errors import InvalidParams, Issue, ParamsValidation, SealBroken, StoreUnavailable
from payd.core.event import iso_ms
from payd.core.money import MINOR_UNITS, parse_fiat
from payd.core.payment import CANCELLED_BY_MERCHANT, Checkout, Payment
from payd.core.refund import as_written, check_own
from payd.core.status import Status, merchant_word
from payd.core.text import is_one_line
from payd.core.url import is_https_url
from payd.entropy import new_id
from payd.store.collected import buyers_answers
from payd.store.db import Tx
from payd.store.idempotency import Outcome, find_replay, once
from payd.store.merchants import named_merchants
from payd.store.payments import PaymentFilter, list_payments
from payd.store.refunds import insert_refund, refunded_by, refunds_of
from payd.store.transfers import transfers_of_payment
from payd.web import query
from payd.web.acts import act_of
from payd.web.call import Answer, Call
from payd.web.cursor import decode_cursor, encode_cursor
from payd.web.idempotent import check_nothing, idempotent, outcome_answer
from payd.web.lookup import own_payment
from payd.web.refunds import check_refund, check_words
from payd.web.schema import (
    POLL_IN_MS,
    CheckoutIn,
    CollectedOut,
    CreatePayment,
    MerchantPaymentStatus,
    PaymentCreated,
    PaymentCreatedBoth,
    PaymentPage,
    PaymentRead,
    PaymentStatus,
    RefundOut,
    cancelled_body,
    poll_in_ms,
)
from payd.web.waiting import wait_for_change

log = structlog.get_logger("payd.payments")

REFERENCE_MAX: Final = 255
LIFETIME_MAX_S: Final = 24 * 3600
LIST_DEFAULT: Final = 50
LIST_MAX: Final = 200

_STATUSES: Final = tuple(status.value for status in Status)


class RecordRefund(msgspec.Struct, rename="camel"):
    """A refund that the merchant made from its own wallet."""

    payment_id: str
    tx_id: str | None = None
    note: str | None = None


class RefundRecorded(msgspec.Struct, rename="camel"):
    """The payment whose refund is recorded."""

    payment_id: str


async def create(call: Call) -> Answer:
    """POST /v1/payments → 201."""
    return await _create(call, _created_both)


async def create_for_merchant(call: Call) -> Answer:
    """POST /v1/merchant/payment → 201, in the older words."""
    return await _create(call, _created)


async def status(call: Call) -> Answer:
    """GET /v1/payments/{id}/status."""
    wait_ms = query.poll_ms(call)
    payment = await wait_for_change(call, own_payment(call), wait_ms)
    info = call.realm.words.info(payment)
    return Answer.json(PaymentStatus(payment.status.value, payment.is_final, poll_in_ms(payment), info))


async def status_for_merchant(call: Call) -> Answer:
    """GET /v1/merchant/payment/{id}/status, in the older words."""
    wait_ms = query.poll_ms(call)
    payment = await wait_for_change(call, own_payment(call), wait_ms)
    return Answer.json(MerchantPaymentStatus(merchant_word(payment.status), payment.is_final))


async def read(call: Call) -> Answer:
    """GET /v1/payments/{id}."""
    payment = own_payment(call)
    transfers = call.realm.db.point(transfers_of_payment, payment.id)
    detail = call.realm.words.detail(payment, transfers)
    recorded = call.realm.db.point(refunds_of, [payment.id]).get(payment.id)
    shown = PaymentRead(
        **msgspec.structs.asdict(detail),
        collected_data=_collected(call, payment),
        refund=recorded and RefundOut(recorded.tx_id, recorded.note, iso_ms(recorded.at_ms)),
    )
    return Answer.json(shown)


async def cancel(call: Call) -> Answer:
    """POST /v1/payments/{id}/cancel."""
    payment = own_payment(call)
    check_nothing(call)
    request = idempotent(call, None)
    outcome = await call.realm.payments.cancel(
        payment.id,
        CANCELLED_BY_MERCHANT,
        request,
        cancelled_body,
        also=act_of(call, "payment.cancel", payment.id),
    )
    return outcome_answer(outcome)


async def list_all(call: Call) -> Answer:
    """GET /v1/payments."""
    chosen = _filter(call)
    limit = query.limit_in(call, LIST_MAX, LIST_DEFAULT)
    cursor = query.one(call, "cursor")
    order = f"{chosen.sort_by} {'desc' if chosen.descending else 'asc'}"
    after = None if cursor is None else _place_in(order, cursor)
    words = call.realm.words

    def work(tx: Tx) -> PaymentPage:
        rows = list_payments(tx, chosen, after, limit + 1)
        merchants = named_merchants(tx, sorted({payment.merchant_id for _, payment in rows}))
        data = [words.item(payment, merchants.get(payment.merchant_id)) for _, payment in rows[:limit]]
        if len(rows) <= limit:
            return PaymentPage(data, None)
        seq, last = rows[limit - 1]
        value = last.created_at_ms if chosen.sort_by == "date" else last.value
        return PaymentPage(data, encode_cursor(order, value, seq))

    return Answer.json(await call.realm.db.read(work))


def _place_in(order: str, cursor: str) -> tuple[int, int]:
    shown, value, seq = decode_cursor(cursor, (str, int, int))
    if shown != order:
        raise InvalidParams(
            "cursor is of a list in another order; ask with that list's sortBy and sortDir,"
            " or leave it out to start at the beginning."
        )
    return value, seq


async def refund(call: Call) -> Answer:
    """POST /v1/refunds: record a refund that the merchant made from its own wallet."""
    body = call.json(RecordRefund)
    request = idempotent(call, body)
    check_words(body.tx_id, body.note)
    call.params["id"] = body.payment_id
    payment = own_payment(call)
    # Before the chain is asked: what was answered is answered again, whatever a node knows by now.
    if (replay := call.realm.db.point(find_replay, request)) is not None:
        return outcome_answer(replay)
    await check_refund(call.realm, payment, body.tx_id)
    now_ms = call.realm.clock.now_ms()
    tx_id = None if body.tx_id is None else as_written(body.tx_id)
    also = act_of(call, "payment.refund", payment.id, tx_id=tx_id)

    def work(tx: Tx) -> Outcome:
        # Succeeded is final: what was read before the step is still so inside it.
        insert_refund(tx, payment.id, tx_id, body.note, now_ms)
        if tx_id is not None:
            check_own(payment, refunded_by(tx, payment.account_id, tx_id))
        if also is not None:
            also(tx)
        return Outcome(200, msgspec.json.encode(RefundRecorded(payment.id)))

    return outcome_answer(await call.realm.db.write(once, request, work))


def _collected(call: Call, payment: Payment) -> CollectedOut | None:
    """What its buyer answered; a lost seal key must not take the rest of the payment from the merchant."""
    found = call.realm.db.point(buyers_answers, payment)
    if found is None:
        return None
    try:
        fields = found.open(call.realm.seal)
    except SealBroken as broken:
        log.error("payment.answers_unreadable", payment_id=payment.id, error=repr(broken))
        return CollectedOut(None, iso_ms(found.collected_at_ms))
    return CollectedOut(fields, iso_ms(found.collected_at_ms))


async def _create(call: Call, render: Callable[[Call, Payment], bytes]) -> Answer:
    body = call.json(CreatePayment)
    currency, value = parse_fiat(body.amount.unit, body.amount.value)
    if not 1 <= len(body.reference_id) <= REFERENCE_MAX or not is_one_line(body.reference_id):
        raise ParamsValidation.of(Issue("referenceId", f"1 to {REFERENCE_MAX} printable characters."))
    request = idempotent(call, body)

    async def begin() -> Answer:
        draft = _draft(call, body, currency, value)
        also = act_of(call, "payment.create", draft.id)
        outcome = await call.realm.payments.create(draft, request, render(call, draft), also=also)
        answer = outcome_answer(outcome)
        if outcome.original_request is None:
            answer.about = draft.id
        return answer

    try:
        return await begin()
    except (InvalidParams, StoreUnavailable):
        # What was answered before is answered again: its `expiresAt` may be over, or the disk full.
        if (replay := call.realm.db.point(find_replay, request)) is None:
            raise
        return outcome_answer(replay)


def _draft(call: Call, body: CreatePayment, currency: str, value: int) -> Payment:
    now_ms = call.realm.clock.now_ms()
    assert call.merchant_id is not None, "the route requires it"
    return Payment(
        id=new_id("pay_l" if call.realm.live else "pay_t", now_ms, call.house.entropy),
        account_id=call.account_id,
        merchant_id=call.merchant_id,
        reference_id=body.reference_id,
        currency=currency,
        value=value,
        created_at_ms=now_ms,
        expires_at_ms=_expires_at_ms(call, body.expires_at, now_ms),
        updated_at_ms=now_ms,
        checkout=redirects(body.checkout),
    )


def _expires_at_ms(call: Call, wanted_s: int | None, now_ms: int) -> int:
    if wanted_s is None:
        # Whole seconds on the wire, so whole seconds inside: what is told is what is kept.
        return -(-(now_ms + call.house.payment_lifetime_s * 1000) // 1000) * 1000
    if not now_ms < wanted_s * 1000 <= now_ms + LIFETIME_MAX_S * 1000:
        now = f"{'it' if call.realm.live else 'by the test clock it'} is {now_ms // 1000}"
        raise InvalidParams(f"expiresAt must be in the future, at most 24 hours, in Unix seconds; {now}.")
    return wanted_s * 1000


def redirects(checkout: CheckoutIn | None) -> Checkout | None:
    """Both redirect URLs, or none: one that is missing or not https switches redirects off.

    Source: SPEC.md, "POST /v1/merchant/payment".
    """
    if checkout is None:
        return None
    urls = (checkout.success_url, checkout.error_url)
    good = [url for url in urls if url and is_https_url(url)]
    return Checkout(*good) if len(good) == len(urls) else None


def _created(call: Call, payment: Payment) -> bytes:
    return msgspec.json.encode(
        PaymentCreated(
            payment_id=payment.id,
            gateway_url=gateway_url(call.house.base_url, payment.id),
            status=merchant_word(payment.status),
            expires_at=payment.expires_at_ms // 1000,
            is_final=payment.is_final,
            poll_in_ms=POLL_IN_MS,
        )
    )


def _created_both(call: Call, payment: Payment) -> bytes:
    url = gateway_url(call.house.base_url, payment.id)
    return msgspec.json.encode(
        PaymentCreatedBoth(
            payment_id=payment.id,
            gateway_url=url,
            status=payment.status.value,
            expires_at=payment.expires_at_ms // 1000,
            is_final=payment.is_final,
            poll_in_ms=POLL_IN_MS,
            id=payment.id,
            url=url,
        )
    )


def gateway_url(base_url: str, payment_id: str) -> str:
    """The buyer's page. Made from configuration only, never from a request header."""
    return f"{base_url}/pay/{payment_id}"


def _filter(call: Call) -> PaymentFilter:
    sort_by = query.choice(call, "sortBy", ("date", "amount")) or "date"
    currency = query.one(call, "currency")
    if currency is not None and currency not in MINOR_UNITS:
        raise InvalidParams("currency must be an ISO 4217 code such as USD.")
    if sort_by == "amount" and currency is None:
        raise InvalidParams(
            "sortBy=amount needs one currency, such as currency=USD: amounts are not converted."
        )
    return PaymentFilter(
        account_id=call.account_id,
        start_ms=query.instant_ms(call, "startTs"),
        end_ms=query.instant_ms(call, "endTs"),
        statuses=query.many(call, "status", _STATUSES),
        merchants=_merchants(call),
        asset=_asset(query.one(call, "asset")),
        networks=_networks(call),
        reference_prefix=_reference_prefix(call),
        currency=currency,
        sort_by="amount" if sort_by == "amount" else "date",
        descending=(query.choice(call, "sortDir", ("asc", "desc")) or "desc") == "desc",
    )


def _merchants(call: Call) -> tuple[str, ...] | None:
    """The merchants asked for, within those that the key may see."""
    asked = query.many(call, "merchantId")
    for merchant_id in asked:
        call.check_merchant(merchant_id)
    if call.merchant_id is not None:
        return (call.merchant_id,) if call.merchant_id in asked or not asked else ()
    if asked:
        return asked
    return None if call.merchants is None else tuple(sorted(call.merchants))


def _asset(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return canonical_asset(parse_asset(text))
    except MalformedCaip as malformed:
        raise InvalidParams(f"asset: {malformed}") from None


def _networks(call: Call) -> tuple[str, ...]:
    try:
        return tuple(str(canonical_chain(parse_chain(text))) for text in query.many(call, "network"))
    except MalformedCaip as malformed:
        raise InvalidParams(f"network: {malformed}, such as eip155:8453.") from None


def _reference_prefix(call: Call) -> str | None:
    prefix = query.one(call, "referenceId")
    if prefix is not None and len(prefix) > REFERENCE_MAX:
        raise InvalidParams(f"referenceId may have at most {REFERENCE_MAX} characters.")
    return prefix
