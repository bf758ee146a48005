"""`scripts/bench`: measure, and print one table. Ratios are the result; figures are of one machine, once."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import trio

from tests.bench.dashboard import HEADER as DASHBOARD_HEADER
from tests.bench.dashboard import NOTES as DASHBOARD_NOTES
from tests.bench.dashboard import Browse, dashboard_lines
from tests.bench.follow import Follows
from tests.bench.follow_table import HEADER as FOLLOW_HEADER
from tests.bench.follow_table import NOTES as FOLLOW_NOTES
from tests.bench.follow_table import follow_lines
from tests.bench.growth import HEADER as GROWTH_HEADER
from tests.bench.growth import NOTES as GROWTH_NOTES
from tests.bench.growth import Grows, growth_lines
from tests.bench.live import Walks
from tests.bench.live_table import HEADER as LIVE_HEADER
from tests.bench.live_table import NOTES as LIVE_NOTES
from tests.bench.live_table import live_lines
from tests.bench.machine import describe
from tests.bench.measure import PARTS, Plan, measure_feeds, measure_starts, open_bench
from tests.bench.soak import NOTES as SOAK_NOTES
from tests.bench.soak import Soak, findings, soak, soak_lines
from tests.bench.table import TITLES, Line, feed_lines, generator_line, markdown, rate_line, start_lines
from tests.bench.trend import HEADER as SOAK_HEADER
from tests.bench.webhook_table import HEADER as WEBHOOK_HEADER
from tests.bench.webhook_table import NOTES as WEBHOOK_NOTES
from tests.bench.webhook_table import webhook_lines
from tests.bench.webhooks import Sends

QUICK: Final = Plan(rounds=3, seconds=0.5, warm_s=0.1, confirms=160, readers=(1000,), pushes=2, starts=3)
QUICK_SENDS: Final = Sends(
    rounds=2, deliveries=2000, pool_s=5.0, seconds=3.0, hang_s=5.0, warm_s=0.5, backlog=20_000
)
QUICK_WALKS: Final = Walks(payments=20, open_payments=(10, 200), blocks=12, starts=1)
QUICK_FOLLOWS: Final = Follows(payments=50, ones=40, crowds=1, rounds=2, idle_s=5.0)
QUICK_BROWSE: Final = Browse(payments=(1000, 20_000), asks=50, seconds=2.0)
QUICK_GROWS: Final = Grows(payments=(1000, 20_000), rounds=3, seconds=0.5)
QUICK_SOAK: Final = Soak(minutes=2.0, backup_s=20.0)
CEILING_AT: Final = 16
WEBHOOKS: Final = "webhooks"
LIVE: Final = "live"
FOLLOW: Final = "follow"
DASHBOARD: Final = "dashboard"
GROWTH: Final = "growth"
# Takes its time: only by its name.
SOAK: Final = "soak"
ALL_PARTS: Final = (*PARTS, FOLLOW, WEBHOOKS, LIVE, DASHBOARD, GROWTH)

NOTES: Final = """\
Server and load generator are a process each; both servers stay up, one idle while the other is measured.
- **no-op Quart**: the same routes in Quart-Trio on stock hypercorn-trio, which decode and encode the same
  JSON by msgspec and do nothing else; for the feed, Quart's own websockets. The garbage collection is tuned.
- **SQLite alone**: a tight loop that commits the rows which payd has just written, as many a transaction as
  there are connections, WAL and synchronous=FULL; for the status, reads of the payment's row by id.
