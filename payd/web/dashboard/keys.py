"""API keys and app ids: what each may do, made and shown once, and revoked.

A live key is made by an owner who showed lately who they are; a test key by any developer.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import msgspec

from payd.core.errors import Forbidden, IdempotencyConflict, InvalidParams, NotFound
from payd.core.idempotency import fingerprint_of, scope_of
from payd.core.ids import KEY_ENTROPY_BYTES, hash_api_key, make_api_key
from payd.entropy import new_id
from payd.store.api_log import last_used
from payd.store.apps import App, insert_app, list_apps, revoke_app
from payd.store.db import Tx
from payd.store.idempotency import IdempotentRequest, Outcome, once
from payd.store.keys import (
    DEFAULT_SCOPES,
    SCOPES,
    Key,
    find_made_key,
    insert_key,
    list_keys,
)
from payd.store.merchants import list_merchants
from payd.web.call import Answer
from payd.web.dashboard.visit import SENT_BEFORE, Visit
from payd.web.feed import end_key

MEANINGS: Final = MappingProxyType(
    {
        "merchants:read": "See merchants and where their money goes",
        "merchants:write": "Create, change and delete merchants",
        "settlements:write": "Change where the money goes",
        "payments:read": "See payments and transfers",
        "payments:write": "Create and cancel payments, record refunds",
        "webhooks:read": "See the webhook endpoint, deliveries and events",
        "webhooks:write": "Change the endpoint, send webhooks again",
        "webhooks:secret": "See and change the secret that signs webhooks",
        "gateway": "Pay as a wallet does",
        "test": "Simulate payments and move the test clock",
    }
)
"""Each scope in plain words."""

RISKY: Final = ("settlements:write", "webhooks:secret")
"""Who steals a key with one of these can send money elsewhere, or forge webhooks."""

MERCHANTS_SHOWN: Final = 200  # more ticks are no help: a key for others is made by their ids
REVOKED_SHOWN: Final = 20
SHOWN_AGAIN_MS: Final = 60_000
"""So long the form that made a key shows it again: its first answer is lost to who clicks twice."""


class ShownKey(msgspec.Struct, frozen=True):
    """A key as people know it again."""

    id: str
    name: str
    end: str
    scopes: tuple[str, ...]
    everything: bool
    merchants: tuple[str, ...]
    created_at_ms: int
    used_at_ms: int | None
    revoked_at_ms: int | None
    revoke: str


class ShownApp(msgspec.Struct, frozen=True):
    """An app id, which is public."""

    id: str
    name: str
    created_at_ms: int
    revoke: str


class Scope(msgspec.Struct, frozen=True):
    """Something that a new key may be allowed."""

    name: str
    words: str
    ticked: bool


class _Seen(msgspec.Struct, frozen=True):
    """What is read for the page."""

    keys: list[Key]
    apps: list[App]
    used: dict[str, int]
    merchants: dict[str, str]
    merchants_count: int


async def page(visit: Visit) -> Answer:
    """GET /d/{mode}/keys: all of them, and forms for more."""
    seen = await visit.realm.db.read(_see, visit.account_id)
    chosen = visit.form.get("merchant", [])
    active = [key for key in seen.keys if key.revoked_at_ms is None]
    ended = sorted((key.revoked_at_ms, key.id, key) for key in seen.keys if key.revoked_at_ms is not None)
    revoked = [key for _, _, key in ended[-REVOKED_SHOWN:]]
    return visit.page(
        "keys.html",
        keys=tuple(_shown(visit, key, seen) for key in active),
        revoked=tuple(_shown(visit, key, seen) for key in reversed(revoked)),
        apps=tuple(
            ShownApp(app.id, app.name, app.created_at_ms, visit.to(f"keys/apps/{app.id}/revoke"))
            for app in seen.apps
            if app.revoked_at_ms is None
        ),
        scopes=_scopes(visit),
        merchants=tuple((one, name, one in chosen) for one, name in seen.merchants.items()),
        has_more_merchants=seen.merchants_count > len(seen.merchants),
        action=visit.to("keys/live" if visit.realm.live else "keys"),
        apps_action=visit.to("keys/apps"),
        live=visit.realm.live,
        may_create=_may_manage(visit),
        has_chain=bool(visit.realm.payments.chains),
    )


async def create(visit: Visit) -> Answer:
    """POST /d/{mode}/keys: a test key."""
    if visit.realm.live:
        raise Forbidden("A live key is made on the page of live mode.")
    return await _create(visit)


async def create_live(visit: Visit) -> Answer:
    """POST /d/{mode}/keys/live: a live key, by an owner who showed who they are."""
    if not visit.realm.live:
        raise Forbidden("This is test mode. Change to live mode to make a live key.")
    if not visit.realm.payments.chains:
        raise InvalidParams(
            "With no chain configured, a live key could do nothing. Add [[chains]] to payd.toml and start the"
            " server again."
        )
    return await _create(visit)


async def revoke(visit: Visit) -> Answer:
    """POST /d/{mode}/keys/{key}/revoke: it opens nothing from now on."""
    if not _may_manage(visit):
        raise Forbidden("Live keys are an owner's to revoke. Ask an owner of the account.")
    try:
        key = await end_key(visit.realm, visit.account_id, visit.params["key"], visit.actor)
    except NotFound:
        raise NotFound("There is no such key.") from None
    return visit.redirect("keys", f"{key.name} (…{key.last4}) is revoked and opens nothing from now on.")


async def create_app(visit: Visit) -> Answer:
    """POST /d/{mode}/keys/apps: an app id for wallets and pages of one's own."""
    _check_apps(visit)
    now_ms = visit.realm.clock.now_ms()
    app_id = new_id("app_l" if visit.realm.live else "app_t", now_ms, visit.house.entropy)

    def work(tx: Tx) -> Outcome:
        made = insert_app(
            tx, app_id=app_id, account_id=visit.account_id, name=visit.typed("app_name"), actor=visit.actor,
            now_ms=now_ms,
        )  # fmt: skip
        return Outcome(201, msgspec.json.encode(made.id))

    try:
        await visit.realm.db.write(once, _request(visit, visit.typed("app_name"), now_ms), work)
    except IdempotencyConflict:
        raise InvalidParams(SENT_BEFORE) from None
    return visit.redirect("keys", "The app id is made. It is public and can stand in a page.")


