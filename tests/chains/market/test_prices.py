"""Prices of the market: agreed on by sources over HTTP and a chain, or none, and a word about it once."""

from __future__ import annotations

import ipaddress
from fractions import Fraction

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from payd.chains.assets import Asset, shipped_table
from payd.chains.market.chainlink import ChainFeeds, ChainlinkSource, Feed
from payd.chains.market.coinbase import CoinbaseSource
from payd.chains.market.http import market_client
from payd.chains.market.kraken import KrakenSource
from payd.chains.market.prices import PAIRS_KEPT_MAX, TICKERS, MarketPrices, Priced
from payd.chains.market.source import ASK_S, FRESH_MS, REFRESH_MS, NoSpot, Source, Spot
from payd.core.money import MINOR_UNITS, Rate, convert_up, exponent
from tests.chains.market.exchanges import (
    COINBASE,
    ETH,
    EURC,
    KRAKEN,
    NOW_MS,
    SOL,
    USDC,
    USDT0,
    Exchanges,
    FakeFeed,
    Node,
    Says,
    known_asset,
    open_line,
    spot,
)
from tests.receiver import Does, Receiver, always

FEEDS = ChainFeeds(
    {
        "ETH/USD": Feed("0xeth", 3600, 8),
        "USDC/USD": Feed("0xusdc", 86_400, 8),
        "EUR/USD": Feed("0xeur", 86_400, 8),
    }
)
PAGE = always(Does(body=b"<!DOCTYPE html><html><body>Just a moment...</body></html>"))


def exchanges(**changed: object) -> Exchanges:
    """A quiet day."""
    day = Exchanges(
        books={
            "ETH/EUR": ("2500", "2501"),
            "ETH/USD": ("2750", "2751"),
            "USDC/EUR": ("0.9090", "0.9091"),
            "USDC/USD": ("0.9999", "1.0000"),
            "EURC/EUR": ("0.9990", "0.9999"),
        },
        rates={
            "ETH": {"EUR": "2502", "USD": "2752"},
            "USDC": {"EUR": "0.91", "USD": "1"},
            "EURC": {"EUR": "1"},
        },
    )
    for name, value in changed.items():
        setattr(day, name, value)
    return day


def feeds(**changed: FakeFeed) -> Node:
    known = {
        "0xeth": FakeFeed("ETH / USD", 275_100_000_000),
        "0xusdc": FakeFeed("USDC / USD", 99_990_000),
        "0xeur": FakeFeed("EUR / USD", 110_000_000),
    }
    return Node({**known, **changed})


async def price(
    day: Exchanges, node: Node | None = None, currency: str = "EUR", asset: Asset = ETH
) -> Priced | None:
    """What the asset costs by Kraken and Coinbase, and by Chainlink where there is a node."""
    async with open_line(day) as (client, _):
        sources: list[Source] = [KrakenSource(client, KRAKEN), CoinbaseSource(client, COINBASE)]
        if node is not None:
            sources.append(ChainlinkSource("eip155:8453", node.call, FEEDS))
        return await MarketPrices(sources).price(currency, asset, NOW_MS)


def two(value: str, other: str, pair: tuple[str, str] = ("ETH", "EUR")) -> tuple[MarketPrices, Says, Says]:
    one, another = Says("one", values={pair: value}), Says("two", values={pair: other})
    return MarketPrices([one, another]), one, another


async def test_a_price_is_the_median_of_what_the_sources_say() -> None:
    assert await price(exchanges()) == Priced(Rate(1, 2501), ("coinbase", "kraken"), NOW_MS, stable=False)


async def test_sol_has_a_price_by_both_exchanges_and_needs_both() -> None:
    books = {"SOL/USD": ("150.10", "150.20"), "SOL/EUR": ("136.40", "136.50")}
    rates = {"SOL": {"USD": "150.30", "EUR": "136.60"}}
    for currency, median in (("USD", "150.20"), ("EUR", "136.50")):
        found = await price(Exchanges(books=books, rates=rates), None, currency, SOL)
        assert found is not None
        assert Fraction(found.rate.denominator, found.rate.numerator) == Fraction(median)
        assert (found.sources, found.stable) == (("coinbase", "kraken"), False)
        assert await price(Exchanges(books=books), None, currency, SOL) is None


