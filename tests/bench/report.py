"""One report of everything that was measured: Markdown with its tables, and a chart of what each says.

A chart is drawn from the cells of its table, so that both say the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from payd import __version__
from tests.bench import limits
from tests.bench.charts import Bar, Curve, Group, bars, curves
from tests.bench.parts import RATES, Part
from tests.bench.table import TITLES, Line, markdown

NAME: Final = "report.md"
INTRODUCTION: Final = """\
Ratios are the result: payd and what is beside it took turns in the same run, on a machine that others may
have used meanwhile. Figures are of that machine, once."""

_LABEL: Final = re.compile(r",? p50|,? \(")
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")


class Picture(NamedTuple):
    """A chart."""

    file: str
    title: str
    svg: str


class Measured(NamedTuple):
    """A part, and its lines."""

    part: Part
    lines: list[Line]


class Row:
    """A line of a table, by the names of its columns."""

    def __init__(self, header: Line, line: Line) -> None:
        self._cells = dict(zip(header, line, strict=True))
        self.what, self.at = line[:2]

    def figure(self, column: str, place: int = 0) -> float | None:
        """The number in a cell, or the one at this place of several; None where there is none."""
        found = _NUMBER.findall(self._cells[column])
        return float(found[place].replace(",", "")) if place < len(found) else None

    def words(self, column: str) -> str:
        """A cell as it is."""
        return self._cells[column]


def write_report(folder: Path, machine: str, measured: Sequence[Measured]) -> Path:
    """Write the report and its charts into a folder, in place of what is there; returns the report's path."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [f"# payd {__version__}, measured\n", f"{machine}.\n", INTRODUCTION]
    for part, lines in measured:
        command = " ".join(RATES) if part.name == "rates" else part.name
        texts.append(f"\n## {part.title}\n\n`scripts/bench {command}`\n")
        for picture in pictures(part, lines):
            (folder / picture.file).write_text(picture.svg, encoding="utf-8")
            texts.append(f"![{picture.title}]({picture.file})\n")
        texts += [markdown(lines, part.header), f"\n{part.notes}"]
    path = folder / NAME
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def pictures(part: Part, lines: Sequence[Line]) -> list[Picture]:
    """The charts of a part; none of what its lines do not have."""
    rows = [Row(part.header, line) for line in lines]
    return list(_DRAW[part.name](rows))


def _rates(rows: Sequence[Row]) -> Iterator[Picture]:
    servers = {"payd": 0, "no-op Quart": 1, "no-op FastAPI": 2}
    for name, title in TITLES.items():
        some = [row for row in rows if row.what == title]
        # A read of a row is so much faster than any request that nothing else would be seen beside it.
        yield from _beside(name, title, some, servers if name == "status" else servers | {"the limit": 3})
    for name, what in (("feed-push", "feed: CPU a push (µs)"), ("feed-memory", "feed: memory a reader (kB)")):
        some = [row for row in rows if row.what == what]
        yield from _beside(name, what, some, {"payd": 0, "no-op Quart": 1, "the limit": 3})


def _follow(rows: Sequence[Row]) -> Iterator[Picture]:
    some = [row for row in rows if row.what.endswith("(ms)")]
    columns = {"payd, p50 / p99": 0, "bare fan-out, p50 / p99": 1}
    yield from _beside("follow", "From a move to its frame, p99 (ms)", some, columns, place=1)


def _against(name: str, title: str, ending: str) -> Callable[[Sequence[Row]], Iterator[Picture]]:
    """Of a table whose lines have payd and one thing beside it."""

    def draw(rows: Sequence[Row]) -> Iterator[Picture]:
        some = [row for row in rows if row.what.endswith(ending)]
        yield from _beside(name, title, some, {"payd": 0, "beside it": 1}, named="which is")

    return draw


