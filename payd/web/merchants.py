"""Merchants over REST.

Source: SPEC.md, "POST /v1/merchants"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from payd.core.collect import Field, field_issues
from payd.core.errors import InvalidParams, Issue, NotFound, ParamsValidation
from payd.core.event import iso_ms
from payd.core.text import is_one_line
from payd.core.url import URL_MAX, is_https_url, is_origin
from payd.entropy import new_id
from payd.store.db import Tx
from payd.store.idempotency import Outcome, once
from payd.store.logos import Logo, find_logo, follow_icon_url, logos_of
from payd.store.merchants import (
    Merchant,
    delete_merchant,
    find_merchant,
    insert_merchant,
    list_merchants,
    update_merchant,
)
from payd.store.origins import list_origins, origins_of, replace_origins
from payd.store.settlement_changes import changes_of
from payd.store.settlements import list_settlements
from payd.web import query
from payd.web.acts import act_of, audit
from payd.web.call import Answer, Call
from payd.web.cursor import decode_cursor, encode_cursor
from payd.web.idempotent import idempotent, outcome_answer
from payd.web.logos import LogoOut, logo_out
from payd.web.lookup import own_merchant
from payd.web.schema import Deleted, SettlementOut, settlement_out

NAME_MAX: Final = 256
EMAIL_MAX: Final = 254
# They all go into one header of each checkout page.
ORIGINS_MAX: Final = 10
LIST_DEFAULT: Final = 20
LIST_MAX: Final = 100
CHANGEABLE: Final = ("merchantName", "merchantEmail", "iconUrl", "status", "collect", "checkoutOrigins")
# What of it has no audit of its own.
PLAIN: Final = ("name", "email", "icon_url", "status")
STATUSES: Final = ("active", "inactive", "suspended")

_EMAIL: Final = re.compile(r"[^@\s\x00-\x1f\x7f]{1,64}@[^@\s\x00-\x1f\x7f]{1,189}")


class CreateMerchant(msgspec.Struct, rename="camel"):
    """What a new merchant needs."""

    merchant_name: str
    merchant_email: str
    icon_url: str | None = None
    collect: tuple[Field, ...] = ()
    checkout_origins: list[str] | msgspec.UnsetType = msgspec.UNSET


class PatchMerchant(msgspec.Struct, rename="camel"):
    """What is left out stays as it is."""

    merchant_name: str | msgspec.UnsetType = msgspec.UNSET
    merchant_email: str | msgspec.UnsetType = msgspec.UNSET
    icon_url: str | msgspec.UnsetType | None = msgspec.UNSET
    status: str | msgspec.UnsetType = msgspec.UNSET
    collect: tuple[Field, ...] | msgspec.UnsetType = msgspec.UNSET
    checkout_origins: list[str] | msgspec.UnsetType = msgspec.UNSET


class MerchantOut(msgspec.Struct, rename="camel"):
    """A merchant as it is listed; `collect` is what it asks of its buyers, `logo` what became of its icon."""

    id: str
    name: str
    email: str
    status: str
    icon_url: str | None
    created_at: str
    collect: tuple[Field, ...]
    checkout_origins: tuple[str, ...]
    logo: LogoOut | None


class SettlementsOut(msgspec.Struct):
    """`fiat` is always empty: payd holds no money."""

    crypto: list[SettlementOut]
    fiat: list[SettlementOut]


class MerchantWithSettlements(MerchantOut, rename="camel"):
    """A merchant with where it is paid."""

    settlements: SettlementsOut


class MerchantCreated(msgspec.Struct):
    """A new merchant."""

    merchant: MerchantOut


class MerchantPage(msgspec.Struct, rename="camel"):
    """`data` and `merchants` are the same list."""

    data: list[MerchantOut]
    merchants: list[MerchantOut]
    total_count: int
    next_cursor: str | None


async def create(call: Call) -> Answer:
    """POST /v1/merchants → 201."""
    body = call.json(CreateMerchant)
    request = idempotent(call, body)
    origins = None if body.checkout_origins is msgspec.UNSET else tuple(body.checkout_origins)
    check_merchant_fields(
        body.merchant_name, body.merchant_email, body.icon_url, collect=body.collect, origins=origins or ()
    )
    now_ms, real_ms = call.realm.clock.now_ms(), call.realm.clock.real_ms()
    merchant = Merchant(
        id=new_id("mrch_", now_ms, call.house.entropy),
        account_id=call.account_id,
        name=body.merchant_name,
        email=body.merchant_email,
        icon_url=body.icon_url,
        status="active",
        created_at_ms=now_ms,
        collect=body.collect,
    )

    also = act_of(call, "merchant.create", merchant.id, name=merchant.name)

    def work(tx: Tx) -> Outcome:
        insert_merchant(tx, merchant)
        if also is not None:
            also(tx)
        if merchant.collect:
            _audit_collect(tx, call, merchant)
        follow_icon_url(tx, merchant.id, None, merchant.icon_url, real_ms)
        shown = _store_origins(tx, call, merchant.id, origins)
        out = merchant_out(merchant, shown, _logo(call, find_logo(tx, merchant.id)))
        return Outcome(201, msgspec.json.encode(MerchantCreated(out)))

    outcome = await call.realm.db.write(once, request, work)
    call.realm.logos.wake()
    return outcome_answer(outcome)


async def list_all(call: Call) -> Answer:
    """GET /v1/merchants."""
    after = query.one(call, "cursor")
    limit = query.limit_in(call, LIST_MAX, LIST_DEFAULT)
    search = query.one(call, "search")
    if search is not None and len(search) > NAME_MAX:
        raise InvalidParams(f"search may have at most {NAME_MAX} characters.")
    status = query.choice(call, "status", STATUSES)
    cursor = None if after is None else decode_cursor(after, (int, str))
    only = None if call.merchants is None else sorted(call.merchants)

    def listing(tx: Tx) -> tuple[list[Merchant], int, dict[str, tuple[str, ...]], dict[str, Logo]]:
        found, total = list_merchants(
            tx, call.account_id, only=only, status=status, search=search, after=cursor, limit=limit + 1
        )
        ids = [merchant.id for merchant in found]
        return found, total, origins_of(tx, ids), logos_of(tx, ids)

    found, total, origins, logos = await call.realm.db.read(listing)
    shown = [
        merchant_out(merchant, origins.get(merchant.id, ()), _logo(call, logos.get(merchant.id)))
        for merchant in found[:limit]
    ]
    last = found[limit - 1] if len(found) > limit else None
    next_cursor = None if last is None else encode_cursor(last.created_at_ms, last.id)
    return Answer.json(MerchantPage(shown, shown, total, next_cursor))


async def read(call: Call) -> Answer:
    """GET /v1/merchants/{id}."""
    merchant_id = own_merchant(call).id

    def whole(tx: Tx) -> MerchantWithSettlements:
        merchant = find_merchant(tx, merchant_id)
        if merchant is None:
            raise _gone()
        logo = _logo(call, find_logo(tx, merchant_id))
        out = msgspec.structs.asdict(merchant_out(merchant, list_origins(tx, merchant_id), logo))
        return MerchantWithSettlements(**out, settlements=_settlements(tx, merchant_id))

    # In one transaction: a change is in all that is shown, or in nothing of it.
    return Answer.json(await call.realm.db.read(whole))


async def read_settlements(call: Call) -> Answer:
    """GET /v1/merchants/{id}/settlements."""
    return Answer.json(await call.realm.db.read(_settlements, own_merchant(call).id))


async def patch(call: Call) -> Answer:
    """PATCH /v1/merchants/{id}: at least one field; `iconUrl: null` takes the icon and its logo away."""
    own_merchant(call)
    body = call.json(PatchMerchant)
    changes = {
        field: value
        for field, value in (
            ("name", body.merchant_name),
            ("email", body.merchant_email),
            ("icon_url", body.icon_url),
            ("status", body.status),
            ("collect", body.collect),
        )
        if value is not msgspec.UNSET
    }
    origins = None if body.checkout_origins is msgspec.UNSET else tuple(body.checkout_origins)
    if not changes and origins is None:
        raise ParamsValidation(
            "Send at least one field to change.",
            issues=[Issue("body", f"One of {', '.join(CHANGEABLE)} is required.")],
        )

    real_ms = call.realm.clock.real_ms()

    def step(tx: Tx) -> MerchantOut:
        merchant = find_merchant(tx, call.params["merchantId"])
        if merchant is None:
            raise _gone()
        changed = msgspec.structs.replace(merchant, **changes)
        check_merchant_fields(
            changed.name,
            changed.email,
            changed.icon_url,
            changed.status,
            collect=changed.collect,
            origins=origins or (),
        )
        update_merchant(tx, changed)
        _audit_plain(tx, call, merchant, changed)
        if body.icon_url is not msgspec.UNSET:
            follow_icon_url(tx, changed.id, merchant.icon_url, body.icon_url, real_ms)
        if changed.collect != merchant.collect:
            _audit_collect(tx, call, changed)
        logo = _logo(call, find_logo(tx, changed.id))
        return merchant_out(changed, _store_origins(tx, call, changed.id, origins), logo)

    out = await call.realm.db.write(step)
    call.realm.logos.wake()
    return Answer.json(out)


async def delete(call: Call) -> Answer:
    """DELETE /v1/merchants/{id}: soft, and the same answer when repeated."""
    merchant_id = call.params["merchantId"]
    call.check_merchant(merchant_id)

    def step(tx: Tx) -> None:
        is_there = find_merchant(tx, merchant_id) is not None
        if not delete_merchant(tx, call.account_id, merchant_id, call.realm.clock.now_ms()):
            raise _gone()
        if is_there:
            audit(tx, call, "merchant.delete", merchant_id)

    await call.realm.db.write(step)
    return Answer.json(Deleted(merchant_id))


def merchant_out(merchant: Merchant, origins: tuple[str, ...], logo: LogoOut | None) -> MerchantOut:
    """A merchant as the wire shows it."""
    return MerchantOut(
        merchant.id,
        merchant.name,
        merchant.email,
        merchant.status,
        merchant.icon_url,
        iso_ms(merchant.created_at_ms),
        merchant.collect,
        origins,
        logo,
    )


def _logo(call: Call, logo: Logo | None) -> LogoOut | None:
    return logo_out(call.house.base_url, logo)


def _audit_plain(tx: Tx, call: Call, before: Merchant, after: Merchant) -> None:
    """Which person changed what: one that is suspended takes no payments."""
    for field in PLAIN:
        old, new = getattr(before, field), getattr(after, field)
        also = act_of(call, f"merchant.{field}", after.id, **{"from": old, "to": new})
        if also is not None and old != new:
            also(tx)


def _audit_collect(tx: Tx, call: Call, merchant: Merchant) -> None:
    """Who had buyers asked for what: it is about people's data."""
    audit(tx, call, "merchant.collect", merchant.id, {"fields": [field.id for field in merchant.collect]})


