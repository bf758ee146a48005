"""A batch of steps in one transaction, each in its own savepoint, or some that go together in one.

Plain SQLite, no tasks: it runs on whatever thread has the connection, and leaves each step's outcome in it.

Each statement gives the interpreter away while SQLite works, and has to wait for it again behind the loop.
What many ask for at the same moment is therefore one call for all of them, of a few statements.

Source: DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import sqlite3
import types
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Literal

import msgspec
import outcome
import trio

from payd.core.errors import OutcomeUnknown, StoreUnavailable

# What the machine says no to, by SQLite's primary code: it concerns every step of the batch, and what to do.
_MACHINE: Final[Mapping[int, str]] = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space where the data directory is",
    sqlite3.SQLITE_IOERR: "the disk answers with errors: look at its health, its space and its quota",
    sqlite3.SQLITE_READONLY: "the database is read-only: let payd write to the data directory",
    sqlite3.SQLITE_PERM: "the database is not to be had: let payd write to the data directory",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened: look at the data directory",
    sqlite3.SQLITE_BUSY: "another process holds the database: stop it",
    sqlite3.SQLITE_PROTOCOL: "another process holds the database: stop it",
    sqlite3.SQLITE_NOMEM: "the machine is out of memory: free some",
    sqlite3.SQLITE_CORRUPT: "the database is damaged: stop payd and restore a backup",
    sqlite3.SQLITE_NOTADB: "the database is damaged: stop payd and restore a backup",
}

# A COMMIT that ends in one of these did not write its last frame. After any other it may have.
_COMMIT_REFUSALS: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_READONLY}


class Displaced(sqlite3.OperationalError):
    """The path names another file than the one that is open, or none: what is written there is lost.

    SQLite says so itself, by the same code, where there is no write-ahead log.
    """

    sqlite_errorcode = sqlite3.SQLITE_READONLY_DBMOVED

    def __init__(self) -> None:
        super().__init__(
            "the file of the database was moved, replaced or removed: put it back, or start payd anew with"
            " what is there"
        )


HANDED_OVER: Final[ContextVar[bool]] = ContextVar("handed_over", default=False)
"""Whether who waits for a step here is no task, but a coroutine that yields the step to who runs it."""


class Step:
    """One write: what to run, who waits for it, and how it ended.

    Made by the task that waits, or where `HANDED_OVER` is set.

    Args:
        function: Called with the connection, `args` and `kwargs`.
        args: Those by place, after the connection.
        kwargs: Those by name.
        tell: Given what it returned once that is on the disk, whether or not anybody waits.
        together: The steps of a batch with this function are one call, with the connection and a list of the
            first argument of each. It returns as many outcomes in the same order; one that is an error has
            written nothing. What it raises, it raises of all of them: then each is run alone.

    Attributes:
        outcome: How the step ended; None until its batch did.
        then: Given what came of it, where no task waits.
    """

    __slots__ = ("_task", "_tell", "args", "function", "kwargs", "outcome", "then", "together")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tell: Callable[[Any], object] | None = None,
        *,
        together: bool = False,
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.together = together
        self.outcome: outcome.Outcome[Any] | None = None
        self.then: Callable[[outcome.Outcome[Any]], None] | None = None
        self._task: trio.lowlevel.Task | None = None if HANDED_OVER.get() else trio.lowlevel.current_task()
        self._tell = tell

    async def wait(self) -> Any:
        """What came of it, once its batch ended; a waiter that is cancelled leaves, and the step runs."""
        if self._task is None:
            return await self._handed_over()

        def abandon(_: object) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(abandon)

    @types.coroutine
    def _handed_over(self) -> Generator[Step, Any, Any]:
        return (yield self)

    def end(self) -> BaseException | None:
        """Its batch is committed: tell who must hear of it, and wake the waiter.

        Returns:
            What it raised, when nobody waits for it any more.
        """
        assert self.outcome is not None, "a batch that was committed has an outcome for each step"
        if self._tell is not None and isinstance(self.outcome, outcome.Value):
            try:
                self._tell(self.outcome.value)
            except Exception as bug:  # its waiter's, and not the whole batch's
                self.outcome = outcome.Error(bug)
        return self._wake(self.outcome)

    def fail(self, failure: Failure) -> BaseException | None:
        """Its batch failed; as `end`."""
        return self._wake(outcome.Error(failure.as_error()))

    def _wake(self, result: outcome.Outcome[Any]) -> BaseException | None:
        if self._task is not None:
            trio.lowlevel.reschedule(self._task, result)
            return None
        if self.then is not None:
            self.then(result)
            return None
        return result.error if isinstance(result, outcome.Error) else None


class Failure(msgspec.Struct, frozen=True):
    """Why a whole batch failed.

    Attributes:
        stored: "no" when certainly nothing of it is stored; "unknown" when it may be.
        words: What is wrong and what to do, for people.
        cause: What was raised, if something was.
    """

    stored: Literal["no", "unknown"]
    words: str
    cause: BaseException | None = None

    def as_error(self) -> StoreUnavailable | OutcomeUnknown:
        """What a waiter is told; a fresh one for each."""
        kind = StoreUnavailable if self.stored == "no" else OutcomeUnknown
        error = kind(f"The store cannot be written: {self.words}.")
        error.__cause__ = self.cause
        return error


def words_for(error: BaseException) -> str:
    """What is wrong and what to do, for people."""
    if isinstance(error, Displaced | StoreUnavailable):
        return str(error)
    return _MACHINE.get(code_of(error), f"{type(error).__name__}: {error}")


def refuse_read(error: sqlite3.Error) -> None:
    """Raise what a reader is told where the machine said no; return where the query is to blame.

    Raises:
        StoreUnavailable: It says what is wrong and what to do.
    """
    # The primary code alone is of a query that would write, a bug; where a log is read-only, there is more.
    if code_of(error) in _MACHINE and error.sqlite_errorcode != sqlite3.SQLITE_READONLY:
        raise StoreUnavailable(f"The store cannot be read: {words_for(error)}.") from error


def run_batch(tx: sqlite3.Connection, batch: Sequence[Step]) -> Failure | None:
    """Run the steps in one transaction and commit it; each step has its outcome then.

    A step that raises is rolled back alone. Where the whole batch fails, the outcomes mean nothing, and the
    connection is to be closed.
    """
    return run_steps(tx, batch) or commit_steps(tx)


def run_steps(tx: sqlite3.Connection, batch: Sequence[Step]) -> Failure | None:
    """As `run_batch`, up to the commit; where the transaction could not begin, it may be tried again."""
    try:
        tx.execute("BEGIN IMMEDIATE")
        return _run_steps(tx, batch)
    except sqlite3.Error as error:  # of BEGIN, SAVEPOINT, ROLLBACK TO and RELEASE: nothing was committed
        return Failure("no", words_for(error), error)


def commit_steps(tx: sqlite3.Connection) -> Failure | None:
    """Commit what `run_steps` did, if there is anything left of it."""
    try:
        if tx.in_transaction:
            tx.execute("COMMIT")
    except sqlite3.Error as error:
        refused = code_of(error) in _COMMIT_REFUSALS
        return Failure("no" if refused else "unknown", words_for(error), error)
    return None


def _run_steps(tx: sqlite3.Connection, batch: Sequence[Step]) -> Failure | None:
    groups: dict[Callable[..., Any], list[Step]] = {}
    for step in batch:
        if step.together:
            groups.setdefault(step.function, []).append(step)
        elif (failure := _run_step(tx, step, alone=len(batch) == 1)) is not None:
            return failure
    for group in groups.values():
        if (failure := _run_group(tx, group, alone=len(batch) == len(group))) is not None:
            return failure
    return None


def _run_step(tx: sqlite3.Connection, step: Step, *, alone: bool) -> Failure | None:
    """Run a step, and take back what it did if that raised."""
    ended = _run(tx, step.function, step.args, step.kwargs, alone=alone)
    if isinstance(ended, Failure):
        return ended
    step.outcome = ended
    return None


def _run_group(tx: sqlite3.Connection, group: Sequence[Step], *, alone: bool) -> Failure | None:
    """Run steps that go together; if that raises, each alone, so that it harms no other."""
    ended = _run(tx, group[0].function, ([step.args[0] for step in group],), {}, alone=alone)
    if isinstance(ended, Failure):
        return ended
    if isinstance(ended, outcome.Value):
        for step, end in zip(group, ended.value, strict=True):
            step.outcome = end
    elif len(group) == 1:
        group[0].outcome = ended
    else:
        if alone:
            tx.execute("BEGIN IMMEDIATE")
        failures = (_run_group(tx, [step], alone=False) for step in group)
        return next((failure for failure in failures if failure is not None), None)
    return None


def _run(
    tx: sqlite3.Connection,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    alone: bool,
) -> outcome.Outcome[Any] | Failure:
    """What comes of a call, which leaves nothing if it raised; what is alone needs no savepoint."""
    if not alone:
        tx.execute("SAVEPOINT step")
    ended = _call(tx, function, args, kwargs)
    if isinstance(ended, Failure):
        return ended
    if isinstance(ended, outcome.Error):
        tx.execute("ROLLBACK" if alone else "ROLLBACK TO step")
    if not alone:
        tx.execute("RELEASE step")
    return ended


def _call(
    tx: sqlite3.Connection, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> outcome.Outcome[Any] | Failure:
    """What comes of a call; a failure concerns the whole batch."""
    ended: outcome.Outcome[Any]
    try:
        ended = outcome.Value(function(tx, *args, **kwargs))
    except BaseException as error:  # also what would end the thread: it belongs to the waiter
        ended = outcome.Error(error)
        if code_of(error) in _MACHINE or not tx.in_transaction:
            # SQLite ends a transaction only with an error of its own; after another one, the step did.
            return Failure("no" if isinstance(error, sqlite3.Error) else "unknown", words_for(error), error)
        return ended
    if not tx.in_transaction:
        return Failure("unknown", "a step ended the transaction of its batch")
    return ended


def code_of(error: BaseException) -> int:
    """SQLite's primary result code, 0 where there is none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF if isinstance(error, sqlite3.Error) else 0