async def test_what_a_test_cluster_calls_sol_costs_what_sol_does() -> None:
    day = Exchanges(books={"SOL/USD": ("150", "151")}, rates={"SOL": {"USD": "150"}})
    for cluster in ("EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z"):
        coin = known_asset(f"solana:{cluster}/slip44:501")
        found = await price(day, None, "USD", coin)
        assert found is not None
        assert found.rate == Rate(1, 150)


async def test_a_third_source_moves_the_median_and_is_named() -> None:
    found = await price(exchanges(), feeds())

    assert found is not None
    assert Fraction(found.rate.denominator, found.rate.numerator) == Fraction(2751) / Fraction("1.1")
    assert found.sources == ("chainlink", "coinbase", "kraken")


async def test_a_price_is_as_old_as_its_oldest_source() -> None:
    older = FakeFeed("ETH / USD", 275_100_000_000, updated_at_s=NOW_MS // 1000 - 3000)

    found = await price(exchanges(), feeds(**{"0xeth": older}))

    assert found is not None
    assert found.at_ms == NOW_MS - 3_000_000


@pytest.mark.parametrize(
    "changed",
    [
        {"coinbase": PAGE},
        {"kraken": PAGE},
        {"kraken": always(Does(hangs=True))},
        {"coinbase": always(Does(status=503))},
        {"rates": {"ETH": {"EUR": "0.0004"}}},
        {"rates": {"ETH": {"EUR": "2600"}}},
        {"rates": {"ETH": {"EUR": "NaN"}}},
        {"rates": {"ETH": {"EUR": "-2500"}}},
        {"rates": {"ETH": {"EUR": "1"}}},
        {"rates": {"ETH": {"EUR": "9" * 15}}},
        {"books": {"ETH/EUR": ("0.0004", "0.0004")}},
        {"books": {}},
    ],
)
async def test_without_two_that_agree_there_is_no_price(changed: dict[str, object]) -> None:
    assert await price(exchanges(**changed)) is None


@pytest.mark.parametrize("changed", [{"coinbase": PAGE}, {"kraken": PAGE}, {"books": {}}])
async def test_with_three_sources_one_may_be_out(changed: dict[str, object]) -> None:
    assert await price(exchanges(**changed), feeds()) is not None


async def test_a_currency_on_its_stablecoin_is_one_to_one_while_the_market_says_so() -> None:
    assert await price(exchanges(), feeds(), "USD", USDC) == Priced(
        Rate(1, 1), ("chainlink", "kraken"), NOW_MS, stable=True
    )
    assert await price(exchanges(), None, "EUR", EURC) == Priced(
        Rate(1, 1), ("coinbase", "kraken"), NOW_MS, stable=True
    )


@pytest.mark.parametrize("answer", [99_499_999, 100_500_001, 90_000_000])
async def test_one_oracle_that_sees_the_stablecoin_off_its_par_ends_the_offer(answer: int) -> None:
    node = feeds(**{"0xusdc": FakeFeed("USDC / USD", answer)})

    assert await price(exchanges(), node, "USD", USDC) is None


async def test_without_an_oracle_a_stablecoin_is_not_offered_and_a_peg_is_none() -> None:
    assert await price(exchanges(kraken=PAGE), None, "USD", USDC) is None


async def test_a_stablecoin_in_another_currency_has_a_price_and_no_par() -> None:
    found = await price(exchanges(), feeds(), "EUR", USDC)

    assert found is not None
    assert not found.stable
    assert Fraction(found.rate.denominator, found.rate.numerator) == Fraction("0.9999") / Fraction("1.1")


async def test_stablecoins_may_be_half_as_far_apart_as_others() -> None:
    ether, *_ = two("1.000", "1.007")
    stable, *_ = two("1.000", "1.007", ("USDC", "EUR"))

    assert await ether.price("EUR", ETH, NOW_MS) is not None
    assert await stable.price("EUR", USDC, NOW_MS) is None


@pytest.mark.parametrize(("older_s", "newer_s"), [(1, 2), (2, 1)])
async def test_two_sources_of_one_provider_are_one_word_and_the_newer_one(
    older_s: float, newer_s: float
) -> None:
    older = Says("chainlink/a", "chainlink", spot("2500", NOW_MS - 5000), delay_s=older_s)
    newer = Says("chainlink/b", "chainlink", spot("2501"), delay_s=newer_s)
    same = [older, newer]

    assert await MarketPrices(same).price("EUR", ETH, NOW_MS) is None
    found = await MarketPrices([*same, Says("kraken", answer=spot("2501"))]).price("EUR", ETH, NOW_MS)
    assert found == Priced(Rate(1, 2501), ("chainlink", "kraken"), NOW_MS, stable=False)


async def test_an_asset_that_markets_call_otherwise_is_asked_for_by_their_name() -> None:
    prices, one, _ = two("1", "0.9999", ("USDT", "USD"))

    found = await prices.price("USD", USDT0, NOW_MS)

    assert one.asked == [("USDT", "USD")]
    assert found is not None
    assert found.stable


@pytest.mark.parametrize("symbol", ["", "ETH/USD", "ETH&pair=XBT", "eth", "USD₮0", "A" * 13, "ETH "])
async def test_a_symbol_that_no_market_can_have_is_not_asked_for(symbol: str) -> None:
    prices, one, _ = two("1", "1")

    assert await prices.price("EUR", msgspec.structs.replace(ETH, symbol=symbol), NOW_MS) is None
    assert not one.asked


async def test_every_source_is_asked_at_once_and_a_slow_one_costs_its_own_time_only() -> None:
    slow = [Says(name, answer=spot("2500"), delay_s=2) for name in "abc"]
    prices = MarketPrices([*slow, Says("dead", delay_s=1e6)])
    started_s = trio.current_time()

    assert await prices.price("EUR", ETH, NOW_MS) is not None
    assert trio.current_time() - started_s == pytest.approx(ASK_S)


async def test_a_price_is_not_asked_for_again_within_moments() -> None:
    prices, one, _ = two("2500", "2501")
    for at_ms in (0, 1000, REFRESH_MS - 1):
        assert await prices.price("EUR", ETH, NOW_MS + at_ms) is not None
    assert len(one.asked) == 1

    await prices.price("EUR", ETH, NOW_MS + REFRESH_MS)
    assert len(one.asked) == 2


async def test_a_price_that_cannot_be_read_again_ends_after_two_minutes() -> None:
    prices, one, another = two("2500", "2501")
    await prices.price("EUR", ETH, NOW_MS)
    one.answer = another.answer = "it broke"

    assert await prices.price("EUR", ETH, NOW_MS + FRESH_MS - 1) is not None
    assert await prices.price("EUR", ETH, NOW_MS + FRESH_MS) is None


async def test_a_source_that_jumps_alone_is_set_aside_and_the_others_go_on() -> None:
    sources = [Says(name, values={("ETH", "EUR"): "2500"}) for name in "abc"]
    prices = MarketPrices(sources)
    await prices.price("EUR", ETH, NOW_MS)
    sources[2].values = {("ETH", "EUR"): "0.0004"}

    found = await prices.price("EUR", ETH, NOW_MS + REFRESH_MS)
    assert found is not None
    assert found.sources == ("a", "b")
    fresh = MarketPrices(sources)
    assert await fresh.price("EUR", ETH, NOW_MS) is None


async def test_a_source_that_jumps_alone_is_set_aside_where_the_word_that_was_agreed_on_is_old() -> None:
    feed = Spot(Fraction(2500), NOW_MS - 3_600_000, NOW_MS + 2 * REFRESH_MS)
    sources = [Says(name, values={("ETH", "EUR"): "2500"}) for name in "ab"]
    prices = MarketPrices([*sources, Says("c", answer=feed)])
    await prices.price("EUR", ETH, NOW_MS)
    sources[0].values = {("ETH", "EUR"): "0.0004"}

    found = await prices.price("EUR", ETH, NOW_MS + REFRESH_MS)
    assert found is not None
    assert found.sources == ("b", "c")


async def test_a_crash_of_the_price_is_followed_once_two_have_seen_it() -> None:
    prices, one, another = two("2500", "2500")
    await prices.price("EUR", ETH, NOW_MS)
    one.values = {("ETH", "EUR"): "1000"}
    assert await prices.price("EUR", ETH, NOW_MS + REFRESH_MS) is None
    another.values = {("ETH", "EUR"): "1001"}

    found = await prices.price("EUR", ETH, NOW_MS + 2 * REFRESH_MS)
    assert found is not None
    assert found.rate == Rate(2, 2001)


async def test_the_reason_is_logged_once_for_each_change_and_the_return_once() -> None:
    prices, one, _ = two("2500", "2501")
    now_ms = NOW_MS
    with capture_logs() as lines:
        for answer in (None, "it broke", "it broke", NoSpot("not traded now"), spot("2600"), None, None):
            now_ms += FRESH_MS
            one.answer = spot("2600", now_ms) if isinstance(answer, Spot) else answer
            await prices.price("EUR", ETH, now_ms)

    assert [line["event"] for line in lines] == ["rates.unavailable", "rates.unavailable", "rates.available"]
    alone, apart, _ = lines
    assert (alone["symbol"], alone["currency"], alone["log_level"]) == ("ETH", "EUR", "warning")
    assert alone["problem"] == "fewer than two sources have a fresh price"
    assert alone["said"] == {"one": "too old", "two": "2501"}
    assert apart["problem"] == "the sources are too far apart"
    assert apart["said"] == {"one": "2600", "two": "2501"}


async def test_it_remembers_a_bounded_number_of_pairs() -> None:
    prices = MarketPrices([])
    symbols = [f"T{n}" for n in range(PAIRS_KEPT_MAX + 1)]
    with capture_logs() as lines:
        for symbol in [*symbols, symbols[-1], symbols[0]]:
            await prices.price("EUR", msgspec.structs.replace(ETH, symbol=symbol), NOW_MS)

    # The last was remembered, the first was not.
    assert [line["symbol"] for line in lines] == [*symbols, symbols[0]]


async def test_its_health_has_a_line_for_each_source() -> None:
    prices = MarketPrices([Says("one", answer=spot("2500")), Says("two", answer="it broke")])
    await prices.price("EUR", ETH, NOW_MS)

    one, another = prices.health(NOW_MS + 5000)
    assert (one.source, one.ok_age_ms, one.failures, one.error) == ("one", 5000, 0, "")
    assert (another.source, another.ok_age_ms, another.failures, another.error) == (
        "two",
        None,
        1,
        "it broke",
    )


def test_a_name_at_the_markets_is_that_of_another_known_asset() -> None:
    symbols = {row.symbol for row in shipped_table().assets}

    assert set(TICKERS) | set(TICKERS.values()) <= symbols


@given(
    minor=st.integers(min_value=1, max_value=10**18 - 1),
    value=st.decimals(min_value="0.000001", max_value=10**7, places=12),
    wide=st.integers(min_value=0, max_value=400),
    code=st.sampled_from(sorted(MINOR_UNITS)),
    row=st.sampled_from(shipped_table().assets),
)
def test_a_buyer_pays_never_too_little_and_at_most_one_unit_too_much(
    minor: int, value: object, wide: int, code: str, row: Asset
) -> None:
    low = Fraction(f"{value:f}")
    high = low * (1 + Fraction(wide, 100_000))
    prices = MarketPrices([Says("one", answer=spot(low)), Says("two", answer=spot(high))])

    priced = trio.run(prices.price, code, msgspec.structs.replace(row, par=None), NOW_MS)

    assert priced is not None
    units = convert_up(minor, exponent(code), priced.rate, row.decimals)
    exact = Fraction(minor, 10 ** exponent(code)) / ((low + high) / 2) * 10**row.decimals
    assert exact <= units < exact + 1


@pytest.mark.real_time
async def test_it_reads_the_exchanges_over_a_real_network() -> None:
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery, exchanges())
        url = f"http://127.0.0.1:{await receiver.listen()}"
        client = market_client([ipaddress.ip_network("127.0.0.0/8")])
        prices = MarketPrices([KrakenSource(client, url), CoinbaseSource(client, url)])

        assert await prices.price("EUR", ETH, NOW_MS) == Priced(
            Rate(1, 2501), ("coinbase", "kraken"), NOW_MS, stable=False
        )
        receiver.script = PAGE
        assert await prices.price("EUR", ETH, NOW_MS + FRESH_MS) is None
        assert [one.failures for one in prices.health(NOW_MS)] == [1, 1]

        await client.aclose()
        nursery.cancel_scope.cancel()
