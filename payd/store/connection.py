"""One SQLite connection on a thread of its own, and plain functions run on it.

aiosqlite runs a connection's methods on the connection's thread. Here a connection's `commit()` runs the next
staged function, so that one `await commit()` of its public API carries any work over in one thread crossing.

Source: DESIGN.md, "2. The stack".
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import aiosqlite
import outcome
import trio

from payd.core.errors import StoreUnavailable
from payd.store.batch import Displaced
from payd.store.bridge import check_bridge
from payd.store.memory import watch
from payd.store.raw import STILL_MAX_S, ReadConnection, StagedConnection, Tx

T = TypeVar("T")
Raw = TypeVar("Raw", bound="StagedConnection")

SQLITE: Final = sqlite3.sqlite_version
SQLITE_OLDEST: Final = (3, 38, 0)  # the first with `->>`; RETURNING and UPDATE FROM are older

# Another process may hold the write lock for a moment: a backup, a person with the sqlite3 shell.
BUSY_MAX_S: Final = 5.0
# The loop itself waits for an inline read; what it can meet is a checkpoint's last instant.
BUSY_INLINE_MAX_S: Final = 0.25
# To empty the log, a checkpoint locks the writer out and waits for readers: it gives up before that shows.
BUSY_CHECKPOINT_MAX_S: Final = 0.02

# Each statement text of store/*.py is prepared once for a connection, those of store/rows.py for some counts.
CACHED_STATEMENTS: Final = 512

# Closing waits for the statements that are queued; a disk that hangs must not hold the others.
CLOSE_MAX_S: Final = 5.0

CACHE_KIB: Final = 16_384

NO_THREAD: Final = (
    "the machine gives no thread to the database: look at its memory, and at how many processes payd may have"
)

LogMode: TypeAlias = Literal["PASSIVE", "RESTART", "TRUNCATE"]
Role: TypeAlias = Literal["writer", "reader", "checkpointer"]


class SqliteTooOld(RuntimeError):
    """The SQLite that this Python is linked with lacks what the store's SQL needs."""


