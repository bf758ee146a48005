"""`scripts/bench` runs: each part for a moment, and every figure comes from something that happened.

A short run counts the calls of live payments at one number of open ones.
"""

from __future__ import annotations

import re
import sqlite3
import xml.etree.ElementTree as ElementTree
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from payd.net.http import Client, Target, tls_context
from tests.bench import archive, restart
from tests.bench.abuse import FULL, SORTS, Abuse, Suffered, open_besieged
from tests.bench.abuse_table import HEADER as ABUSE_HEADER
from tests.bench.abuse_table import abuse_line
from tests.bench.abusers import ASKED
from tests.bench.charts import number
from tests.bench.dashboard import HEADER as DASHBOARD_HEADER
from tests.bench.dashboard import Browse, dashboard_lines
from tests.bench.follow import Follows, measure_follows, measure_idle
from tests.bench.follow_table import HEADER as FOLLOW_HEADER
from tests.bench.follow_table import idle_lines, latency_lines
from tests.bench.growth import HEADER as GROWTH_HEADER
from tests.bench.growth import Grows, growth_lines
from tests.bench.limits import HEADER as LIMIT_HEADER
from tests.bench.limits import Bounds, limit_lines
from tests.bench.live import Walks
from tests.bench.live_table import HEADER as LIVE_HEADER
from tests.bench.live_table import live_lines
from tests.bench.measure import Bench, Plan, measure_feeds, measure_starts, open_bench
from tests.bench.memory import HEADER as MEMORY_HEADER
from tests.bench.memory import Much, memory_lines
from tests.bench.pages import CSV, Realm, ways
from tests.bench.parts import Size, parts_of
from tests.bench.report import Measured, write_report
from tests.bench.restart import HEADER as RESTART_HEADER
from tests.bench.restart import Restarts, measure_restarts, table_of
from tests.bench.sink import Expect, Receivers, open_sink
from tests.bench.soak import Soak, findings, soak, soak_lines
from tests.bench.table import (
    HEADER,
    TITLES,
    Line,
    feed_lines,
    generator_line,
    markdown,
    rate_line,
    start_lines,
)
from tests.bench.trend import HEADER as SOAK_HEADER
from tests.bench.webhook_table import HEADER as WEBHOOK_HEADER
from tests.bench.webhook_table import webhook_lines
from tests.bench.webhooks import Sends
from tests.receiver import CA_FILE
from tests.short import IS_SHORT

pytestmark = pytest.mark.real_time

MOMENT = Plan(connections=(2,), rounds=1, seconds=1, confirms=8, readers=(5,), pushes=1, starts=1)

# More of them are open than a server looks after between its readiness and its death.
PLAN_OF_STARTS = Restarts(stored=50, opened=4000, rounds=1)

A_HANDFUL = Follows(pages=6, payments=3, ones=2, crowds=2, rounds=2, idle_s=0.1)

A_LITTLE = Abuse(
    rounds=1, seconds=0.5, connections=40, slow=6, rate=40, addresses=1, clients=2, pace=20, settle_s=0.01
)

ALL_THAT_HAPPENS = (
    "answers",
    "payments",
    "events heard by the account's feed",
    "frames on pages",
    "webhooks received",
    "backups",
    "days of the test clock",
)

A_FEW = Sends(
    rounds=1,
    endpoints=(2,),
    deliveries=40,
    apart=2,
    pool_s=0.5,
    rate=40,
    seconds=0.5,
    hang_s=0.5,
    warm_s=0.1,
    backlog=80,
    settle_s=0.1,
)


def check_reported(folder: Path, name: str, lines: list[Line], charts: int) -> None:
    """The lines are in the report, with so many charts, whose values are the lines'."""
    part = next(part for part in parts_of(Size()) if part.name == name)
    text = write_report(folder / "report", "a machine", [Measured(part, lines)]).read_text()
    table = markdown(lines, part.header)
    assert table in text
    shown = re.findall(r"^!\[.+\]\((\S+\.svg)\)$", text, re.M)
    assert len(shown) == charts
    assert sorted(shown) == sorted(path.name for path in (folder / "report").glob("*.svg"))
    known = {number(float(found.replace(",", ""))) for found in re.findall(r"\d[\d,]*(?:\.\d+)?", table)}
    for file in shown:
        values = chart_values((folder / "report" / file).read_text())
        assert values
        assert set(values) <= known


