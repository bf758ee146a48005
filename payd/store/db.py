"""The seam to SQLite: writes that share a commit, reads that never wait for them, and what a bad disk does.

Steps that are ready at the same moment run in one transaction with one fsync (`payd/store/writer.py`), which
is waited for on a thread of its own. Point reads run on the loop's thread; requests' lists, the house's looks
and checkpoints each on another. A database that cannot be written refuses at once, says why, and comes back
by itself.

Source: DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar

import outcome
import structlog
import trio

from payd.clock import monotonic_s
from payd.core.errors import StoreUnavailable
from payd.core.histogram import Histogram
from payd.store.batch import Displaced, Failure, Step, refuse_read, words_for
from payd.store.bridge import check_bridge
from payd.store.connection import (
    Connection,
    ConnectionGone,
    Connections,
    Log,
    LogMode,
    check_sqlite,
    to_the_end,
)
from payd.store.memory import K, Memory, Query
from payd.store.migrate import Schema, bring_up_to_date
from payd.store.raw import ReadConnection, Tx
from payd.store.stats import COMMIT_BOUNDS_S, StoreStats, bytes_of, log_bytes_of
from payd.store.writer import next_batch, rewrite_version, write_batch

__all__ = ["Database", "Tx", "open_database"]

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")

# About a second of work on a fast disk; who comes later is better refused than kept waiting.
STAGED_MAX: Final = 10_000
READS_MAX: Final = 1000  # lists wait in one line for one thread
# The next in that line waits as long. A filter that few of many rows pass is looked for row by row.
READ_MAX_S: Final = 2.0
# Ten answers that come together keep a busy loop for as long, and to record them in one commit costs half.
COMPANY_MAX_S: Final = 0.002
# Turns of the loop from one commit to the next, while there is more to commit.
COMPANY_TICKS: Final = 3
# So many that go together need no more company: a commit costs as much as their rows.
COMPANY: Final = 24

LOOK_S: Final = 0.25  # how often the log is looked at while there are writes
QUIET_LOOKS: Final = 4  # looks without a write after which the log is emptied, and nobody looks any more
CHECKPOINT_ROWS: Final = 1000  # rows that are worth a checkpoint: a log of a few MiB
CHECKPOINT_LOOKS: Final = 20  # looks after which fewer are worth one, too: they may have been large
# A steady writer is always a little ahead of its checkpoints, and the log only grows. At 16 MiB the writer
# waits for a moment, so that the log starts again from the beginning.
LOG_PAGES_MAX: Final = 4096

# A disk that was full a moment ago often is again: wait longer each time that the first commit fails.
RETRY_FIRST_S: Final = 0.05
RETRY_MAX_S: Final = 5.0
SHUTDOWN_MAX_S: Final = 10.0  # for what is staged at the end

log = structlog.get_logger("payd.store")


class Database:
    """One SQLite file: one writer, readers, and the tasks that serve them. Made by `open_database`."""

    def __init__(self, path: Path | str, version: int, *, inline: bool) -> None:
        self._path = Path(path).absolute()
        self._version = version
        self._connections = Connections(self._path, inline=inline)
        self._staged: list[Step] = []  # waits for the next transaction
        self._batch: list[Step] = []  # is in one
        self._wake = trio.Event()  # something is staged, a connection is lost, or the end has come
        self._hurry = trio.Event()  # the same, but not for steps alone that wait for company
        self._company_s = 0.0 if inline else COMPANY_MAX_S  # without a thread, there is little to share
        self._written = trio.Event()  # the log has grown since it was looked at
        self._closing = trio.Event()
        self._closed = trio.Event()
        self._committing = trio.CancelScope(shield=True)
        self._keeping = trio.CancelScope(shield=True)
        self._in_flight: trio.CancelScope | None = None
        self._lost: Failure | None = None
        self._failure: str | None = None
        self._retry_s = RETRY_FIRST_S
        self._callbacks: list[Callable[[], None]] = []
        self._memory = Memory()
        self._commits = self._steps = self._failures = self._checkpoints = 0
        self._commit_s = Histogram(COMMIT_BOUNDS_S)

    @property
    def healthy(self) -> bool:
        """Whether writes are taken."""
        return self._failure is None

    @property
    def failure(self) -> str | None:
        """Why writes are refused and what to do, for people; None while they are taken."""
        return self._failure

    @property
    def generation(self) -> int:
        """Another number after each commit; what was read under the present one is still so."""
        return self._commits + self._failures

    def on_reload(self, callback: Callable[[], None]) -> None:
        """Call this after a failed commit, once the rows can be read again: memory may be ahead of them.

        After StoreUnavailable all are called again; any other error ends the database and the server.
        """
        self._callbacks.append(callback)

    def stats(self) -> StoreStats:
        """What was done so far."""
        return StoreStats(
            commits=self._commits,
            steps=self._steps,
            failures=self._failures,
            staged=len(self._staged),
            commit_s=self._commit_s,
            checkpoints=self._checkpoints,
            file_bytes=bytes_of(self._path),
            log_bytes=log_bytes_of(self._path),
        )

    async def write(self, step: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `step(tx, …)` and return its result once it is on the disk.

        The step shares its transaction with others that are ready now, in a savepoint of its own: what it
        raises takes back what it did, and nothing else. It runs on another thread, so it is given what it
        needs and touches nothing that is shared. A cancelled waiter leaves; its step runs all the same.

        Raises:
            StoreUnavailable: Nothing was stored: no space, too many writes waiting, or the end has come.
            OutcomeUnknown: The commit ended in an I/O error: it may be stored.
            Exception: What the step raised; nothing that it did is stored.
        """
        result: T = await self._stored(Step(step, args, kwargs))
        return result

    async def write_and_tell(
        self,
        tell: Callable[[T], object],
        step: Callable[Concatenate[Tx, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """As `write`; `tell(result)` runs once it is on the disk, also when the waiter has left.

        Raises:
            StoreUnavailable, OutcomeUnknown, Exception: As `write` does, or what `tell` raised.
        """
        result: T = await self._stored(Step(step, args, kwargs, tell))
        return result

    async def write_together(
        self,
        tell: Callable[[T], object] | None,
        step: Callable[[Tx, list[A]], Sequence[outcome.Outcome[T]]],
        asked: A,
        *,
        hurry: bool = True,
    ) -> T:
        """As `write_and_tell`, by one call of `step` for all who ask at once; see `Step`.

        Raises:
            StoreUnavailable, OutcomeUnknown, Exception: As `write_and_tell` does.
        """
        result: T = await self._stored(Step(step, (asked,), {}, tell, together=True), hurry=hurry)
        return result

    async def write_in_company(
        self, step: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """As `write`, for a step that others are about to follow, and for which no request waits: as
        `write_together` without `hurry`, it is committed with the next `write`, or `COMPANY_MAX_S` later.

        Raises:
            StoreUnavailable, OutcomeUnknown, Exception: As `write` does.
        """
        result: T = await self._stored(Step(step, args, kwargs), hurry=False)
        return result

    async def _stored(self, step: Step, *, hurry: bool = True) -> Any:
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._failure is not None:
            raise StoreUnavailable(f"The store cannot be written: {self._failure}.")
        if self._closing.is_set():
            raise StoreUnavailable("The store is closed.")
        if len(self._staged) >= STAGED_MAX:
            raise StoreUnavailable(f"The store is behind: {STAGED_MAX} writes wait. Try again in a moment.")
        self._staged.append(step)
        self._wake.set()
        if hurry:
            self._hurry.set()
        return await step.wait()

    def point(self, query: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an indexed lookup here and now, on all that is committed; it holds up the loop for some 10 µs.

        The query returns values, no cursor.

        Raises:
            StoreUnavailable: The database is being reopened or closed, or the disk said no.
            Exception: What the query raised.
        """
        if (tx := self._connections.point) is None:
            raise StoreUnavailable("The store cannot be read at the moment.")
        try:
            return query(tx, *args, **kwargs)
        except sqlite3.Error as error:
            refuse_read(error)
            raise
        finally:
            tx.close_cursors()

    def remember(self, query: Query[K, T], key: K) -> T | None:
        """As `point`, for lookups in watched tables alone that each request makes; see `memory`."""
        return self._memory.find(query, key, self.point)

    @property
    def epoch(self) -> int:
        """Another one when what `remember` says may have changed."""
        return self._memory.epoch

    async def read(self, query: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a list or a report for a request, in one read transaction and on a thread for such.

        Raises:
            StoreUnavailable: The database is being reopened or closed, too many reads wait, the disk said no,
                or this one took `READ_MAX_S`.
            Exception: What the query raised.
        """
        reader = self._connections.reader
        return await self._read_on(reader, lambda tx: query(tx, *args, **kwargs), READ_MAX_S)

    async def look(self, query: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a read that the house's own work waits for: no request's list goes before it.

        Raises:
            StoreUnavailable: The database is being reopened or closed, too many reads wait, or the disk said
                no.
            Exception: What the query raised.
        """
        looker = self._connections.looker
        return await self._read_on(looker, lambda tx: query(tx, *args, **kwargs), math.inf)

    async def _read_on(
        self, reader: Connection[ReadConnection] | None, query: Callable[[Tx], T], at_most_s: float
    ) -> T:
        if reader is None:
            raise StoreUnavailable("The store cannot be read at the moment.")
        if reader.waiting >= READS_MAX:
            raise StoreUnavailable(f"The store is behind: {READS_MAX} reads wait. Try again in a moment.")
        try:
            return await reader.run(lambda: reader.raw.snapshot(query, at_most_s))
        except ConnectionGone as error:
            self._reopen(error)
            raise StoreUnavailable("The store cannot be read at the moment.") from error

    # The committer: one task, which no disk can end.

    async def _commit_forever(self) -> None:
        """Commit what is staged, batch after batch, until the end has come and nothing is staged."""
        with self._committing:
            try:
                while await self._something_to_do():
                    count = next_batch(self._staged)
                    self._batch, self._staged = self._staged[:count], self._staged[count:]
                    if not self._staged:
                        self._hurry = trio.Event()
                    failure = self._lost or await self._commit()
                    if failure is None:
                        self._settle()
                    else:
                        await self._recover(failure)
            finally:
                self._closing.set()
                self._settle(Failure("unknown", "the server ended before the disk answered"))
                self._refuse_staged("the server is ending")
                self._closed.set()

    async def _something_to_do(self) -> bool:
        """Wait for work; False at the end."""
        if self._staged:
            # The last batch's answers bring more to stage: ticks to send them, to read what they bring, and
            # to come after it. What goes together leaves the loop in peace: the next are read meanwhile.
            ticks = 0
            while (ticks := ticks + 1) <= COMPANY_TICKS and sum(s.together for s in self._staged) < COMPANY:
                await trio.lowlevel.cancel_shielded_checkpoint()
        elif self._lost is None and not self._closing.is_set():
            self._wake = trio.Event()
            await self._wake.wait()
        if self._staged and self._company_s and not self._hurry.is_set():
            with trio.move_on_after(self._company_s):
                await self._hurry.wait()
        return bool(self._staged) or not self._closing.is_set()

    async def _commit(self) -> Failure | None:
        writer = self._connections.writer
        assert writer is not None, "there is a writer while writes are taken"
        failure: Failure | None = None
        self._written.set()
        started_s = monotonic_s()
        with trio.CancelScope() as self._in_flight:
            try:
                failure = await write_batch(writer, self._batch)
            except ConnectionGone as error:
                failure = Failure("no", str(error), error)
        if self._in_flight.cancelled_caught:
            failure = Failure("unknown", "the thread of the database ended")
        self._in_flight = None
        if writer.raw.touched or failure is not None:
            # Only now: what was looked up since the statement ran and before its commit is what was before.
            writer.raw.touched = False
            self._memory.forget()
        self._commit_s.observe(monotonic_s() - started_s)
        if failure is None:
            self._retry_s = RETRY_FIRST_S
            self._commits += 1
            self._steps += len(self._batch)
        return failure

    def _settle(self, failure: Failure | None = None) -> None:
        """Tell the waiters of the batch how it ended."""
        batch, self._batch = self._batch, []
        for step in batch:
            unseen = step.end() if failure is None else step.fail(failure)
            if unseen is not None:
                _report(log.warning, "step_failed_unseen", exc_info=unseen)

    def _refuse_staged(self, words: str) -> None:
        in_doubt, self._batch, self._staged = self._batch, self._staged, []
        self._settle(Failure("no", words))
        self._batch = in_doubt

    def _reopen(self, error: ConnectionGone | Displaced) -> None:
        """Have the committer open everything anew."""
        self._lost = Failure("no", str(error), error)
        self._wake.set()
        self._hurry.set()

    async def _recover(self, failure: Failure) -> None:
        """Open anew, let memory be read again, and refuse writes until one succeeds.

        Where nothing was stored, readers stay: on a full disk the past can still be read. Where the outcome
        is unknown, all connections are closed, so that SQLite's own recovery decides before anyone looks.
        """
        self._failures += 1
        self._failure = failure.words
        where = str(self._path)
        _report(log.error, "database_failed", path=where, stored=failure.stored, reason=failure.words)
        self._refuse_staged(failure.words)
        lost = isinstance(failure.cause, ConnectionGone)
        await self._connections.close(readers=lost or failure.stored == "unknown")
        reload = self._callbacks
        while self._failure is not None and not self._closing.is_set():
            try:
                await self._connections.open()
                for callback in reload:
                    callback()
                reload = []
                self._settle(failure)
                await self._pause()
                await self._probe()
                self._failure = self._lost = None
                _report(log.info, "database_recovered", path=where)
            except (ConnectionGone, StoreUnavailable, sqlite3.Error) as error:
                self._failure = words_for(error)
                self._settle(failure)
                await self._connections.close(readers=False)
                await self._pause()
        self._settle(failure)

    async def _pause(self) -> None:
        """Wait before the next try, longer each time until a batch is committed; the end cuts it short."""
        with trio.move_on_after(self._retry_s):
            await self._closing.wait()
        self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)

    async def _probe(self) -> None:
        """Write something that changes nothing; raises what a batch would."""
        if (writer := self._connections.writer) is not None:
            await writer.run(partial(rewrite_version, writer.raw, self._version))

    # The keeper: it empties the log behind the writer, and sleeps as long as nobody writes.

    async def _keep_log_short(self) -> None:
        with self._keeping:
            while True:
                await self._written.wait()
                await self._follow_writes()

    async def _follow_writes(self) -> None:
        """Look after the log until it is quiet, then empty it."""
        looks = quiet_looks = 0
        while quiet_looks < QUIET_LOOKS:
            await trio.sleep(LOOK_S)
            self._end_lost_batch()
            quiet_looks = 0 if self._written.is_set() or self._in_flight is not None else quiet_looks + 1
            self._written = trio.Event()
            looks += 1
            if self._connections.rows_untaken >= CHECKPOINT_ROWS or looks >= CHECKPOINT_LOOKS:
                looks = 0
                await self._shorten("RESTART", LOG_PAGES_MAX)
        await self._shorten("TRUNCATE")

    async def _shorten(self, mode: Literal["RESTART", "TRUNCATE"], pages_max: int = -1) -> None:
        """Have a log of more pages start again; writers wait for what is left of it: beside a backup, GiB."""
        seen = await self._checkpoint("PASSIVE")
        if seen.pages > pages_max and seen.left <= LOG_PAGES_MAX:
            await self._checkpoint(mode, alone=seen.pages > 2 * LOG_PAGES_MAX)

    def _end_lost_batch(self) -> None:
        """Stop waiting for a thread that is not there any more."""
        writer = self._connections.writer
        if self._in_flight is not None and writer is not None and not writer.alive:
            self._in_flight.cancel()

    async def _checkpoint(self, mode: LogMode, *, alone: bool = False) -> Log:
        try:
            seen = await self._connections.take_log(mode, alone=alone)
            self._checkpoints += 1
            return seen
        except (ConnectionGone, Displaced) as error:
            self._reopen(error)
        except sqlite3.Error as error:
            # Nothing is lost: the log stays as it is until the next look, and a writer hears of the disk.
            _report(log.warning, "checkpoint_failed", path=str(self._path), reason=words_for(error))
        return Log()

    async def close(self) -> None:
        """Commit what is staged, then close; bounded, not to be stopped, and harmless when it is closed."""
        await to_the_end(self._close)

    async def _close(self) -> None:
        self._closing.set()
        self._wake.set()
        self._hurry.set()
        with trio.move_on_after(SHUTDOWN_MAX_S):
            await self._closed.wait()
        self._committing.cancel()
        self._keeping.cancel()
        await self._closed.wait()
        await self._connections.close()


@asynccontextmanager
async def open_database(path: Path | str, schema: Schema, *, inline: bool = False) -> AsyncIterator[Database]:
    """Open a database, made and migrated where that is needed, as long as the block runs.

    At the end, what is staged is committed, and the connections are closed. `inline` is for virtual time: all
    is done on the loop's thread, and the disk not waited for; otherwise a `bridge()` is open around.

    Raises:
        SqliteTooOld: Python's SQLite is older than 3.38.
        DatabaseTooNew: A newer payd wrote it.
        MigrationFailed: It could not be brought up to date.
        sqlite3.Error: The file cannot be opened, or is no database.
        RuntimeError: No bridge is open.
    """
    check_sqlite()
    if not inline:
        check_bridge()
    version = bring_up_to_date(path, schema)
    db = Database(path, version, inline=inline)
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(db._commit_forever)
        nursery.start_soon(db._keep_log_short)
        try:
            await to_the_end(db._connections.open)
            yield db
        except Exception as error:  # noqa: BLE001  # raised again below: the nursery would wrap it in a group
            failed = error
        finally:
            await db.close()
    if failed is not None:
        raise failed


def _report(write: Callable[..., object], event: str, **facts: object) -> None:
    """Log it, if that is possible: on a full disk the log's own file is full as well."""
    with suppress(OSError):
        write(event, **facts)