def check_sqlite(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """Refuse an SQLite older than `SQLITE_OLDEST`.

    Raises:
        SqliteTooOld: It says both versions.
    """
    if version < SQLITE_OLDEST:
        have, need = ".".join(map(str, version)), ".".join(map(str, SQLITE_OLDEST))
        raise SqliteTooOld(f"this Python has SQLite {have}; payd needs {need} or newer")


class ConnectionGone(RuntimeError):
    """The connection was closed, or its thread has ended: what was to run did not."""


class Connection(Generic[Raw]):
    """A connection of one role, on aiosqlite's thread; inline: on the caller's.

    Attributes:
        raw: The connection itself. Other threads only look at it, or close it when its thread is gone.
    """

    def __init__(self, raw: Raw, on_thread: aiosqlite.Connection | None) -> None:
        self.raw = raw
        self._on_thread = on_thread
        self._stopped = False

    @property
    def alive(self) -> bool:
        """Whether the thread that runs the functions is there, and listens."""
        return not self._stopped and self.raw.thread.is_alive()

    @property
    def waiting(self) -> int:
        """How many functions wait for the thread."""
        return len(self.raw.staged)

    def check(self) -> None:
        """Raise ConnectionGone when nothing can run on it any more."""
        if not self.alive or _rows_written(self.raw) is None:
            raise ConnectionGone("the connection to the database was lost")

    async def run(self, function: Callable[[], T]) -> T:
        """Run a plain function on the connection's thread, after those that wait already.

        When the waiting is cancelled, the function still runs; its result is dropped.

        Raises:
            ConnectionGone: It cannot run any more.
            Exception: What the function raised.
        """
        if self._on_thread is None:
            await trio.lowlevel.checkpoint()  # before the look: it may be closed meanwhile
        self.check()
        if self._on_thread is None:
            return function()
        results: list[outcome.Maybe[T]] = []
        self.raw.staged.append(lambda: results.append(outcome.capture(function)))
        try:
            await self._on_thread.commit()
        except ValueError as error:  # aiosqlite's word for a connection that was told to stop
            self._stopped = True
            raise ConnectionGone("the connection to the database was lost") from error
        return results[0].unwrap()

    async def close(self) -> None:
        """Close after what waits, or after `CLOSE_MAX_S` give up; its thread ends."""
        if self._on_thread is None or not self.alive:
            self.raw.close()
        if self._on_thread is None:
            return
        with trio.CancelScope(deadline=trio.current_time() + CLOSE_MAX_S, shield=True) as patience:
            if not self.alive:
                patience.cancel()  # Nobody answers; aiosqlite is only told that it was closed.
            try:
                await self._on_thread.close()
            except (ValueError, sqlite3.Error):
                return  # It was told to stop before, or the disk complained: its thread ends all the same.


class Log(NamedTuple):
    """The write-ahead log: the pages in it, and how many of them the database has not yet."""

    pages: int = 0
    left: int = 0


class Connections:
    """The five connections to one file: one writes, three read, one empties the log behind the writer.

    Attributes:
        reader: Reads what requests ask for, which may take a while.
        looker: Reads what the house itself waits for.
        point: Reads on the loop's own thread. The others have a thread each; inline there is no checkpointer,
            and the writer empties its log itself.
        rows_taken: How many of `rows_written` the last checkpoint found.
    """

    def __init__(self, path: Path, *, inline: bool) -> None:
        self._path = path
        self._inline = inline
        self._file: os.stat_result | None = None  # which one it is
        self.writer: Connection[StagedConnection] | None = None
        self.checkpointer: Connection[StagedConnection] | None = None
        self.reader: Connection[ReadConnection] | None = None
        self.looker: Connection[ReadConnection] | None = None
        self.point: ReadConnection | None = None
        self.rows_taken = 0

    @property
    def rows_written(self) -> int:
        """How many rows the writer has written since it was opened; 0 while it is closed."""
        return 0 if self.writer is None else _rows_written(self.writer.raw) or 0

    @property
    def rows_untaken(self) -> int:
        """How many rows of the log no checkpoint has taken into the database, or more."""
        return self.rows_written - self.rows_taken

    @trio.lowlevel.enable_ki_protection  # one that nobody knows of is never closed
    async def open(self) -> None:
        """Open those that are not; at the start, `to_the_end`.

        Raises:
            sqlite3.Error: The file cannot be opened, or is another one. Those that could be are open.
        """
        if not self._is_in_place():
            raise Displaced
        if self.writer is None:
            self.writer = await open_connection(self._path, "writer", StagedConnection, inline=self._inline)
            self.rows_taken = 0
        if self.checkpointer is None and not self._inline:
            self.checkpointer = await open_connection(
                self._path, "checkpointer", StagedConnection, inline=False
            )
        if self.reader is None:
            self.reader = await open_connection(self._path, "reader", ReadConnection, inline=self._inline)
        if self.looker is None:
            self.looker = await open_connection(self._path, "reader", ReadConnection, inline=self._inline)
        if self.point is None:
            self.point = open_point(self._path)
        if self._file is None:
            self._file = self._path.stat()

    async def take_log(self, mode: LogMode, *, alone: bool = False) -> Log:
        """Take the log into the database, as `take_log` does, if there is a checkpointer; `alone`: between
        two reads, as it never starts again beside lists of which each follows on another.

        Raises:
            ConnectionGone: Its thread has ended.
            Displaced: Nobody would find what is taken.
            sqlite3.Error: The disk refused it.
        """
        if (checkpointer := self.checkpointer) is None:
            return Log()
        if not self._is_in_place():
            raise Displaced
        self.rows_taken = self.rows_written
        async with self._between_reads() if alone else nullcontext():
            return await checkpointer.run(lambda: take_log(checkpointer.raw, mode))

    @asynccontextmanager
    async def _between_reads(self) -> AsyncIterator[None]:
        """Have no read be under way, and none begin; beside one that takes too long it is of no use."""
        readers = [one.raw for one in (self.reader, self.looker) if one is not None]
        for raw in readers:
            raw.may_begin.clear()
        try:
            with trio.move_on_after(STILL_MAX_S):
                while any(raw.reads for raw in readers):  # noqa: ASYNC110  # its thread tells nobody
                    await trio.sleep(BUSY_CHECKPOINT_MAX_S)
            yield
        finally:
            for raw in readers:
                raw.may_begin.set()

    def _is_in_place(self) -> bool:
        """Whether the path names the file that was opened first."""
        try:
            return self._file is None or os.path.samestat(self._file, self._path.stat())
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # SQLite hears it as well, and its words are known

    async def close(self, *, readers: bool = True) -> None:
        """Close them, the writer last: it takes the log into the database."""
        checkpointer, self.checkpointer = self.checkpointer, None
        reader, looker, writer, self.writer = None, None, self.writer, None
        if readers:
            reader, self.reader = self.reader, None
            looker, self.looker = self.looker, None
            if self.point is not None:
                self.point.close()
                self.point = None
        if writer is not None and not self._is_in_place():
            # SQLite would leave it, and take it into the file that has the name by then.
            with suppress(ConnectionGone, sqlite3.Error):
                await writer.run(partial(take_log, writer.raw, "TRUNCATE"))
        for connection in (checkpointer, reader, looker, writer):
            if connection is not None:
                await connection.close()


async def to_the_end(work: Callable[[], Awaitable[None]]) -> None:
    """Run this to its end, whoever is cancelled meanwhile, and however often somebody presses Ctrl-C.

    Half-way it would leave a connection that nobody closes, whose thread keeps the process. Where Ctrl-C is
    not let in, it still ends what Trio's main task waits for, shielded or not: so another task does it.

    Raises:
        Exception: What the work raised.
    """
    ended: outcome.Maybe[None] | None = None

    @trio.lowlevel.enable_ki_protection
    async def shielded() -> None:
        nonlocal ended
        with trio.CancelScope(shield=True):
            ended = await outcome.acapture(work)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(shielded)
    assert ended is not None, "the nursery waits for it"
    ended.unwrap()


async def open_connection(path: Path, role: Role, kind: type[Raw], *, inline: bool) -> Connection[Raw]:
    """Open an existing database for one role; `path` is absolute. Not to be cancelled half-way: shield it.

    Raises:
        sqlite3.Error: The file cannot be opened, or is no database.
        StoreUnavailable: The machine gives it no thread.
    """
    failures: list[sqlite3.Error] = []
    made: list[Raw] = []

    def factory(*args: Any, **kwargs: Any) -> Raw:
        try:
            made.append(kind(*args, **kwargs))
            _tune(made[0], role, inline=inline)
        except sqlite3.Error as error:
            # Where opening fails, aiosqlite leaves a thread behind that nobody can wait for. A stand-in can
            # be closed like any other.
            failures.append(error)
            made.append(kind(":memory:", check_same_thread=False))
        return made[-1]

    options: dict[str, Any] = {
        "uri": True,
        "factory": factory,
        "isolation_level": None,
        "cached_statements": CACHED_STATEMENTS,
        "timeout": BUSY_CHECKPOINT_MAX_S if role == "checkpointer" else BUSY_MAX_S,
        "check_same_thread": False,
    }
    uri = f"{path.as_uri()}?mode={'ro' if role == 'reader' else 'rw'}"
    if inline:
        sqlite3.connect(uri, **options)
        connection = Connection(made[-1], None)
    else:
        check_bridge()
        try:
            on_thread = await aiosqlite.connect(uri, **options)
        except RuntimeError as error:
            raise StoreUnavailable(NO_THREAD) from error
        connection = Connection(made[-1], on_thread)
    if failures:
        for raw in made:
            raw.close()
        await connection.close()
        raise failures[0]
    return connection


def _rows_written(raw: sqlite3.Connection) -> int | None:
    """None of a closed connection."""
    try:
        return raw.total_changes
    except sqlite3.ProgrammingError:
        return None


def open_point(path: Path) -> ReadConnection:
    """The connection for reads on the loop's own thread; `path` is absolute.

    Raises:
        sqlite3.Error: The file cannot be opened, or is no database.
    """
    raw: ReadConnection = sqlite3.connect(
        f"{path.as_uri()}?mode=ro",
        uri=True,
        factory=ReadConnection,
        isolation_level=None,
        cached_statements=CACHED_STATEMENTS,
        timeout=BUSY_INLINE_MAX_S,
    )
    try:
        _tune(raw, "reader", inline=True)
    except sqlite3.Error:
        raw.close()
        raise
    raw.close_cursors()
    return raw


def _tune(raw: StagedConnection, role: Role, *, inline: bool) -> None:
    """Set what a connection keeps for itself; only the writer's journal mode is kept in the file."""
    pragmas = [f"cache_size = -{CACHE_KIB}", "temp_store = MEMORY", "foreign_keys = OFF"]
    if role == "reader":
        pragmas.append("query_only = ON")
    elif inline:
        # Virtual time and simulations survive a killed process as well as ever, and no power cut.
        pragmas += ["journal_mode = WAL", "synchronous = OFF"]
    else:
        pragmas += ["journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0"]
    for pragma in pragmas:
        raw.execute(f"PRAGMA {pragma}").close()
    if role == "writer":
        watch(raw, raw.touch)
    (mode,) = raw.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        raise sqlite3.OperationalError(f"the database cannot have a write-ahead log here (mode {mode})")


def take_log(tx: Tx, mode: LogMode) -> Log:
    """Take the log into the database, as far as readers let it.

    All but PASSIVE lock the writer out meanwhile.
    """
    (_, pages, taken) = tx.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    return Log(pages, pages - taken)
