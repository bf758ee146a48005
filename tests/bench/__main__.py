"""`scripts/bench`: measure, and print one table. Ratios are the result; figures are of one machine, once."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import trio

from tests.bench.machine import describe
from tests.bench.measure import PARTS, Plan, measure_feeds, measure_starts, open_bench
from tests.bench.table import TITLES, Line, feed_lines, generator_line, markdown, rate_line, start_lines

QUICK: Final = Plan(rounds=3, seconds=0.5, warm_s=0.1, confirms=160, readers=(1000,), pushes=2, starts=3)
CEILING_AT: Final = 16

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


def _fresh(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


def say(words: str) -> None:
    """Progress, on standard error."""
    print(f"… {words}", file=sys.stderr, flush=True)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything, in about a minute")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of %(default)s")
    parser.add_argument("--connections", help="such as 1,16,100")
    parser.add_argument("--rounds", type=int, help="of each part, payd and the others in turn")
    parser.add_argument("--seconds", type=float, help="of each measurement")
    parser.add_argument("--readers", help="of a feed, such as 1000,10000")
    args = parser.parse_args()
    plan = QUICK if args.quick else Plan()
    plan = Plan(**{**vars(plan), **_chosen(args)})
    parts = args.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    machine, started_s = describe(), time.monotonic()
    table = markdown(trio.run(bench, plan, parts))
    print(
        f"{table}\n\n{machine}.\nMedians of {plan.rounds} alternated rounds of {plan.seconds} s;"
        f" {time.monotonic() - started_s:.0f} s in all.\n{NOTES}"
    )


def _chosen(args: argparse.Namespace) -> dict[str, object]:
    chosen: dict[str, object] = {}
    for name in ("connections", "readers"):
        if text := getattr(args, name):
            chosen[name] = tuple(int(part) for part in text.split(","))
    for name in ("rounds", "seconds"):
        if (value := getattr(args, name)) is not None:
            chosen[name] = value
    return chosen


if __name__ == "__main__":
    main()
