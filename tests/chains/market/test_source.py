"""How a source is asked: prices read strictly, questions shared, answers kept, failures backed off."""

from __future__ import annotations

from fractions import Fraction

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.market.source import (
    ASK_S,
    BACKOFF_MAX_MS,
    BACKOFF_MIN_MS,
    FRESH_MS,
    PAIRS_KEPT_MAX,
    PRICE_MAX,
    PRICE_MIN,
    REFRESH_MS,
    UNLISTED_MS,
    WAIT_S,
    WORDS_MAX,
    AskedSource,
    NoSpot,
    Spot,
    read_price,
    sane,
)
from tests.chains.market.exchanges import NOW_MS, Says, spot

PAIR = ("ETH", "EUR")


async def ask(asked: AskedSource, now_ms: int = NOW_MS) -> Spot | NoSpot:
    return await asked.spot(*PAIR, now_ms)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        ("2500.50", Fraction(5001, 2)),
        ("0.00000001", Fraction(1, 10**8)),
        ("000.5", Fraction(1, 2)),
        ("1000000000000", PRICE_MAX),
        ("0.000000000001", PRICE_MIN),
    ],
)
def test_a_price_is_read_exactly(text: str, value: Fraction) -> None:
    assert read_price(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0.000",
        "-1",
        "+1",
        "-2500.5",
        "NaN",
        "nan",
        "Infinity",
        "inf",
        "1e3",
        "1E-3",
        "1/2",
        "1_000",
        "1,5",
        "1,000.5",
        ".5",
        "5.",
        " 1",
        "1 ",
        "1\n",
        "٢",
        "0x10",
        "None",
        "1000000000000.1",
        "0.0000000000009",
        "9" * 19,
        "9" * 100_000,
        "1." + "0" * 41,
    ],
)
def test_what_is_no_price_is_refused(text: str) -> None:
    assert read_price(text) is None


@given(st.decimals(min_value="0.000000000001", max_value=10**12, allow_nan=False, places=20))
def test_a_price_in_decimals_is_never_rounded(value: object) -> None:
    assert read_price(f"{value:f}") == Fraction(f"{value:f}")


def test_what_nothing_can_cost_is_no_price() -> None:
    assert sane(PRICE_MAX + 1) is None
    assert sane(PRICE_MIN / 2) is None
    assert sane(Fraction(-1)) is None
    assert sane(Fraction(0)) is None


async def test_an_answer_is_kept_and_then_asked_for_again() -> None:
    source = Says(answer=spot("2500"))
    asked = AskedSource(source)

    assert await ask(asked) == spot("2500")
    source.answer = spot("2600")
    assert await ask(asked, NOW_MS + REFRESH_MS - 1) == spot("2500")
    assert len(source.asked) == 1

    assert await ask(asked, NOW_MS + REFRESH_MS) == spot("2600")
    assert len(source.asked) == 2


async def test_pairs_are_kept_apart() -> None:
    source = Says(values={PAIR: "2500", ("USDC", "EUR"): "0.9"})
    asked = AskedSource(source)

    assert await ask(asked) == spot("2500")
    assert await asked.spot("USDC", "EUR", NOW_MS) == spot("0.9")
    assert await ask(asked) == spot("2500")


async def test_all_who_ask_at_once_share_one_question() -> None:
    source = Says(answer=spot("2500"), delay_s=1)
    asked = AskedSource(source)
    answers: list[Spot | NoSpot] = []

    async def one(now_ms: int) -> None:
        answers.append(await ask(asked, now_ms))

    async with trio.open_nursery() as nursery:
        for n in range(50):
            # Their instants were taken in another order.
            nursery.start_soon(one, NOW_MS - 10 * n)

    assert answers == [spot("2500")] * 50
    assert source.asked == [PAIR]


async def test_a_failing_source_is_left_alone_for_longer_and_longer() -> None:
    source = Says(answer="it broke")
    asked = AskedSource(source)
    failed_at_ms = NOW_MS
    assert await ask(asked, failed_at_ms) == NoSpot("no answer")

    for n, backoff_s in enumerate((5, 10, 20, 40, 80, 160, 300, 300, 300), 1):
        await ask(asked, failed_at_ms + backoff_s * 1000 - 1)
        assert len(source.asked) == n
        failed_at_ms += backoff_s * 1000
        await ask(asked, failed_at_ms)
        assert len(source.asked) == n + 1


async def test_a_failure_on_one_pair_leaves_the_source_alone_for_all() -> None:
    source = Says(answer="it broke")
    asked = AskedSource(source)

    await ask(asked)
    await asked.spot("USDC", "EUR", NOW_MS + 1000)

    assert source.asked == [PAIR]


async def test_a_success_ends_the_backing_off() -> None:
    source = Says(answer="it broke")
    asked = AskedSource(source)
    await ask(asked, NOW_MS)
    await ask(asked, NOW_MS + 5_000)

    source.answer = spot("2500", NOW_MS + 15_000)
    assert await ask(asked, NOW_MS + 15_000) == source.answer
    source.answer = "it broke again"
    await ask(asked, NOW_MS + 60_000)
    await ask(asked, NOW_MS + 60_000 + BACKOFF_MIN_MS)

    assert len(source.asked) == 5


