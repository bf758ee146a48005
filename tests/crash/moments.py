"""A program that does one thing to a data directory, again and again, and dies of SIGKILL at each step of it.

    python -m tests.crash.moments upgrade FOLDER office01_realm01 …
    python -m tests.crash.moments restore FOLDER office01_realm01 …
    python -m tests.crash.moments restore-without-links FOLDER office01_realm01 …
    python -m tests.crash.moments backup FOLDER office01_realm01 …

A step is whatever changes a file's name or its bytes: making, opening to write, linking, renaming, removing,
and the end of each of SQLite's transactions. It dies just before it; in a short run not before one that is
between two of its own name, as when one transaction follows another. The product knows nothing of all this;
the interpreter tells of the steps. Each death is that of a process of its own. Prints a JSON object with an
array for each stored directory: step, what was found, and what was found once it had been done again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import msgspec

from payd.store.backup import DRAFT, Keystore, make_backup
from payd.store.copying import databases_in
from payd.store.manifest import BackupUnusable, read_manifest
from payd.store.restore import restore
from payd.store.swap import finish
from payd.store.upgrade import look_at_schemas, upgrade
from tests.short import IS_SHORT
from tests.stored.fill import HERE as STORED
from tests.stored.fill import unpack

NOW_MS: Final = 1_790_000_000_000
CHANGES: Final = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}
WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT

Act = Callable[[Path], object]


class Steps:
    """Counts the steps of this process; at `last` it kills it."""

    def __init__(self, folder: Path, last: int | None) -> None:
        self._folder = str(folder)
        self._last = last
        self.names: list[str] = []

    def begin(self) -> None:
        """From now on; there is no end but that of the process."""
        connect = sqlite3.connect

        def watched(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            opened: sqlite3.Connection = connect(*args, **kwargs)
            opened.set_trace_callback(self._hear_statement)
            return opened

        sqlite3.connect = watched  # type: ignore[assignment]
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event in CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & WRITES):
            named = [os.fspath(each) for each in args if isinstance(each, str | os.PathLike)]
            if any(str(each).startswith(self._folder) for each in named):
                self._step(f"{event} {Path(str(named[0])).name}")

    def _hear_statement(self, sql: str) -> None:
        if sql.startswith(("COMMIT", "ROLLBACK", "PRAGMA wal_checkpoint")):
            self._step(f"sql {sql}")

    def _step(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def in_a_process(act: Act, folder: Path, last: int | None) -> tuple[int, list[str]]:
    """Do it in a process of its own; how that ended, and the steps of one that was not killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        steps = Steps(folder, last)
        steps.begin()
        act(folder)
        names = list(steps.names)
        with os.fdopen(write, "wb") as pipe:
            pipe.write(msgspec.json.encode(names))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), msgspec.json.decode(told) if told else []


def digest(directory: Path) -> str:
    """All that the databases of a directory say, whatever their files look like."""
    there = [directory / name for name, _ in databases_in(directory)]
    if any(path.with_name(f"{path.name}-wal").exists() for path in there):
        return _digest_of_rows(tuple(there))
    return _digest_of(tuple(hashlib.sha256(path.read_bytes()).digest() for path in there), tuple(there))


KNOWN: Final[dict[tuple[bytes, ...], str]] = {}


def _digest_of(files: tuple[bytes, ...], there: tuple[Path, ...]) -> str:
    """Most files were seen before, byte for byte."""
    if files not in KNOWN:
        KNOWN[files] = _digest_of_rows(there)
    return KNOWN[files]


def _digest_of_rows(there: tuple[Path, ...]) -> str:
    found = hashlib.sha256()
    for path in there:
        with closing(sqlite3.connect(path)) as tx:
            for line in tx.iterdump():
                found.update(line.encode())
    return found.hexdigest()


def seen(directory: Path, before: str, after: str) -> str:
    """Whether a directory is the old one, the new one, or neither."""
    versions = [f"{each.name} {each.version}" for each in look_at_schemas(directory)]
    return {before: "old", after: "new"}.get(digest(directory), f"between: {versions}")


def last_steps(names: list[str]) -> list[int]:
    """The numbers of the steps before which it dies, from 1."""
    numbers = range(1, len(names) + 1)
    amid = {number for number in numbers if names[number - 2 : number + 1] == 3 * [names[number - 1]]}
    return [number for number in numbers if not (IS_SHORT and number in amid)]


