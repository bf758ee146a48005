"""The disk under a house: what of it is left when the house dies, and what it refuses.

A death leaves what was synced. In the middle of a commit, which appends to SQLite's log, any part of what it
appends may be on the disk.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final, Literal
from unittest.mock import patch

from payd.store.batch import Failure, Step, commit_steps, run_batch

Fault = Literal["dies before", "dies within", "dies after", "is full", "fails, not stored", "fails, stored"]

DEATHS: Final[tuple[Fault, ...]] = ("dies before", "dies within", "dies after")
REFUSALS: Final[tuple[Fault, ...]] = ("is full", "fails, not stored", "fails, stored")
# Rebuilt by whoever opens the database.
_FORGOTTEN: Final = "-shm"


class Disk:
    """Holds one life's folder.

    Args:
        folder: What the house works on.
        heir: What the next life finds; made by `leave`.
        rng: Where a commit is torn.
        die: Called when a commit is to be the last.
    """

    def __init__(self, folder: Path, heir: Path, rng: Random, die: Callable[[], None]) -> None:
        self.folder = folder
        self.heir = heir
        self.faults: dict[int, Fault] = {}
        """What happens at a commit, by its number in this life, from 1."""
        self.commits = 0
        self.happened: list[Fault] = []
        self._rng = rng
        self._die = die

    def leave(self) -> None:
        """Keep what is on the disk now for the next life; what comes later does not count."""
        if not self.heir.exists():
            shutil.copytree(self.folder, self.heir, ignore=shutil.ignore_patterns(f"*{_FORGOTTEN}", "*.sock"))

    def run_batch(self, tx: sqlite3.Connection, batch: Sequence[Step]) -> Failure | None:
        """Stands in for the real one."""
        return self._commit(tx, lambda: run_batch(tx, batch))

    def commit_steps(self, tx: sqlite3.Connection) -> Failure | None:
        """Stands in for the real one."""
        return self._commit(tx, lambda: commit_steps(tx))

    def _commit(self, tx: sqlite3.Connection, commit: Callable[[], Failure | None]) -> Failure | None:
        self.commits += 1
        fault = self.faults.get(self.commits)
        if fault is None or self.heir.exists():
            return commit()
        self.happened.append(fault)
        match fault:
            case "is full":
                return Failure("no", "the disk is full: free some space where the data directory is")
            case "fails, not stored":
                return Failure("unknown", "the disk answers with errors")
            case "fails, stored":
                return commit() or Failure("unknown", "the disk answers with errors")
            case "dies before":
                self.leave()
            case "dies within":
                return self._tear(tx, commit)
        found = commit()
        self.leave()
        self._die()
        return found

    def _tear(self, tx: sqlite3.Connection, commit: Callable[[], Failure | None]) -> Failure | None:
        [path] = [path for _, name, path in tx.execute("PRAGMA database_list") if name == "main"]
        log = Path(f"{path}-wal")
        self.leave()
        before = log.read_bytes() if log.exists() else b""
        found = commit()
        after = log.read_bytes()
        cut = self._rng.randrange(len(after) + 1)
        (self.heir / log.relative_to(self.folder)).write_bytes(after[:cut] + before[cut:])
        self._die()
        return found


@contextmanager
def under(disk: Disk) -> Iterator[None]:
    """All databases of this process commit to this disk."""
    with patch.multiple("payd.store.writer", run_batch=disk.run_batch, commit_steps=disk.commit_steps):
        yield
