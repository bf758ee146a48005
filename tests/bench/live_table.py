"""The figures of live payments as a table: each beside what it is measured against, and the ratio.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.live import Walked, Walks, measure_calls, measure_walks
from tests.bench.live_solana import Costs, measure_solana_costs, measure_solana_walks
from tests.bench.live_starts import TEST, Started, measure_live_starts
from tests.bench.table import NONE, Line

HEADER: Final = ("live payments", "at", "payd", "beside it", "which is", "payd : beside", "goal")

NOTES: Final = """\
Live payments: each node makes blocks when it is asked to, and every time is from then; one payment is under
way. anvil's transaction waits in the pool before, and one confirmation is enough; Solana's is in the newest
slot already, which the next one confirms. Chains are looked at every 50 ms, but for the pause that payd
leaves between two looks; payments come spread over it. The server is a process of its own; webhooks go over
TLS and are timed where they arrive.
- **with websocket**: the node tells of signatures and accounts besides; everywhere else there is none.
- **the node's receipt**, or its status, is asked for again and again until it is there.
- **buyer's act → succeeded** is from the confirm of what was signed, or from sending what a link asks for,
  with the slot asked for as soon as the node has the transaction.
- **calls a block** are those besides the head's polls: what the same time costs without blocks is taken off.
- **calls a look**: Solana is read by looks, each a POST, however many slots came. **calls a payment** are all
  others, from its options to its settlement, for payments that are signed and whose fee payd pays.
- Options in a token, in another one and in the chain's coin are out for each open payment."""


async def live_lines(folder: Path, plan: Walks, say: Callable[[str], None]) -> list[Line]:
    """Measure all of it."""
    say("live payments, signed and sent")
    walked = await measure_walks(_fresh(folder, "walks"), plan)
    lines = [line for way in walked for line in walk_lines(way, walked[way], "block", RECEIPT)]
    for told, where in ((False, "Solana"), (True, "Solana with websocket")):
        say(f"live payments on {where}, signed and by a link")
        walked = await measure_solana_walks(_fresh(folder, where), plan, told=told)
        for way in walked:
            lines += walk_lines(f"{where}, {way}", walked[way], "slot", STATUS)
            lines += act_lines(f"{where}, {way}", walked[way])
    calls: dict[int, float] = {}
    costs: dict[int, Costs] = {}
    for count in plan.open_payments:
        say(f"calls with {count} open payments")
        calls[count] = await measure_calls(_fresh(folder, f"open{count}"), plan, count)
        costs[count] = await measure_solana_costs(_fresh(folder, f"solana{count}"), plan, count)
    lines += call_lines(calls) + cost_lines(costs)
    say("starts with live chains")
    return lines + start_lines(await measure_live_starts(_fresh(folder, "starts"), plan))


RECEIPT: Final = "the node's receipt"
STATUS: Final = "the node's status"


def walk_lines(way: str, walked: Walked, block: str, beside: str) -> list[Line]:
    """One way to pay."""
    at = f"{way}, {len(walked.receipt)} payments"
    return [
        _line(f"{block} → {what}, p{share} (ms)", at, _at(taken, share), _at(walked.receipt, share), beside)
        for what, taken in (("succeeded", walked.succeeded), ("webhook arrived", walked.webhook))
        for share in (50, 99)
    ]


def act_lines(way: str, walked: Walked) -> list[Line]:
    """The same from what the buyer did."""
    at = f"{way}, {len(walked.acted)} payments"
    return [
        _line(f"buyer's act → succeeded, p{share} (ms)", at, _at(walked.acted, share), None, NONE)
        for share in (50, 99)
    ]


def call_lines(calls: dict[int, float]) -> list[Line]:
    """What each block costs."""
    return _by_open("calls a block", calls)


def cost_lines(costs: dict[int, Costs]) -> list[Line]:
    """What looks along Solana cost, and what payments do."""
    return [
        *_by_open("calls a look, Solana", {count: one.calls for count, one in costs.items()}),
        *_by_open("POSTs a look, Solana", {count: one.posts for count, one in costs.items()}),
        *_by_open("calls a payment, Solana", {count: one.payment_calls for count, one in costs.items()}),
        *_by_open("POSTs a payment, Solana", {count: one.payment_posts for count, one in costs.items()}),
    ]


def _by_open(what: str, values: dict[int, float]) -> list[Line]:
    """One figure by how many payments are open; the more against the fewest."""
    fewest = min(values)
    return [
        _line(
            what,
            f"{count:,} open payments",
            value,
            None if count == fewest else values[fewest],
            NONE if count == fewest else f"{fewest:,} open",
        )
        for count, value in sorted(values.items())
    ]


def start_lines(started: Started) -> list[Line]:
    """Start and rest, with each kind of live chains."""
    lines = []
    for what in (one for one in started.ready_ms if one != TEST):
        ready, test_ready = (median(started.ready_ms[kind]) for kind in (what, TEST))
        idle, test_idle = (median(started.idle_mib[kind]) for kind in (what, TEST))
        lines += [
            _line("start of the process to /readyz (ms)", what, ready, test_ready, TEST, digits=0),
            _line("idle RSS (MiB)", what, idle, test_idle, TEST, "< 120 MiB"),
        ]
    return lines


def _line(
    what: str, at: str, payd: float, beside: float | None, which: str, goal: str = NONE, digits: int = 1
) -> Line:
    return (
        what,
        at,
        f"{payd:,.{digits}f}",
        NONE if beside is None else f"{beside:,.{digits}f}",
        which,
        f"**{payd / beside:.2f}**" if beside else NONE,
        goal,
    )


def _at(taken: Sequence[float], share: int) -> float:
    ordered = sorted(taken)
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)]


def _fresh(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made
