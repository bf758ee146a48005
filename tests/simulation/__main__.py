"""`scripts/simulate`: whole houses under seeds, many of them, and which of them broke a promise."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Final

import msgspec

from tests.crash.truths import broken
from tests.simulation.world import simulate

# In memory, where there is such a place: the disk's own speed is not what this is about.
PLACES: Final = ("/dev/shm", None)
WORDS_MAX: Final = 2000
TOLD_EVERY: Final = 100


class Verdict(msgspec.Struct):
    """What came of one seed.

    Attributes:
        wrong: What is broken, by the promise; nothing is as it should be.
        counts: What happened, by name.
        digest: The same seed, the same digest.
    """

    seed: int
    wrong: dict[str, str]
    counts: dict[str, int]
    digest: str


def judge(seed: int) -> Verdict:
    """Live through one seed."""
    place = next(place for place in PLACES if place is None or os.access(place, os.W_OK))
    with tempfile.TemporaryDirectory(dir=place) as folder:
        try:
            history = simulate(Path(folder), seed)
        except (Exception, BaseExceptionGroup):  # noqa: BLE001  # a verdict of its own
            return Verdict(seed, {"it ended": traceback.format_exc()[-WORDS_MAX:]}, {}, "")
    left = history.left
    counts = {
        "task steps": history.steps,
        "deaths": left.deaths,
        "payments": len(left.rows.payments),
        "events": len(left.events),
        "webhooks received": len(left.received),
        "answers lost": left.ledger.lost,
        **Counter(f"disk {fault}" for fault in history.faults),
    }
    wrong = {name: repr(found)[:WORDS_MAX] for name, found in broken(left).items()}
    return Verdict(seed, wrong, counts, history.digest)


def judge_many(seeds: Sequence[int], jobs: int, until_s: float) -> Iterator[Verdict]:
    """The verdicts as they come, each process with one seed at a time; none begins after `until_s`."""
    left = iter(seeds)
    with ProcessPoolExecutor(jobs) as pool:
        under_way: set[Future[Verdict]] = set()
        while True:
            while len(under_way) < 2 * jobs and time.monotonic() < until_s:
                if (seed := next(left, None)) is None:
                    break
                under_way.add(pool.submit(judge, seed))
            if not under_way:
                return
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for one in done:
                yield one.result()


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every promise held."""
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="Runs whole houses in virtual time, with deaths, sick disks, lost answers and clocks that"
        " are set, as each seed says, and looks whether every promise held. A seed repeats itself.",
        epilog="scripts/simulate --seeds 1000; scripts/simulate --seed 4711",
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many (100)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin none after so long")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one a core)")
    parser.add_argument("--json", action="store_true", help="one verdict a line")
    asked = parser.parse_args(arguments)
    seeds = range(asked.first, asked.first + asked.seeds) if asked.seed is None else [asked.seed]
    begun_s, count, wrong = time.monotonic(), 0, 0
    totals: Counter[str] = Counter()
    for verdict in judge_many(seeds, asked.jobs, begun_s + asked.minutes * 60):
        count += 1
        totals.update(verdict.counts)
        if asked.json:
            print(msgspec.json.encode(verdict).decode(), flush=True)
        elif verdict.wrong:
            print(f"seed {verdict.seed}: scripts/simulate --seed {verdict.seed}")
            for name, words in verdict.wrong.items():
                print(f"  {name.replace('_', ' ')}:\n    {words}", flush=True)
        elif count % TOLD_EVERY == 0:
            print(f"{count} seeds in {time.monotonic() - begun_s:.0f} s", flush=True)
        wrong += bool(verdict.wrong)
    if not asked.json:
        print(f"{count} seeds, {wrong} broke a promise. In all:")
        for name, total in totals.items():
            print(f"  {name}: {total:,}")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
