"""An operator under a seed: has backups made of a house, and brings one back after some deaths.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from payd.core.errors import InvalidParams
from payd.store.restore import restore
from payd.web.commands import run_command
from tests.crash.endpoint_diary import Arrival
from tests.crash.shoppers import Ledger

if TYPE_CHECKING:
    from tests.simulation.world import Life

PAUSES_S: Final = (5.0, 40.0, 200.0)
# How often a death takes what was stored along.
LOSES_ALL: Final = 0.6
# Else what is left of it is in the way.
ON_ANOTHER_MACHINE: Final = 0.5
# Else the newest backup is not taken, but any.
TAKES_NEWEST: Final = 0.7


@dataclass(frozen=True)
class _Backup:
    """One, and what had been told by then: whatever came later is as if it had not been."""

    path: Path
    ledger: Ledger
    arrivals: int


class Restores:
    """Backups of one house, and what people may go on with once one is brought back.

    Args:
        folder: Where they are made.
        ledger: What people were told.
        arrivals: What came to the merchant's receivers.
        rng: When.
    """

    def __init__(self, folder: Path, ledger: Ledger, arrivals: list[Arrival], rng: Random) -> None:
        folder.mkdir()
        self._folder = folder
        self._ledger = ledger
        self._arrivals = arrivals
        self._rng = rng
        self._made = 0
        self._backups: list[_Backup] = []

    async def back_up(self, life: Life) -> None:
        """Have backups made until the house's death."""
        while True:
            await trio.sleep(self._rng.choice(PAUSES_S) * self._rng.random())
            self._made += 1
            path = self._folder / str(self._made)
            asked = msgspec.json.encode({"dest": str(path), "with_keys": True})
            try:
                await run_command(life.house, "backup.make", asked)
            except InvalidParams as refused:
                self._ledger.problems.append(f"backup: {refused.message}")
                return
            if not life.dead.is_set():
                told = deepcopy(self._ledger)
                told.changes.times.down(self._ledger.changes.now_s())
                self._backups.append(_Backup(path, told, len(self._arrivals)))

    def bring_back(self, directory: Path, realm: str, now_ms: int) -> bool:
        """Put a backup in the place of what a death has left, sometimes; returns whether that was done.

        Args:
            directory: What it has left.
            realm: Whose payments people know.
            now_ms: By the wall.
        """
        if not self._backups or self._rng.random() >= LOSES_ALL:
            return False
        newest = len(self._backups) - 1
        place = newest if self._rng.random() < TAKES_NEWEST else self._rng.randrange(newest + 1)
        backup = self._backups[place]
        # What was told after it is not so any more.
        del self._backups[place + 1 :]
        if self._rng.random() < ON_ANOTHER_MACHINE:
            shutil.rmtree(directory)
            directory.mkdir(mode=0o700)
        restore(backup.path, directory, overwrite=True, now_ms=now_ms)
        self._forget(backup, _references(directory / f"{realm}.db"))
        return True

    def _forget(self, backup: _Backup, stored: set[str]) -> None:
        """What was told since the backup was made. It may have what nobody had been told of yet."""
        now, then = self._ledger, backup.ledger
        told = {key: now.payments[key] for key in then.payments}
        for key, one in told.items():
            vars(one).update(deepcopy(vars(then.payments[key])))
        now.payments = told
        now.doubtful = (stored & now.asked) - {one.reference for one in told.values()}
        now.answers, now.frames, now.glimpses = deepcopy((then.answers, then.frames, then.glimpses))
        now.heard, now.newest = [*then.heard], then.newest
        now.changes.go_back(then.changes)
        now.restores += 1
        del self._arrivals[backup.arrivals :]


def _references(path: Path) -> set[str]:
    """Those of all payments in a file."""
    with closing(sqlite3.connect(path)) as tx:
        return {reference for (reference,) in tx.execute("SELECT reference_id FROM payments")}
