"""A filter as a query, as words to choose from, and as what the store is asked."""

from __future__ import annotations

import pytest

from payd.core.errors import InvalidParams
from payd.core.event import iso_ms
from payd.core.period import DAY_MS
from payd.store.payments import PaymentFilter
from payd.web.dashboard.payments_filter import Chosen, choices_of, filter_of, offset_of
from payd.web.dashboard.visit import Visit
from tests.shop import USDC_BASE, Shop
from tests.web.dashboard.test_visit import visit


def ahead(here: Visit, minutes: int) -> Visit:
    here.request.headers["cookie"] = f"payd-zone={minutes}"
    return here


def test_what_is_not_chosen_is_not_in_links() -> None:
    assert Chosen(q="x", status="failed").query == {"q": "x", "status": "failed"}
    assert Chosen(q="x").is_text_alone
    assert not Chosen(q="x", status="failed").is_text_alone
    assert not Chosen().is_text_alone


async def test_nothing_chosen_is_the_whole_account_and_no_other(shop: Shop) -> None:
    assert filter_of(visit(shop), Chosen()) == PaymentFilter(account_id=shop.account_id)


async def test_days_are_those_of_the_users_clock(shop: Shop) -> None:
    here = ahead(visit(shop), 330)
    found = filter_of(here, Chosen(since="2026-05-18", until="2026-05-18"))
    assert found.start_ms is not None
    assert found.end_ms == found.start_ms + DAY_MS
    assert (found.start_ms + 330 * 60_000) % DAY_MS == 0


@pytest.mark.parametrize("now_min", [60, 120])
async def test_a_year_ends_when_it_did_there_and_not_by_the_clock_of_another_season(
    shop: Shop, now_min: int
) -> None:
    here = visit(shop)
    here.request.headers["cookie"] = f"payd-zone={now_min}; payd-place=Europe/Berlin"
    ends = [filter_of(here, Chosen(since=f"{year}-01-01", until=f"{year}-12-31")) for year in (2026, 2027)]
    assert [iso_ms(one.end_ms or 0) for one in ends] == [
        "2026-12-31T23:00:00.000Z",
        "2027-12-31T23:00:00.000Z",
    ]
    assert ends[1].start_ms == ends[0].end_ms
    june = filter_of(here, Chosen(since="2026-06-01", until="2026-06-30"))
    assert iso_ms(june.start_ms or 0) == "2026-05-31T22:00:00.000Z"


@pytest.mark.parametrize(("said", "meant"), [(330, 330), (-1, -15), (7, 0), (-840, -720), (840, 840)])
async def test_an_odd_clock_is_taken_as_the_nearest_that_exists(shop: Shop, said: int, meant: int) -> None:
    assert offset_of(ahead(visit(shop), said)) == meant


async def test_what_a_page_measured_before_the_clocks_were_changed_counts_no_more(shop: Shop) -> None:
    here = visit(shop)
    here.request.headers["cookie"] = "payd-zone=60; payd-place=Europe/Berlin"
    assert iso_ms(shop.realm.clock.now_ms()).startswith("2026-05")
    assert offset_of(here) == 120


async def test_an_asset_is_found_by_any_of_its_spellings(shop: Shop) -> None:
    found = filter_of(visit(shop), Chosen(asset=USDC_BASE, network="eip155:8453"))
    assert found.asset == USDC_BASE.lower()
    assert found.networks == ("eip155:8453",)


@pytest.mark.parametrize(
    "chosen",
    [
        Chosen(status="x"),
        Chosen(currency="XYZ"),
        Chosen(currency="usd"),
        Chosen(asset="x"),
        Chosen(since="x"),
        Chosen(q="x" * 999),
    ],
)
async def test_what_cannot_be_is_refused(shop: Shop, chosen: Chosen) -> None:
    with pytest.raises(InvalidParams):
        filter_of(visit(shop), chosen)


async def test_only_what_the_account_has_can_be_chosen(shop: Shop) -> None:
    words = shop.realm.words
    found = await shop.realm.db.read(choices_of, shop.account_id, words)
    assert (USDC_BASE.lower(), "USDC on Base") in found.assets
    assert ("eip155:8453", "Base") in found.networks
    assert shop.merchant_id in dict(found.merchants)
    other = await shop.realm.db.read(choices_of, "acct_other", words)
    nothing = (other.merchants, other.currencies, other.assets, other.networks)
    assert [len(one) for one in nothing] == [1, 1, 1, 1]
