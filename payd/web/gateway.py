"""The gateway: what wallets talk to, in the shapes and words that they depend on.

Every answer that is no refusal is a 200.

Source: SPEC.md, "POST /v1/gateway/payment/{id}/options"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

import msgspec

from payd.actors.collecting import Given, unanswered
from payd.actors.confirm import confirm as confirm_payment
from payd.actors.offers import fetch_actions, offer_options
from payd.core.caip import AccountId, parse_account
from payd.core.collect import FIELDS_MAX, Field, holder_of, place_of, schema_of
from payd.core.errors import InvalidParams, Issue, ParamsValidation, PaymentNotFound
from payd.core.money import AmountWire
from payd.core.option import Quote, Result
from payd.core.payment import CANCELLED_BY_USER, Payment
from payd.web import query
from payd.web.accounts import accounts_in
from payd.web.actions import ActionOut, BuildData, render_action
from payd.web.call import Answer, Call
from payd.web.client import rate_key
from payd.web.idempotent import check_nothing, idempotent, outcome_answer
from payd.web.issues import issues_of
from payd.web.limits import refuse_for
from payd.web.logos import logo_url
from payd.web.lookup import who_is_paid
from payd.web.schema import Amount, PaidInfo, Words, cancelled_body, poll_in_ms
from payd.web.waiting import wait_for_change

RESULTS_MAX: Final = 16
UNWRAP_MAX: Final = 2
OPTION_ID_MAX: Final = 128
BUILD_DATA_MAX: Final = 65_536


class _Wire(msgspec.Struct, rename="camel"):
    pass


class CollectedField(_Wire):
    """One field that a buyer filled in."""

    id: str
    value: str


class CollectedFields(_Wire):
    """What a buyer filled in, as wallets' kits send it."""

    fields: list[CollectedField]


CollectedData = dict[str, Any]
"""What a buyer filled in: `CollectedFields`, or the object that `collectData.schema` describes."""


class FetchIn(_Wire):
    """`data` as either rendering of a build action has it."""

    option_id: str
    data: str | BuildData
    collected_data: CollectedData | None = None


class ConfirmIn(_Wire):
    """The chosen option and a result for each of its actions, in order."""

    option_id: str
    results: list[Result]
    collected_data: CollectedData | None = None


class MerchantInfo(_Wire, omit_defaults=True):
    """Who is paid, as the buyer sees it."""

    name: str
    icon_url: str | None = None


class BuyerInfo(_Wire):
    """Who pays. Wallets need both names."""

    account_caip10: str = msgspec.field(name="accountCaip10")
    account_provider_name: str = ""


class PaymentInfo(_Wire):
    """What the buyer is asked to pay."""

    status: str
    amount: Amount
    expires_at: int
    merchant: MerchantInfo
    buyer: BuyerInfo | None


class CollectData(_Wire):
    """What is asked of the buyer: at `url` on a page, or by a form that the wallet builds by `schema`."""

    fields: list[Field]
    schema: dict[str, Any]
    url: str


class OptionOut(_Wire):
    """One way to pay; `expiresAt` null when the quote ends with the payment."""

    id: str
    account: str
    amount: Amount
    eta_s: int
    expires_at: int | None
    actions: list[ActionOut]
    collect_data: CollectData | None


class OptionsOut(_Wire):
    """`options` null when the payment needs no action any more."""

    options: list[OptionOut] | None
    info: PaymentInfo | None
    collect_data: CollectData | None


class ActionsOut(_Wire):
    """The calls behind a build action."""

    actions: list[ActionOut]


class GatewayStatus(_Wire, omit_defaults=True):
    """What does not apply is left out: wallets read a closed shape."""

    status: str
    is_final: bool
    poll_in_ms: int | None = None
    info: PaidInfo | None = None
    failure_code: str | None = None


async def read(call: Call) -> Answer:
    """GET /v1/gateway/payment/{id}: what the buyer is asked to pay."""
    payment = payment_of(call)
    return Answer.json(_info(call, payment))


