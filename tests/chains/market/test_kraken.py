"""Kraken's prices: the bid of the right pair, under whichever name, or none."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from payd.chains.market.kraken import LISTED_MS
from payd.chains.market.kraken import KrakenSource as Source
from payd.chains.market.source import FRESH_MS, UNLISTED_MS, NoSpot, SourceFailed, Spot
from tests.chains.market.exchanges import KRAKEN, NOW_MS, Exchanges, listing, open_line, says, spot, ticker
from tests.receiver import Does, Received, always

BOOKS = {
    "ETH/EUR": ("2500.10", "2500.90"),
    "ETH/USD": ("2750.00", "2750.10"),
    "USDT/USD": ("0.99990", "1.00010"),
    "EUR/USD": ("1.0998", "1.1000"),
    "USDC/EUR": ("0.9090", "0.9091"),
    "SOL/EUR": ("136.40", "136.50"),
}
UNLISTED = NoSpot("not listed", kept_ms=UNLISTED_MS)


def books(**more: tuple[str, str]) -> Exchanges:
    return Exchanges(books={**BOOKS, **{name.replace("_", "/"): book for name, book in more.items()}})


async def ask(exchanges: Exchanges, base: str = "ETH", quote: str = "EUR") -> Spot | NoSpot:
    async with open_line(exchanges) as (client, _):
        return await Source(client, KRAKEN).spot(base, quote, NOW_MS)


async def test_a_price_is_what_the_best_buyer_pays_and_never_what_a_seller_asks() -> None:
    assert await ask(books()) == spot("2500.10")


@pytest.mark.parametrize(
    ("base", "quote", "bid"),
    [("ETH", "USD", "2750"), ("USDT", "USD", "0.9999"), ("USDC", "EUR", "0.909"), ("SOL", "EUR", "136.4")],
)
async def test_pairs_are_found_under_the_names_that_it_has_for_them(base: str, quote: str, bid: str) -> None:
    assert await ask(books(), base, quote) == spot(bid)


async def test_the_name_of_a_pair_is_asked_for_once_and_again_after_a_while() -> None:
    async with open_line(books()) as (client, receiver):
        source = Source(client, KRAKEN)
        for at_ms in (0, 30_000, LISTED_MS - 1):
            await source.spot("ETH", "EUR", NOW_MS + at_ms)
        names = [received.path for received in receiver.received if "AssetPairs" in received.path]
        assert names == ["/0/public/AssetPairs?pair=ETHEUR"]
        assert receiver.received[-1].path == "/0/public/Ticker?pair=XETHZEUR"

        await source.spot("ETH", "EUR", NOW_MS + LISTED_MS)
        assert sum("AssetPairs" in received.path for received in receiver.received) == 2


async def test_a_clock_that_is_set_back_makes_no_name_last_for_longer() -> None:
    exchanges = books()
    async with open_line(exchanges) as (client, _):
        source = Source(client, KRAKEN)
        await source.spot("ETH", "EUR", NOW_MS)
        exchanges.suspended.add("ETH/EUR")

        assert await source.spot("ETH", "EUR", NOW_MS - 1) == NoSpot("not traded now")


async def test_an_answer_of_a_cache_has_the_caches_age() -> None:
    def script(received: Received) -> Does:
        if "Ticker" in received.path:
            return says({"error": [], "result": {"XETHZEUR": ticker("2500", "2501")}}, age="50")
        return says({"error": [], "result": {"XETHZEUR": listing("ETH/EUR")}})

    found = await ask(Exchanges(kraken=script))

    assert found == Spot(Fraction(2500), NOW_MS - 50_000, NOW_MS - 50_000 + FRESH_MS)


async def test_two_that_do_not_meet_are_crossed_through_the_dollar_at_the_worse_price_each() -> None:
    exchanges = books(GBP_USD=("1.2500", "1.2510"))

    assert await ask(exchanges, "ETH", "GBP") == spot(Fraction("2750.00") / Fraction("1.2510"))


@pytest.mark.parametrize("older", ["GBPUSD", "XETHZUSD"])
async def test_a_cross_is_as_old_as_the_older_one(older: str) -> None:
    exchanges = books(GBP_USD=("1.2500", "1.2510"))

    def script(received: Received) -> Does:
        done = exchanges(received)
        is_old = received.path.endswith(f"Ticker?pair={older}")
        return replace(done, headers=(*done.headers, ("age", "50"))) if is_old else done

    found = await ask(Exchanges(kraken=script), "ETH", "GBP")

    assert isinstance(found, Spot)
    assert (found.at_ms, found.good_until_ms) == (NOW_MS - 50_000, NOW_MS - 50_000 + FRESH_MS)


async def test_a_coin_with_the_letters_of_a_currency_is_not_taken_for_it() -> None:
    assert await ask(books(ERN_USD=("1.5000", "1.5010")), "ETH", "ERN") == UNLISTED


@pytest.mark.parametrize(
    ("base", "quote"), [("NONE", "EUR"), ("ETH", "XTS"), ("NONE", "USD"), ("USD", "JPY")]
)
async def test_what_it_does_not_list_has_no_price_and_no_inverse_is_taken(base: str, quote: str) -> None:
    exchanges = books(JPY_EUR=("0.0060", "0.0060"), JPY_XTS=("1", "1"))

    assert await ask(exchanges, base, quote) == UNLISTED


async def test_letters_that_run_together_to_another_pair_are_not_that_pair() -> None:
    assert await ask(books(), "ETHE", "UR") == UNLISTED
    assert await ask(books(), "US", "DCEUR") == UNLISTED


async def test_a_pair_that_is_suspended_has_no_price() -> None:
    exchanges = books()
    exchanges.suspended.add("ETH/EUR")

    assert await ask(exchanges) == NoSpot("not traded now")


@pytest.mark.parametrize("status", ["post_only", "limit_only", "reduce_only", "maintenance"])
async def test_a_pair_that_is_not_wholly_open_has_no_price(status: str) -> None:
    closed = says({"error": [], "result": {"XETHZEUR": listing("ETH/EUR", status)}})

    assert await ask(Exchanges(kraken=always(closed))) == NoSpot("not traded now")


async def test_of_two_pairs_of_one_name_neither_is_taken() -> None:
    twice = says({"error": [], "result": {name: listing("ETH/EUR") for name in ("XETHZEUR", "ETHEUR")}})

    assert await ask(Exchanges(kraken=always(twice))) == UNLISTED


async def test_a_pair_that_is_delisted_has_no_price_until_it_is_listed_again() -> None:
    exchanges = books()
    async with open_line(exchanges) as (client, receiver):
        source = Source(client, KRAKEN)
        await source.spot("USDC", "EUR", NOW_MS)
        del exchanges.books["USDC/EUR"], exchanges.books["EUR/USD"]
        assert await source.spot("USDC", "EUR", NOW_MS) == UNLISTED
        exchanges.books["USDC/EUR"] = ("0.91", "0.91")
        assert await source.spot("USDC", "EUR", NOW_MS) == spot("0.91")

        assert len(receiver.received) > 4


@pytest.mark.parametrize(
    "book",
    [
        ("2500", "2499.99"),
        ("2500", "2525.01"),
        ("2500", "0.00000"),
        ("0.00000", "2500"),
        ("0.00000", "0.00000"),
        ("-2500", "2500"),
        ("NaN", "NaN"),
        ("1e999999999", "1e999999999"),
        ("9" * 15, "9" * 15),
        ("2500,10", "2500,90"),
    ],
)
async def test_a_book_that_makes_no_sense_has_no_price(book: tuple[str, str]) -> None:
    found = await ask(books(ETH_EUR=book))

    assert isinstance(found, NoSpot)
    assert found != UNLISTED


async def test_a_book_may_be_a_hundredth_wide() -> None:
    assert await ask(books(ETH_EUR=("2500", "2525"))) == spot("2500")


@pytest.mark.parametrize(
    "result",
    [
        {"XXBTZEUR": ticker("60000", "60001")},
        {"XETHZEUR": ticker("2500", "2501"), "XXBTZEUR": ticker("60000", "60001")},
        {"ZEURXETH": ticker("0.0004", "0.0004")},
        {},
        {"XETHZEUR": {"a": [], "b": []}},
        {"XETHZEUR": {"a": ["2501"]}},
        {"XETHZEUR": {"a": ["2501"], "b": [2500]}},
        {"XETHZEUR": {"a": "2501", "b": "2500"}},
        [],
        None,
    ],
)
async def test_a_ticker_of_another_shape_or_another_pair_is_a_failure(result: object) -> None:
    def script(received: Received) -> Does:
        if "Ticker" in received.path:
            return says({"error": [], "result": result})
        return says({"error": [], "result": {"XETHZEUR": listing("ETH/EUR")}})

    with pytest.raises(SourceFailed):
        await ask(Exchanges(kraken=script))


async def test_a_listing_of_the_pair_the_wrong_way_round_is_not_the_pair() -> None:
    inverted = says({"error": [], "result": {"XETHZEUR": listing("EUR/ETH")}})

    assert await ask(Exchanges(kraken=always(inverted)), "ETH", "USD") == UNLISTED


@pytest.mark.parametrize(
    ("does", "words"),
    [
        (says({"error": ["EAPI:Rate limit exceeded"]}), "it says EAPI:Rate limit exceeded"),
        (
            says({"error": ["EService:Unavailable", "EQuery:Unknown asset pair"]}),
            "it says EService:Unavailable",
        ),
        (says({"error": ["\u001b[31mred\n"]}), "it says ?[31mred?"),
        (says({"result": {}}), "not the expected JSON"),
        (Does(body=b"<html>Bad gateway</html>"), "not the expected JSON"),
        (Does(status=520), "status 520"),
        (
            Does(body=json.dumps({"error": [], "result": {"X": {"wsname": "ETH/EUR"}}}).encode()),
            "not the expected",
        ),
    ],
)
async def test_an_error_is_a_failure_and_says_which(does: Does, words: str) -> None:
    with pytest.raises(SourceFailed) as caught:
        await ask(Exchanges(kraken=always(does)))

    assert str(caught.value).startswith(words)
