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
from typing import Any, Final

import msgspec

from tests.crash.aftermath import Aftermath
from tests.crash.endpoint_diary import EndpointDiary
from tests.crash.live_truths import SLOT_TRUTHS, broken_live
from tests.crash.truths import broken
from tests.simulation.chain_world import LiveHistory
from tests.simulation.live import simulate_live
from tests.simulation.solana_live import simulate_solana
from tests.simulation.world import simulate

# In memory, where there is such a place: the disk's own speed is not what this is about.
PLACES: Final = ("/dev/shm", None)
WORDS_MAX: Final = 2000
TOLD_EVERY: Final = 100


REALMS: Final = ("test", "live", "solana")
"""Test mode, and live money on an EVM chain and on Solana."""


class Verdict(msgspec.Struct):
    """What came of one seed.

    Attributes:
        wrong: What is broken, by realm and promise; nothing is as it should be.
        counts: What happened, by name.
        digest: The same seed, the same digest.
    """

    seed: int
    wrong: dict[str, str]
    counts: dict[str, int]
    digest: str


def judge(seed: int, realms: Sequence[str] = REALMS) -> Verdict:
    """Live through one seed, in one realm after the other."""
    verdict = Verdict(seed, {}, {}, "")
    counts: Counter[str] = Counter()
    place = next(place for place in PLACES if place is None or os.access(place, os.W_OK))
    for realm in realms:
        with tempfile.TemporaryDirectory(dir=place) as folder:
            try:
                wrong, happened, digest = _JUDGES[realm](Path(folder), seed)
            except (Exception, BaseExceptionGroup):  # noqa: BLE001  # a verdict of its own
                verdict.wrong[f"{realm}: it ended"] = traceback.format_exc()[-WORDS_MAX:]
                continue
        verdict.wrong |= {f"{realm}: {name}": repr(found)[:WORDS_MAX] for name, found in wrong.items()}
        counts.update({f"{realm}: {name}": number for name, number in happened.items()})
        verdict.digest += digest
    verdict.counts = dict(counts)
    return verdict


_Judged = tuple[dict[str, Sequence[Any]], dict[str, int], str]
"""What is wrong, what happened, and the digest."""


def _judge_test(folder: Path, seed: int) -> _Judged:
    history = simulate(folder, seed)
    return broken(history.left), _counts(history.left, history.steps, history.faults), history.digest


def _judge_live(folder: Path, seed: int) -> _Judged:
    history = simulate_live(folder, seed)
    return broken_live(history.left), *_what_happened(history)


def _judge_solana(folder: Path, seed: int) -> _Judged:
    history = simulate_solana(folder, seed)
    return broken_live(history.left, SLOT_TRUTHS), *_what_happened(history)


def _what_happened(history: LiveHistory) -> tuple[dict[str, int], str]:
    counts = _counts(history.left.common, history.steps, history.faults)
    return counts | history.happened, history.digest


_JUDGES: Final = {"test": _judge_test, "live": _judge_live, "solana": _judge_solana}


def _counts(left: Aftermath, steps: int, faults: Sequence[str]) -> dict[str, int]:
    return {
        "task steps": steps,
        "deaths": left.deaths,
        "restores": left.ledger.restores,
        "payments": len(left.rows.payments),
        "events": len(left.events),
        "webhooks received": len(left.received),
        "answers lost": left.ledger.lost,
        **Counter(f"disk {fault}" for fault in faults),
        **_done_to_endpoint(left.diary),
    }


def _done_to_endpoint(diary: EndpointDiary | None) -> Counter[str]:
    if diary is None:
        return Counter()
    done = [act.what for act in diary.acts[1:]] + [job.kind for job in diary.jobs]
    done += ["job is cancelled" for job in diary.jobs if job.cancelled]
    done += ["rotate" for secret in diary.secrets if secret.replaced]
    done += ["test" for _ in diary.tests] + ["resend" for _ in diary.resends]
    return Counter(f"endpoint: {what}" for what in done)


def judge_many(seeds: Sequence[int], realms: Sequence[str], jobs: int, until_s: float) -> Iterator[Verdict]:
    """The verdicts as they come, each process with one seed at a time; none begins after `until_s`."""
    left = iter(seeds)
    with ProcessPoolExecutor(jobs) as pool:
        under_way: set[Future[Verdict]] = set()
        while True:
            while len(under_way) < 2 * jobs and time.monotonic() < until_s:
                if (seed := next(left, None)) is None:
                    break
                under_way.add(pool.submit(judge, seed, realms))
            if not under_way:
                return
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for one in done:
                yield one.result()


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every promise held."""
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="Runs whole houses in virtual time, with deaths, sick disks, lost answers, clocks that"
        " are set and chains that turn, as each seed says, and looks whether every promise held.",
        epilog="scripts/simulate --seeds 1000; scripts/simulate --seed 4711",
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many (100)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--realm", choices=REALMS, help="this one alone (all)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin none after so long")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one a core)")
    parser.add_argument("--json", action="store_true", help="one verdict a line")
    asked = parser.parse_args(arguments)
    seeds = range(asked.first, asked.first + asked.seeds) if asked.seed is None else [asked.seed]
    begun_s, count, wrong = time.monotonic(), 0, 0
    totals: Counter[str] = Counter()
    realms = REALMS if asked.realm is None else (asked.realm,)
    for verdict in judge_many(seeds, realms, asked.jobs, begun_s + asked.minutes * 60):
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