async def options(call: Call) -> Answer:
    """POST /v1/gateway/payment/{id}/options."""
    payment = payment_of(call)
    with_info = query.flag(call, "includePaymentInfo") or False
    accounts = accounts_in(call)
    _spare_nodes(call)
    quotes = await offer_options(call.realm.payments, payment.id, accounts)
    payment = call.realm.payments.find(payment.id)
    words = call.realm.words
    asked = _asked(call, payment, quotes or [])
    shown = None if quotes is None else [_option(call, words, one, payment, asked) for one in quotes]
    info = _info(call, payment) if with_info or quotes is None else None
    return Answer.json(OptionsOut(shown, info, _collect_data(call, payment, asked)))


async def fetch(call: Call) -> Answer:
    """POST /v1/gateway/payment/{id}/fetch."""
    payment = payment_of(call)
    body = call.json(FetchIn)
    _check_option_id(body.option_id)
    data = body.data.data if isinstance(body.data, BuildData) else body.data
    if len(data) > BUILD_DATA_MAX:
        raise InvalidParams("data is not that of a build action.")
    given = _given(call, body.collected_data)
    _spare_nodes(call)
    calls = await fetch_actions(call.realm.payments, payment.id, body.option_id, data, given)
    return Answer.json(ActionsOut([render_action(call.version, one) for one in calls]))


def _spare_nodes(call: Call) -> None:
    """Refuse who shows no key, and asks for more than a buyer does: an app's id is on every page.

    Raises:
        RateLimited: The operator's nodes were asked enough for this address.
    """
    if "api-key" not in call.request.headers:
        refuse_for(call.house.limits.sign_requests.take(rate_key(call.request.client_ip)))


async def confirm(call: Call) -> Answer:
    """POST /v1/gateway/payment/{id}/confirm?maxPollMs=."""
    payment = payment_of(call)
    wait_ms = query.poll_ms(call)
    body = call.json(ConfirmIn)
    _check_option_id(body.option_id)
    if len(body.results) > RESULTS_MAX:
        raise ParamsValidation.of(Issue("results", f"At most {RESULTS_MAX} items."))
    given = _given(call, body.collected_data)
    payment = await confirm_payment(call.realm.payments, payment.id, body.option_id, body.results, given)
    payment = await wait_for_change(call, payment, wait_ms)
    return Answer.json(_status(call, payment))


async def status(call: Call) -> Answer:
    """GET /v1/gateway/payment/{id}/status?maxPollMs=."""
    payment = payment_of(call)
    payment = await wait_for_change(call, payment, query.poll_ms(call))
    return Answer.json(_status(call, payment))


async def cancel(call: Call) -> Answer:
    """POST /v1/gateway/payment/{id}/cancel: the buyer calls it off."""
    payment = payment_of(call)
    check_nothing(call)
    # The checkout page's own app has no account to keep an answer for.
    has_account = call.caller is not None and call.caller.account_id is not None
    request = idempotent(call, None) if has_account else None
    outcome = await call.realm.payments.cancel(payment.id, CANCELLED_BY_USER, request, cancelled_body)
    return outcome_answer(outcome)


def payment_of(call: Call) -> Payment:
    """The payment in the path: its id is the authority, the credential only has to be of its realm.

    Raises:
        PaymentNotFound: Unknown, malformed, of the other realm, or not of the merchant that `Merchant-Id`
            names; they read the same.
    """
    payment_id = unwrap_payment_id(call.params["id"], call.house.base_url)
    payment = call.realm.payments.find(payment_id)
    if (call.request.headers.get("merchant-id") or payment.merchant_id) != payment.merchant_id:
        raise PaymentNotFound("There is no such payment.")
    return payment


def unwrap_payment_id(text: str, base_url: str) -> str:
    """The payment id in a path segment; a percent-encoded link of this server gives the id inside it.

    Wallet kits send the whole payment link as the id when the host is not one they know.

    Raises:
        PaymentNotFound: It is a link to somewhere else.
    """
    for _ in range(UNWRAP_MAX):
        if "%" in text:
            text = unquote(text)
    if "/" not in text:
        return text
    if not text.startswith(f"{base_url}/"):
        raise PaymentNotFound("There is no such payment.")
    try:
        link = urlsplit(text)
    except ValueError:
        raise PaymentNotFound("There is no such payment.") from None
    named = parse_qs(link.query).get("pid")
    return named[0] if named else link.path.rstrip("/").rpartition("/")[2]


