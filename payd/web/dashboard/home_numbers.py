"""The numbers of a mode's first page: today, the last days as charts, and what somebody should look at.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date
from functools import partial
from typing import Final

import msgspec

from payd.core.attention import Matter
from payd.core.money import exponent, fiat_amount, format_units, short_units
from payd.core.period import Days, day_start_ms, last_days
from payd.core.span import span
from payd.core.tally import Counted, Numbers, numbers_by_day, numbers_of
from payd.store.db import Tx
from payd.store.tallies import count_created, count_open, read_tallies
from payd.web.attention import matters_of
from payd.web.dashboard.charts import BarChart, Point, RowChart, bar_chart, row_chart
from payd.web.dashboard.payments_filter import offset_of
from payd.web.dashboard.payments_view import amount_words
from payd.web.dashboard.status import LEVELS
from payd.web.dashboard.visit import Visit
from payd.web.ended_days import EndedBlock, block_of, split

DAYS: Final = 30
COUNT_MAX: Final = 10_000
"""Nobody reads a larger number exactly, and none is counted further."""
CURRENCIES_MAX: Final = 4
"""Charts of volume; where there are more, of those that come on most days."""
REASONS_MAX: Final = 8
AXIS_FIGURES: Final = 4
OF_HOUSE: Final = ("store", "space", "clock", "chain", "node", "relayer", "prices")
"""Topics of the page Status, whose subject is a name: of several chains, which one."""
SIZES: Final = ((10**12, "tn"), (10**9, "bn"), (10**6, "M"), (10**3, "k"))

_LEVELS: Final = {"error": "Broken", "warning": "Soon", "notice": "Waiting"}


class Figure(msgspec.Struct, frozen=True):
    """A number of today."""

    name: str
    value: str


class Look(msgspec.Struct, frozen=True):
    """One thing to look at; `href` is empty where it is not a page."""

    level: str
    kind: str
    words: str
    count: str
    since_ms: int | None
    href: str


class HomeNumbers(msgspec.Struct, frozen=True):
    """All of it; without charts while nothing has ended."""

    today: tuple[Figure, ...]
    charts: tuple[BarChart, ...]
    reasons: RowChart
    looks: tuple[Look, ...]


class _Counts(msgspec.Struct, frozen=True):
    ended: EndedBlock
    since: tuple[Counted, ...]
    created: int
    open: int


async def home_numbers(visit: Visit) -> HomeNumbers:
    """The numbers of this account in this mode, by the clock of who looks."""
    realm, account_id = visit.realm, visit.account_id
    now_ms = realm.clock.now_ms()
    days = last_days(now_ms, DAYS, offset_of(visit))
    over, rest = split(days, now_ms)
    known = realm.ended_days.find(account_id, over, now_ms)
    counts = await realm.db.read(_counts, account_id, over, rest, known, now_ms)
    realm.ended_days.keep(account_id, counts.ended)
    by_day = {**counts.ended.by_day, **numbers_by_day(rest, counts.since)}
    whole = numbers_of([*counts.ended.tallies, *(one.tally for one in counts.since)])
    matters = await matters_of(visit.house, realm, account_id)
    reasons = [*whole.reasons.items()][:REASONS_MAX]
    return HomeNumbers(
        today=today_of(visit, by_day[days.last], counts.created, counts.open),
        charts=charts_of(by_day) if whole.ended else (),
        reasons=row_chart("Failures by reason", reasons),
        looks=tuple(look_of(visit, one) for one in matters),
    )


def today_of(visit: Visit, numbers: Numbers, created: int, unfinished: int) -> tuple[Figure, ...]:
    """Today's figures; what is not known yet is not there."""
    words = visit.realm.words
    figures = [
        Figure("Created today", count_words(created)),
        Figure("Open now", count_words(unfinished)),
        Figure("Succeeded today", str(numbers.succeeded)),
    ]
    figures += [
        Figure(f"Volume today, {code}", amount_words(fiat_amount(code, value), words))
        for code, value in numbers.volume.items()
    ]
    if numbers.success_permille is not None:
        figures.append(Figure("Success rate today", permille_words(numbers.success_permille)))
    if numbers.median_s is not None:
        figures.append(Figure("Usual time to succeed", span(1000 * numbers.median_s)))
    return tuple(figures)


def charts_of(by_day: Mapping[date, Numbers]) -> tuple[BarChart, ...]:
    """A chart of each kind; of volume one a currency, as these are never added up."""

    def points(of: Mapping[date, int | None]) -> list[Point]:
        return [Point(f"{day.day} {day:%b}", value) for day, value in of.items()]

    days = Counter(code for one in by_day.values() for code in one.volume)
    codes = sorted(sorted(days, key=lambda code: (-days[code], code))[:CURRENCIES_MAX])
    charts = [bar_chart("Succeeded a day", points({d: n.succeeded for d, n in by_day.items()}), str)]
    for code in codes:
        volume: dict[date, int | None] = {day: one.volume.get(code, 0) for day, one in by_day.items()}
        chart = bar_chart(
            f"Volume a day, {code}",
            points(volume),
            partial(format_units, decimals=exponent(code)),
            axis=partial(axis_words, code=code),
        )
        charts.append(chart)
    rates = {day: one.success_permille for day, one in by_day.items()}
    charts.append(bar_chart("Success rate", points(rates), permille_words, highest=1000))
    medians = {day: one.median_s for day, one in by_day.items()}
    charts.append(bar_chart("Usual time to succeed", points(medians), lambda median_s: span(1000 * median_s)))
    return tuple(charts)


def look_of(visit: Visit, matter: Matter) -> Look:
    """One finding with the way to its page."""
    topic, to = matter.topic, ""
    if topic.startswith("transfers_"):
        to = visit.to("transfers")
    elif topic == "payment_parked":
        to = visit.to(f"payments/{matter.subject}")
    elif topic == "merchant_without_destination":
        to = visit.to(f"merchants/{matter.subject}")
    elif topic.startswith("endpoint_") or topic in ("webhooks", "deliveries_failed"):
        to = visit.to("webhooks")
    elif topic in OF_HOUSE:
        to = visit.to("/status")
    words = f"{matter.subject}: {matter.words}" if topic in OF_HOUSE and matter.subject else matter.words
    count = "" if matter.count == 1 else f"{matter.count}{' or more' if matter.is_more else ''}"
    return Look(_LEVELS[matter.level], LEVELS[matter.level], words, count, matter.since_ms, to)


def count_words(count: int) -> str:
    """A count that was counted up to a limit."""
    return str(count) if count < COUNT_MAX else f"{COUNT_MAX} or more"


def permille_words(permille: int) -> str:
    """`98.5 %`."""
    return f"{format_units(permille, 1).removesuffix('.0')} %"


def axis_words(value: int, code: str) -> str:
    """An amount beside an axis, where there is room for few figures: `2.5`, `10 k`, `40 M`."""
    number = short_units(value, exponent(code))
    if "." in number or len(number) <= AXIS_FIGURES:
        return number
    whole = int(number)
    return next((f"{whole // size} {name}" for size, name in SIZES if whole % size == 0), number)


def _counts(
    tx: Tx, account_id: str, over: Days, rest: Days, known: EndedBlock | None, now_ms: int
) -> _Counts:
    start_ms = day_start_ms(rest.last, rest.offset_min)
    return _Counts(
        known or block_of(over, read_tallies(tx, account_id, over), now_ms),
        tuple(read_tallies(tx, account_id, rest)),
        count_created(tx, account_id, start_ms, COUNT_MAX),
        count_open(tx, account_id, COUNT_MAX),
    )
