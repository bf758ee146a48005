"""Backups that are made while the server dies, and what each of them is worth afterwards.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import math
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import trio

from payd.store.backup import DRAFT
from payd.store.manifest import BackupUnusable
from payd.store.restore import restore
from payd.web.admin import SOCKET_NAME, NoAnswer, NoServer, call_admin
from tests.crash.process import Server
from tests.crash.rows import OF_EVENTS, chains_of
from tests.crash.shoppers import Ledger

PAUSE_MAX_S: Final = 0.6
FOLDER: Final = "backups"
ELSEWHERE: Final = "restored"


@dataclass
class Backup:
    """One that the server was asked for.

    Attributes:
        dest: Where.
        before: Of each payment, how many statuses its clients had been told when it was asked for.
        made: Whether the server said that it is there; where it died meanwhile, nobody knows.
    """

    dest: Path
    before: dict[str, int]
    made: bool = False


@dataclass(frozen=True)
class Restored:
    """What a backup turned out to be, once it was restored.

    Attributes:
        backup: The one.
        there: Whether its folder is there.
        unusable: Why it cannot be restored; None where it can, or is not there.
        chains: Of each payment, the (version, status) of its events in their order.
        untrue: Events in it that are not stored with the same bytes where it was made.
        unowed: Events in it without the delivery that they owe.
    """

    backup: Backup
    there: bool
    unusable: str | None = None
    chains: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    untrue: tuple[str, ...] = ()
    unowed: tuple[str, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether there is one, and it could be restored."""
        return self.there and self.unusable is None


class Backer:
    """An operator who has one backup made after the other, whatever happens to the server meanwhile."""

    def __init__(self, server: Server, ledger: Ledger, backups: list[Backup], rng: Random) -> None:
        self._server = server
        self._ledger = ledger
        self._backups = backups
        self._rng = rng
        self._folder = server.folder / FOLDER
        self._folder.mkdir()
        self.under_way = False
        """Whether the server was asked for one that it has not answered for."""

    async def run(self, until: trio.Event) -> None:
        """Live until told otherwise."""
        while not until.is_set():
            await self.back_up()
            await trio.sleep(self._rng.random() * PAUSE_MAX_S)

    async def back_up(self) -> Backup | None:
        """Have one made; None where no server was there to ask."""
        await self._server.wait_up()
        before = {one.payment_id: len(one.statuses) for one in self._ledger.payments.values()}
        backup = Backup(self._folder / str(len(self._backups) + 1), before)
        self._backups.append(backup)
        path = self._server.folder / "data" / SOCKET_NAME
        args = {"dest": str(backup.dest), "with_keys": True}
        self.under_way = True
        try:
            # However long it takes, as `payd backup`: a server that dies ends the connection.
            reply = await call_admin(path, "backup.make", args, deadline_s=math.inf)
        except NoServer:
            self._backups.remove(backup)
            return None
        except NoAnswer:
            return backup
        finally:
            self.under_way = False
        backup.made = reply.error is None
        if reply.error is not None:
            self._ledger.problems.append(f"backup: {reply.error.code} {reply.error.message}")
        return backup


def restore_each(folder: Path, backups: list[Backup], now_ms: int) -> list[Restored]:
    """Restore every backup in turn, and compare it with the data directory that it is of."""
    return [_restore(folder, backup, now_ms) for backup in backups]


def draft_of(folder: Path) -> Path:
    """What a backup that was not finished leaves behind, until the next one."""
    return folder / FOLDER / DRAFT


def _restore(folder: Path, backup: Backup, now_ms: int) -> Restored:
    if not backup.dest.exists():
        return Restored(backup, there=False)
    directory = folder / ELSEWHERE
    try:
        restore(backup.dest, directory, overwrite=False, now_ms=now_ms)
        with closing(sqlite3.connect(directory / "test.db")) as tx:
            tx.execute("ATTACH ? AS origin", (str(folder / "data" / "test.db"),))
            return Restored(
                backup,
                there=True,
                chains=chains_of(tx),
                untrue=_untrue(tx),
                unowed=_unowed(tx),
            )
    except BackupUnusable as error:
        return Restored(backup, there=True, unusable=str(error))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _untrue(tx: sqlite3.Connection) -> tuple[str, ...]:
    rows = tx.execute(
        "SELECT id FROM (SELECT seq, id, body FROM main.events"
        " EXCEPT SELECT seq, id, body FROM origin.events)"
    )
    return tuple(event_id for (event_id,) in rows)


def _unowed(tx: sqlite3.Connection) -> tuple[str, ...]:
    rows = tx.execute(
        "SELECT id FROM main.events AS e"
        f" WHERE NOT EXISTS (SELECT 1 FROM main.deliveries WHERE event_seq = e.seq AND {OF_EVENTS})"
    )
    return tuple(event_id for (event_id,) in rows)