Asked = dict[AccountId, tuple[Field, ...]]
"""What is asked of accounts and not answered yet."""


def _asked(call: Call, payment: Payment, quotes: Iterable[Quote]) -> Asked:
    return unanswered(call.realm.payments, payment, [parse_account(one.account) for one in quotes])


def _collect_data(call: Call, payment: Payment, asked: Asked) -> CollectData | None:
    """What is asked of these accounts, at a page that asks once for all of them; None when nothing is.

    One address on several networks is one buyer, and named once.
    """
    if not asked:
        return None
    fields = next(iter(asked.values()))
    accounts: dict[str, str] = {}
    for account in asked:
        accounts.setdefault(holder_of(account), str(account))
    named = quote(",".join(accounts.values()), safe=":,")
    url = f"{call.house.base_url}/collect/{payment.id}?accounts={named}"
    return CollectData(list(fields), schema_of(fields), url)


def _given(call: Call, collected: CollectedData | None) -> Given | None:
    if collected is None:
        return None
    by_name = not isinstance(collected.get("fields"), list)
    values = _by_schema(collected) if by_name else _listed(collected)
    if len(values) > FIELDS_MAX:
        issue = Issue("collectedData" if by_name else "collectedData.fields", f"At most {FIELDS_MAX} items.")
        raise ParamsValidation.of(issue)
    return Given(values, call.realm.seal, by_name)


def _by_schema(collected: CollectedData) -> tuple[tuple[str, str], ...]:
    issues = [
        Issue(place_of(field_id), "Expected a string.")
        for field_id, value in collected.items()
        if not isinstance(value, str)
    ]
    if issues:
        raise ParamsValidation.of(*issues[:FIELDS_MAX])
    return tuple(collected.items())


def _listed(collected: CollectedData) -> tuple[tuple[str, str], ...]:
    try:
        read = msgspec.convert(collected, CollectedFields)
    except msgspec.ValidationError:
        issues = issues_of(msgspec.json.encode(collected), CollectedFields, "collectedData")
        raise ParamsValidation.of(*issues) from None
    return tuple((field.id, field.value) for field in read.fields)


def _option(call: Call, words: Words, quote: Quote, payment: Payment, asked: Asked) -> OptionOut:
    assert quote.eta_s is not None, "it was offered just now"
    until_s = quote.valid_until_ms // 1000
    account = parse_account(quote.account)
    own = {account: asked[account]} if account in asked else {}
    return OptionOut(
        id=quote.option_id,
        account=quote.account,
        amount=words.amount(AmountWire(f"caip19/{quote.asset}", str(quote.amount))),
        eta_s=quote.eta_s,
        expires_at=None if quote.valid_until_ms >= payment.expires_at_ms else until_s,
        actions=[render_action(call.version, action) for action in quote.actions],
        collect_data=_collect_data(call, payment, own),
    )


def _info(call: Call, payment: Payment) -> PaymentInfo:
    name, icon_url = who_is_paid(call.realm, payment)
    buyer = payment.processing.buyer if payment.processing else None
    return PaymentInfo(
        status=payment.status.value,
        amount=call.realm.words.amount(payment.amount),
        expires_at=payment.expires_at_ms // 1000,
        merchant=MerchantInfo(name, logo_url(call.house, call.realm, payment.merchant_id) or icon_url),
        buyer=None if buyer is None else BuyerInfo(buyer, ""),
    )


def _status(call: Call, payment: Payment) -> GatewayStatus:
    return GatewayStatus(
        status=payment.status.value,
        is_final=payment.is_final,
        poll_in_ms=poll_in_ms(payment),
        info=call.realm.words.info(payment),
        failure_code=payment.failed.code if payment.failed else None,
    )


def _check_option_id(option_id: str) -> None:
    if not 1 <= len(option_id) <= OPTION_ID_MAX:
        raise InvalidParams("This option does not belong to the payment. Ask for options again.")
