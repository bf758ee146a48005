"""Copies of databases that are in use: all of one moment, page by page, in nobody's way.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

from payd.store.durable import make_file, sync_file
from payd.store.migrate import Schema
from payd.store.swap import INDEX, LOG

Tx: TypeAlias = sqlite3.Connection

Look: TypeAlias = Callable[[str, str, int, int], None]
"""Told what is done, with which file, how far and how far it is to go; what it raises ends the work."""

DATABASES: Final[tuple[tuple[str, Schema], ...]] = (
    ("office.db", "office"),
    ("test.db", "realm"),
    ("live.db", "realm"),
)
"""Every database of a data directory, in the order in which they are copied: people, then their payments."""

# A MiB at the usual page size: who is to stop hears of it at once.
PAGES: Final = 256
# Steps of SQLite's machine between two looks while it checks a copy: some ten milliseconds.
CHECK_STEPS: Final = 1_000_000
BUSY_MAX_S: Final = 5.0

# How a database begins, and what its header says of one that is changed in its place.
# Source: https://www.sqlite.org/fileformat2.html#the_database_header
MAGIC: Final = b"SQLite format 3\0"
WITHOUT_LOG: Final = b"\x01\x01"


def look_away(_what: str, _file: str, _done: int, _total: int) -> None:
    """Tell nobody."""


class LinkAstray(RuntimeError):
    """A database is a link to a place where nothing is, as of a disk that is not mounted: it is not gone."""


def databases_in(directory: Path) -> list[tuple[str, Schema]]:
    """Those of `DATABASES` that are there.

    Raises:
        LinkAstray: One is a link to what is not there.
    """
    for name, _ in DATABASES:
        path = directory / name
        if path.is_symlink() and not path.exists():
            raise LinkAstray(
                f"{path} is a link to {os.readlink(path)}, and nothing is there. Mount the disk that has it,"
                " or put it back"
            )
    return [(name, schema) for name, schema in DATABASES if (directory / name).exists()]


OFFICE: Final = DATABASES[0][0]
LIVE: Final = DATABASES[2][0]


class OfficeMissing(RuntimeError):
    """There are payments, and the accounts that they belong to are gone."""


def check_office(directory: Path) -> None:
    """Refuse to begin a new house among what another one left: the office is the first that has anything.

    Raises:
        OfficeMissing: It is gone.
    """
    there = [name for name, _ in databases_in(directory) if (directory / name).stat().st_size]
    if there and OFFICE not in there:
        raise OfficeMissing(
            f"{directory / OFFICE} is missing or empty, and {there[0]} is there: its payments belong to"
            " accounts of that file. Put it back, or restore a backup"
        )


class LogAstray(RuntimeError):
    """A database is not the one that the log beside it belongs to: opened so, one of the two is lost."""


def check_logs(directory: Path) -> None:
    """Refuse databases that SQLite would open at the cost of what was written last.

    It throws the log of an empty or missing one away, and plays any log back into the file that it lies at.

    Args:
        directory: The data directory; this process has no database of it open, or loses the locks on it.

    Raises:
        LogAstray: Somebody moved a database, or put a copy of one there, after a crash left its log behind.
    """
    for name, _ in DATABASES:
        path = directory / name
        log = log_of(path)
        if not _bytes_of(log):
            continue
        if not _bytes_of(path):
            raise LogAstray(
                f"{path} is missing or empty, and {log.name} is there with what was written to it last: a"
                f" start would throw that away. Put {name} back, or restore a backup; to begin without, move"
                " the log away"
            )
        if has_foreign_log(path):
            raise LogAstray(
                f"{path} is a copy, as from a backup, and {log.name} is the log of the file that was there"
                f" before: a start would mix the two. Move {log.name} away, and {name}{INDEX}; `payd restore`"
                " does that by itself"
            )


def has_foreign_log(path: Path) -> bool:
    """Whether there is a log beside a database that says of itself that it has none, as copies do.

    One that a server writes to never says so. As for `check_logs`, this process has it not open.
    """
    if not _bytes_of(log_of(path)):
        return False
    with path.open("rb") as file:
        head = file.read(len(MAGIC) + 4)
    return head.startswith(MAGIC) and head[-2:] == WITHOUT_LOG


def log_of(path: Path) -> Path:
    """Where the log of a database lies: beside the file itself, also where the path is a link to it."""
    real = Path(os.path.realpath(path))
    return real.with_name(real.name + LOG)


def _bytes_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def open_existing(path: Path, mode: Literal["rw", "ro"] = "rw") -> Tx:
    """A connection that makes no file; close it. Only one that is for reading leaves a log as it is.

    Raises:
        sqlite3.Error: The file is not there, or cannot be opened.
    """
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_MAX_S)


def take_log(path: Path) -> bool:
    """Have all of a database in its one file, which then can be kept by itself.

    Returns:
        Whether it is; not where another program has it open.

    Raises:
        sqlite3.Error: It cannot be read.
    """
    with closing(open_existing(path)) as tx:
        tx.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not log_of(path).exists()


@contextmanager
def pinned(paths: Sequence[Path]) -> Iterator[list[Tx]]:
    """Connections of which each goes on to show its database as it is now.

    Writers go on meanwhile, into a log that grows until the block has ended.

    Raises:
        sqlite3.Error: One cannot be read.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(open_existing(path))) for path in paths]
        for tx in opened:
            tx.execute("PRAGMA query_only = ON")
            tx.execute("BEGIN")
            tx.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        yield opened


def copy_pinned(tx: Tx, target: Path, look: Look = look_away) -> None:
    """Copy what a pinned connection shows into a new file, which then stands by itself and is on the disk.

    Raises:
        sqlite3.Error: It cannot be read or written.
        OSError: The file is there already, or cannot be made.
    """
    make_file(target)

    def progress(_status: int, left: int, total: int) -> None:
        look("copying", target.name, total - left, total)

    with closing(open_existing(target)) as copy:
        # Nobody reads it before it is whole, so that nothing has to be taken back.
        copy.execute("PRAGMA synchronous = OFF")
        copy.execute("PRAGMA journal_mode = OFF")
        tx.backup(copy, pages=PAGES, progress=progress)
        # The pages say that there is a log; a copy is one file.
        copy.execute("PRAGMA journal_mode = DELETE")
    sync_file(target)


@contextmanager
def looked_at(tx: Tx, what: str, file: str, look: Look, steps: int = CHECK_STEPS) -> Iterator[None]:
    """Call `look` each so many steps while statements run; what it raises ends them, and is raised."""
    raised: list[BaseException] = []

    def ask() -> int:
        try:
            look(what, file, 0, 0)
        except BaseException as error:  # noqa: BLE001  # raised again below: SQLite only knows that it was told to stop
            raised.append(error)
        return len(raised)

    tx.set_progress_handler(ask, steps)
    try:
        yield
    except sqlite3.OperationalError:
        if raised:
            raise raised[0] from None
        raise
    finally:
        tx.set_progress_handler(None, 0)
