"""Where a batch runs: few statements on the loop's thread, all others on the writer's; every commit there.

On a thread of its own each statement gives the interpreter away some five times, and waits for it behind the
loop: under load a batch takes three times as long as alone, and the loop waits as well. What goes together is
few statements, which cost the loop less where it runs them itself. It never waits for the fsync, nor for
others who write.

Source: DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeAlias

import trio

from payd.store.batch import Failure, Step, code_of, commit_steps, run_batch, run_steps, words_for
from payd.store.connection import BUSY_MAX_S, Connection
from payd.store.migrate import schema_version
from payd.store.raw import StagedConnection, Tx

# A batch of this size takes some 15 ms: the most that a step waits behind one transaction.
BATCH_MAX: Final = 1000
# Some 4 to 7 ms of the loop.
BRIEF_MAX: Final = 100

Run: TypeAlias = Callable[[sqlite3.Connection, Sequence[Step]], Failure | None]


def next_batch(staged: Sequence[Step]) -> int:
    """How many of the steps that wait, at least one, make the next batch.

    Those that go together and are first do not wait for what comes after so many of them.
    """
    return BRIEF_MAX if _is_brief(staged) else min(BATCH_MAX, len(staged))


@trio.lowlevel.enable_ki_protection  # Ctrl-C would be a step's outcome
async def write_batch(writer: Connection[StagedConnection], batch: Sequence[Step]) -> Failure | None:
    """Run the steps in one transaction and commit it; see `run_batch`.

    Raises:
        ConnectionGone: The writer's thread has ended: nothing is committed.
    """
    raw = writer.raw
    if len(batch) <= BRIEF_MAX and _is_brief(batch):
        writer.check()
        failure = _run(run_steps, raw, batch, 0)
        if failure is None:
            return await writer.run(partial(commit_steps, raw))
        if failure.cause is None or code_of(failure.cause) != sqlite3.SQLITE_BUSY:
            return failure
        # Somebody else has the database for a moment. Waiting is for the thread.
    return await writer.run(partial(_run, run_batch, raw, batch, BUSY_MAX_S))


def _is_brief(steps: Sequence[Step]) -> bool:
    return all(step.together for step in islice(steps, BRIEF_MAX))


def _run(run: Run, tx: StagedConnection, batch: Sequence[Step], waits_s: float) -> Failure | None:
    try:
        tx.wait_for_lock(waits_s)
    except sqlite3.Error as error:
        return Failure("no", words_for(error), error)
    return run(tx, batch)


def rewrite_version(tx: Tx, version: int) -> None:
    """A write of one page that leaves the database as it is.

    Raises:
        sqlite3.Error: The disk refused it, or the database has another version.
    """
    tx.execute("BEGIN IMMEDIATE")
    if (found := schema_version(tx)) != version:
        raise sqlite3.DatabaseError(f"its schema version was {version} and is {found} now")
    tx.execute(f"PRAGMA user_version = {version}")
    tx.execute("COMMIT")
