"""Home's numbers: today's, the days' as charts, and what is to be looked at, of this account alone."""

from __future__ import annotations

import re
from typing import Any

import pytest

from payd.core.attention import Matter
from payd.core.period import DAY_MS
from payd.store.db import Tx
from payd.web.dashboard.home_numbers import (
    COUNT_MAX,
    DAYS,
    axis_words,
    count_words,
    home_numbers,
    look_of,
    permille_words,
)
from tests.ledger import sell
from tests.shop import Shop
from tests.visitor import sign_in
from tests.web.dashboard.test_visit import visit


async def fill(shop: Shop, *states: str, days_ago: int = 0, account_id: str = "", **more: Any) -> None:
    at_ms = shop.realm.clock.now_ms() - days_ago * DAY_MS

    def step(tx: Tx) -> None:
        for state in states:
            sell(tx, state, at_ms=at_ms, account_id=account_id or shop.account_id, **more)

    await shop.realm.db.write(step)


async def test_before_anything_happened_there_is_no_chart(shop: Shop) -> None:
    page = await (await sign_in(shop)).get("/d/test/")
    assert "Created today 0 Open now 0 Succeeded today 0" in page.text
    assert "<svg" not in page.html


async def test_today_is_counted_by_kind_and_currency(shop: Shop) -> None:
    await fill(shop, "succeeded", "settled", "failed", "processing", took_ms=200_000)
    await fill(shop, "succeeded", currency="JPY", value=700)
    numbers = await home_numbers(visit(shop))
    assert {one.name: one.value for one in numbers.today} == {
        "Created today": "5",
        "Open now": "1",
        "Succeeded today": "3",
        "Volume today, JPY": "700 JPY",
        "Volume today, USD": "50.00 USD",
        "Success rate today": "75 %",
        "Usual time to succeed": "3 min 20 s",
    }


async def test_each_currency_has_a_chart_and_each_chart_a_table_and_a_title(shop: Shop) -> None:
    await fill(shop, "succeeded", "failed")
    await fill(shop, "succeeded", currency="EUR", days_ago=3)
    page = await (await sign_in(shop)).get("/d/test/")
    assert re.findall(r"<figcaption>([^<]*)<", page.html) == [
        "Succeeded a day",
        "Volume a day, EUR",
        "Volume a day, USD",
        "Success rate",
        "Usual time to succeed",
        "Failures by reason",
    ]
    assert page.html.count('<svg viewBox="0 0 640.0 160.0" role="img"') == 5
    assert page.html.count("As a table") == 6


async def test_the_currencies_that_come_on_most_days_have_the_charts(shop: Shop) -> None:
    for code in ("AUD", "BRL", "CAD", "CHF"):
        await fill(shop, "succeeded", currency=code)
    for days_ago in range(3):
        await fill(shop, "succeeded", currency="USD", days_ago=days_ago)
    page = await (await sign_in(shop)).get("/d/test/")
    found = re.findall(r"<figcaption>Volume a day, ([^<]*)<", page.html)
    assert found == ["AUD", "BRL", "CAD", "USD"]


async def test_a_large_volume_has_short_numbers_on_its_axis(shop: Shop) -> None:
    await fill(shop, "succeeded", currency="IDR", value=3_900_000_000)
    page = await (await sign_in(shop)).get("/d/test/")
    chart = page.html.partition("Volume a day, IDR")[2].partition("</figure>")[0]
    assert re.findall(r'text-anchor="end">([^<]*)<', chart) == ["0", "10 M", "20 M", "30 M", "40 M"]
    assert ">39000000.00</td>" in chart


async def test_failures_are_drawn_by_reason_the_most_frequent_first(shop: Shop) -> None:
    await fill(shop, "failed", reason="The buyer <b>left</b>.")
    await fill(shop, "failed", "failed", reason="No node answered.")
    page = await (await sign_in(shop)).get("/d/test/")
    drawn = page.html.partition("Failures by reason")[2].partition("</figure>")[0]
    assert "Failures by reason. Most often: No node answered., 2.</title>" in drawn
    bars = re.findall(r'<rect x="0" y="([0-9.]+)" width="([0-9.]+)"', drawn)
    assert len(bars) == 2
    assert float(bars[0][1]) == 2 * float(bars[1][1])
    assert float(bars[0][0]) < float(bars[1][0])
    assert re.findall(r'<th [^>]*scope="row">([^<]*)</th><td [^>]*class="number">(\d+)', drawn) == [
        ("No node answered.", "2"),
        ("The buyer &lt;b&gt;left&lt;/b&gt;.", "1"),
    ]


async def test_without_a_failure_there_is_no_chart_of_reasons(shop: Shop) -> None:
    await fill(shop, "succeeded")
    assert "Failures by reason" not in (await (await sign_in(shop)).get("/d/test/")).text


async def test_what_is_older_or_anothers_is_not_in_them(shop: Shop) -> None:
    await fill(shop, "succeeded", days_ago=DAYS)
    await fill(shop, "succeeded", account_id="acct_other")
    assert (await home_numbers(visit(shop))).charts == ()


async def test_what_to_look_at_leads_to_its_page(shop: Shop) -> None:
    await shop.new_merchant(pays=False)
    page = await (await sign_in(shop)).get("/d/test/")
    assert "Soon Café Größe cannot be paid: it has no destination." in page.text


@pytest.mark.parametrize(
    ("matter", "href", "count"),
    [
        (
            Matter("notice", "transfers_late", "x", count=100, is_more=True),
            "/d/test/transfers",
            "100 or more",
        ),
        (Matter("error", "payment_parked", "x", "pay_1"), "/d/test/payments/pay_1", ""),
        (Matter("warning", "endpoint_failing", "x", "ep_1"), "/d/test/webhooks", ""),
        (Matter("warning", "merchant_without_destination", "x", "mrch_1"), "/d/test/merchants/mrch_1", ""),
        (Matter("warning", "space", "x"), "/status", ""),
    ],
)
async def test_a_finding_says_how_many_and_where(shop: Shop, matter: Matter, href: str, count: str) -> None:
    found = look_of(visit(shop), matter)
    assert (found.href, found.count) == (href, count)


async def test_of_several_chains_a_finding_names_its_own(shop: Shop) -> None:
    found = look_of(visit(shop), Matter("error", "chain", "The chain cannot be read.", "eip155:8453"))
    assert (found.words, found.href) == ("eip155:8453: The chain cannot be read.", "/status")
    endpoint = look_of(visit(shop), Matter("warning", "endpoint_failing", "It fails.", "ep_1"))
    assert endpoint.words == "It fails."


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        (0, "EUR", "0"),
        (1, "EUR", "0.01"),
        (250, "EUR", "2.5"),
        (999_900, "EUR", "9999"),
        (1_000_000, "EUR", "10 k"),
        (15 * 10**9, "VND", "15 bn"),
        (3 * 10**20, "IDR", "3000000 tn"),
    ],
)
def test_numbers_of_an_axis_are_short(value: int, code: str, words: str) -> None:
    assert axis_words(value, code) == words


def test_numbers_in_words() -> None:
    assert [permille_words(one) for one in (0, 985, 1000)] == ["0 %", "98.5 %", "100 %"]
    assert [count_words(one) for one in (0, COUNT_MAX)] == ["0", "10000 or more"]
