"""The form of a merchant that asks its buyers for details: wallets show it, in a frame or a web view.

The id and the accounts in the link say whose answers these are. What was answered is never shown here again.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "11. Pages"; SPEC.md, "POST
/v1/gateway/payment/{id}/options".
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from payd.actors.collecting import fields_for, take_form, unanswered
from payd.core.caip import AccountId, MalformedCaip, canonical_account, parse_account
from payd.core.collect import TEXT_MAX, Field, Problem, problems
from payd.core.errors import InvalidParams
from payd.core.option import OPTIONS_PER_ANSWER_MAX
from payd.core.payment import Payment
from payd.core.status import Status
from payd.store.options import accounts_offered
from payd.web import query
from payd.web.call import Answer, Call
from payd.web.checkout import locale
from payd.web.checkout.render import SAFE, WALLETS, html_answer
from payd.web.checkout.routes import OWN_PAGE, logo_for, paths_for
from payd.web.checkout.words import Language
from payd.web.form import check_same_origin, read_form
from payd.web.house import Realm
from payd.web.lookup import linked_payment, who_is_paid

# Base64 of every answer that a form can have, and some more.
PREFILL_MAX: Final = 16_384

# What browsers and people with a reader know about usual fields, by the names that wallets use for them.
AUTOCOMPLETE: Final[Mapping[str, str]] = {
    "fullName": "name",
    "firstName": "given-name",
    "lastName": "family-name",
    "email": "email",
    "phone": "tel",
    "company": "organization",
    "dob": "bday",
    "porAddress": "street-address",
    "porCountry": "country-name",
}


class Question(msgspec.Struct, frozen=True):
    """A field of the form as the template shows it; `problem` in words, empty when there is none."""

    id: str
    type: str
    name: str
    required: bool
    value: str
    autocomplete: str
    problem: str


async def page(call: Call) -> Answer:
    """GET /collect/{id}?accounts=&prefill=: the form, or that it is done or over."""
    realm, payment = linked_payment(call)
    accounts = _accounts(call, realm, payment)
    if not _is_open(realm, payment):
        return _drawn(call, realm, payment, "closed")
    if not unanswered(realm.payments, payment, accounts):
        return _drawn(call, realm, payment, "done")
    fields = _fields(realm, payment, accounts)
    given = _prefill(query.one(call, "prefill", blank=True), fields)
    return _drawn(
        call, realm, payment, "form", _questions(fields, given, {}, paths_for(call).language), accounts
    )


async def take(call: Call) -> Answer:
    """POST /collect/{id}?accounts=: what was filled in; the form again, with words, where it is wrong.

    Raises:
        Forbidden: Another site's form.
        InvalidParams: The link names no account that the payment was offered to.
        InvalidState: The payment ended at this moment.
    """
    realm, payment = linked_payment(call)
    check_same_origin(call.request, call.house.base_url, OWN_PAGE)
    accounts = _accounts(call, realm, payment)
    form = read_form(call.request)
    if not _is_open(realm, payment):
        return _drawn(call, realm, payment, "closed", status=409)
    fields = _fields(realm, payment, accounts)
    given = {field.id: form.get(field.id, [""])[0] for field in fields}
    wrong = problems(fields, given)
    if wrong:
        return _drawn(
            call,
            realm,
            payment,
            "form",
            _questions(fields, given, wrong, paths_for(call).language),
            accounts,
            status=422,
        )
    await take_form(realm.payments, realm.seal, payment.id, accounts, given)
    return Answer(303, b"", (("Location", _here(call, payment, accounts)), *SAFE))


def _accounts(call: Call, realm: Realm, payment: Payment) -> list[AccountId]:
    """The accounts in the link: each was offered a way to pay, so that a made-up one takes no room.

    Raises:
        InvalidParams: One was not, or there is none.
    """
    texts = (query.one(call, "accounts", blank=True) or "").split(",")
    offered = realm.db.point(accounts_offered, payment.id)
    try:
        accounts = [parse_account(text) for text in texts[:OPTIONS_PER_ANSWER_MAX]]
    except MalformedCaip:
        accounts = []
    if not accounts or any(canonical_account(account) not in offered for account in accounts):
        raise InvalidParams("This link is not complete. Go back to your wallet and open it from there.")
    return accounts


def _is_open(realm: Realm, payment: Payment) -> bool:
    return payment.status is Status.REQUIRES_ACTION and realm.clock.now_ms() < payment.expires_at_ms


def _fields(realm: Realm, payment: Payment, accounts: Sequence[AccountId]) -> tuple[Field, ...]:
    """What is asked of these accounts; the form asks once for all of them."""
    found = (fields_for(realm.payments, payment, account) for account in accounts)
    return next((fields for fields in found if fields), ())


def _prefill(text: str | None, fields: Sequence[Field]) -> dict[str, str]:
    """What the wallet knows already: base64 of a JSON object by field id. What cannot be read is not there.

    Ticks are the buyer's own to set: a consent that somebody else gave is none.
    """
    if not text or len(text) > PREFILL_MAX:
        return {}
    try:
        # A `+` that was not percent-encoded arrives as a space.
        raw = base64.b64decode(text.replace(" ", "+").translate({45: "+", 95: "/"}) + "==")
        known = msgspec.json.decode(raw, type=dict[str, object])
    except (binascii.Error, ValueError, RecursionError):
        return {}
    given = {
        field.id: str(known[field.id])
        for field in fields
        if field.type != "checkbox" and isinstance(known.get(field.id), str)
    }
    wrong = problems(fields, given)
    return {field_id: value for field_id, value in given.items() if field_id not in wrong}


def _questions(
    fields: Sequence[Field], given: Mapping[str, str], wrong: Mapping[str, Problem], language: Language
) -> list[Question]:
    return [
        Question(
            field.id,
            field.type,
            field.name,
            field.required,
            given.get(field.id, ""),
            AUTOCOMPLETE.get(field.id, ""),
            language.say(f"collect.{wrong[field.id]}", max=TEXT_MAX) if field.id in wrong else "",
        )
        for field in fields
    ]


def _drawn(
    call: Call,
    realm: Realm,
    payment: Payment,
    state: str,
    questions: Sequence[Question] = (),
    accounts: Sequence[AccountId] = (),
    status: int = 200,
) -> Answer:
    merchant, _ = who_is_paid(realm, payment)
    paths = paths_for(call)
    ended = Status.EXPIRED if payment.status is Status.REQUIRES_ACTION else payment.status
    values = {
        "id": payment.id,
        "back": paths.payment(payment.id),
        "live": realm.live,
        "merchant": merchant,
        "logo": logo_for(realm, payment),
        "amount": locale.fiat(paths.language, payment.value, payment.currency),
        "state": state,
        "closed": paths.language.say(f"collect.closed.{ended.value}", merchant=merchant),
        "questions": questions,
        "wrong": any(one.problem for one in questions),
        "action": _here(call, payment, accounts),
        "text_max": TEXT_MAX,
        "days": call.house.collected_days,
    }
    return html_answer(status, "collect.html", call.house.base_url, paths, values, WALLETS)


def _here(call: Call, payment: Payment, accounts: Sequence[AccountId]) -> str:
    """The form's own link, without what was filled in beforehand."""
    return paths_for(call).to(f"/collect/{payment.id}", accounts=",".join(map(str, accounts)))
