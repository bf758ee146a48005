"""The page as whoever holds the link gets it, and everything that a stranger may try on it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from payd.core.payment import Payment, open_payment
from payd.entropy import new_id
from payd.store.outbox import EventToStore
from payd.web.checkout.render import WITH_PAGE
from payd.web.static import ASSETS
from tests.inserts import insert_payment
from tests.shop import WALLET, Got, Shop, open_shop

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
OWN = {"sec_fetch_site": "same-origin", "origin": "null"}
UNKNOWN = "pay_t" + "0" * 36


async def get(shop: Shop, path: str, accept: str = BROWSER, **headers: Any) -> Got:
    return await shop.call("GET", path, key=None, accept=accept, **headers)


async def post(shop: Shop, path: str, form: str = "", accept: str = BROWSER, **headers: Any) -> Got:
    sent: dict[str, Any] = OWN | {"content_type": "application/x-www-form-urlencoded"} | headers
    return await shop.call("POST", path, key=None, raw=form.encode(), accept=accept, **sent)


async def move(shop: Shop, payment: str, to: str) -> None:
    moved = await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": to})
    assert moved.status == 200, moved.body


async def live_payment(shop: Shop) -> str:
    """A payment of the live realm, stored past the API: that realm has no chain here."""
    realm = shop.house.realms["live"]
    now_ms = realm.clock.now_ms()
    draft = Payment(
        id=new_id("pay_l", now_ms),
        account_id=shop.account_id,
        merchant_id=shop.merchant_id,
        reference_id="LIVE-1",
        currency="EUR",
        value=100,
        created_at_ms=now_ms,
        expires_at_ms=now_ms + 900_000,
        updated_at_ms=now_ms,
    )
    event = EventToStore(new_id("evt_", now_ms), b"{}", new_id("dlv_", now_ms), new_id("msg_", now_ms))
    await realm.db.write(insert_payment, open_payment(draft), event, None)
    return draft.id


def texts(found: Got) -> str:
    """What a page says, without its markup."""
    return re.sub(r"\s+", " ", re.sub(r"<script.*?</script>|<[^>]*>", " ", found.raw.decode(), flags=re.S))


async def test_the_page_shows_amount_shop_order_time_link_and_code(shop: Shop) -> None:
    payment = await shop.pay("ORDER-1042", "250000", "iso4217/EUR")
    found = await get(shop, f"/pay/{payment}")
    assert found.status == 200
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    said = texts(found)
    for expected in (
        "€2,500.00",
        "Café Größe",
        "ORDER-1042",
        "15:00",
        f"https://pay.example/pay/{payment}",
    ):
        assert expected in said
    assert "<svg" in found.raw.decode()


async def test_the_page_holds_no_more_than_its_buyer_may_see(shop: Shop) -> None:
    payment = await shop.pay()
    await move(shop, payment, "succeeded")
    body = (await get(shop, f"/pay/{payment}")).raw.decode()
    for secret in ("shop@example.com", shop.account_id, shop.merchant_id, shop.key, WALLET, WALLET.lower()):
        assert secret not in body


async def test_a_reference_that_nobody_can_see_leaves_no_word_before_it(shop: Shop) -> None:
    for reference, names_it in (("ORDER-1", True), (" \u3000", False)):
        page = await get(shop, f"/pay/{await shop.pay(reference)}")
        assert ('class="order"' in page.raw.decode()) == names_it


async def test_page_script_style_and_code_are_small(shop: Shop) -> None:
    page = await get(shop, f"/pay/{await shop.pay()}")
    assert len(page.raw) + sum(len(ASSETS[name].body) for name in WITH_PAGE) < 40_000
    loaded = re.findall(r'(?:src|href)="/static/([a-z.]+)', page.raw.decode())
    scripts = "".join(ASSETS[name].body.decode() for name in WITH_PAGE if name.endswith(".js"))
    assert sorted({*loaded, *re.findall(r"from '\./([a-z.]+)'", scripts)}) == sorted(WITH_PAGE)
    assert sum(len(ASSETS[name].body) for name in ("pay.js", "choices.js", "once.js", "talk.js")) < 33_000


async def test_what_shops_load_is_small_and_every_page_may_load_it(shop: Shop) -> None:
    found = await get(shop, "/static/payd.js", "*/*", sec_fetch_site="cross-site")
    assert found.status == 200
    assert len(found.raw) <= 4_000
    assert found.headers["content-type"] == "text/javascript; charset=utf-8"
    assert found.headers["cross-origin-resource-policy"] == "cross-origin"
    for name in ("checkout.js", "embed.js", "payd.css"):
        headers = (await get(shop, f"/static/{name}")).headers
        assert headers["cross-origin-resource-policy"] == "same-origin"


async def allow(shop: Shop, *origins: str) -> None:
    path = f"/v1/merchants/{shop.merchant_id}"
    assert (await shop.call("PATCH", path, {"checkoutOrigins": origins})).status == 200


async def test_a_payment_is_framed_by_its_merchants_origins_and_by_nobody_else(shop: Shop) -> None:
    payment = await shop.pay()
    body = {
        "merchantName": "Other",
        "merchantEmail": "o@example.com",
        "checkoutOrigins": ["https://o.example"],
    }
    made = await shop.call("POST", "/v1/merchants", body, idempotency_key="other")
    assert made.status == 201
    before = await get(shop, f"/pay/{payment}")
    assert framed_by(before) == "'none'"
    assert b"embed.js" not in before.raw
    await allow(shop, "https://shop.example", "http://localhost:3000")
    allowed = await get(shop, f"/pay/{payment}")
    assert framed_by(allowed) == "https://shop.example http://localhost:3000"
    assert b'data-origins="https://shop.example http://localhost:3000"' in allowed.raw
    assert b"embed.js" in allowed.raw
    await allow(shop)
    assert (await get(shop, f"/pay/{payment}")).raw == before.raw


async def test_refusals_and_everything_else_below_a_payment_are_framed_by_nobody(shop: Shop) -> None:
    await allow(shop, "https://shop.example")
    payment = await shop.pay()
    assert framed_by(await get(shop, f"/pay/{UNKNOWN}")) == "'none'"
    refused = await post(shop, f"/pay/{payment}/simulate", "to=settled")
    assert (refused.status, framed_by(refused)) == (400, "'none'")


def framed_by(found: Got) -> str:
    return found.headers["content-security-policy"].partition("frame-ancestors ")[2]


async def test_what_a_merchant_wrote_is_text_and_nothing_else(shop: Shop) -> None:
    payment = await shop.pay("<script>alert(1)</script>\"'")
    body = (await get(shop, f"/pay/{payment}")).raw.decode()
    assert "<script>alert" not in body
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;" in body


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("processing", ("Payment sent", "You can close this page", "USDC on Base")),
        ("succeeded", ("Paid", "has your payment", "test:pay_t", "USDC on Base")),
        ("failed", ("Payment failed", "The test made it fail.", "Nothing was charged")),
        (
            "expired",
            ("has expired", "Do not send money now", "If you already sent money, keep the transaction id"),
        ),
        ("cancelled", ("Payment cancelled", "Nothing was charged")),
    ],
)
async def test_each_status_says_what_happened_and_what_to_do(
    shop: Shop, to: str, words: tuple[str, ...]
) -> None:
    payment = await shop.pay()
    await move(shop, payment, to)
    said = texts(await get(shop, f"/pay/{payment}"))
    assert all(word in said for word in words), said
    assert "Cancel this payment" not in said


async def test_a_payment_that_fails_after_it_was_sent_does_not_claim_that_nothing_was_charged(
    shop: Shop,
) -> None:
    payment = await shop.pay()
    await move(shop, payment, "processing")
    await move(shop, payment, "failed")
    said = texts(await get(shop, f"/pay/{payment}"))
    assert "Nothing was charged" not in said
    assert "If money left your wallet, keep the transaction id" in said


async def test_the_reason_that_a_merchant_reads_is_not_what_its_buyer_reads(shop: Shop) -> None:
    payment = await shop.pay()
    body = {"to": "failed", "reason": "card of Ada <b>stolen</b>"}
    assert (await shop.call("POST", f"/v1/test/payments/{payment}/simulate", body)).status == 200
    said = texts(await get(shop, f"/pay/{payment}"))
    assert "stolen" not in said
    assert "It was declined." in said
    assert "stolen" in (await shop.call("GET", f"/v1/payments/{payment}")).body["failureReason"]


async def test_every_page_has_the_same_strict_headers(shop: Shop) -> None:
    found, payment = [await get(shop, f"/pay/{UNKNOWN}")], ""
    for to in ("", "processing", "succeeded", "failed", "expired", "cancelled"):
        payment = await shop.pay()
        if to:
            await move(shop, payment, to)
        found.append(await get(shop, f"/pay/{payment}"))
    found.append(await post(shop, f"/pay/{payment}/simulate", "to=settled"))
    found.append(await post(shop, f"/pay/{payment}/simulate", "to=failed", origin="https://evil.example"))
    assert [one.status for one in found] == [404, *[200] * 6, 400, 403]
    quiet = ("content-security-policy", "referrer-policy", "cache-control", "x-robots-tag")
    assert len({tuple(one.headers[name] for name in quiet) for one in found}) == 1
    assert not re.search(r"unsafe|\*|http:|https:", found[0].headers["content-security-policy"])


@pytest.mark.parametrize(
    ("form", "headers", "said"),
    [
        ("to=cancelled", {}, "The payment has moved on Look at it as it is now."),
        ("to=failed", {"origin": "https://evil.example"}, "Not from here Open the payment"),
        ("to=settled", {}, "That did not work Look at the payment as it is now"),
    ],
)
async def test_a_refusal_is_in_the_pages_own_words(
    shop: Shop, form: str, headers: dict[str, Any], said: str
) -> None:
    payment = await shop.pay()
    await move(shop, payment, "processing")
    refused = await post(shop, f"/pay/{payment}/simulate", form, **headers)
    assert refused.status in (400, 403)
    assert said in texts(refused).replace("&#39;", "'")


async def test_an_open_page_reloads_itself_without_scripts_and_a_final_one_does_not(shop: Shop) -> None:
    payment = await shop.pay()
    reload = '<noscript><meta http-equiv="refresh" content="15"></noscript>'
    assert reload in (await get(shop, f"/pay/{payment}")).raw.decode()
    await move(shop, payment, "expired")
    assert reload not in (await get(shop, f"/pay/{payment}")).raw.decode()


async def test_the_status_is_the_feeds_snapshot_and_needs_no_key(shop: Shop) -> None:
    payment = await shop.pay()
    found = await get(shop, f"/pay/{payment}/status", "*/*")
    assert found.status == 200
    assert found.headers["cache-control"] == "no-store"
    assert found.body.keys() == {
        "version",
        "status",
        "isFinal",
        "pollInMs",
        "expiresAt",
        "serverTime",
        "info",
    }
    assert found.body["status"] == "requires_action"
    await move(shop, payment, "succeeded")
    after = (await get(shop, f"/pay/{payment}/status")).body
    assert (after["version"], after["isFinal"], after["info"]["txId"]) == (2, True, f"test:{payment}")


@pytest.mark.parametrize("to", ["succeeded", "failed", "expired", "cancelled"])
async def test_the_console_makes_its_four_moves_and_leads_back_to_the_page(shop: Shop, to: str) -> None:
    payment = await shop.pay()
    done = await post(shop, f"/pay/{payment}/simulate", f"to={to}")
    assert (done.status, done.headers["location"]) == (303, f"/pay/{payment}")
    assert await shop.status(payment) == to


async def test_the_console_shows_as_possible_what_is_possible(shop: Shop) -> None:
    payment = await shop.pay()
    await move(shop, payment, "processing")
    body = (await get(shop, f"/pay/{payment}")).raw.decode()
    assert re.findall(r'name="to" value="(\w+)" disabled', body) == ["cancelled"]
    refused = await post(shop, f"/pay/{payment}/simulate", "to=cancelled")
    assert refused.status == 400
    assert f'href="/pay/{payment}"' in refused.raw.decode()
    assert await shop.status(payment) == "processing"


@pytest.mark.parametrize(
    "form", ["", "to=", "to=settled", "to=processing", "to=failed&to=expired", "to=%ff", "x" * 50]
)
async def test_no_other_move_is_made(shop: Shop, form: str) -> None:
    payment = await shop.pay()
    assert (await post(shop, f"/pay/{payment}/simulate", form)).status == 400
    assert await shop.status(payment) == "requires_action"


async def test_a_form_is_sent_as_a_form(shop: Shop) -> None:
    payment = await shop.pay()
    done = await post(shop, f"/pay/{payment}/simulate", "to=failed", content_type="text/plain")
    assert done.status == 415
    assert (await post(shop, f"/pay/{payment}/simulate", "&".join("abcdefghijklmnop"))).status == 400
    assert await shop.status(payment) == "requires_action"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "https://evil.example", "sec_fetch_site": "cross-site"},
        {"origin": "null", "sec_fetch_site": "cross-site"},
        {"origin": "https://pay.example", "sec_fetch_site": "same-site"},
        {"origin": "https://pay.example.evil.example"},
        {"origin": "http://pay.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
    ],
)
@pytest.mark.parametrize("act", ["cancel", "simulate"])
async def test_another_sites_form_is_refused(shop: Shop, act: str, headers: dict[str, Any]) -> None:
    payment = await shop.pay()
    form: dict[str, Any] = {"content_type": "application/x-www-form-urlencoded", "host": "127.0.0.1:8420"}
    path = f"/pay/{payment}/{act}"
    refused = await shop.call("POST", path, key=None, raw=b"to=cancelled", **form, **headers)
    assert (refused.status, refused.code) == (403, "forbidden")
    assert await shop.status(payment) == "requires_action"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://pay.example", "sec_fetch_site": "same-origin"},
        {"origin": "null", "sec_fetch_site": "same-origin"},
        {"origin": "http://localhost:8420"},
        {"sec_fetch_site": "none"},
        {},
    ],
)
async def test_our_own_form_is_let_through_wherever_the_page_was_opened(
    shop: Shop, headers: dict[str, Any]
) -> None:
    payment = await shop.pay()
    done = await shop.call("POST", f"/pay/{payment}/cancel", key=None, host="localhost:8420", **headers)
    assert done.status == 303
    assert await shop.status(payment) == "cancelled"


async def test_the_buyer_cancels_and_the_merchant_is_told_who_did(shop: Shop) -> None:
    payment = await shop.pay()
    done = await post(shop, f"/pay/{payment}/cancel")
    assert (done.status, done.headers["location"]) == (303, f"/pay/{payment}")
    events = (await shop.call("GET", "/v1/events")).body["data"]
    cancelled = [one["envelope"]["data"] for one in events if one["type"] == "payment.cancelled"]
    assert [one["cancelled"]["cancellation_reason"] for one in cancelled] == ["cancelled_by_user"]


async def test_who_cancels_twice_at_once_sees_the_page_both_times(shop: Shop) -> None:
    payment = await shop.pay()
    found: list[int] = []

    async def cancel() -> None:
        found.append((await post(shop, f"/pay/{payment}/cancel")).status)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel)
        nursery.start_soon(cancel)
    assert found == [303, 303]


@pytest.mark.parametrize("to", ["processing", "succeeded", "failed", "expired", "cancelled"])
async def test_what_can_no_longer_be_cancelled_is_shown_as_it_is(shop: Shop, to: str) -> None:
    payment = await shop.pay()
    await move(shop, payment, to)
    before = (await get(shop, f"/pay/{payment}/status")).body["version"]
    assert (await post(shop, f"/pay/{payment}/cancel")).status == 303
    assert await shop.status(payment) == to
    assert (await get(shop, f"/pay/{payment}/status")).body["version"] == before


async def test_a_live_payment_has_a_page_and_cannot_be_simulated(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        payment = await live_payment(shop)
        body = (await get(shop, f"/pay/{payment}")).raw.decode()
        assert "Test mode" not in body
        assert "simulate" not in body
        for to in ("succeeded", "failed", "expired", "cancelled"):
            refused = await post(shop, f"/pay/{payment}/simulate", f"to={to}", "application/json")
            assert (refused.status, refused.code) == (403, "forbidden")
        assert (await get(shop, f"/pay/{payment}/status")).body["status"] == "requires_action"
        assert (await post(shop, f"/pay/{payment}/cancel")).status == 303
        await wait_all_tasks_blocked()
        assert (await get(shop, f"/pay/{payment}/status")).body["status"] == "cancelled"


async def test_unknown_and_malformed_links_give_the_same_page(shop: Shop) -> None:
    paths = [
        UNKNOWN,
        "pay_l" + "0" * 36,
        "pay_t1",
        "x",
        "..",
        "pay_t%2e",
        "%3Cscript%3E",
        "a" * 2000,
        f"{UNKNOWN}/x",
    ]
    pages = [await get(shop, f"/pay/{path}") for path in paths]
    assert {page.status for page in pages} == {404}
    assert len({page.raw for page in pages}) == 1
    assert "No such payment" in texts(pages[0])
    assert pages[0].headers["cache-control"] == "no-store"
    for act in ("cancel", "simulate"):
        refused = await post(shop, f"/pay/{UNKNOWN}/{act}", "to=failed")
        assert (refused.status, refused.raw) == (404, pages[0].raw)


async def test_programs_get_their_refusals_as_json(shop: Shop) -> None:
    for path in (f"/pay/{UNKNOWN}", f"/pay/{UNKNOWN}/status"):
        refused = await get(shop, path, "*/*")
        assert (refused.status, refused.code) == (404, "payment_not_found")
    assert (await get(shop, "/v1/payments/x", BROWSER)).code == "missing_api_key"


async def test_a_refusal_shows_nothing_of_the_inside(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret detail")

    payment = await shop.pay()
    monkeypatch.setattr("payd.web.checkout.routes.view_of", broken)
    found = await get(shop, f"/pay/{payment}")
    assert found.status == 500
    assert "secret detail" not in found.raw.decode()
    assert "Something broke on our side" in texts(found)
    assert found.headers["request-id"] in texts(found)


async def test_too_many_reloads_are_answered_in_words(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", PAYD_RATE_LIMITS_PER_IP="1") as shop:
        payment = await shop.pay()
        found = [await get(shop, f"/pay/{payment}") for _ in range(3)][-1]
        assert (found.status, found.headers["retry-after"]) == (429, "1")
        assert "Too many requests" in texts(found)