def _dashboard(rows: Sequence[Row]) -> Iterator[Picture]:
    http, sql = "over HTTP p50 / p99 ms", "SQL alone p50 / p99 ms"
    for at in dict.fromkeys(row.at for row in rows):
        some = [row for row in rows if row.at == at and row.figure(sql) is not None]
        file = f"dashboard-{at.partition(' ')[0].replace(',', '')}"
        yield from _beside(file, f"Pages among {at}, p50 (ms)", some, {http: 0, sql: 1})


def _growth(rows: Sequence[Row]) -> Iterator[Picture]:
    for kind in ("stored", "open"):
        for column, file, said in (
            ("CPU µs a request", "cpu", "CPU of a request (µs)"),
            ("p50 / p99 ms", "p50", "Median of a request (ms)"),
        ):
            points: dict[str, list[tuple[float, float]]] = {}
            for row in rows:
                x, y = row.figure("payments"), row.figure(column)
                if row.at.endswith(kind) and x is not None and y is not None:
                    points.setdefault(row.what, []).append((x, y))
            if points:
                title = f"{said} by how many payments are {kind}"
                shown = [Curve(what, found) for what, found in points.items()]
                yield Picture(f"growth-{kind}-{file}.svg", title, curves(title, f"payments, {kind}", shown))


def _memory(rows: Sequence[Row]) -> Iterator[Picture]:
    columns = {"bytes each": 0, "beside it": 1}
    yield from _beside("memory", "Bytes of each of many", rows, columns)


def _restart(rows: Sequence[Row]) -> Iterator[Picture]:
    for file, title, cpu in (
        ("restart", "From the start of the process (ms)", False),
        ("restart-cpu", "CPU from the start of the process (ms)", True),
    ):
        timed = [row for row in rows if row.what.endswith("(ms)") and ("CPU" in row.what) is cpu]
        yield from _beside(file, title, timed, {"payd": 0, "beside it": 1}, named="which is")


def _limits(rows: Sequence[Row]) -> Iterator[Picture]:
    columns = {"payd (1/s)": 0, "the limit (1/s)": 2}
    for name, doing in (("disk", limits.CREATE), ("server", limits.STATUS)):
        some = [row for row in rows if row.words("what payd does") == doing]
        title = f"What payd does beside what the machine allows (1/s): {doing}"
        yield from _beside(f"limits-{name}", title, some, columns)


def _abuse(rows: Sequence[Row]) -> Iterator[Picture]:
    columns = {"create beside it, p50 / p99 ms": 0, "status by a newcomer, p50 / p99 ms": 1}
    yield from _beside("abuse", "Healthy requests beside abuse, p50 (ms)", rows, columns)


_DRAW: Final[dict[str, Callable[[Sequence[Row]], Iterator[Picture]]]] = {
    "rates": _rates,
    "follow": _follow,
    "webhooks": _against("webhooks", "Webhooks a second", "(1/s)"),
    "live": _against("live", "From a block (ms)", "(ms)"),
    "dashboard": _dashboard,
    "growth": _growth,
    "memory": _memory,
    "restart": _restart,
    "limits": _limits,
    "abuse": _abuse,
}


def _beside(
    file: str,
    title: str,
    rows: Sequence[Row],
    columns: dict[str, int],
    *,
    place: int = 0,
    named: str | None = None,
) -> Iterator[Picture]:
    """Bars of some columns, each in its colour, line by line; of no lines, no chart.

    Args:
        file: The chart's, without its ending.
        title: The chart's.
        rows: The lines.
        columns: The colour of each column.
        place: Which of several numbers in a cell.
        named: The column that says what the last of these is.
    """
    groups = []
    for row in rows:
        shown = [
            Bar(row.words(named) if named and colour else _LABEL.split(column)[0], value, colour)
            for column, colour in columns.items()
            if (value := row.figure(column, place)) is not None
        ]
        if shown:
            groups.append(Group(row.at if title.startswith(row.what) else f"{row.what}, {row.at}", shown))
    if groups:
        yield Picture(f"{file}.svg", title, bars(title, groups))
