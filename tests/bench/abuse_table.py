"""The figures of abuse: what those who mean well get beside it, as a ratio to what they get without.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.abuse import FULL, SORTS, Abuse, Healthy, Suffered, open_besieged
from tests.bench.abusers import ASKED
from tests.bench.follow_table import quantile
from tests.bench.table import NONE, Line

HEADER: Final = (
    "abuse",
    "at",
    "create beside it, p50 / p99 ms",
    "to without",
    "status by a newcomer, p50 / p99 ms",
    "to without",
    "healthy requests without a good answer",
    "server's CPU without / with (% of a core)",
    "RSS before / during / after (MiB)",
    "what it was answered",
)

NOTES: Final = """\
Abuse: healthy clients create payments on connections that stay, and read a status on a new connection each
time, at a steady rate; abusers come from many loopback addresses. Server, clients and abusers are a process
each, and the server has the limits that it is shipped with.
- **To without**: of the same requests in the same round before the abuse. Where others use the machine, trust
  the server's CPU and p50 before p99.
- **Well meant** is no abuse: as many more reads as there are requests that harm, and from as many addresses.
- **RSS** is that before the first round, the most of all, and that after the last one; the payments which
  healthy clients create meanwhile are in it.
- **Idle** and **slow** connections are opened again as soon as they are ended. **A full house** has room for
  half of them: each newcomer takes the place of who has waited for longest.
- **Oversized**: heads, targets, bodies, chunks, websocket frames and messages, of 64 kB to 16 MiB.
- **Bombs**: JSON that nests 60,000 deep, and texts of 60 kB for whatever pattern they meet, by somebody who
  has a key.
- **closed 1008** is the code of a websocket; **cut** is a connection that was ended without an answer."""


async def abuse_lines(folder: Path, plan: Abuse, say: Callable[[str], None]) -> list[Line]:
    """Measure every sort: a full house on a server of its own."""
    lines: list[Line] = []
    for full in (False, True):
        place = folder / ("full" if full else "roomy")
        place.mkdir()
        async with open_besieged(place, plan, full=full) as besieged:
            for sort in [one for one in SORTS if (one == FULL) is full]:
                say(f"abuse: {sort}")
                lines.append(abuse_line(plan, await besieged.suffer(sort)))
    return lines


def abuse_line(plan: Abuse, suffered: Suffered) -> Line:
    """One sort."""
    created, created_ratio = _beside(suffered, lambda healthy: healthy.created)
    read, read_ratio = _beside(suffered, lambda healthy: healthy.read)
    before, during, after = suffered.mib[0][0], max(mib[1] for mib in suffered.mib), suffered.mib[-1][2]
    busy = [median(one.busy for one in half) for half in (suffered.quiet, suffered.abused)]
    failed = sum((one.failed for one in suffered.abused), Counter[str]())
    return (
        suffered.sort,
        _at(plan, suffered),
        created,
        created_ratio,
        read,
        read_ratio,
        _counted(failed) or "none",
        " / ".join(f"{100 * one:.0f}" for one in busy),
        f"{before:.0f} / {during:.0f} / {after:.0f}",
        _counted(suffered.outcome.answers) or NONE,
    )


def _at(plan: Abuse, suffered: Suffered) -> str:
    if suffered.sort in ASKED:
        return f"{plan.rate:,.0f} a second"
    held = plan.connections if suffered.sort in ("idle", FULL) else plan.slow
    return f"{held:,} connections, {suffered.outcome.ended:,} ended"


def _beside(suffered: Suffered, of: Callable[[Healthy], list[float]]) -> tuple[str, str]:
    """p50 and p99 with abuse, and each to that without it; medians over the rounds."""
    shown, ratios = [], []
    for share in (0.50, 0.99):
        quiet, abused = (
            [quantile(of(one), share) for one in half] for half in (suffered.quiet, suffered.abused)
        )
        shown.append(f"{median(abused):.2f}")
        ratios.append(f"{median(b / a for a, b in zip(quiet, abused, strict=True)):.2f}")
    return " / ".join(shown), f"**{ratios[0]}** / {ratios[1]}"


def _counted(answers: dict[str, int]) -> str:
    return ", ".join(f"{times:,} × {answer}" for answer, times in sorted(answers.items()))