- **CPU** is that of all the server's threads. Where others use the machine, trust it before the rates.
- The endpoint never answers: deliveries are owed and stored, and at most ten are under way.
- **A push** of the feed is a change of the payment, committed and then told: with few readers it is the
  change that costs, not the telling, and the memory of one reader is within the noise."""


async def bench(plan: Plan, parts: list[str]) -> list[Line]:
    """Measure these parts."""
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="payd-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        rates = [part for part in parts if part in TITLES]
        if rates:
            async with open_bench(_fresh(folder, "rates"), plan) as opened:
                for part in rates:
                    for connections in plan.connections:
                        say(f"{part} at {connections}")
                        lines.append(rate_line(part, connections, await opened.rates(part, connections)))
                say("the load generator alone")
                alone = await opened.ceiling(CEILING_AT)
                lines.append(generator_line(CEILING_AT, alone))
        if "feed" in parts:
            for readers in plan.readers:
                say(f"feed of {readers} readers")
                lines += feed_lines(
                    readers, *await measure_feeds(_fresh(folder, f"feed{readers}"), plan, readers)
                )
        if "start" in parts:
            say("starts")
            lines += start_lines(await measure_starts(_fresh(folder, "start"), plan))
    return lines


async def bench_follows(plan: Follows) -> list[Line]:
    """Measure pages that follow payments."""
    with tempfile.TemporaryDirectory(prefix="payd-bench-", ignore_cleanup_errors=True) as name:
        return await follow_lines(Path(name), plan, say)


async def bench_webhooks(plan: Sends) -> list[Line]:
    """Measure the webhooks."""
    with tempfile.TemporaryDirectory(prefix="payd-bench-", ignore_cleanup_errors=True) as name:
        return await webhook_lines(Path(name), plan, say)


async def bench_live(plan: Walks) -> list[Line]:
    """Measure live payments."""
    with tempfile.TemporaryDirectory(prefix="payd-bench-", ignore_cleanup_errors=True) as name:
        return await live_lines(Path(name), plan, say)


async def bench_dashboard(plan: Browse) -> list[Line]:
    """Measure what the dashboard reads."""
    with tempfile.TemporaryDirectory(prefix="payd-bench-", ignore_cleanup_errors=True) as name:
        return await dashboard_lines(Path(name), plan, say)


async def bench_growth(plan: Grows) -> list[Line]:
    """Measure what stored payments cost later ones."""
    with tempfile.TemporaryDirectory(prefix="payd-bench-", ignore_cleanup_errors=True) as name:
        return await growth_lines(Path(name), plan, say)


async def bench_soak(plan: Soak) -> tuple[str, list[str]]:
    """What a server under load for long comes to, and what is wrong with that."""
    with tempfile.TemporaryDirectory(prefix="payd-bench-", ignore_cleanup_errors=True) as name:
        soaked = await soak(Path(name), plan, say)
        did = ", ".join(f"{count:,} {what}" for what, count in soaked.done.items())
        return f"{markdown(soak_lines(soaked), SOAK_HEADER)}\n\n{plan.minutes:g} minutes: {did}.", findings(
            soaked
        )


def _fresh(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


def say(words: str) -> None:
    """Progress, on standard error."""
    print(f"… {words}", file=sys.stderr, flush=True)


def main() -> int:
    """Read the arguments, measure, print; 1 where a soak found something."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("part", nargs="*", help=f"measure these alone: {', '.join((*ALL_PARTS, SOAK))}")
    parser.add_argument("--quick", action="store_true", help="less of everything, in about two minutes")
    parser.add_argument("--parts", default=",".join(ALL_PARTS), help="some of %(default)s")
    parser.add_argument("--connections", help="such as 1,16,100")
    parser.add_argument("--rounds", type=int, help="of each part, payd and the others in turn")
    parser.add_argument("--seconds", type=float, help="of each measurement")
    parser.add_argument("--readers", help="of a feed, such as 1000,10000")
    parser.add_argument("--payments", help="stored ones, for dashboard and growth, such as 1000,1000000")
    parser.add_argument("--minutes", type=float, help="of a soak (15)")
    args = parser.parse_args()
    chosen = _chosen(args)
    plan = replace(QUICK if args.quick else Plan(), **_of(Plan, chosen))
    browse = replace(QUICK_BROWSE if args.quick else Browse(), **_of(Browse, chosen))
    grows = replace(QUICK_GROWS if args.quick else Grows(), **_of(Grows, chosen))
    if args.payments:
        payments = tuple(int(part) for part in args.payments.split(","))
        browse, grows = replace(browse, payments=payments), replace(grows, payments=payments)
    follows = replace(QUICK_FOLLOWS if args.quick else Follows(), **_of(Follows, chosen))
    sends = replace(QUICK_SENDS if args.quick else Sends(), **_of(Sends, chosen))
    parts = args.part or args.parts.split(",")
    if unknown := set(parts) - {*ALL_PARTS, SOAK}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    machine, started_s = describe(), time.monotonic()
    if others := [part for part in parts if part in PARTS]:
        table = markdown(trio.run(bench, plan, others))
        print(f"{table}\n\nMedians of {plan.rounds} alternated rounds of {plan.seconds} s.\n{NOTES}\n")
    if FOLLOW in parts:
        table = markdown(trio.run(bench_follows, follows), FOLLOW_HEADER)
        print(f"{table}\n\nMedians of {follows.rounds} alternated rounds.\n{FOLLOW_NOTES}\n")
    if WEBHOOKS in parts:
        table = markdown(trio.run(bench_webhooks, sends), WEBHOOK_HEADER)
        print(f"{table}\n\nMedians of {sends.rounds} alternated rounds.\n{WEBHOOK_NOTES}\n")
    if LIVE in parts:
        table = markdown(trio.run(bench_live, QUICK_WALKS if args.quick else Walks()), LIVE_HEADER)
        print(f"{table}\n\n{LIVE_NOTES}\n")
    if DASHBOARD in parts:
        table = markdown(trio.run(bench_dashboard, browse), DASHBOARD_HEADER)
        print(f"{table}\n\n{DASHBOARD_NOTES}\n")
    if GROWTH in parts:
        table = markdown(trio.run(bench_growth, grows), GROWTH_HEADER)
        print(
            f"{table}\n\nMedians of {grows.rounds} alternated rounds of {grows.seconds} s.\n{GROWTH_NOTES}\n"
        )
    wrong: list[str] = []
    if SOAK in parts:
        table, wrong = trio.run(
            bench_soak, replace(QUICK_SOAK if args.quick else Soak(), **_of(Soak, chosen))
        )
        print(f"{table}\n\n{SOAK_NOTES}\n")
    for words in wrong:
        print(f"WRONG: {words:.2000}")
    print(f"{machine}; {time.monotonic() - started_s:.0f} s in all.")
    return 1 if wrong else 0


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for name in ("connections", "readers"):
        if text := getattr(args, name):
            chosen[name] = tuple(int(part) for part in text.split(","))
    for name in ("rounds", "seconds", "minutes"):
        if (value := getattr(args, name)) is not None:
            chosen[name] = value
    return chosen


def _of(plan: type[Plan | Follows | Sends | Browse | Grows | Soak], chosen: dict[str, Any]) -> dict[str, Any]:
    """What of it this kind of plan has."""
    named = {one.name for one in fields(plan)}
    return {name: value for name, value in chosen.items() if name in named}


if __name__ == "__main__":
    sys.exit(main())
