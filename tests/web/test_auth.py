"""Who is calling: keys, apps, and the words of each refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from payd.core.errors import (
    ConflictingAuthHeaders,
    Forbidden,
    InvalidApiKey,
    InvalidAppId,
    MissingApiKey,
    MissingAppId,
    MissingClientId,
    PaydError,
)
from payd.core.ids import KEY_ENTROPY_BYTES, make_api_key
from payd.entropy import new_id, system_entropy
from payd.store.apps import insert_app
from payd.store.keys import DEFAULT_SCOPES, SCOPES, insert_key
from payd.web.auth import CREDENTIAL_MAX, authenticate
from tests.shop import Shop, open_shop


def refusal_of(shop: Shop, *, gateway: bool, **headers: str) -> type[PaydError]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    with pytest.raises(PaydError) as refused:
        authenticate(shop.house, sent, gateway=gateway)
    return type(refused.value)


async def test_a_key_opens_its_account_in_its_realm(shop: Shop) -> None:
    caller = authenticate(shop.house, {"api-key": shop.key}, gateway=False)
    assert (caller.realm, caller.account_id) == (shop.realm, shop.account_id)
    assert caller.actor.startswith("key_")
    assert (caller.scopes, caller.merchants) == (frozenset(SCOPES), None)


async def test_a_key_opens_the_gateway_as_well(shop: Shop) -> None:
    assert authenticate(shop.house, {"api-key": shop.key}, gateway=True).account_id == shop.account_id


async def test_an_app_with_a_client_opens_the_gateway_only(shop: Shop) -> None:
    app = shop.realm.checkout_app_id
    caller = authenticate(shop.house, {"app-id": app, "client-id": "c"}, gateway=True)
    assert caller.realm is shop.realm
    assert (caller.account_id, set(caller.scopes)) == (None, {"gateway"})
    assert refusal_of(shop, gateway=False, app_id=app, client_id="c") is MissingApiKey


async def test_an_app_of_an_account_is_known_as_its_own(shop: Shop) -> None:
    app = new_id("app_t", 0)
    await shop.realm.db.write(
        insert_app, app_id=app, account_id=shop.account_id, name="wallet", actor="test", now_ms=0
    )
    caller = authenticate(shop.house, {"app-id": app, "client-id": "c"}, gateway=True)
    assert (caller.account_id, caller.actor) == (shop.account_id, app)


async def test_no_credential_is_a_missing_key_on_every_path(shop: Shop) -> None:
    for gateway in (False, True):
        assert refusal_of(shop, gateway=gateway) is MissingApiKey
        assert refusal_of(shop, gateway=gateway, api_key="", app_id="", client_id="") is MissingApiKey


@pytest.mark.parametrize("header", ["Authorization", "X-Api-Key"])
async def test_a_key_in_another_header_is_told_where_it_belongs(shop: Shop, header: str) -> None:
    with pytest.raises(MissingApiKey, match=f"in the Api-Key header, not in {header}"):
        authenticate(shop.house, {header.lower(): shop.key}, gateway=False)


async def test_half_an_app_credential_names_the_other_half(shop: Shop) -> None:
    app = shop.realm.checkout_app_id
    assert refusal_of(shop, gateway=True, app_id=app) is MissingClientId
    assert refusal_of(shop, gateway=True, app_id=app, client_id="") is MissingClientId
    assert refusal_of(shop, gateway=True, client_id="c") is MissingAppId


async def test_two_credentials_are_one_too_many(shop: Shop) -> None:
    for gateway in (False, True):
        for more in ({"app_id": "app_t"}, {"client_id": "c"}):
            found = refusal_of(shop, gateway=gateway, api_key=shop.key, **more)
            assert found is ConflictingAuthHeaders


async def test_what_was_never_made_is_invalid(shop: Shop) -> None:
    fresh = make_api_key("test", system_entropy(KEY_ENTROPY_BYTES))
    for key in (
        fresh,
        shop.key.upper(),
        f" {shop.key}",
        shop.key[:-1],
        "svc_",
        "svc_test_",
        "x" * 9000,
        "é",
        "\0",
    ):
        assert refusal_of(shop, gateway=False, api_key=key) is InvalidApiKey, key
    for app in ("app_t", "app_x", "x", "app_t" + "0" * CREDENTIAL_MAX, new_id("app_t", 0)):
        assert refusal_of(shop, gateway=True, app_id=app, client_id="c") is InvalidAppId, app


async def test_a_live_credential_opens_nothing_where_no_live_realm_runs(shop: Shop) -> None:
    live = make_api_key("live", system_entropy(KEY_ENTROPY_BYTES))
    assert refusal_of(shop, gateway=False, api_key=live) is InvalidApiKey
    assert refusal_of(shop, gateway=True, app_id=new_id("app_l", 0), client_id="c") is InvalidAppId


async def test_a_test_key_is_not_taken_for_a_live_one(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        for realm in ("test", "live"):
            caller = authenticate(shop.house, {"api-key": shop.keys[f"{realm}.one"]}, gateway=False)
            assert caller.realm.name == realm
            assert caller.realm.live == (realm == "live")


async def test_a_live_key_has_few_scopes_unless_asked(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        key = make_api_key("live", system_entropy(KEY_ENTROPY_BYTES))
        await shop.house.realms["live"].db.write(
            insert_key,
            key_id=new_id("key_", 0),
            account_id=shop.account_id,
            api_key=key,
            name="plain",
            scopes=None,
            merchants=None,
            actor="test",
            now_ms=0,
        )
        caller = authenticate(shop.house, {"api-key": key}, gateway=False)
        assert caller.scopes == set(DEFAULT_SCOPES["live"])
        assert caller.scopes == {"merchants:read", "payments:read", "payments:write"}
        for path, status in (("/v1/payments", 200), ("/v1/merchants", 200), ("/v1/events", 403)):
            assert (await shop.call("GET", path, key=key)).status == status


async def test_a_missing_scope_and_a_foreign_merchant_are_forbidden(shop: Shop) -> None:
    key = await shop.new_key(scopes=["payments:read"], merchants=[shop.merchant_id])
    caller = authenticate(shop.house, {"api-key": key}, gateway=False)
    caller.check_scope("payments:read")
    caller.check_merchant(shop.merchant_id)
    with pytest.raises(Forbidden):
        caller.check_scope("payments:write")
    with pytest.raises(Forbidden):
        caller.check_merchant("mrch_other")


async def test_only_the_hash_of_a_key_is_stored(shop: Shop) -> None:
    secret = shop.key.removeprefix("svc_test_").encode()
    rows = await shop.realm.db.read(lambda tx: list(tx.iterdump()))
    assert not [row for row in rows if secret in row.encode()]
