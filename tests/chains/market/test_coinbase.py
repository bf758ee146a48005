"""Coinbase's prices: the rate of the right currency, or none, and no peg taken for a price."""

from __future__ import annotations

from fractions import Fraction

import pytest

from payd.chains.market.coinbase import CoinbaseSource
from payd.chains.market.source import FRESH_MS, UNLISTED_MS, NoSpot, SourceFailed, Spot
from tests.chains.market.exchanges import COINBASE, NOW_MS, Exchanges, open_line, says, spot
from tests.receiver import Does, always

RATES = {
    "ETH": {"EUR": "2500.123456789012345678", "USD": "2750.5", "JPY": "400000"},
    "USDC": {"EUR": "0.92", "USD": "1"},
    "USDT": {"USD": "0.9997"},
    "SOL": {"EUR": "136.45"},
}
UNLISTED = NoSpot("not listed", kept_ms=UNLISTED_MS)


async def ask(exchanges: Exchanges, base: str = "ETH", quote: str = "EUR") -> Spot | NoSpot:
    async with open_line(exchanges) as (client, _):
        return await CoinbaseSource(client, COINBASE).spot(base, quote, NOW_MS)


def rates(text: object, currency: str = "ETH", **headers: str) -> Exchanges:
    """Coinbase, which says this for one ether in euros."""
    body = {"data": {"currency": currency, "rates": {"USD": "2750", "EUR": text}}}
    return Exchanges(coinbase=always(says(body, **headers)))


async def test_a_price_is_the_rate_of_the_asset_in_the_currency() -> None:
    assert await ask(Exchanges(rates=RATES)) == spot("2500.123456789012345678")
    assert await ask(Exchanges(rates=RATES), "ETH", "JPY") == spot("400000")
    assert await ask(Exchanges(rates=RATES), "USDC", "EUR") == spot("0.92")
    assert await ask(Exchanges(rates=RATES), "SOL", "EUR") == spot("136.45")


async def test_it_asks_for_the_rates_of_the_asset() -> None:
    async with open_line(Exchanges(rates=RATES)) as (client, receiver):
        await CoinbaseSource(client, COINBASE).spot("ETH", "EUR", NOW_MS)

        assert [received.path for received in receiver.received] == ["/v2/exchange-rates?currency=ETH"]


async def test_its_dollar_for_a_usdc_is_a_peg_and_no_price() -> None:
    async with open_line(Exchanges(rates=RATES)) as (client, receiver):
        found = await CoinbaseSource(client, COINBASE).spot("USDC", "USD", NOW_MS)

        assert isinstance(found, NoSpot)
        assert not receiver.received
    assert await ask(Exchanges(rates=RATES), "USDT", "USD") == spot("0.9997")


@pytest.mark.parametrize(("base", "quote"), [("NONE", "EUR"), ("ETH", "XTS")])
async def test_what_it_does_not_list_has_no_price(base: str, quote: str) -> None:
    assert await ask(Exchanges(rates=RATES), base, quote) == UNLISTED


@pytest.mark.parametrize("text", ["0", "-2500", "NaN", "Infinity", "1e400", "", "2,500", "9" * 40])
async def test_a_rate_that_makes_no_sense_is_no_price(text: str) -> None:
    assert await ask(rates(text)) == NoSpot("no sane price")


async def test_an_answer_of_a_cache_has_the_caches_age() -> None:
    found = await ask(rates("2500", age="100"))

    assert found == Spot(Fraction(2500), NOW_MS - 100_000, NOW_MS - 100_000 + FRESH_MS)


@pytest.mark.parametrize(
    "exchanges",
    [
        rates("0.0004", currency="EUR"),
        rates("2500", currency="eth"),
        rates(2500),
        rates(None),
        Exchanges(coinbase=always(says({"data": {"currency": "ETH"}}))),
        Exchanges(coinbase=always(says({"errors": [{"id": "rate_limit_exceeded"}]}))),
        Exchanges(coinbase=always(Does(body=b"<html>Just a moment...</html>"))),
        Exchanges(coinbase=always(Does(status=429))),
        Exchanges(coinbase=always(Does(status=500))),
    ],
)
async def test_another_currency_another_shape_or_another_status_is_a_failure(exchanges: Exchanges) -> None:
    with pytest.raises(SourceFailed):
        await ask(exchanges)