def _store_origins(tx: Tx, call: Call, merchant_id: str, origins: tuple[str, ...] | None) -> tuple[str, ...]:
    """Store who may frame the checkout, and who said so; None changes nothing. Returns what holds then."""
    before = list_origins(tx, merchant_id)
    if origins is None or origins == before:
        return before
    replace_origins(tx, merchant_id, origins)
    audit(tx, call, "merchant.origins", merchant_id, {"from": before, "to": origins})
    return origins


def _settlements(tx: Tx, merchant_id: str) -> SettlementsOut:
    pending = changes_of(tx, merchant_id)
    found = list_settlements(tx, merchant_id)
    return SettlementsOut([settlement_out(one, pending.get(one.id)) for one in found], [])


def _gone() -> NotFound:
    return NotFound("There is no such merchant.")


def check_merchant_fields(
    name: str,
    email: str,
    icon_url: str | None,
    status: str = "active",
    *,
    collect: Sequence[Field],
    origins: tuple[str, ...],
) -> None:
    """Refuse fields that miss their schema, all of them at once.

    Raises:
        ParamsValidation: With an issue for each wrong field.
    """
    issues = []
    if not 1 <= len(name) <= NAME_MAX or not is_one_line(name) or not name.strip():
        issues.append(Issue("merchantName", f"1 to {NAME_MAX} printable characters."))
    if len(email) > EMAIL_MAX or not _EMAIL.fullmatch(email):
        issues.append(Issue("merchantEmail", "An e-mail address such as shop@example.com."))
    if icon_url is not None and not is_https_url(icon_url):
        issues.append(Issue("iconUrl", f"An https URL of at most {URL_MAX} characters, or null."))
    if status not in STATUSES:
        issues.append(Issue("status", f"One of {', '.join(STATUSES)}."))
    issues += field_issues(collect)
    if len(origins) > ORIGINS_MAX or len(set(origins)) < len(origins):
        issues.append(Issue("checkoutOrigins", f"At most {ORIGINS_MAX} origins, each one once."))
    if not all(is_origin(origin) for origin in origins):
        words = "Origins as browsers name them, such as https://shop.example or http://localhost:3000."
        issues.append(Issue("checkoutOrigins", words))
    if issues:
        raise ParamsValidation.of(*issues)