def chart_values(svg: str) -> list[str]:
    """What is written beside bars, or of a curve's beginning and end."""
    said = [one.text or "" for one in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    if "<circle" in svg:
        return [value for words in said if " → " in words for value in words.rpartition(": ")[2].split(" → ")]
    return [words for words in said if re.fullmatch(r"[\d,.]+", words)]


def answers_kept(bench: Bench) -> int:
    """How many keys payd knows."""
    with closing(sqlite3.connect(f"file:{bench.file}?mode=ro", uri=True)) as tx:
        (count,) = tx.execute("SELECT count(*) FROM idempotency").fetchone()
    return int(count)


async def test_rates_are_measured_on_servers_that_answer_and_rows_that_are_there(tmp_path: Path) -> None:
    async with open_bench(tmp_path, MOMENT) as bench:
        lines = []
        for part in TITLES:
            (measured,) = rounds = await bench.rates(part, 2)
            if part == "keyed":
                assert answers_kept(bench) >= measured.payd.report.answers, "each has a key of its own"
            for spent in (measured.payd, measured.quart, measured.fastapi):
                assert spent.report.answers
                assert spent.report.refused == 0
                assert spent.cpu_us > 0
            assert measured.sqlite > 0
            lines.append(rate_line(part, 2, rounds))
        lines.append(generator_line(2, await bench.ceiling(2)))

    assert {len(line) for line in lines} == {len(HEADER)}
    assert markdown(lines).count("\n") == 1 + len(lines)
    check_reported(tmp_path, "rates", lines, charts=len(TITLES))


async def test_a_push_is_measured_until_it_reached_the_last_reader(tmp_path: Path) -> None:
    payd, noop, bare = await measure_feeds(tmp_path, MOMENT, 5)

    assert len(payd.last_ms) == len(noop.last_ms) == len(bare.last_ms) == 1
    assert payd.push_us[0] > 0
    lines = feed_lines(5, payd, noop, bare)
    assert [len(line) for line in lines] == [len(HEADER)] * 3
    latency = dict(zip(HEADER, lines[2], strict=True))
    assert latency["payd : limit"] == f"{payd.last_ms[0] / bare.last_ms[0]:.2f}"


async def test_a_start_is_measured_until_the_server_is_ready(tmp_path: Path) -> None:
    payd = await measure_starts(tmp_path, MOMENT)

    assert len(payd.ready_ms) == 1
    assert payd.idle_mib[0] > 10
    assert len(start_lines(payd)) == 2


async def test_a_move_is_measured_until_each_page_that_follows_has_its_frame(tmp_path: Path) -> None:
    payd, bare = sides = await measure_follows(tmp_path, A_HANDFUL)

    for side in sides:
        followed = side.followed
        assert [len(one) for one in followed.one.last_ms] == [2 * 2, 2 * 2]
        assert [len(one) for one in followed.spread.last_ms] == [3 * 2, 3 * 2]
        assert [len(one) for one in followed.spread.each_ms] == [6 * 2, 6 * 2]
        assert [len(one) for one in followed.all.each_ms] == [2 * 6 * 2, 2 * 6 * 2]
        assert min(followed.all.each_ms[0]) > 0
    lines = latency_lines(A_HANDFUL, payd, bare)
    assert {len(line) for line in lines} == {len(FOLLOW_HEADER)}
    assert len(lines) == 5
    check_reported(tmp_path, "follow", lines, charts=1)


async def test_idle_pages_are_measured_by_what_the_server_grows(tmp_path: Path) -> None:
    payd, bare = await measure_idle(tmp_path, A_HANDFUL)

    assert list(payd.kilobytes) == list(bare.kilobytes) == [3, 6]
    lines = idle_lines(payd, bare)
    assert {len(line) for line in lines} == {len(FOLLOW_HEADER)}
    assert len(lines) == 3


async def test_webhooks_are_measured_where_they_arrive(tmp_path: Path) -> None:
    lines = await webhook_lines(tmp_path, A_FEW, lambda _words: None)

    assert {len(line) for line in lines} == {len(WEBHOOK_HEADER)}
    assert len(lines) == 10
    table = markdown(lines, WEBHOOK_HEADER)
    assert "| 2 endpoints |" in table
    assert "80 pending, 4 endpoints hang" in table
    check_reported(tmp_path, "webhooks", lines, charts=1)


async def test_live_payments_are_measured_from_their_block(tmp_path: Path) -> None:
    counts = (3,) if IS_SHORT else (1, 3)
    plan = Walks(payments=2, open_payments=counts, blocks=4, block_s=0.3, starts=1)
    lines = await live_lines(tmp_path, plan, lambda _words: None)

    assert {len(line) for line in lines} == {len(LIVE_HEADER)}
    assert len(lines) == 8 + 4 * 6 + (1 + 4) * len(counts) + 3 * 2
    assert all(float(line[2].replace(",", "")) > 0 for line in lines)
    idle = [float(line[2]) for line in lines if line[0].startswith("idle RSS")]
    assert 40 < min(idle) <= max(idle) < 120
    check_reported(tmp_path, "live", lines, charts=1)


async def test_the_dashboards_pages_are_measured_beside_their_own_sql(tmp_path: Path) -> None:
    plan = Browse(payments=(120,), asks=2, seconds=0.2)
    lines = await dashboard_lines(tmp_path, plan, lambda _words: None)

    assert {len(line) for line in lines} == {len(DASHBOARD_HEADER)}
    pages, shared = lines[:-3], lines[-3:]
    assert [line[0] for line in pages] == [*ways(Realm(120, 0)), CSV]
    assert all(float(line[3].partition(" / ")[0]) > 0 for line in pages)
    assert all(float(line[2].partition(" / ")[0]) > 0 for line in (*pages, *shared))
    check_reported(tmp_path, "dashboard", lines, charts=1)


async def test_growth_is_measured_against_the_server_that_holds_the_fewest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "NEWEST", 50)
    monkeypatch.setattr(archive, "PATTERNS", 20)
    plan = Grows(payments=(40, 80), open_payments=(10, 20), rounds=1, seconds=0.1, clients=2)
    lines = await growth_lines(tmp_path, plan, lambda _words: None)

    assert {len(line) for line in lines} == {len(GROWTH_HEADER)}
    assert [line[1] for line in lines] == ["40 stored", "80 stored"] * 5 + ["10 open", "20 open"] * 5
    assert {line[5] for line in lines[::2]} == {"**1.00**"}
    assert all(float(line[4].replace(",", "")) > 0 for line in lines)
    check_reported(tmp_path, "growth", lines, charts=4)


