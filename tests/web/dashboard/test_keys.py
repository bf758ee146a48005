"""Keys in the dashboard: shown once, made once a form, revoked at once, and live ones by owners alone."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from payd.actors.feed import Bell, Listener
from payd.core.ids import KEY_ENTROPY_BYTES, make_api_key
from payd.core.roles import Role
from payd.entropy import system_entropy
from payd.store.api_log import Logged, insert_logged
from payd.store.apps import list_apps
from payd.store.db import Tx
from payd.store.keys import DEFAULT_SCOPES, SCOPES, Key, list_keys
from payd.store.merchants import Merchant, insert_merchant
from payd.web.dashboard.keys import MEANINGS, MERCHANTS_SHOWN, REVOKED_SHOWN, SHOWN_AGAIN_MS
from tests.shop import START_MS, Shop, open_shop
from tests.visitor import Page, sign_in

KEYS = "/d/test/keys"
LIVE = "/d/live/keys"


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "data", live=True) as opened:
        yield opened


def stored(shop: Shop, mode: str = "test") -> list[Key]:
    return shop.house.realms[mode].db.point(list_keys, shop.account_id)  # type: ignore[index]


def named(shop: Shop, name: str, mode: str = "test") -> Key:
    [found] = [key for key in stored(shop, mode) if key.name == name]
    return found


def key_in(page: Page) -> str:
    """The key that a page shows."""
    [found] = set(re.findall(r"svc_(?:test_)?[0-9a-z]{52}", page.html))
    return str(found)


def audited(shop: Shop, act: str) -> list[str]:
    def read(tx: Tx) -> list[str]:
        return [row[0] for row in tx.execute("SELECT actor FROM audit WHERE act = ?", (act,))]

    return shop.realm.db.point(read)


async def test_a_key_is_shown_once_with_a_sample_and_works(shop: Shop) -> None:
    visitor = await sign_in(shop, Role.DEVELOPER)
    made = await visitor.post(KEYS, {"name": "Backend", "scope": list(SCOPES)})
    assert made.status == 200
    api_key = key_in(made)
    assert "I saved it" in made.text
    for header in (f'-H "Api-Key: {api_key}" \\\n', f'-H "Merchant-Id: {shop.merchant_id}" \\\n'):
        assert header in html.unescape(made.html)
    assert (await shop.call("GET", "/v1/merchants", key=api_key)).status == 200
    page = await visitor.get(KEYS)
    assert api_key not in page.html
    assert f"svc_test_…{api_key[-4:]}" in page.text
    assert "set-cookie" not in made.got.headers
    assert audited(shop, "key.create")[-1] == visitor.user_id


async def test_the_sample_is_for_a_merchant_that_the_key_may_use(shop: Shop) -> None:
    visitor = await sign_in(shop)
    for merchant in (shop.merchant_id, await shop.new_merchant()):
        made = await visitor.post(KEYS, {"name": "One", "scope": list(SCOPES), "merchant": merchant})
        assert f'-H "Merchant-Id: {merchant}"' in html.unescape(made.html)


async def test_a_form_that_is_sent_twice_makes_one_key_and_both_answers_show_it(shop: Shop) -> None:
    visitor = await sign_in(shop)
    before = len(stored(shop))
    form = {"name": "Twice", "scope": ["payments:read"], "once": "0123456789"}
    form["form_token"] = await visitor.token()
    found: list[Page] = []

    async def send() -> None:
        found.append(await visitor.post(KEYS, form))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        nursery.start_soon(send)
    await send()
    assert [page.status for page in found] == [200] * 3
    [api_key] = {key_in(page) for page in found}
    assert len(stored(shop)) == before + 1
    assert named(shop, "Twice").last4 == api_key[-4:]
    other = await visitor.post(KEYS, form | {"name": "Thrice"})
    assert key_in(other) != api_key
    del form["form_token"]
    assert key_in(await (await sign_in(shop)).post(KEYS, form)) != api_key


async def test_a_form_that_is_sent_again_later_shows_no_key(shop: Shop) -> None:
    visitor = await sign_in(shop)
    form = {"name": "Kept", "scope": ["payments:read"], "once": "0123456789"}
    api_key = key_in(await visitor.post(KEYS, form))
    await trio.sleep(SHOWN_AGAIN_MS / 1000 + 1)
    late = await visitor.post(KEYS, form)
    gone = form | {"once": "9876543210"}
    revoked = key_in(await visitor.post(KEYS, gone))
    await visitor.post(f"{KEYS}/{stored(shop)[-1].id}/revoke")
    after = await visitor.post(KEYS, gone)
    for page, key in ((late, api_key), (after, revoked)):
        assert page.status == 400
        assert f"This form made the key …{key[-4:]} before" in page.text
        assert key not in page.html


async def test_a_key_may_what_was_ticked_and_for_whom(shop: Shop) -> None:
    visitor = await sign_in(shop)
    other = await shop.new_merchant()
    assert "Only for some merchants" in (await visitor.get(KEYS)).text
    made = await visitor.post(KEYS, {"name": "Small", "scope": ["payments:read"], "merchant": [other]})
    api_key = key_in(made)
    assert (await shop.call("POST", "/v1/merchants", {}, key=api_key)).code == "forbidden"
    key = named(shop, "Small")
    assert (key.scopes, key.merchants) == (frozenset({"payments:read"}), frozenset({other}))


async def test_where_there_are_more_merchants_than_are_shown_the_way_to_the_others_is_said(
    shop: Shop,
) -> None:
    visitor = await sign_in(shop)
    await shop.realm.db.write(_fill_merchants, shop.account_id, MERCHANTS_SHOWN)
    assert "payd key create" not in (await visitor.get(KEYS)).text
    await shop.realm.db.write(_fill_merchants, shop.account_id, MERCHANTS_SHOWN + 1)
    page = await visitor.get(KEYS)
    assert page.html.count('name="merchant"') == MERCHANTS_SHOWN
    assert "payd key create --mode test --merchant mrch_…" in page.text


async def test_who_ticks_more_merchants_than_a_key_can_have_is_told_how_many(shop: Shop) -> None:
    visitor = await sign_in(shop)
    await shop.realm.db.write(_fill_merchants, shop.account_id, MERCHANTS_SHOWN)
    ids = re.findall(r'id="merchant-(mrch_\w+)"', (await visitor.get(KEYS)).html)
    values = {"name": "All", "scope": list(SCOPES), "merchant": ids}
    page = await visitor.post(KEYS, values)
    assert (len(ids), page.status) == (MERCHANTS_SHOWN, 400)
    assert "A key can be limited to 1 to 100 merchants." in page.text
    await visitor.post(KEYS, values | {"merchant": ids[:100]})
    assert named(shop, "All").merchants == frozenset(ids[:100])


def _fill_merchants(tx: Tx, account_id: str, count: int) -> None:
    (there,) = tx.execute("SELECT count(*) FROM merchants WHERE account_id = ?", (account_id,)).fetchone()
    for number in range(there, count):
        row = Merchant(f"mrch_{number}", account_id, f"Shop {number}", "a@b.test", None, "active", START_MS)
        insert_merchant(tx, row)


async def test_what_is_wrong_is_said_and_what_was_ticked_stays(shop: Shop) -> None:
    visitor = await sign_in(shop)
    for values, words in (
        ({"name": "", "scope": ["gateway"]}, "A name is"),
        ({"name": "None"}, "at least one scope"),
        ({"name": "Odd", "scope": ["everything"]}, "There is no scope everything"),
    ):
        page = await visitor.post(KEYS, values)
        assert page.status == 400
        assert words in page.text
        ticked = re.findall(r'name="scope" type="checkbox" value="([^"]+)" checked', page.html)
        assert ticked == [one for one in values.get("scope", []) if one in SCOPES]


async def test_a_revoked_key_opens_nothing_from_then_on(shop: Shop) -> None:
    visitor = await sign_in(shop)
    made = await visitor.post(KEYS, {"name": "Gone", "scope": ["merchants:read"]})
    api_key, key = key_in(made), named(shop, "Gone")
    assert (await shop.call("GET", "/v1/merchants", key=api_key)).status == 200
    bell = Bell()
    shop.realm.account_feed.subscribe(shop.account_id, Listener(bell.wake))
    for _ in range(2):
        assert (await visitor.post(f"{KEYS}/{key.id}/revoke")).to == KEYS
    found = await shop.call("GET", "/v1/merchants", key=api_key)
    assert (found.status, found.code) == (401, "invalid_api_key")
    await bell.wait()
    assert audited(shop, "key.revoke") == [visitor.user_id]
    assert "Revoked keys" in (await visitor.get(KEYS)).text


async def test_the_key_that_was_revoked_last_stands_first_however_old_it_is(shop: Shop) -> None:
    visitor = await sign_in(shop)
    names = [f"Key {n}" for n in range(REVOKED_SHOWN + 1)]
    for name in names:
        await visitor.post(KEYS, {"name": name, "scope": ["merchants:read"]})
    for name in (*names[1:], names[0]):
        await visitor.post(f"{KEYS}/{named(shop, name).id}/revoke")
        await trio.sleep(1)
    shown = (await visitor.get(KEYS)).html.partition("Revoked keys")[2]
    assert re.findall("<td[^>]*>(Key [0-9]+)</td>", shown) == [names[0], *names[:1:-1]]


async def test_when_a_key_was_used_last_is_told_from_the_log(shop: Shop) -> None:
    visitor = await sign_in(shop)
    [key] = stored(shop)
    assert "not lately" in (await visitor.get(KEYS)).text
    used = Logged(
        START_MS + 60_000, shop.account_id, key.id, "req_1", "GET", "/v1/payments", "", 200, 1, None
    )
    await shop.realm.db.write(insert_logged, [used])
    assert "not lately" not in (await visitor.get(KEYS)).text


async def test_each_scope_is_explained(shop: Shop) -> None:
    assert set(MEANINGS) == set(SCOPES)
    page = await (await sign_in(shop)).get(KEYS)
    assert all(words in page.text for words in MEANINGS.values())


async def test_live_keys_are_an_owners_and_need_a_chain(both: Shop) -> None:
    owner, developer = await sign_in(both), await sign_in(both, Role.DEVELOPER)
    before = stored(both, "live")
    values = {"name": "Live", "scope": list(DEFAULT_SCOPES["live"])}
    assert "A live key needs a chain." in (await owner.get(LIVE)).text
    refused = await owner.post(f"{LIVE}/live", values)
    assert refused.status == 400
    assert "no chain configured" in refused.text
    assert (await developer.post(f"{LIVE}/live", values)).status == 403
    assert (await owner.post(LIVE, values)).status == 403
    assert (await owner.post(f"{KEYS}/live", values)).status == 403
    assert (await developer.post(f"{LIVE}/{before[0].id}/revoke")).status == 403
    assert stored(both, "live") == before
    both.house.realms["live"].payments.chains = both.realm.payments.chains
    made = await owner.post(f"{LIVE}/live", values)
    assert key_in(made).startswith("svc_")
    assert not key_in(made).startswith("svc_test_")
    assert named(both, "Live", "live").scopes == set(DEFAULT_SCOPES["live"])


async def test_an_app_id_is_made_once_listed_and_revoked(shop: Shop) -> None:
    visitor = await sign_in(shop)
    form = {"app_name": "Wallet", "once": "0123456789"}
    for _ in range(2):
        assert (await visitor.post(f"{KEYS}/apps", form)).to == KEYS
    other = await visitor.post(f"{KEYS}/apps", form | {"app_name": "Another"})
    assert (other.status, "This form was sent before, with something else in it" in other.text) == (400, True)
    [app] = shop.realm.db.point(list_apps, shop.account_id)
    assert app.id in (await visitor.get(KEYS)).html
    await visitor.post(f"{KEYS}/apps/{app.id}/revoke")
    assert app.id not in (await visitor.get(KEYS)).html
    found = await shop.call("GET", "/v1/gateway/payment/x", key=None, app_id=app.id, client_id="c")
    assert found.code == "invalid_app_id"


def test_a_key_is_found_in_a_page_by_its_shape() -> None:
    api_key = make_api_key("test", system_entropy(KEY_ENTROPY_BYTES))
    assert re.fullmatch(r"svc_(?:test_)?[0-9a-z]{52}", api_key)


async def test_app_ids_of_live_mode_are_an_owners(both: Shop) -> None:
    owner, developer = await sign_in(both), await sign_in(both, Role.DEVELOPER)
    realm = both.house.realms["live"]
    await owner.post(f"{LIVE}/apps", {"app_name": "Wallet"})
    made = realm.db.point(list_apps, both.account_id)

    assert (await developer.post(f"{LIVE}/apps", {"app_name": "Other"})).status == 403
    assert (await developer.post(f"{LIVE}/apps/{made[0].id}/revoke")).status == 403
    assert realm.db.point(list_apps, both.account_id) == made
    shown = (await developer.get(LIVE)).html
    assert made[0].id in shown
    assert "/apps" not in shown
    assert (await developer.post(f"{KEYS}/apps", {"app_name": "Mine"})).to == KEYS
    await owner.post(f"{LIVE}/apps/{made[0].id}/revoke")
    assert [app.revoked_at_ms is None for app in realm.db.point(list_apps, both.account_id)] == [False]
