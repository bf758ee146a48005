"""`scripts/torture`: real processes on real files, killed at random moments under load, and what broke."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom
from typing import Any, Final

import msgspec

from tests.crash.aftermath import Aftermath, Diary, live_through
from tests.crash.truths import broken

DIARY: Final = "diary.json"
WORDS_MAX: Final = 2000


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every promise held."""
    asked = _parser().parse_args(arguments)
    first = SystemRandom().randrange(2**32) if asked.seed is None else asked.seed
    until_s = time.monotonic() + asked.minutes * 60
    totals: Counter[str] = Counter()
    wrong = 0
    while not totals["rounds"] or (totals["deaths"] < asked.deaths and time.monotonic() < until_s):
        seed = first + totals["rounds"]
        counts, found = _round(seed, asked.keep)
        totals.update(counts)
        wrong += len(found)
        print(f"round {totals['rounds']} (seed {seed}): {totals['deaths']} deaths so far", flush=True)
        for name, words in found.items():
            print(f"  {name.replace('_', ' ')}: {words}", flush=True)
    print(f"{wrong} broken promises. In all:")
    for name, total in totals.items():
        print(f"  {name}: {total:,}")
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/torture",
        description="Servers under mixed load are killed with SIGKILL at random moments, some on a slow disk,"
        " some while they get up, some while they make a backup. Then all that clients, pages, listeners and"
        " receivers were told is compared with the files, and each backup with what was told before it. Where"
        f" a promise broke, the round's folder is kept: the data, the server's log, and {DIARY} with the"
        " moments of the deaths and all that was told.",
        epilog="scripts/torture --deaths 500",
    )
    parser.add_argument("--deaths", type=int, default=50, help="at least so many, over all rounds (50)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no round after so long")
    parser.add_argument("--seed", type=int, help="of the first round's moments; the next one's is one more")
    parser.add_argument(
        "--keep", type=Path, help="where the folder of a bad round goes (the system's for temporary files)"
    )
    return parser


def _round(seed: int, keep: Path | None) -> tuple[Counter[str], dict[str, str]]:
    """One run; what happened in it, by name, and what is broken. Of a bad one, the folder is kept."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"payd-torture-{seed}-", dir=keep))
    diary = Diary()
    found: dict[str, Any]
    counts = Counter({"rounds": 1})
    try:
        left = live_through(folder, seed, diary)
        found = dict(broken(left))
        counts.update(_counts(left))
    except Exception:  # noqa: BLE001  # a finding of its own; a group with an interrupt in it is none
        found = {"it came to no end": traceback.format_exc()}
    counts["deaths"] = len(diary.deaths)
    if not found:
        shutil.rmtree(folder)
        return counts, {}
    said = {"seed": seed, "broken": found, "diary": diary}
    (folder / DIARY).write_bytes(msgspec.json.encode(said, enc_hook=repr))
    print(f"  kept: {folder}")
    return counts, {name: _shortened(words) for name, words in found.items()}


def _shortened(words: Any) -> str:
    """Of a traceback the end says most."""
    return words[-WORDS_MAX:] if isinstance(words, str) else repr(words)[:WORDS_MAX]


def _counts(left: Aftermath) -> Counter[str]:
    return Counter(
        {
            "answers": left.ledger.answered,
            "answers lost": left.ledger.lost,
            "payments": len(left.rows.payments),
            "events": len(left.rows.events),
            "webhooks received": len(left.received),
            "events heard by feed": len(left.ledger.heard),
            "frames on pages": len(left.ledger.frames),
            "backups whole": sum(one.is_usable for one in left.backups),
            "backups cut off": sum(not one.backup.made for one in left.backups),
        }
    )


if __name__ == "__main__":
    sys.exit(main())
