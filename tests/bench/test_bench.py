"""`scripts/bench` runs: each part for a moment, and every figure comes from something that happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from payd.net.http import Client, Target, tls_context
from tests.bench.abuse import FULL, SORTS, Abuse, Suffered, open_besieged
from tests.bench.abuse_table import HEADER as ABUSE_HEADER
from tests.bench.abuse_table import abuse_line
from tests.bench.abusers import ASKED
from tests.bench.dashboard import HEADER as DASHBOARD_HEADER
from tests.bench.dashboard import Browse, dashboard_lines
from tests.bench.follow import Follows, measure_follows, measure_idle
from tests.bench.follow_table import HEADER as FOLLOW_HEADER
from tests.bench.follow_table import idle_lines, latency_lines
from tests.bench.growth import HEADER as GROWTH_HEADER
from tests.bench.growth import Grows, growth_lines
from tests.bench.live import Walks
from tests.bench.live_table import HEADER as LIVE_HEADER
from tests.bench.live_table import live_lines
from tests.bench.measure import Plan, measure_feeds, measure_starts, open_bench
from tests.bench.pages import CSV, Realm, ways
from tests.bench.sink import Expect, Receivers, open_sink
from tests.bench.table import HEADER, TITLES, feed_lines, generator_line, markdown, rate_line, start_lines
from tests.bench.webhook_table import HEADER as WEBHOOK_HEADER
from tests.bench.webhook_table import webhook_lines
from tests.bench.webhooks import Sends
from tests.receiver import CA_FILE

pytestmark = pytest.mark.real_time

MOMENT = Plan(
    connections=(2,), rounds=1, seconds=0.1, warm_s=0.02, confirms=8, readers=(5,), pushes=1, starts=1
)

A_HANDFUL = Follows(pages=6, payments=3, ones=2, crowds=2, rounds=2, idle_s=0.1)

A_LITTLE = Abuse(
    rounds=1, seconds=0.5, connections=40, slow=6, rate=40, addresses=1, clients=2, pace=20, settle_s=0.01
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


async def test_rates_are_measured_on_servers_that_answer_and_rows_that_are_there(tmp_path: Path) -> None:
    async with open_bench(tmp_path, MOMENT) as bench:
        lines = []
        for part in TITLES:
            samples = await bench.rates(part, 2)
            assert samples.payd[0].report.answers
            assert samples.noop[0].report.answers
            assert samples.noop[0].report.refused == 0
            assert samples.payd[0].cpu_us > 0
            assert samples.sqlite[0] > 0
            lines.append(rate_line(part, 2, samples))
        lines.append(generator_line(2, await bench.ceiling(2)))

    assert {len(line) for line in lines} == {len(HEADER)}
    assert markdown(lines).count("\n") == 1 + len(lines)


async def test_a_push_is_measured_until_it_reached_the_last_reader(tmp_path: Path) -> None:
    payd, noop = await measure_feeds(tmp_path, MOMENT, 5)

    assert len(payd.last_ms) == len(noop.last_ms) == 1
    assert payd.push_us[0] > 0
    assert len(feed_lines(5, payd, noop)) == 3


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


async def test_live_payments_are_measured_from_their_block(tmp_path: Path) -> None:
    plan = Walks(payments=2, open_payments=(1, 3), blocks=4, block_s=0.3, starts=1)
    lines = await live_lines(tmp_path, plan, lambda _words: None)

    assert {len(line) for line in lines} == {len(LIVE_HEADER)}
    assert len(lines) == 8 + 4 * 6 + 2 + 4 * 2 + 3 * 2
    assert all(float(line[2].replace(",", "")) > 0 for line in lines)
    idle = [float(line[2]) for line in lines if line[0].startswith("idle RSS")]
    assert 40 < min(idle) <= max(idle) < 120


async def test_the_dashboards_pages_are_measured_beside_their_own_sql(tmp_path: Path) -> None:
    plan = Browse(payments=(120,), asks=2, seconds=0.2)
    lines = await dashboard_lines(tmp_path, plan, lambda _words: None)

    assert {len(line) for line in lines} == {len(DASHBOARD_HEADER)}
    pages, shared = lines[:-3], lines[-3:]
    assert [line[0] for line in pages] == [*ways(Realm(120, 0)), CSV]
    assert all(float(line[3].partition(" / ")[0]) > 0 for line in pages)
    assert all(float(line[2].partition(" / ")[0]) > 0 for line in (*pages, *shared))


async def test_growth_is_measured_against_the_server_that_holds_the_fewest(tmp_path: Path) -> None:
    plan = Grows(payments=(40, 80), rounds=1, seconds=0.1, clients=2)
    lines = await growth_lines(tmp_path, plan, lambda _words: None)

    assert {len(line) for line in lines} == {len(GROWTH_HEADER)}
    assert [line[1] for line in lines] == ["40", "80"] * 4
    assert {line[5] for line in lines[::2]} == {"**1.00**"}
    assert all(float(line[4].replace(",", "")) > 0 for line in lines)


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
        assert len(abuse_line(A_LITTLE, one)) == len(ABUSE_HEADER)
    refused = {"400", "401", "404", "405", "413", "414", "426", "429", "431", "closed 1008", "cut"}
    # A list from another place is the caller's own list.
    assert {answer for sort in ASKED for answer in suffered[sort].outcome.answers} <= refused | {"200"}
    assert set(suffered["well meant"].outcome.answers) == {"200"}
    assert "200" not in {**suffered["oversized"].outcome.answers, **suffered["bombs"].outcome.answers}
    assert {"401", "429"} == set(suffered["key guessing"].outcome.answers)
    assert "closed 1008" in suffered["oversized"].outcome.answers
    assert suffered[FULL].outcome.ended > 0
    assert suffered["idle"].outcome.ended == 0


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