async def test_memory_is_measured_by_what_a_server_grows(tmp_path: Path) -> None:
    plan = Much(opened=300, awake=200, pages=6, pending=80, rounds=1, settle_s=0.1)
    lines = await memory_lines(tmp_path, plan, lambda _words: None)

    assert {len(line) for line in lines} == {len(MEMORY_HEADER)}
    each = {line[0]: float(line[2].replace(",", "")) for line in lines}
    assert 500 < each["open payment, awake"] < 4000
    assert each["idle checkout page"] > 0
    check_reported(tmp_path, "memory", lines, charts=1)


async def test_limits_are_measured_beside_payd(tmp_path: Path) -> None:
    lines = await limit_lines(tmp_path, Bounds(rounds=3, seconds=0.1, clients=20), lambda _words: None)

    assert {len(line) for line in lines} == {len(LIMIT_HEADER)}
    assert len(lines) == 5
    for line in lines:
        assert float(line[2].replace(",", "")) > 0
        assert float(line[4].replace(",", "")) > 0
    check_reported(tmp_path, "limits", lines, charts=2)


async def test_restarts_are_measured_until_nothing_is_overdue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart, "KILLED_AFTER_S", 0.2)
    monkeypatch.setattr(restart, "IDLE_S", 0.0)
    found = await measure_restarts(tmp_path, PLAN_OF_STARTS, lambda _words: None)

    for kind in (found.empty, found.stored, found.opened, found.overdue):
        assert kind.ready_ms[0] > 0
        assert kind.ready_cpu_ms[0] > 0
        assert kind.mib[0] > 10
    assert 0 < found.overdue.overdue[0] <= PLAN_OF_STARTS.opened
    assert found.overdue.looked_after_s[0] > found.overdue.ready_ms[0] / 1000
    with closing(sqlite3.connect(tmp_path / "overdue" / "data" / "test.db")) as tx:
        left = tx.execute("SELECT count(*) FROM payments WHERE status IN ('requires_action', 'processing')")
        assert left.fetchone() == (0,)
    lines = table_of(found, PLAN_OF_STARTS)
    assert {len(line) for line in lines} == {len(RESTART_HEADER)}
    check_reported(tmp_path, "restart", lines, charts=2)