async def test_a_price_outlives_a_failure_until_it_is_too_old() -> None:
    source = Says(answer=Spot(Fraction(2500), NOW_MS, NOW_MS + 10 * FRESH_MS))
    asked = AskedSource(source)
    known = await ask(asked)
    source.answer = "it broke"

    assert await ask(asked, NOW_MS + REFRESH_MS) == known
    assert await ask(asked, NOW_MS + FRESH_MS - 1) == known
    assert await ask(asked, NOW_MS + FRESH_MS) == NoSpot("too old")


async def test_a_price_is_not_used_when_it_is_no_longer_good_by_its_own_word() -> None:
    asked = AskedSource(Says(answer=Spot(Fraction(2500), NOW_MS - 110_000, NOW_MS + 10_000)))

    assert isinstance(await ask(asked, NOW_MS), Spot)
    assert isinstance(await ask(asked, NOW_MS + 9_999), Spot)
    assert await ask(asked, NOW_MS + 10_000) == NoSpot("too old")


async def test_a_source_that_gives_no_price_any_more_takes_back_the_one_before() -> None:
    source = Says(answer=spot("2500"))
    asked = AskedSource(source)
    await ask(asked)

    source.answer = NoSpot("not traded now")
    assert await ask(asked, NOW_MS + REFRESH_MS) == NoSpot("not traded now")


async def test_no_price_is_no_failure() -> None:
    source = Says(answer=NoSpot("not traded now"))
    asked = AskedSource(source)
    await ask(asked)
    await ask(asked, NOW_MS + REFRESH_MS)

    assert len(source.asked) == 2
    assert asked.health(NOW_MS).failures == 0


async def test_what_is_not_listed_is_asked_for_again_in_an_hour() -> None:
    source = Says(answer=NoSpot("not listed", kept_ms=UNLISTED_MS))
    asked = AskedSource(source)
    for at_ms in (0, REFRESH_MS, UNLISTED_MS - 1):
        await ask(asked, NOW_MS + at_ms)
    assert len(source.asked) == 1

    await ask(asked, NOW_MS + UNLISTED_MS)
    assert len(source.asked) == 2


@pytest.mark.parametrize("first", ["it broke", spot("2500"), NoSpot("not listed", kept_ms=UNLISTED_MS)])
async def test_a_clock_that_is_set_back_makes_everything_due(first: str | Spot | NoSpot) -> None:
    source = Says(answer=first)
    asked = AskedSource(source)
    await ask(asked, NOW_MS)

    earlier_ms = NOW_MS - FRESH_MS - 1
    source.answer = spot("2600", earlier_ms)
    assert await ask(asked, earlier_ms) == source.answer


async def test_a_source_that_hangs_has_failed_after_its_time() -> None:
    source = Says(delay_s=1e6)
    asked = AskedSource(source)
    started_s = trio.current_time()

    assert await ask(asked) == NoSpot("no answer")

    assert trio.current_time() - started_s == pytest.approx(ASK_S)
    assert asked.health(NOW_MS).error == "no answer within 3 s"
    await ask(asked, NOW_MS + BACKOFF_MIN_MS - 1)
    assert source.asked == [PAIR]


async def test_nobody_waits_longer_than_promised_for_others_who_ask() -> None:
    source = Says(delay_s=ASK_S - 0.1)
    asked = AskedSource(source)
    waited_s: list[float] = []

    async def one(symbol: str) -> None:
        started_s = trio.current_time()
        await asked.spot(symbol, "EUR", NOW_MS)
        waited_s.append(trio.current_time() - started_s)

    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(one, f"T{n}")

    assert len(waited_s) == 20
    assert max(waited_s) <= WAIT_S + 0.001
    assert asked.health(NOW_MS).failures == 0


async def test_a_caller_that_goes_away_is_no_failure_and_the_next_one_asks() -> None:
    source = Says(answer=spot("2500"), delay_s=2)
    asked = AskedSource(source)
    with trio.move_on_after(1) as scope:
        await ask(asked)
    assert scope.cancelled_caught

    assert await ask(asked) == spot("2500")
    assert asked.health(NOW_MS).failures == 0


async def test_it_remembers_a_bounded_number_of_pairs_and_forgets_the_oldest() -> None:
    source = Says(answer=spot("1"))
    asked = AskedSource(source)
    symbols = [f"T{n}" for n in range(PAIRS_KEPT_MAX + 1)]
    for symbol in symbols:
        await asked.spot(symbol, "EUR", NOW_MS)

    await asked.spot(symbols[1], "EUR", NOW_MS)
    assert len(source.asked) == len(symbols)
    await asked.spot(symbols[0], "EUR", NOW_MS)
    assert len(source.asked) == len(symbols) + 1


async def test_its_health_tells_the_last_success_and_the_last_failure() -> None:
    source = Says("kraken", answer="it broke" + "!" * 1000)
    asked = AskedSource(source)
    await ask(asked, NOW_MS)
    failing = asked.health(NOW_MS + 1000)
    assert (failing.source, failing.ok_age_ms, failing.failures) == ("kraken", None, 1)
    assert failing.error.startswith("it broke!")
    assert len(failing.error) == WORDS_MAX

    source.answer = spot("2500")
    await ask(asked, NOW_MS + BACKOFF_MAX_MS)
    well = asked.health(NOW_MS + BACKOFF_MAX_MS + 7_000)
    assert (well.ok_age_ms, well.failures, well.error) == (7_000, 1, "")
    assert asked.health(NOW_MS).ok_age_ms == 0, "a clock that was set back"