def try_each(act: Act, old: Path, folder: Path, look: Callable[[Path], str], again: Act) -> list[list[str]]:
    """Kill it at each step, each time with a fresh copy of the directory."""
    work = folder / "work"
    shutil.copytree(old, work)
    code, names = in_a_process(act, work, None)
    assert code == 0, "it fails by itself"
    found = []
    for number in last_steps(names):
        name = names[number - 1]
        shutil.rmtree(folder / "work")
        shutil.copytree(old, work)
        code, _ = in_a_process(act, work, number)
        assert code == -signal.SIGKILL, (name, code)
        finish(work / "data")
        there = look(work)
        again(work)
        found.append([name, there, look(work)])
    return found


def try_upgrade(old: Path, folder: Path) -> list[list[str]]:
    """Kill upgrades; whoever opens the directory next goes on with one."""
    fresh = folder / "fresh"
    shutil.copytree(old, fresh)
    before = digest(fresh / "data")
    do_upgrade(fresh)
    after = digest(fresh / "data")
    assert before != after
    return try_each(do_upgrade, old, folder, lambda at: seen(at / "data", before, after), do_upgrade)


def do_upgrade(at: Path) -> None:
    """As a server does at its start."""
    upgrade(at / "data", NOW_MS)


def try_restore(old: Path, folder: Path, *, is_open: bool = False) -> list[list[str]]:
    """Kill restores of a backup over a directory that has changed since, and has a database more.

    Where another program has a database open, its log is kept beside it.
    """
    source = folder / "source"
    make_backup(old / "data", source, Keystore(), with_keys=True, now_ms=NOW_MS)
    before = digest(old / "data")
    shutil.copy(old / "data" / "test.db", old / "data" / "live.db")

    def act(at: Path) -> None:
        with ExitStack() as stack:
            if is_open:
                other = stack.enter_context(closing(sqlite3.connect(at / "data" / "test.db")))
                other.execute("SELECT count(*) FROM merchants").fetchone()
            restore(source, at / "data", overwrite=True, now_ms=NOW_MS)

    with closing(sqlite3.connect(old / "data" / "test.db", isolation_level=None)) as tx:
        tx.execute("PRAGMA journal_mode = WAL")
        tx.execute("UPDATE merchants SET name = 'Another'")  # stays in the log, as after a death
        changed = digest(old / "data")
        return try_each(act, old, folder, lambda at: seen(at / "data", changed, before), act)


def try_restore_without_links(old: Path, folder: Path) -> list[list[str]]:
    """The same on a disk where no file can have a second name, and beside another program."""

    def refuse(source: Path, _target: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(source))

    os.link = refuse  # type: ignore[assignment]
    return try_restore(old, folder, is_open=True)


def try_backup(old: Path, folder: Path) -> list[list[str]]:
    """Kill backups: there is a whole one, or none."""

    def look(at: Path) -> str:
        shutil.rmtree(at / "tried", ignore_errors=True)
        try:
            read_manifest(at / "backup")
        except BackupUnusable:
            return "old" if not (at / "backup").exists() else "between: half a backup"
        restore(at / "backup", at / "tried", overwrite=False, now_ms=NOW_MS)
        return "new" if digest(at / "tried") == digest(at / "data") else "between: another one"

    def again(at: Path) -> None:
        if not (at / "backup").exists():
            act(at)
        assert not (at / DRAFT).exists() or look(at) == "new"

    def act(at: Path) -> None:
        make_backup(at / "data", at / "backup", Keystore(), with_keys=True, now_ms=NOW_MS)

    return try_each(act, old, folder, look, again)


def main(what: str, folder: Path, names: list[str]) -> None:
    """Print what was found. Nothing is synced: what is not on the disk outlives killed processes as well."""
    os.fsync = lambda fd: None
    tries = {
        "upgrade": try_upgrade,
        "restore": try_restore,
        "restore-without-links": try_restore_without_links,
        "backup": try_backup,
    }
    found = {}
    for name in names:
        old = folder / name / "old"
        unpack(STORED / name, old / "data")
        found[name] = tries[what](old, old.parent)
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
