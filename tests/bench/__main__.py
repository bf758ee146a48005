"""`scripts/bench`: measure, and print tables. Ratios are the result; figures are of one machine, once."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import trio

from tests.bench import first
from tests.bench.machine import describe
from tests.bench.parts import QUICK, RATES, Part, Size, parts_of
from tests.bench.report import Measured, write_report
from tests.bench.soak import NOTES as SOAK_NOTES
from tests.bench.soak import Soak, findings, soak, soak_lines
from tests.bench.table import Line, markdown
from tests.bench.trend import HEADER as SOAK_HEADER

# Takes its time, and has a verdict: only by its name, and alone.
SOAK: Final = "soak"
# Asks the network for all libraries: only by its name, and alone.
FIRST: Final = "first"
QUICK_SOAK: Final = Soak(minutes=2.0, backup_s=20.0)
TABLES: Final = tuple(part.name for part in parts_of(Size()) if part.name != "rates")
ALL_PARTS: Final = (*RATES, *TABLES)


def measure(part: Part) -> list[Line]:
    """The lines of a part, from a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="payd-bench-", ignore_cleanup_errors=True) as name:
        return trio.run(partial(part.measure, Path(name), say))


def measure_soak(plan: Soak) -> int:
    """Print what a server under load for long comes to; 1 where something is wrong with that."""
    with tempfile.TemporaryDirectory(prefix="payd-bench-", ignore_cleanup_errors=True) as name:
        soaked = trio.run(soak, Path(name), plan, say)
        wrong = findings(soaked)
    did = ", ".join(f"{count:,} {what}" for what, count in soaked.done.items())
    print(
        f"{markdown(soak_lines(soaked), SOAK_HEADER)}\n\n{plan.minutes:g} minutes: {did}.\n\n{SOAK_NOTES}\n"
    )
    for words in wrong:
        print(f"WRONG: {words:.2000}")
    print(f"{describe()}.")
    return 1 if wrong else 0


def measure_first() -> None:
    """Print what a new user waits for."""
    with tempfile.TemporaryDirectory(prefix="payd-bench-", ignore_cleanup_errors=True) as name:
        lines = first.first_lines(Path(name), say)
    print(f"{markdown(lines, first.HEADER)}\n\n{first.NOTES}\n\n{describe()}.")


def say(words: str) -> None:
    """Progress, on standard error."""
    print(f"… {words}", file=sys.stderr, flush=True)


class Asked(NamedTuple):
    """What is to be measured, and the folder of a report, if there is to be one; or one other thing alone."""

    parts: list[Part]
    to: Path | None
    soak: Soak | None = None
    first: bool = False


def read_arguments(given: Sequence[str]) -> Asked:
    """The command line; what nobody can measure ends the program."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument(
        "part",
        nargs="*",
        help=f"measure these alone: {', '.join(ALL_PARTS)}; with `report` before them, write a report;"
        f" or {SOAK}, which fails when something grows; or {FIRST}, what a new user waits for",
    )
    parser.add_argument("--to", type=Path, default=Path("bench-report"), help="the report's folder")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--parts", default=",".join(ALL_PARTS), help="some of %(default)s")
    parser.add_argument("--connections", help="such as 1,16,100")
    parser.add_argument("--rounds", type=int, help="of each part, payd and the others in turn")
    parser.add_argument("--seconds", type=int, help="of each measurement, whole ones")
    parser.add_argument("--readers", help="of a feed, such as 1000,10000")
    parser.add_argument("--payments", help="stored ones, for dashboard and growth, such as 1000,10000000")
    parser.add_argument("--open-payments", help="open ones, for growth, such as 100,1000000")
    parser.add_argument("--minutes", type=float, help="of a soak (30)")
    args = parser.parse_args(given)
    if args.part == [FIRST]:
        return Asked([], None, first=True)
    if args.part == [SOAK]:
        plan = QUICK_SOAK if args.quick else Soak()
        return Asked([], None, replace(plan, minutes=args.minutes or plan.minutes))
    reports = args.part[:1] == ["report"]
    names = args.part[reports:] or args.parts.split(",")
    if unknown := set(names) - set(ALL_PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return Asked(_chosen_parts(names, _size(args)), args.to if reports else None)


def main() -> int:
    """Read the arguments, measure, print; 1 where a soak found something."""
    asked = read_arguments(sys.argv[1:])
    if asked.soak is not None:
        return measure_soak(asked.soak)
    if asked.first:
        measure_first()
        return 0
    machine, started_s = describe(), time.monotonic()
    measured: list[Measured] = []
    for part in asked.parts:
        measured.append(Measured(part, measure(part)))
        print(f"{markdown(measured[-1].lines, part.header)}\n\n{part.notes}\n", flush=True)
        if asked.to is not None:  # after each, so that a run that is cut short leaves one
            took = f"{machine}; {time.monotonic() - started_s:.0f} s so far"
            say(f"written: {write_report(asked.to, took, measured)}")
    print(f"{machine}; {time.monotonic() - started_s:.0f} s in all.")
    return 0


def _chosen_parts(names: list[str], size: Size) -> list[Part]:
    """Those of these names; the rates among them share a table."""
    rates = tuple(name for name in RATES if name in names)
    chosen = {*names, "rates"} if rates else set(names)
    return [part for part in parts_of(size, rates) if part.name in chosen]


def _size(args: argparse.Namespace) -> Size:
    chosen: dict[str, Any] = {}
    for name in ("connections", "readers"):
        if text := getattr(args, name):
            chosen[name] = _numbers(text)
    for name in ("rounds", "seconds"):
        if (value := getattr(args, name)) is not None:
            chosen[name] = value
    size = (QUICK if args.quick else Size()).chosen(chosen)
    if args.payments:
        payments = _numbers(args.payments)
        size = replace(
            size, browse=replace(size.browse, payments=payments), grows=replace(size.grows, payments=payments)
        )
    if args.open_payments:
        size = replace(size, grows=replace(size.grows, open_payments=_numbers(args.open_payments)))
    return size


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
