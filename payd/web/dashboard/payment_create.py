"""The form that creates a payment: what a person types, made into what the API is asked.

Source: DESIGN.md, "11. Pages"; SPEC.md, "POST /v1/payments".
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from payd.core.errors import InvalidParams, NotFound
from payd.core.idempotency import scope_of
from payd.core.money import MINOR_UNITS, VALUE_DIGITS_MAX
from payd.core.scenario import SCENARIOS, find_scenario
from payd.core.url import is_https_url
from payd.store.first_steps import first_steps
from payd.store.idempotency import IdempotentRequest, find_answers
from payd.store.merchants import account_of_merchant, list_merchants, standing
from payd.web.call import Answer
from payd.web.dashboard.payments_filter import MERCHANTS_MAX
from payd.web.dashboard.visit import Visit

COMMON: Final = ("USD", "EUR", "GBP", "CHF", "JPY")
"""Offered first; the others follow by their code."""

LIFETIMES: Final = (("15", "15 minutes"), ("60", "1 hour"), ("360", "6 hours"), ("1440", "24 hours"))

PATH: Final = "/v1/payments"

_AMOUNT: Final = re.compile(r"([0-9]{1,40})(?:[.,]([0-9]{1,4}))?")


async def page(visit: Visit) -> Answer:
    """GET /d/{mode}/payments/create: the form."""
    merchants, _ = await visit.realm.db.read(
        lambda tx: list_merchants(tx, visit.account_id, status="active", limit=MERCHANTS_MAX)
    )
    codes = (*COMMON, *(code for code in sorted(MINOR_UNITS) if code not in COMMON))
    return visit.page(
        "payment_create.html",
        merchants=tuple((one.id, one.name) for one in merchants),
        currencies=tuple((code, code) for code in codes),
        lifetimes=LIFETIMES,
        action=visit.to("payments"),
        back=visit.to("payments"),
        merchants_page=visit.to("merchants"),
        scenario_action=""
        if visit.realm.live or not visit.may("simulate")
        else visit.to("payments/scenario"),
        scenarios=[(one.name, one.words) for one in SCENARIOS],
    )


async def run_scenario(visit: Visit) -> Answer:
    """POST /d/{mode}/payments/scenario: a payment that tells a story, in test mode only; on to it.

    Raises:
        PaydError: As the API refuses; in live mode always.
    """
    scenario = find_scenario(visit.typed("scenario"))
    if scenario is None:
        raise InvalidParams("Choose a scenario.")
    merchant_id = visit.typed("merchant") or None
    if merchant_id and visit.realm.db.point(account_of_merchant, merchant_id) != visit.account_id:
        raise NotFound("There is no such merchant.")
    can_pay = visit.realm.db.point(first_steps, visit.account_id).destination
    if not can_pay and not visit.realm.live:
        raise InvalidParams("No merchant can be paid yet. First say on its page where its money goes.")
    made = await visit.ask("POST", f"/v1/test/scenarios/{scenario.name}", merchant_id=merchant_id)
    told = ", ".join(one.type.removeprefix("payment.") for one in scenario.tells)
    return visit.redirect(f"payments/{made['paymentId']}", f"{scenario.words} Your server is told: {told}.")


async def create(visit: Visit) -> Answer:
    """POST /d/{mode}/payments: on to the new payment.

    Raises:
        PaydError: Something typed is not possible, or the API refuses.
    """
    currency = visit.typed("currency")
    body: dict[str, Any] = {
        "referenceId": visit.typed("reference"),
        "amount": {"unit": f"iso4217/{currency}", "value": str(minor_units(visit.typed("amount"), currency))},
    }
    minutes = _minutes(visit.typed("lifetime"))
    urls = visit.typed("success_url"), visit.typed("error_url")
    if any(urls):
        if not all(is_https_url(url) for url in urls):
            raise InvalidParams("Give both addresses to go back to, each with https://, or neither.")
        body["checkout"] = {"successUrl": urls[0], "errorUrl": urls[1]}
    merchant_id = visit.typed("merchant")
    if not merchant_id:
        raise InvalidParams("Choose a merchant.")
    account_id, _, has_destination = visit.realm.db.point(standing, merchant_id) or ("", "", False)
    if account_id != visit.account_id:
        raise NotFound("There is no such merchant.")
    if not has_destination:
        raise InvalidParams("This merchant cannot be paid yet. First say on its page where its money goes.")
    body["expiresAt"] = _expires_at_s(visit, merchant_id, minutes)
    made = await visit.ask("POST", PATH, body, merchant_id=merchant_id)
    return visit.redirect(f"payments/{made['paymentId']}", "The payment is created.")


def _expires_at_s(visit: Visit, merchant_id: str, minutes: int) -> int:
    """Until when it can be paid; of a form that is sent again, until when it could the first time."""
    now_ms = visit.realm.clock.now_ms()
    sent = IdempotentRequest(
        visit.account_id,
        scope_of("POST", PATH, merchant_id, visit.typed("once")),
        b"",
        visit.request_id,
        now_ms,
    )
    before = visit.realm.db.point(find_answers, [sent]).get(sent.place)
    if before is not None:
        payment = visit.realm.payments.find(msgspec.json.decode(before.body)["paymentId"])
        expires_at_s = payment.expires_at_ms // 1000
        # It was asked for in the same second, or at the end of the one before.
        if expires_at_s - payment.created_at_ms // 1000 in (60 * minutes, 60 * minutes - 1):
            return expires_at_s
    return now_ms // 1000 + 60 * minutes


def minor_units(text: str, currency: str) -> int:
    """`12.50` of a currency with two decimals is 1250.

    Raises:
        InvalidParams: It is no amount, has more decimals than the currency, or more digits than an amount; or
            a comma could part thousands, or decimals, of a currency with three.
    """
    digits = MINOR_UNITS.get(currency)
    if digits is None:
        raise InvalidParams("Choose a currency.")
    match = _AMOUNT.fullmatch(text)
    whole, part = (match[1], match[2] or "") if match else ("0", "")
    value = int(whole + part.ljust(digits, "0")) if len(part) <= digits else 0
    if not value or ("," in text and len(part) == 3):
        decimals = f"at most {digits} decimals" if digits else "no decimals"
        example = "1250." + "5".ljust(digits, "0") if digits else "1250"
        raise InvalidParams(
            f"An amount in {currency} is more than zero, with {decimals} and nothing between the thousands,"
            f" such as {example}."
        )
    if len(str(value)) > VALUE_DIGITS_MAX:
        before = " before the decimals" if digits else ""
        raise InvalidParams(
            f"An amount in {currency} has at most {VALUE_DIGITS_MAX - digits} digits{before}."
        )
    return value


def _minutes(text: str) -> int:
    if text not in dict(LIFETIMES):
        raise InvalidParams("Choose how long it can be paid.")
    return int(text)
