"""SQLite's own connections, as they are on their thread: one runs staged functions, one only reads.

Source: DESIGN.md, "2. The stack".
"""

from __future__ import annotations

import math
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from payd.clock import monotonic_s
from payd.core.errors import StoreUnavailable
from payd.store.batch import refuse_read

T = TypeVar("T")

Tx: TypeAlias = sqlite3.Connection

# Reads wait so long for a log that is to start again at last, and it for them: longer than a list may take.
STILL_MAX_S: Final = 2.5

# Steps of SQLite's machine from one look at the clock to the next: some 0.1 ms.
PROGRESS_STEPS: Final = 10_000


class StagedConnection(sqlite3.Connection):
    """A connection whose `commit()` runs the next staged function instead.

    Who holds a `tx` inside such a function cannot commit: the transaction belongs to the function's caller.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.staged: deque[Callable[[], None]] = deque()
        self.thread = threading.current_thread()
        self.touched = False
        """Whether a row of a watched table was written since somebody set it back."""

        self._running = False
        self._waits_s: float | None = None

    def wait_for_lock(self, at_most_s: float) -> None:
        """Have BEGIN wait so long for who has the database; 0: it fails at once."""
        if at_most_s != self._waits_s:
            self.execute(f"PRAGMA busy_timeout = {at_most_s * 1000:.0f}").close()
            self._waits_s = at_most_s

    def touch(self) -> None:
        """A row of a watched table is written."""
        self.touched = True

    def commit(self) -> None:
        """Run the next staged function.

        Raises:
            RuntimeError: A function called it on its own `tx`.
        """
        if self._running or not self.staged:
            raise RuntimeError("a step never commits: its batch does")
        function = self.staged.popleft()
        self._running = True
        try:
            function()
        finally:
            self._running = False


class ReadConnection(StagedConnection):
    """A connection that only reads, and forgets its cursors after each query.

    A SELECT that was not read to its end holds its snapshot: the next reads would see the past, and the WAL
    could not be reset.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cursors: list[sqlite3.Cursor] = []
        self.may_begin = threading.Event()  # until it is set, no query begins
        self.may_begin.set()
        self.reads = False  # a query is under way, or has seen that it may begin

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        """A cursor that lives as long as the query."""
        cursor = super().cursor(*args, **kwargs)
        self._cursors.append(cursor)
        return cursor

    def execute(self, *args: Any) -> sqlite3.Cursor:
        """Run one statement; its cursor lives as long as the query."""
        cursor = super().execute(*args)
        self._cursors.append(cursor)
        return cursor

    def close_cursors(self) -> None:
        """End every statement, finished or not."""
        for cursor in self._cursors:
            cursor.close()
        self._cursors.clear()

    def snapshot(self, query: Callable[[Tx], T], at_most_s: float = math.inf) -> T:
        """Run a query in one read transaction.

        Raises:
            StoreUnavailable: It took longer than `at_most_s`, or the disk said no.
            Exception: What the query raised.
        """
        self._wait_to_begin()
        end_s = monotonic_s() + at_most_s
        try:
            self.execute("BEGIN")
            self.set_progress_handler(lambda: monotonic_s() > end_s, PROGRESS_STEPS)
            return query(self)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                words = f"This took longer than {at_most_s:g} s to find. Narrow the filter."
                raise StoreUnavailable(words) from error
            refuse_read(error)
            raise
        finally:
            self.set_progress_handler(None, 0)
            self.close_cursors()
            if self.in_transaction:  # SQLite itself ends it where the disk says no
                self.execute("ROLLBACK")
                self.close_cursors()
            self.reads = False

    def _wait_to_begin(self) -> None:
        """Wait until a query may begin, or for `STILL_MAX_S`.

        It says first that it reads, and asks then: who has nothing begin sees either this, or an end to it.
        """
        self.reads = True
        while not self.may_begin.is_set():
            self.reads = False
            in_time = self.may_begin.wait(STILL_MAX_S)
            self.reads = True
            if not in_time:
                return
