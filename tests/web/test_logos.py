"""Merchants' logos over HTTP: sent, wished for, shown to buyers and wallets, and taken away."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image

from payd.core.picture import BYTES_MAX
from payd.store.logos import Owed, copies_due, keep_copy, record_failure
from tests.pictures import BLUE, SVG, HerePictures, decoded, encoded, plain
from tests.shop import Got, Shop, open_shop

ICON = "https://shop.example/logo.jpeg"
OTHER = encoded(Image.new("RGB", (100, 100), BLUE))


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "data") as opened:
        opened.realm.logos.pictures = HerePictures()
        yield opened


async def send(shop: Shop, data: bytes, *, key: str = "", merchant: str = "") -> Got:
    path = f"/v1/merchants/{merchant or shop.merchant_id}/logo"
    return await shop.call("PUT", path, raw=data, key=key, content_type="image/png")


async def sent(shop: Shop, data: bytes | None = None) -> str:
    """Send a logo; the path where it is shown."""
    found = await send(shop, plain() if data is None else data)
    assert found.status == 200, found.body
    return str(found.body["logo"]["url"]).removeprefix("https://pay.example")


async def logo_of(shop: Shop) -> Any:
    return (await shop.call("GET", f"/v1/merchants/{shop.merchant_id}")).body["logo"]


async def patch(shop: Shop, **fields: Any) -> Any:
    found = await shop.call("PATCH", f"/v1/merchants/{shop.merchant_id}", fields)
    assert found.status == 200, found.body
    return found.body


async def owed(shop: Shop) -> list[Owed]:
    return shop.realm.db.point(copies_due, shop.realm.clock.real_ms(), 10)


async def show(shop: Shop, path: str, method: str = "GET") -> Any:
    """What a browser gets, which has no key."""
    return await shop.call(method, path, key=None)


async def page(shop: Shop, path: str) -> str:
    found = await shop.call("GET", path, key=None, accept="text/html")
    assert found.status == 200
    return found.raw.decode()


async def test_a_logo_that_was_sent_is_shown_to_anybody_for_good(shop: Shop) -> None:
    path = await sent(shop)
    assert re.fullmatch(r"/logo/[0-9a-f]{32}\.webp", path)
    found = await show(shop, path)
    assert found.status == 200
    assert decoded(found.raw).size == (256, 256)
    assert found.headers["content-type"] == "image/webp"
    assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["cross-origin-resource-policy"] == "cross-origin"
    assert "default-src 'none'" in found.headers["content-security-policy"]
    assert "set-cookie" not in found.headers


async def test_its_path_says_nothing_of_the_merchant_and_changes_with_the_picture(shop: Shop) -> None:
    path = await sent(shop)
    assert shop.merchant_id not in path
    assert await sent(shop) == path
    other = await sent(shop, OTHER)
    assert other != path
    assert (await show(shop, path)).status == 404
    assert (await show(shop, other)).status == 200


async def test_unknown_pictures_are_not_there(shop: Shop) -> None:
    path = await sent(shop)
    for wrong in (
        "/logo/x",
        "/logo/" + "0" * 32 + ".webp",
        path.upper(),
        path.removesuffix(".webp"),
        f"{path}/x",
    ):
        assert (await show(shop, wrong)).status == 404


async def test_the_merchant_says_what_is_shown(shop: Shop) -> None:
    assert await logo_of(shop) is None
    path = await sent(shop)
    expected = {"state": "ready", "url": f"https://pay.example{path}", "problem": None}
    assert await logo_of(shop) == expected
    [listed] = (await shop.call("GET", "/v1/merchants")).body["data"]
    assert (listed["logo"], listed["iconUrl"]) == (expected, None)


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"", 400, "as the body"),
        (SVG, 415, "SVG"),
        (b'{"logo": "https://shop.example/a.png"}', 415, "PNG, JPEG, WebP or AVIF"),
        (plain()[:99], 400, "damaged"),
        (b"\x89PNG\r\n\x1a\n".ljust(BYTES_MAX + 1), 413, "2 MiB"),
    ],
)
async def test_what_is_no_logo_is_refused_and_changes_nothing(
    shop: Shop, data: bytes, status: int, words: str
) -> None:
    before = await sent(shop)
    found = await send(shop, data)
    assert (found.status, words in found.body["message"]) == (status, True), found.body
    assert (await logo_of(shop))["url"].endswith(before)


async def test_a_logo_needs_the_scope_and_the_merchant(shop: Shop) -> None:
    path = f"/v1/merchants/{shop.merchant_id}/logo"
    reader = await shop.new_key(scopes=["merchants:read"])
    elsewhere = await shop.new_key(merchants=[await shop.new_merchant()])
    for key, status in ((reader, 403), (elsewhere, 403), (shop.other_key, 404), (None, 401)):
        for method in ("PUT", "DELETE"):
            found = await shop.call(method, path, raw=plain() if method == "PUT" else None, key=key)
            assert found.status == status, (method, found.body)
    assert await logo_of(shop) is None
    assert (await send(shop, plain(), merchant="mrch_unknown")).status == 404


async def test_it_is_taken_away_and_again(shop: Shop) -> None:
    path = await sent(shop)
    for _ in range(2):
        found = await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}/logo")
        assert (found.status, found.body) == (200, {"id": shop.merchant_id, "logo": None})
    assert (await show(shop, path)).status == 404
    assert await logo_of(shop) is None


async def test_who_sent_and_who_took_it_is_in_the_audit(shop: Shop) -> None:
    await sent(shop)
    await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}/logo")
    await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}/logo")
    acts = shop.realm.db.point(
        lambda tx: tx.execute("SELECT subject FROM audit WHERE act = 'merchant.logo'").fetchall()
    )
    assert acts == [(shop.merchant_id,)] * 2


async def test_a_new_merchants_icon_is_to_be_copied_and_the_answer_does_not_wait(shop: Shop) -> None:
    body = {"merchantName": "Shop", "merchantEmail": "a@b.c", "iconUrl": ICON}
    bell = shop.realm.logos._bell
    made = await shop.call("POST", "/v1/merchants", body, idempotency_key="k")
    assert made.body["merchant"]["logo"] == {"state": "copying", "url": None, "problem": None}
    assert made.body["merchant"]["iconUrl"] == ICON
    assert [(one.merchant_id, one.source_url) for one in await owed(shop)] == [
        (made.body["merchant"]["id"], ICON)
    ]
    assert bell.is_set(), "whoever copies is woken"


async def test_a_changed_icon_is_copied_and_the_one_before_shown_until_then(shop: Shop) -> None:
    path = await sent(shop)
    changed = await patch(shop, iconUrl=ICON)
    assert changed["logo"] == {"state": "copying", "url": f"https://pay.example{path}", "problem": None}
    [copy] = await owed(shop)
    await shop.realm.db.write(record_failure, copy, "It answers 404.", 0, is_final=True)
    assert await logo_of(shop) == changed["logo"] | {"state": "failed", "problem": "It answers 404."}
    await patch(shop, merchantName="New name")
    assert await owed(shop) == [], "only a word on the icon tries again"
    await patch(shop, iconUrl=ICON)
    [copy] = await owed(shop)
    await shop.realm.db.write(keep_copy, copy, (await show(shop, path)).raw)
    assert (await logo_of(shop))["state"] == "ready"
    assert (await patch(shop, iconUrl=None))["logo"] is None
    assert (await show(shop, path)).status == 404


async def test_a_logo_goes_with_its_merchant(shop: Shop) -> None:
    path = await sent(shop)
    await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}")
    assert (await show(shop, path)).status == 404


async def test_the_page_shows_the_logo_or_else_the_first_letter(shop: Shop) -> None:
    payment = await shop.pay()
    assert '<span class="initial"' in await page(shop, f"/pay/{payment}")
    path = await sent(shop)
    for _ in range(2):
        shown = await page(shop, f"/pay/{payment}")
        assert f'<img class="logo" src="{path}" width="40" height="40" alt="">' in shown
        assert 'class="initial"' not in shown
        await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "failed"})


async def test_wallets_are_told_of_the_logo_that_pages_show_and_else_of_where_it_comes_from(
    shop: Shop,
) -> None:
    async def icon(payment: str) -> Any:
        found = await shop.call("GET", f"/v1/gateway/payment/{payment}")
        return found.body["merchant"].get("iconUrl")

    payment = await shop.pay()
    assert await icon(payment) is None
    await patch(shop, iconUrl=ICON)
    assert await icon(payment) == ICON
    path = await sent(shop)
    assert await icon(payment) == f"https://pay.example{path}", "it was sent after the address"


async def test_the_live_realms_logos_are_shown_by_the_same_path(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "both", live=True) as shop:
        for realm in shop.house.realms.values():
            realm.logos.pictures = HerePictures()
        key = shop.keys["live.one"]
        body = {"merchantName": "Shop", "merchantEmail": "a@b.c"}
        made = await shop.call("POST", "/v1/merchants", body, key=key, idempotency_key="k")
        found = await send(shop, plain(), key=key, merchant=made.body["merchant"]["id"])
        assert found.status == 200, found.body
        path = found.body["logo"]["url"].removeprefix("https://pay.example")
        assert (await show(shop, path)).status == 200


async def test_an_answer_that_is_repeated_is_what_was_said_first(shop: Shop) -> None:
    body = {"merchantName": "Shop", "merchantEmail": "a@b.c", "iconUrl": ICON}
    first = await shop.call("POST", "/v1/merchants", body, idempotency_key="k")
    [copy] = await owed(shop)
    await shop.realm.db.write(keep_copy, copy, b"RIFFxxxxWEBP")
    again = await shop.call("POST", "/v1/merchants", body, idempotency_key="k")
    assert msgspec.json.decode(again.raw) == msgspec.json.decode(first.raw)
    assert await owed(shop) == []