async def revoke_one_app(visit: Visit) -> Answer:
    """POST /d/{mode}/keys/apps/{app}/revoke."""
    _check_apps(visit)
    try:
        app = await visit.realm.db.write(
            revoke_app,
            account_id=visit.account_id,
            app_id=visit.params["app"],
            actor=visit.actor,
            now_ms=visit.realm.clock.now_ms(),
        )
    except NotFound:
        raise NotFound("There is no such app id.") from None
    return visit.redirect("keys", f"{app.name} is revoked and lets nobody in from now on.")


async def _create(visit: Visit) -> Answer:
    """Make a key once for each form, and show it: it is stored nowhere, and only its form finds it again."""
    realm, now_ms = visit.realm, visit.realm.clock.now_ms()
    name, scopes = visit.typed("name"), visit.form.get("scope", [])
    merchants = visit.form.get("merchant") or None
    api_key = make_api_key(realm.name, _entropy_of_form(visit, name, scopes, merchants))
    key_id = new_id("key_", now_ms, visit.house.entropy)

    def work(tx: Tx) -> Key:
        return find_made_key(tx, hash_api_key(api_key)) or insert_key(
            tx, key_id=key_id, account_id=visit.account_id, api_key=api_key, name=name, scopes=scopes,
            merchants=merchants, actor=visit.actor, now_ms=now_ms,
        )  # fmt: skip

    key = await realm.db.write(work)
    if key.revoked_at_ms is not None or now_ms - key.created_at_ms > SHOWN_AGAIN_MS:
        raise InvalidParams(
            f"This form made the key …{key.last4} before, and a key is shown once. If you have not saved it,"
            " revoke it and make another."
        )
    seen = await realm.db.read(_see, visit.account_id)
    return visit.page(
        "key_made.html",
        key=_shown(visit, key, seen),
        api_key=api_key,
        sample=_sample(visit, api_key, key, seen),
        done=visit.to("keys"),
    )


