"""The list of payments: what it shows, what it finds, what is new, and what is taken along."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from payd.core.roles import Role
from payd.store.keys import list_keys
from payd.web.dashboard import payments
from tests.shop import Shop, open_shop
from tests.visitor import Page, Visitor, sign_in

LIST = "/d/test/payments"


def listed(page: Page) -> list[str]:
    """The references of the rows."""
    return re.findall(r'<th [^>]*scope="row"><a href="[^"]*"><bdi>([^<]*)</bdi></a>', page.html)


def known(page: Page) -> list[str]:
    return re.findall(r'name="row" id="row-[^"]*" value="([^"]*)"', page.html)


def live_of(page: Page) -> str:
    found = re.search(r'hx-get="([^"]*)"', page.html)
    assert found is not None
    return found[1].replace("&amp;", "&")


async def taken(page: Page) -> list[dict[str, str]]:
    parts = page.got
    return list(csv.DictReader(io.StringIO(parts.raw.decode(), newline="")))


@pytest.fixture
async def visitor(shop: Shop) -> Visitor:
    return await sign_in(shop)


async def move(shop: Shop, payment_id: str, to: str) -> None:
    moved = await shop.call("POST", f"/v1/test/payments/{payment_id}/simulate", {"to": to})
    assert moved.status == 200


async def test_an_empty_list_teaches(visitor: Visitor) -> None:
    page = await visitor.get(LIST)
    assert "No payments yet" in page.text
    assert "/d/test/payments/create" in page.html


async def test_a_row_says_what_was_asked_what_was_paid_and_how_it_stands(
    shop: Shop, visitor: Visitor
) -> None:
    payment = await shop.pay("ORDER-7", "2500", "iso4217/EUR")
    await move(shop, payment, "succeeded")
    await move(shop, payment, "settled")
    page = await visitor.get(LIST)
    assert listed(page) == ["ORDER-7"]
    for words in ("25.00 EUR", "USDC", "Base", "Succeeded", "Settled"):
        assert words in page.text
    assert f'href="/d/test/payments/{payment}"' in page.html


async def test_a_reference_that_nobody_can_see_is_not_what_a_row_is_called(
    shop: Shop, visitor: Visitor
) -> None:
    payment = await shop.pay(" \u3000")
    assert listed(await visitor.get(LIST)) == [payment]
    assert f"<title>[Test] {payment}" in (await visitor.get(f"{LIST}/{payment}")).html


async def test_filters_combine(shop: Shop, visitor: Visitor) -> None:
    other = await shop.new_merchant()
    await move(shop, await shop.pay("A-1"), "succeeded")
    await shop.pay("A-2")
    shop.merchant_id = other
    await move(shop, await shop.pay("A-3"), "succeeded")
    assert listed(await visitor.get(f"{LIST}?status=succeeded")) == ["A-3", "A-1"]
    assert listed(await visitor.get(f"{LIST}?status=succeeded&merchant={other}")) == ["A-3"]
    assert listed(await visitor.get(f"{LIST}?network=eip155:8453")) == ["A-3", "A-1"]
    assert listed(await visitor.get(f"{LIST}?q=A-&status=requires_action")) == ["A-2"]
    nothing = await visitor.get(f"{LIST}?since=2020-01-01&until=2020-01-02")
    assert "Nothing passes this filter" in nothing.text


async def test_what_nobody_offers_is_refused_in_words(visitor: Visitor) -> None:
    for query in ("status=x", "since=x", "asset=x", "network=x", "cursor=x", f"q={'x' * 600}"):
        found = await visitor.get(f"{LIST}?{query}")
        assert (found.status, "request" in found.title) == (400, False), query


async def test_a_search_for_one_thing_goes_there(shop: Shop, visitor: Visitor) -> None:
    first = await shop.pay("ORDER-1")
    await shop.pay("ORDER-10")
    await move(shop, first, "succeeded")
    for text in (first, "ORDER-1", f"test:{first}"):
        assert (await visitor.get(f"{LIST}?q={text}")).to == f"{LIST}/{first}", text
    assert listed(await visitor.get(f"{LIST}?q=ORDER")) == ["ORDER-10", "ORDER-1"]


async def test_a_search_that_finds_nothing_says_what_would(shop: Shop, visitor: Visitor) -> None:
    payment = await shop.pay("ORDER-1042")
    for text in ("1042", "order-1042"):
        said = (await visitor.get(f"{LIST}?q={text}")).text
        assert "look for the beginning of a reference, as it is written there" in said
    assert (await visitor.get(f"{LIST}?q=ORDER-10")).to == f"{LIST}/{payment}"


async def test_a_search_for_a_delivery_or_an_event_goes_there(shop: Shop, visitor: Visitor) -> None:
    await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://203.0.114.9/hook"})
    payment = await shop.pay("ORDER-1")
    page = await visitor.get(f"{LIST}/{payment}")
    [delivery] = re.findall(r'name="delivery" value="(\w+)"', page.html)
    [event] = re.findall(r"<code>(evt_\w+)</code>", page.html)
    found = await visitor.get(f"{LIST}?q={delivery}")
    assert found.to == f"/d/test/webhooks/deliveries/{delivery}"
    assert f'href="{found.to}"' in page.html
    assert (await visitor.get(found.to)).status == 200
    assert (await visitor.get(f"{LIST}?q={event}")).to == f"{LIST}/{payment}"


async def test_keys_and_requests_are_found_by_who_sees_their_pages(shop: Shop) -> None:
    [key] = shop.realm.db.point(list_keys, shop.account_id)
    request = (await shop.call("GET", "/v1/payments/pay_tx")).headers["request-id"]
    await shop.realm.api_log.run_once()
    looking, knowing = await sign_in(shop, Role.SUPPORT), await sign_in(shop, Role.DEVELOPER)
    for sought, words, href in (
        (key.id, f"Also found {key.name} key", "/d/test/keys"),
        (request, "Also found GET /v1/payments/{id} request", f"/d/test/log?request={request}"),
    ):
        assert "Also found" not in (await looking.get(f"{LIST}?q={sought}")).text
        found = await knowing.get(f"{LIST}?q={sought}")
        assert words in found.text
        assert f'<li><a href="{href}">' in found.html


async def test_a_search_by_name_finds_the_merchants_payments(shop: Shop, visitor: Visitor) -> None:
    merchant = await shop.new_merchant()
    found = await visitor.get(f"{LIST}?q=Gr%C3%B6%C3%9Fe")
    assert "Also found Café Größe merchant" in found.text
    assert f"{LIST}?merchant={merchant}" in found.html


async def test_pages_stay_as_they_are_while_payments_arrive(
    shop: Shop, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payments, "ROWS", 2)
    for number in range(5):
        await shop.pay(f"N-{number}")
    first = await visitor.get(LIST)
    await shop.pay("N-NEW")
    older = re.search(r'href="([^"]*cursor=[^"]*)"', first.html)
    assert older is not None
    second = await visitor.get(older[1].replace("&amp;", "&"))
    assert (listed(first), listed(second)) == (["N-4", "N-3"], ["N-2", "N-1"])
    assert "Back to the newest" in second.text


async def test_live_parts_are_only_what_changed_and_how_many_are_new(shop: Shop, visitor: Visitor) -> None:
    paid, still = await shop.pay("P-1"), await shop.pay("P-2")
    page = await visitor.get(LIST)
    query = live_of(page) + "".join(f"&row={one}" for one in known(page)) + "&new=0"
    nothing = await visitor.get(query, hx_request="true")
    assert nothing.html.strip() == ""
    await move(shop, paid, "processing")
    await shop.pay("P-3")
    found = await visitor.get(query, hx_request="true")
    assert f'id="status-{paid}" hx-swap-oob="true"' in found.html
    assert still not in found.html
    assert "1 new — Show" in found.text
    assert "P-3" not in found.html
    assert "<html" not in found.html


async def test_live_parts_of_another_account_are_not_there(shop: Shop, visitor: Visitor) -> None:
    key = shop.other_key
    merchant = await shop.new_merchant(key=key)
    body = {"referenceId": "THEIRS", "amount": {"unit": "iso4217/USD", "value": "100"}}
    made = await shop.call("POST", "/v1/payments", body, key=key, merchant_id=merchant)
    found = await visitor.get(f"{LIST}?after=0&row={made.body['paymentId']}.9&new=0", hx_request="true")
    assert found.html.strip() == ""


async def test_simulations_are_offered_where_they_are_possible_and_allowed(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        await shop.pay()
        seen = await (await sign_in(shop, Role.SUPPORT)).get(LIST)
        assert set(re.findall(r'name="to" value="(\w+)"', seen.html)) == {
            "processing",
            "succeeded",
            "failed",
            "expired",
            "cancelled",
        }
        assert 'name="to"' not in (await (await sign_in(shop, Role.VIEWER)).get(LIST)).html
        assert "Simulate" not in (await (await sign_in(shop)).get("/d/live/payments")).text


async def test_the_export_has_the_filters_own_rows(shop: Shop, visitor: Visitor) -> None:
    await move(shop, await shop.pay("X-1"), "succeeded")
    await shop.pay("=X-2")
    page = await visitor.get(f"{LIST}.csv?status=requires_action")
    assert page.got.headers["content-type"] == "text/csv; charset=utf-8"
    assert page.got.headers["content-disposition"].startswith('attachment; filename="payments-test-')
    assert [row["reference_id"] for row in await taken(page)] == ["'=X-2"]
    everything = await taken(await visitor.get(f"{LIST}.csv"))
    assert [row["reference_id"] for row in everything] == ["'=X-2", "X-1"]


async def test_a_currency_is_chosen_from_those_there_are_and_combines_with_all_else(
    shop: Shop, visitor: Visitor
) -> None:
    await shop.pay("A-1", "2500", "iso4217/EUR")
    one = await visitor.get(LIST)
    assert 'name="currency"' not in one.html, "one currency is no choice"
    assert 'type="hidden" name="currency" value="EUR"' in (await visitor.get(f"{LIST}?currency=EUR")).html
    await shop.pay("A-2")
    await move(shop, await shop.pay("B-3", "700", "iso4217/JPY"), "succeeded")
    await move(shop, await shop.pay("A-4", "2500", "iso4217/EUR"), "succeeded")
    page = await visitor.get(f"{LIST}?currency=EUR")
    assert listed(page) == ["A-4", "A-1"]
    assert re.findall(r'<option value="([A-Z]{3})"( selected)?>', page.html) == [
        ("EUR", " selected"),
        ("JPY", ""),
        ("USD", ""),
    ]
    for query, found in (
        ("currency=EUR&status=succeeded", ["A-4"]),
        ("currency=EUR&q=A-&network=eip155:8453", ["A-4"]),
        ("currency=JPY&q=A-", []),
        (f"currency=JPY&merchant={shop.merchant_id}", ["B-3"]),
        ("currency=USD&since=2020-01-01&until=2020-01-02", []),
    ):
        assert listed(await visitor.get(f"{LIST}?{query}")) == found, query
        rows = await taken(await visitor.get(f"{LIST}.csv?{query}"))
        assert [row["reference_id"] for row in rows] == found, query
    assert f'href="{LIST}.csv?currency=EUR"' in page.html
    refused = await visitor.get(f"{LIST}?currency=XYZ")
    assert (refused.status, "no such currency" in refused.text) == (400, True)


async def test_what_is_new_is_counted_in_the_chosen_currency(shop: Shop, visitor: Visitor) -> None:
    page = await visitor.get(f"{LIST}?currency=EUR")
    await shop.pay("A-1")
    await shop.pay("A-2", "2500", "iso4217/EUR")
    assert "1 new —" in (await visitor.get(live_of(page), hx_request="true")).text


async def test_a_merchant_that_is_no_choice_any_more_is_named_where_it_is_chosen(shop: Shop) -> None:
    visitor = await sign_in(shop)
    await shop.pay()
    for _ in range(2):
        await shop.new_merchant()
    await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}")
    page = await visitor.get(f"/d/test/payments?merchant={shop.merchant_id}")
    assert f'<option value="{shop.merchant_id}" selected>Café Größe</option>' in page.html
    other = await visitor.get("/d/test/payments?merchant=mrch_other&currency=EUR")
    assert '<option value="mrch_other" selected>mrch_other</option>' in other.html
