"""A batch of steps in one transaction, each in its own savepoint.

Plain SQLite, no tasks: it runs on whatever thread has the connection, and leaves each step's outcome in it.

Source: DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
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


class Step:
    """One write: what to run, who waits for it, and how it ended.

    Made by the task that waits.

    Args:
        function: Called with the connection, `args` and `kwargs`.
        tell: Given what it returned once that is on the disk, whether or not anybody waits.
        refuses_first: What it raises, it raises before its first write, so that it needs no savepoint.

    Attributes:
        outcome: How the step ended; None until its batch did.
    """

    __slots__ = ("_task", "_tell", "args", "function", "kwargs", "outcome", "refuses_first")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tell: Callable[[Any], object] | None = None,
        *,
        refuses_first: bool = False,
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.refuses_first = refuses_first
        self.outcome: outcome.Outcome[Any] | None = None
        self._task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        self._tell = tell

    async def wait(self) -> Any:
        """What came of it, once its batch ended; a waiter that is cancelled leaves, and the step runs."""

        def abandon(_: object) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(abandon)

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
    return _MACHINE.get(_code(error), f"{type(error).__name__}: {error}")


def run_batch(tx: sqlite3.Connection, batch: Sequence[Step]) -> Failure | None:
    """Run the steps in one transaction and commit it; each step has its outcome then.

    A step that raises is rolled back alone. Where the whole batch fails, the outcomes mean nothing, and the
    connection is to be closed.
    """
    try:
        tx.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        return Failure("no", words_for(error), error)
    try:
        failure = _run_alone(tx, batch[0]) if len(batch) == 1 else _run_together(tx, batch)
        if failure is not None:
            return failure
    except sqlite3.Error as error:  # of SAVEPOINT, ROLLBACK TO and RELEASE: nothing was committed
        return Failure("no", words_for(error), error)
    if not tx.in_transaction:
        return None
    try:
        tx.execute("COMMIT")
    except sqlite3.Error as error:
        refused = _code(error) in _COMMIT_REFUSALS
        return Failure("no" if refused else "unknown", words_for(error), error)
    return None


def _run_alone(tx: sqlite3.Connection, step: Step) -> Failure | None:
    """The only step of a batch needs no savepoint."""
    if (failure := _run_step(tx, step)) is not None:
        return failure
    if isinstance(step.outcome, outcome.Error):
        tx.execute("ROLLBACK")
    return None


def _run_together(tx: sqlite3.Connection, batch: Sequence[Step]) -> Failure | None:
    execute = tx.execute
    for step in batch:
        if step.refuses_first:
            if (failure := _run_unsaved(tx, step)) is not None:
                return failure
            continue
        execute("SAVEPOINT step")
        if (failure := _run_step(tx, step)) is not None:
            return failure
        if isinstance(step.outcome, outcome.Error):
            execute("ROLLBACK TO step")
        execute("RELEASE step")
    return None


def _run_unsaved(tx: sqlite3.Connection, step: Step) -> Failure | None:
    """Run a step that writes nothing before it refuses; one that did, nobody can take back alone."""
    before = tx.total_changes
    failure = _run_step(tx, step)
    if failure is None and isinstance(step.outcome, outcome.Error) and tx.total_changes != before:
        return Failure("no", "a step refused what it had written", step.outcome.error)
    return failure


def _run_step(tx: sqlite3.Connection, step: Step) -> Failure | None:
    """Run one step and keep its outcome; a failure concerns its whole batch."""
    try:
        step.outcome = outcome.Value(step.function(tx, *step.args, **step.kwargs))
    except BaseException as error:  # also what would end the thread: it belongs to the waiter
        step.outcome = outcome.Error(error)
        if _code(error) not in _MACHINE and tx.in_transaction:
            return None
        # SQLite ends a transaction by itself only with an error of its own; after another one, the step did.
        return Failure("no" if isinstance(error, sqlite3.Error) else "unknown", words_for(error), error)
    return None if tx.in_transaction else Failure("unknown", "a step ended the transaction of its batch")


def _code(error: BaseException) -> int:
    """SQLite's primary result code, 0 where there is none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF if isinstance(error, sqlite3.Error) else 0