def _entropy_of_form(visit: Visit, *wanted: Any) -> bytes:
    """The same bytes each time this form is sent; without its mark and the seal key nobody finds them."""
    mark = visit.typed("once")
    if not mark:
        return visit.house.entropy(KEY_ENTROPY_BYTES)
    whose = [visit.request.path, visit.account_id, visit.actor, mark, wanted]
    return visit.realm.seal.derive(f"api key {msgspec.json.encode(whose).decode()}")


def _see(tx: Tx, account_id: str) -> _Seen:
    merchants, count = list_merchants(tx, account_id, limit=MERCHANTS_SHOWN)
    return _Seen(
        list_keys(tx, account_id),
        list_apps(tx, account_id),
        last_used(tx, account_id),
        {one.id: one.name for one in merchants},
        count,
    )


def _check_apps(visit: Visit) -> None:
    if not _may_manage(visit):
        raise Forbidden("Live app ids are an owner's to make and revoke. Ask an owner of the account.")


def _may_manage(visit: Visit) -> bool:
    return visit.may("manage_live_keys" if visit.realm.live else "manage_keys")


def _request(visit: Visit, wanted: Any, now_ms: int) -> IdempotentRequest | None:
    """The form by its mark, so that one that is sent twice acts once."""
    mark = visit.typed("once")
    if not mark:
        return None
    return IdempotentRequest(
        account_id=visit.account_id,
        scope=scope_of("POST", visit.request.path, None, mark),
        fingerprint=fingerprint_of(msgspec.json.encode(wanted)),
        request_id=visit.request_id,
        now_ms=now_ms,
    )


def _scopes(visit: Visit) -> tuple[Scope, ...]:
    ticked = visit.form.get("scope", []) if visit.refusal else DEFAULT_SCOPES[visit.realm.name]
    return tuple(
        Scope(
            name,
            MEANINGS[name] + (". Only for programs that need it." if name in RISKY else ""),
            name in ticked,
        )
        for name in SCOPES
        if name != "test" or not visit.realm.live
    )


def _shown(visit: Visit, key: Key, seen: _Seen) -> ShownKey:
    return ShownKey(
        key.id,
        key.name,
        f"{key.prefix}…{key.last4}",
        tuple(name for name in SCOPES if name in key.scopes),
        key.scopes == frozenset(SCOPES),
        tuple(sorted(seen.merchants.get(one, one) for one in key.merchants or ())),
        key.created_at_ms,
        seen.used.get(key.id),
        key.revoked_at_ms,
        visit.to(f"keys/{key.id}/revoke"),
    )


def _sample(visit: Visit, api_key: str, key: Key, seen: _Seen) -> str:
    """A request that works as pasted, with the first thing that this key may do."""
    base = visit.house.base_url
    merchant = next((one for one in seen.merchants if key.merchants is None or one in key.merchants), None)
    if "payments:write" in key.scopes and merchant is not None:
        body = '{"referenceId": "ORDER-1", "amount": {"unit": "iso4217/USD", "value": "1250"}}'
        return (
            f'curl -sS {base}/v1/payments \\\n  -H "Api-Key: {api_key}" \\\n'
            f'  -H "Merchant-Id: {merchant}" \\\n'
            f'  -H "Content-Type: application/json" -H "Idempotency-Key: order-1" \\\n  -d \'{body}\''
        )
    path = {"merchants:read": "merchants", "payments:read": "payments", "webhooks:read": "webhooks/endpoint"}
    found = next((path[scope] for scope in SCOPES if scope in key.scopes and scope in path), None)
    return f'curl -sS {base}/v1/{found} -H "Api-Key: {api_key}"' if found else ""
