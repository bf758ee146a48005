"""The log of API requests as a page."""

from __future__ import annotations

import re

import pytest

from payd.actors.maintenance import REQUESTS_KEPT_MS
from payd.core.roles import Role
from payd.store.api_log import Logged, insert_logged
from payd.store.keys import list_keys, revoke_key
from payd.web.query import parse_instant_ms
from tests.shop import Shop
from tests.visitor import sign_in

PAGE = "/d/test/log"


async def log(shop: Shop, *entries: Logged) -> None:
    await shop.realm.db.write(insert_logged, entries)


def shown(html: str) -> list[str]:
    return re.findall(r"<td[^>]*><code>(req_\w+)</code></td>", html)


def entry(shop: Shop, number: int, **more: object) -> Logged:
    values: dict[str, object] = {
        "at_ms": shop.realm.clock.now_ms(),
        "account_id": shop.account_id,
        "actor": "key_none",
        "request_id": f"req_{number}",
        "method": "GET",
        "route": "/v1/payments/{id}",
        "subject": f"pay_t{number}",
        "status": 200,
        "took_ms": 5,
        "error": None,
    }
    return Logged(**(values | more))  # type: ignore[arg-type]


async def test_requests_stand_there_with_key_path_code_and_what_a_refusal_said(shop: Shop) -> None:
    await shop.call("POST", "/v1/payments", {"referenceId": 5}, merchant_id=shop.merchant_id)
    await shop.realm.api_log.run_once()
    page = await (await sign_in(shop, Role.DEVELOPER)).get(PAGE)
    assert f"(…{shop.key[-4:]})" in page.text
    assert "POST /v1/payments params_validation" in page.text
    assert '"code": "params_validation"' in page.text


async def test_a_refusal_is_shown_as_text_whatever_it_holds(shop: Shop) -> None:
    bad = b'{"code":"<img src=x>","message":"</code><script>1</script>'
    await log(shop, entry(shop, 1, status=400, error=bad), entry(shop, 2, status=400, error=b"\xff<script>2"))
    page = await (await sign_in(shop)).get(PAGE)
    assert "&lt;script&gt;1&lt;/script&gt;" in page.html
    assert "<script>" not in page.html
    assert "<img src=x>" not in page.html


async def test_a_path_stands_on_one_line_whatever_it_holds(shop: Shop) -> None:
    await log(shop, entry(shop, 1, subject="pay_\u202eevil\nPOST"))
    page = await (await sign_in(shop)).get(PAGE)
    assert "/v1/payments/pay_ evil POST" in page.text
    assert "\u202e" not in page.html


async def test_a_revoked_key_can_be_chosen_as_long_as_its_requests_are_kept(shop: Shop) -> None:
    key = await shop.new_key()
    made = next(one for one in shop.realm.db.point(list_keys, shop.account_id) if one.last4 == key[-4:])
    visitor, clock = await sign_in(shop, Role.DEVELOPER), shop.realm.clock
    await shop.realm.db.write(
        revoke_key, account_id=shop.account_id, key_id=made.id, actor="test", now_ms=clock.now_ms()
    )
    clock.move_to_offset(REQUESTS_KEPT_MS - 60_000)
    assert made.id in (await visitor.get(PAGE)).html
    clock.move_to_offset(REQUESTS_KEPT_MS + 60_000)
    page = await visitor.get(PAGE)
    assert made.id not in page.html
    assert shop.key[-4:] in page.html


async def test_since_is_what_ones_clock_showed_then(shop: Shop) -> None:
    at_ms = parse_instant_ms("2026-05-28T10:30:00Z", "at")
    await log(shop, entry(shop, 1, at_ms=at_ms - 1), entry(shop, 2, at_ms=at_ms))
    visitor = await sign_in(shop, Role.DEVELOPER)
    visitor.cookies |= {"payd-zone": "60", "payd-place": "Europe/Berlin"}
    page = await visitor.get(f"{PAGE}?since=2026-05-28T12:30")
    assert shown(page.html) == ["req_2"]
    assert "Since, Europe/Berlin" in page.text


async def test_filters_combine(shop: Shop) -> None:
    await log(
        shop,
        entry(shop, 1),
        entry(shop, 2, status=404, error=b"{}", actor="key_b"),
        entry(shop, 3, status=500, error=b"{}", method="POST", route="/v1/payments", subject=""),
        entry(shop, 4, account_id="acct_other"),
    )
    visitor = await sign_in(shop)

    async def of(query: str) -> list[str]:
        return [one for one in shown((await visitor.get(f"{PAGE}?{query}")).html) if len(one) == 5]

    assert await of("") == ["req_3", "req_2", "req_1"]
    assert await of("code=refused") == ["req_3", "req_2"]
    assert await of("code=404") == await of("key=key_b") == await of("code=refused&method=GET") == ["req_2"]
    assert await of("code=2xx&request=pay_t1") == ["req_1"]
    assert await of("request=/v1/payments/pay_t2") == ["req_2"]
    assert await of("request=/v1/payments/{id}") == ["req_2", "req_1"]
    assert await of("request=/v1/payments&method=POST") == ["req_3"]
    assert await of("request=req_1") == ["req_1"]
    assert await of("request=/nowhere") == await of("since=2200-01-01T00:00") == []
    assert await of("request=req_4") == await of("request=pay_t4") == []
    for wrong in ("code=1", "method=x", "since=x", "cursor=x"):
        assert (await visitor.get(f"{PAGE}?{wrong}")).status == 400


async def test_pages_go_on_and_what_is_new_is_counted(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payd.web.dashboard.log.PAGE_ROWS", 2)
    visitor = await sign_in(shop)
    await log(shop, *(entry(shop, number) for number in range(3)))
    first = await visitor.get(PAGE)
    await log(shop, entry(shop, 7))
    [live] = re.findall(r'hx-get="([^"]+)"', first.html)
    assert "1 new — Show" in (await visitor.get(live, hx_request="true")).text
    [older] = re.findall(r'class="button" href="([^"]+)">Older', first.html)
    second = await visitor.get(older)
    assert shown(first.html) == ["req_2", "req_1"]
    assert shown(second.html)[:1] == ["req_0"]
    await log(shop, entry(shop, 8), entry(shop, 9))
    assert "more than 2 new" in (await visitor.get(live, hx_request="true")).text


async def test_an_empty_log_says_what_it_is_for(shop: Shop) -> None:
    visitor = await sign_in(shop, account_id=list(shop.house.accounts)[-1])
    assert "No requests yet" in (await visitor.get(PAGE)).text
    assert (await (await sign_in(shop, Role.SUPPORT)).get(PAGE)).status == 403
