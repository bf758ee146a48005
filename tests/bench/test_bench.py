"""`scripts/bench` runs: each part for a moment, and every figure comes from something that happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.measure import Plan, measure_feeds, measure_starts, open_bench
from tests.bench.table import HEADER, TITLES, feed_lines, generator_line, markdown, rate_line, start_lines

pytestmark = pytest.mark.real_time

MOMENT = Plan(
    connections=(2,), rounds=1, seconds=0.1, warm_s=0.02, confirms=8, readers=(5,), pushes=1, starts=1
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
