"""`scripts/torture`: real processes on real files, killed at random moments under load, and what broke."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom

from tests.crash.aftermath import live_through
from tests.crash.truths import broken


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every promise held."""
    parser = argparse.ArgumentParser(
        prog="scripts/torture",
        description="Servers under mixed load are killed with SIGKILL at random moments, some on a slow disk,"
        " some while they get up. Then all that clients, pages, listeners and receivers were told"
        " is compared with the files.",
        epilog="scripts/torture --deaths 500",
    )
    parser.add_argument("--deaths", type=int, default=50, help="at least so many, over all rounds (50)")
    parser.add_argument("--seed", type=int, help="of the first round's moments; the next one's is one more")
    asked = parser.parse_args(arguments)
    first = SystemRandom().randrange(2**32) if asked.seed is None else asked.seed
    totals: Counter[str] = Counter()
    wrong = 0
    while totals["deaths"] < asked.deaths:
        seed = first + totals["rounds"]
        with tempfile.TemporaryDirectory() as folder:
            left = live_through(Path(folder), seed)
        totals.update(
            {
                "rounds": 1,
                "deaths": left.deaths,
                "answers": left.ledger.answered,
                "answers lost": left.ledger.lost,
                "payments": len(left.rows.payments),
                "events": len(left.rows.events),
                "webhooks received": len(left.received),
            }
        )
        print(f"round {totals['rounds']} (seed {seed}): {totals['deaths']} deaths so far", flush=True)
        for name, found in broken(left).items():
            wrong += 1
            print(f"  {name.replace('_', ' ')}: {found!r:.2000}", flush=True)
    print(f"{wrong} broken promises. In all:")
    for name, total in totals.items():
        print(f"  {name}: {total:,}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