async def test_abuse_is_refused_while_healthy_requests_are_answered(tmp_path: Path) -> None:
    suffered: dict[str, Suffered] = {}
    for full in (False, True):
        place = tmp_path / str(full)
        place.mkdir()
        async with open_besieged(place, A_LITTLE, full=full) as besieged:
            for sort in [one for one in SORTS if (one == FULL) is full]:
                suffered[sort] = await besieged.suffer(sort)

    assert set(suffered) == set(SORTS)
    for sort, one in suffered.items():
        assert one.abused[0].created, sort
        assert one.abused[0].read, sort
        assert one.abused[0].busy > 0, sort
        # In a house for so few others may come between a newcomer and its request.
        assert set(one.abused[0].failed) <= ({"lost"} if sort == FULL else set()), sort
        assert bool(one.outcome.answers) is (sort in ASKED or sort == FULL), sort
    lines = [abuse_line(A_LITTLE, one) for one in suffered.values()]
    assert {len(line) for line in lines} == {len(ABUSE_HEADER)}
    check_reported(tmp_path, "abuse", lines, charts=1)
    refused = {"400", "401", "404", "405", "413", "414", "426", "429", "431", "closed 1008", "cut"}
    # A list from another place is the caller's own list.
    assert {answer for sort in ASKED for answer in suffered[sort].outcome.answers} <= refused | {"200"}
    assert set(suffered["well meant"].outcome.answers) == {"200"}
    assert "200" not in {**suffered["oversized"].outcome.answers, **suffered["bombs"].outcome.answers}
    assert {"401", "429"} == set(suffered["key guessing"].outcome.answers)
    assert "closed 1008" in suffered["oversized"].outcome.answers
    assert suffered[FULL].outcome.ended > 0
    assert suffered["idle"].outcome.ended == 0


async def test_a_soak_watches_a_server_on_which_everything_happens(tmp_path: Path) -> None:
    plan = Soak(
        minutes=0.06,
        first=20,
        shoppers=4,
        pause_max_s=0.05,
        pages=2,
        sample_s=0.3,
        backup_s=0.5,
        shift_s=1.5,
    )
    soaked = await soak(tmp_path, plan, lambda _words: None)

    assert soaked.wrong == []
    assert min(soaked.done[what] for what in ALL_THAT_HAPPENS) > 0, soaked.done
    lines = soak_lines(soaked)
    assert {len(line) for line in lines} == {len(SOAK_HEADER)}
    assert len(lines) == 9
    assert all(float(line[3].replace(",", "")) > 0 for line in lines)

    samples = [replace(soaked.samples[0], at_s=one.at_s) for one in soaked.samples]
    soaked.samples = samples
    assert findings(soaked) == []
    soaked.samples = [replace(one, descriptors=10 * number) for number, one in enumerate(samples)]
    assert findings(soaked) == ["file descriptors grows"]
    soaked.samples = [replace(one, rss=number << 20) for number, one in enumerate(samples)]
    assert findings(soaked) == [], "caches fill"
    soaked.plan = replace(plan, minutes=30)
    assert findings(soaked) == ["memory, resident (MiB) grows"]


async def test_a_sink_answers_where_it_should_and_counts_what_it_was_asked_about() -> None:
    client = Client(may_call=lambda _address: True, tls=tls_context(CA_FILE))
    async with open_sink(Receivers(answering=1, hanging=1)) as sink:
        await sink.expect(Expect(2))
        replies = [
            await client.send("POST", Target.of(url), [("webhook-id", message_id)], b"{}", deadline_s=0.5)
            for url, message_id in (
                (sink.hanging[0], "msg_1"),
                (sink.answering[0], "msg_2"),
                (sink.answering[0], "msg_3"),
            )
        ]
        answered = await sink.arrived()
        await sink.expect(Expect(1, seconds=0.1))
        nothing = await sink.arrived()
        await client.aclose()

    assert [(one.status, one.error_class) for one in replies] == [
        (None, "timeout_response"),
        (200, None),
        (200, None),
    ]
    assert answered.ids == ["msg_2", "msg_3"]
    assert answered.at_s == sorted(answered.at_s)
    assert nothing.ids == []
