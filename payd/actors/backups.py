"""Backups while serving: one at a time, on a thread of its own, with a word on how far it is.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import structlog
import trio

from payd.clock import WallMs
from payd.core.errors import InvalidParams
from payd.store.backup import BackupRefused, Keystore, make_backup
from payd.store.durable import DraftBusy, DraftForeign
from payd.store.manifest import Manifest

log = structlog.get_logger("payd.backups")

ONE_AT_A_TIME: Final = "A backup is being made already. Wait until it is done."
STOPPED: Final = "The backup was stopped; nothing is left of it."


class Progress(msgspec.Struct, frozen=True):
    """How far a backup is: what is done with which file, in pages or bytes; `total` 0: nobody knows."""

    what: str
    file: str
    done: int
    total: int


class _Stopped(Exception):
    """Somebody does not want it any more."""


class Backups:
    """The backups of a data directory.

    Args:
        directory: The data directory.
        keystore: The relayer's keystore, which comes along with the keys.
        wall: Unix milliseconds.
        inline: Whether to work on the loop's thread, for virtual time.
    """

    def __init__(self, directory: Path, keystore: Keystore, wall: WallMs, *, inline: bool) -> None:
        self._directory = directory
        self._keystore = keystore
        self._wall = wall
        self._inline = inline
        self._stop = False
        self.progress: Progress | None = None
        """Of the backup that is being made; None while there is none."""

    async def make(self, dest: Path, *, with_keys: bool) -> Manifest:
        """Make a backup at `dest`, an absolute path.

        Raises:
            InvalidParams: It cannot be made; the message says why and what to do. Nothing is left of it.
        """
        if self.progress is not None:
            raise InvalidParams(ONE_AT_A_TIME)
        self._stop = False
        self.progress = Progress("copying", "", 0, 0)
        log.info("backup.begun", dest=str(dest), with_keys=with_keys)
        try:
            manifest = await self._run(
                partial(
                    make_backup,
                    self._directory,
                    dest,
                    self._keystore,
                    with_keys=with_keys,
                    now_ms=self._wall(),
                    look=self._look,
                )
            )
        except (BackupRefused, DraftBusy, DraftForeign, OSError, _Stopped) as error:
            words = _words(error)
            log.warning("backup.failed", dest=str(dest), reason=words)
            raise InvalidParams(words) from error
        finally:
            # Where nobody waits for the thread any more, as at the end of the server, it hears of that.
            self._stop = True
            self.progress = None
        log.info("backup.made", dest=str(dest), bytes=manifest.bytes())
        return manifest

    def stop(self) -> bool:
        """Have the backup that is being made end; returns whether there is one."""
        self._stop = self.progress is not None
        return self._stop

    async def _run(self, work: Callable[[], Manifest]) -> Manifest:
        if self._inline:
            await trio.lowlevel.checkpoint()
            return work()
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True)

    def _look(self, what: str, file: str, done: int, total: int) -> None:
        if self._stop:
            raise _Stopped
        self.progress = Progress(what, file, done, total)


def _words(error: Exception) -> str:
    match error:
        case _Stopped():
            return STOPPED
        case OSError(strerror=str() as reason, filename=str() | Path() as file):
            return f"{reason}: {file}. The server itself writes the backup: let it, or choose another place."
        case _:
            return f"{error}."
