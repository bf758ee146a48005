"""Chainlink's feeds: those of the table that say so themselves, while they are fresh and the chain works."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from eth_utils.address import is_checksum_address

from payd.chains.assets import shipped_table
from payd.chains.market.chainlink import (
    DECIMALS,
    DESCRIPTION,
    LATEST_ROUND_DATA,
    ChainFeeds,
    ChainlinkSource,
    Feed,
    shipped_feeds,
)
from payd.chains.market.source import FRESH_MS, UNLISTED_MS, NoSpot, SourceFailed, Spot
from payd.core.money import MINOR_UNITS
from tests.chains.market.exchanges import NOW_MS, FakeFeed, Node, selector, words

NOW_S = NOW_MS // 1000
HOUR_S = 3600
DAY_S = 86_400
SEQUENCER = "0xsequencer"
UNLISTED = NoSpot("not listed", kept_ms=UNLISTED_MS)

FEEDS = ChainFeeds(
    {
        "ETH/USD": Feed("0xeth", HOUR_S, 8),
        "USDC/USD": Feed("0xusdc", DAY_S, 8),
        "EUR/USD": Feed("0xeur", DAY_S, 8, rests_on_weekends=True),
    }
)
ON_L2 = ChainFeeds(FEEDS.feeds, SEQUENCER)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def contracts(**changed: FakeFeed) -> Node:
    known = {
        "0xeth": FakeFeed("ETH / USD", 275_012_345_678),
        "0xusdc": FakeFeed("USDC / USD", 99_990_000),
        "0xeur": FakeFeed("EUR / USD", 110_000_000),
        SEQUENCER: FakeFeed("L2 Sequencer Uptime Status Feed", 0, started_at_s=NOW_S - DAY_S, decimals=0),
    }
    return Node({**known, **changed})


async def ask(
    node: Node, base: str = "ETH", quote: str = "USD", feeds: ChainFeeds = FEEDS, now_ms: int = NOW_MS
) -> Spot | NoSpot:
    return await ChainlinkSource("eip155:1", node.call, feeds).spot(base, quote, now_ms)


async def test_a_price_is_the_answer_with_its_decimals() -> None:
    assert await ask(contracts()) == Spot(Fraction("2750.12345678"), NOW_MS, NOW_MS + FRESH_MS)


async def test_what_has_no_feed_in_a_currency_is_crossed_through_the_dollar() -> None:
    found = await ask(contracts(), "USDC", "EUR")

    assert isinstance(found, Spot)
    assert found.value == Fraction("0.9999") / Fraction("1.1")


@pytest.mark.parametrize(
    ("base", "quote"), [("USDC", "GBP"), ("NONE", "USD"), ("NONE", "EUR"), ("USD", "ETH"), ("USD", "USD")]
)
async def test_what_has_no_feed_has_no_price_and_nobody_is_asked(base: str, quote: str) -> None:
    node = contracts()

    assert await ask(node, base, quote) == UNLISTED
    assert not node.calls


@pytest.mark.parametrize(
    ("age_s", "is_fresh"),
    [(0, True), (HOUR_S, True), (HOUR_S + 359, True), (HOUR_S + 360, False), (DAY_S, False)],
)
async def test_a_price_is_fresh_for_its_feeds_heartbeat_and_a_tenth(age_s: int, is_fresh: bool) -> None:
    node = contracts(**{"0xeth": FakeFeed("ETH / USD", 1, updated_at_s=NOW_S - age_s)})

    found = await ask(node)

    assert isinstance(found, Spot) is is_fresh
    if isinstance(found, Spot):
        assert found.at_ms == NOW_MS - age_s * 1000
    else:
        assert found == NoSpot("too old")


async def test_a_feed_with_a_longer_heartbeat_is_fresh_for_longer() -> None:
    node = contracts(**{"0xusdc": FakeFeed("USDC / USD", 10**8, updated_at_s=NOW_S - DAY_S)})

    assert isinstance(await ask(node, "USDC"), Spot)


async def test_a_price_is_good_no_longer_than_its_heartbeat() -> None:
    node = contracts(**{"0xeth": FakeFeed("ETH / USD", 10**8, updated_at_s=NOW_S - HOUR_S - 359)})

    found = await ask(node)

    assert isinstance(found, Spot)
    assert found.good_until_ms == NOW_MS + 1000


@pytest.mark.parametrize("old", ["0xusdc", "0xeur"])
async def test_a_cross_needs_both_feeds_fresh(old: str) -> None:
    names = {"0xusdc": "USDC / USD", "0xeur": "EUR / USD"}
    stale = FakeFeed(names[old], 10**8, updated_at_s=NOW_S - 2 * DAY_S)

    assert await ask(contracts(**{old: stale}), "USDC", "EUR") == NoSpot("too old")


@pytest.mark.parametrize(("address", "name"), [("0xusdc", "USDC / USD"), ("0xeur", "EUR / USD")])
async def test_a_cross_is_as_old_as_the_older_one_and_good_no_longer(address: str, name: str) -> None:
    age_s = DAY_S * 11 // 10 - 1
    older = FakeFeed(name, 110_000_000, updated_at_s=NOW_S - age_s)

    found = await ask(contracts(**{address: older}), "USDC", "EUR")

    assert isinstance(found, Spot)
    assert found.at_ms == NOW_MS - age_s * 1000
    assert found.good_until_ms == NOW_MS + 1000


@pytest.mark.parametrize("answer", [0, -1, -275_012_345_678, 2**255 - 1, -(2**255)])
async def test_an_answer_that_makes_no_sense_is_no_price(answer: int) -> None:
    node = contracts(**{"0xeth": FakeFeed("ETH / USD", answer)})

    assert await ask(node) == NoSpot("no sane price")


@pytest.mark.parametrize(("updated_at_s", "why"), [(0, "too old"), (NOW_S + 61, "a price of the future")])
async def test_a_round_that_never_was_or_is_yet_to_be_is_no_price(updated_at_s: int, why: str) -> None:
    node = contracts(**{"0xeth": FakeFeed("ETH / USD", 10**8, updated_at_s=updated_at_s)})

    assert await ask(node) == NoSpot(why)


async def test_a_blocks_clock_may_be_a_little_ahead() -> None:
    node = contracts(**{"0xeth": FakeFeed("ETH / USD", 10**8, updated_at_s=NOW_S + 60)})

    assert await ask(node) == Spot(Fraction(1), NOW_MS, NOW_MS + FRESH_MS)


@pytest.mark.parametrize(
    "other",
    [
        FakeFeed("BTC / USD", 6_000_000_000_000),
        FakeFeed("USD / ETH", 36_000),
        FakeFeed("ETH / USD ", 275_012_345_678),
        FakeFeed("ETH / USD", 275_012_345_678, decimals=18),
        FakeFeed("L2 Sequencer Uptime Status Feed", 275_012_345_678),
        FakeFeed("", 275_012_345_678),
        FakeFeed("ETH / USD" * 100, 275_012_345_678),
    ],
)
async def test_a_contract_that_does_not_say_that_it_is_the_feed_is_not_believed(other: FakeFeed) -> None:
    node = contracts(**{"0xeth": other})

    assert await ask(node) == NoSpot("the contract is not this feed", kept_ms=UNLISTED_MS)


async def test_an_address_without_a_contract_is_no_feed() -> None:
    assert await ask(Node()) == NoSpot("the contract is not this feed", kept_ms=UNLISTED_MS)


async def test_a_feed_says_what_it_is_only_once() -> None:
    node = contracts()
    source = ChainlinkSource("eip155:1", node.call, FEEDS)
    await source.spot("ETH", "USD", NOW_MS)
    await source.spot("ETH", "USD", NOW_MS)

    assert [data for _, data in node.calls] == [DESCRIPTION, DECIMALS, LATEST_ROUND_DATA, LATEST_ROUND_DATA]


@pytest.mark.parametrize("length", [0, 32, 159, 161, 192])
async def test_an_answer_of_another_length_is_none(length: int) -> None:
    async def call(_address: str, data: bytes) -> bytes:
        if data == LATEST_ROUND_DATA:
            return b"\0" * length
        return words("string", "ETH / USD") if data == DESCRIPTION else words("uint8", 8)

    source = ChainlinkSource("eip155:1", call, FEEDS)
    assert await source.spot("ETH", "USD", NOW_MS) == NoSpot("no answer of a feed")


async def test_a_node_that_does_not_answer_is_a_failure() -> None:
    node = contracts()
    node.down = True

    with pytest.raises(SourceFailed):
        await ask(node)


@pytest.mark.parametrize(
    ("status", "since_s", "why"),
    [
        (0, DAY_S, None),
        (0, HOUR_S, None),
        (0, HOUR_S - 1, "the sequencer is back for less than an hour"),
        (1, DAY_S, "the sequencer is down"),
        (2, DAY_S, "the sequencer is down"),
        (0, NOW_S, "the sequencer's feed has no answer"),
    ],
)
async def test_where_a_sequencer_orders_the_chain_it_must_have_worked_for_an_hour(
    status: int, since_s: int, why: str | None
) -> None:
    node = contracts(
        **{SEQUENCER: FakeFeed("L2 Sequencer Uptime Status Feed", status, started_at_s=NOW_S - since_s)}
    )

    found = await ask(node, feeds=ON_L2)

    assert isinstance(found, Spot) if why is None else found == NoSpot(why)


async def test_a_sequencers_feed_that_does_not_answer_is_as_good_as_down() -> None:
    node = Node({address: feed for address, feed in contracts().contracts.items() if address != SEQUENCER})

    assert await ask(node, feeds=ON_L2) == NoSpot("the sequencer's feed has no answer")


@pytest.mark.parametrize(
    ("at", "rests"),
    [
        ("2026-06-05T20:59:59", False),
        ("2026-06-05T21:00:00", True),
        ("2026-06-06T12:00:00", True),
        ("2026-06-07T21:59:59", True),
        ("2026-06-07T22:00:00", False),
        ("2026-06-08T12:00:00", False),
        ("2026-06-11T12:00:00", False),
    ],
)
async def test_rates_of_currencies_are_not_used_while_their_exchanges_are_closed(
    at: str, rests: bool
) -> None:
    now_ms = ms(at)
    node = contracts(
        **{
            "0xeur": FakeFeed("EUR / USD", 110_000_000, updated_at_s=now_ms // 1000),
            "0xusdc": FakeFeed("USDC / USD", 10**8, updated_at_s=now_ms // 1000),
        }
    )

    assert isinstance(await ask(node, "USDC", "EUR", now_ms=now_ms), NoSpot) is rests
    assert isinstance(await ask(node, "USDC", "USD", now_ms=now_ms), Spot)


def test_two_chains_have_two_names_and_one_provider() -> None:
    one, two = (ChainlinkSource(chain, Node().call, FEEDS) for chain in ("eip155:1", "eip155:8453"))

    assert one.name == "chainlink/eip155:1"
    assert one.name != two.name
    assert one.provider == two.provider


def test_the_calldata_is_what_the_signatures_hash_to() -> None:
    assert selector("description()") == DESCRIPTION
    assert selector("decimals()") == DECIMALS
    assert selector("latestRoundData()") == LATEST_ROUND_DATA


def test_every_shipped_feed_can_be_read() -> None:
    symbols = {row.symbol for row in shipped_table().assets} | set(MINOR_UNITS)
    addresses = []
    for chain, table in shipped_feeds().items():
        assert chain in shipped_table().networks
        for pair, feed in table.feeds.items():
            base, quote = pair.split("/")
            assert base in symbols
            assert quote == "USD"
            assert feed.rests_on_weekends is (base in MINOR_UNITS)
            assert 600 <= feed.heartbeat_s <= DAY_S
            assert feed.decimals == 8
            addresses.append(feed.address)
        addresses += [table.sequencer] if table.sequencer else []

    assert all(is_checksum_address(address) for address in addresses)
    assert len(set(addresses)) == len(addresses)
    assert all(re.fullmatch("0x[0-9a-fA-F]{40}", address) for address in addresses)


def test_a_chain_that_is_ordered_by_a_sequencer_ships_with_the_feed_that_watches_it() -> None:
    assert shipped_feeds()["eip155:8453"].sequencer == "0xBCF85224fc0756B9Fa45aA7892530B47e10b6433"
    assert shipped_feeds()["eip155:1"].sequencer is None
