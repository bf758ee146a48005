"""What a data directory was before an upgrade or a restore: whole, beside it, and only the last ones.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from payd.core.event import iso_ms
from payd.store.durable import sync_folder
from payd.store.manifest import MANIFEST

FOLDER: Final = "snapshots"
SNAPSHOTS_KEPT: Final = 3  # each has the size of the whole; who goes back goes back by one

YOUNG_MS: Final = 7 * 86_400_000
"""So long each is kept, however many there are: who tries one backup after the other, and starts payd in
between, makes many in an hour, and the first of them alone has what came in last."""

_NAME: Final = re.compile(r"\d{8}T\d{9}Z-[a-z]+")


def snapshot_name(at_ms: int, why: str) -> str:
    """Where the snapshot of an instant lies in the data directory; names sort by time."""
    return f"{FOLDER}/{re.sub('[-:.]', '', iso_ms(at_ms))}-{why}"


def free_snapshot_name(directory: Path, at_ms: int, why: str) -> str:
    """The same, of that instant or the first one after it that has none: a clock may show one twice."""
    while (directory / (name := snapshot_name(at_ms, why))).exists():
        at_ms += 1
    return name


def snapshots_in(directory: Path) -> list[Path]:
    """The oldest first."""
    folder = directory / FOLDER
    if not folder.is_dir():
        return []
    return sorted(each for each in folder.iterdir() if _NAME.fullmatch(each.name))


def prune_snapshots(directory: Path, newest: str, now_ms: int) -> int:
    """Take all but the last few and the young away; returns how many. What is half away is no snapshot.

    One that cannot be taken away, as another user's, stays: what it was made for is done.

    Args:
        directory: The data directory.
        newest: The one just made, as `snapshot_name` named it. It stays, also where the clock is behind and
            others have later names.
        now_ms: By the wall.
    """
    last = sorted(snapshots_in(directory), key=lambda each: each == directory / newest)
    young = Path(snapshot_name(max(0, now_ms - YOUNG_MS), "")).name
    pruned = 0
    for each in (each for each in last[:-SNAPSHOTS_KEPT] if each.name < young):
        with suppress(OSError):
            (each / MANIFEST).unlink(missing_ok=True)
            sync_folder(each)
            shutil.rmtree(each)
            pruned += 1
    return pruned
