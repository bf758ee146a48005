"""A batch: neighbours do not harm each other, and a machine that says no concerns them all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import outcome
import pytest

from payd.core.errors import InvalidState, OutcomeUnknown, StoreUnavailable
from payd.store.batch import Step, refuse_read, run_batch, words_for


class Faulty(sqlite3.Connection):
    """A connection that answers one statement with an error of the machine."""

    fault: tuple[str, int] | None = None

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if self.fault is not None and sql == self.fault[0]:
            error = sqlite3.OperationalError("a fault")
            error.sqlite_errorcode = self.fault[1]
            raise error
        return super().execute(sql, *args)


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Faulty]:
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None, factory=Faulty)) as connection:
        connection.execute("CREATE TABLE t (x INTEGER PRIMARY KEY)")
        yield connection


@pytest.fixture
def other(tx: Faulty, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else's view: only what is committed."""
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None, timeout=0)) as connection:
        yield connection


def rows(connection: sqlite3.Connection) -> list[int]:
    return [x for (x,) in connection.execute("SELECT x FROM t ORDER BY x")]


def add(tx: sqlite3.Connection, x: int) -> int:
    tx.execute("INSERT INTO t VALUES (?)", (x,))
    return x


def add_and_refuse(tx: sqlite3.Connection, x: int) -> None:
    add(tx, x)
    raise InvalidState("no")


def add_and_end(tx: sqlite3.Connection, x: int, ending: str, raised: Exception | None) -> None:
    add(tx, x)
    tx.execute(ending)
    if raised is not None:
        raise raised


def add_and_exit(tx: sqlite3.Connection, x: int) -> None:
    add(tx, x)
    raise SystemExit(3)


async def test_neighbours_of_steps_that_raise_are_committed_and_each_has_its_own_outcome(
    tx: Faulty, other: sqlite3.Connection
) -> None:
    functions = [(add, 1), (add_and_refuse, 2), (add, 3), (add, 3), (add_and_exit, 4), (add, 5)]
    batch = [Step(function, (x,), {}) for function, x in functions]

    assert run_batch(tx, batch) is None

    assert rows(other) == [1, 3, 5]
    ends = [step.outcome for step in batch]
    assert [end.value for end in ends if isinstance(end, outcome.Value)] == [1, 3, 5]
    errors = [type(end.error) for end in ends if isinstance(end, outcome.Error)]
    assert errors == [InvalidState, sqlite3.IntegrityError, SystemExit]


calls: list[list[int]] = []


def add_all(tx: sqlite3.Connection, wanted: list[int]) -> list[outcome.Outcome[int]]:
    """Adds them all by one statement but for those below zero, which it refuses before."""
    calls.append(wanted)
    good = [x for x in wanted if x >= 0]
    tx.execute(f"INSERT INTO t VALUES {','.join(f'({x})' for x in good)}")
    return [outcome.Value(x) if x >= 0 else outcome.Error(InvalidState(f"not {x}")) for x in wanted]


def together(*wanted: int) -> list[Step]:
    calls.clear()
    return [Step(add_all, (x,), {}, together=True) for x in wanted]


def ends_of(batch: list[Step]) -> list[object]:
    ends = [step.outcome for step in batch]
    return [type(end.error) if isinstance(end, outcome.Error) else end.unwrap() for end in ends if end]


async def test_steps_that_go_together_are_one_call_and_each_has_its_own_outcome(
    tx: Faulty, other: sqlite3.Connection
) -> None:
    batch = together(1, 2, -3, 4)
    batch[2:2] = [Step(add, (10,), {}), Step(add_and_refuse, (11,), {})]

    assert run_batch(tx, batch) is None

    assert calls == [[1, 2, -3, 4]]
    assert rows(other) == [1, 2, 4, 10]
    assert ends_of(batch) == [1, 2, 10, InvalidState, InvalidState, 4]


async def test_steps_that_are_all_of_a_batch_need_no_savepoint(tx: Faulty, other: sqlite3.Connection) -> None:
    said: list[str] = []
    tx.set_trace_callback(said.append)

    assert run_batch(tx, together(1, 2)) is None

    assert rows(other) == [1, 2]
    assert [text.split(" ")[0] for text in said] == ["BEGIN", "INSERT", "COMMIT"]


@pytest.mark.parametrize("others", [[], [10, 11]])
async def test_where_their_call_raises_each_is_run_alone_and_harms_no_other(
    tx: Faulty, other: sqlite3.Connection, others: list[int]
) -> None:
    batch = together(1, 2, 2, 3) + [Step(add, (x,), {}) for x in others]

    assert run_batch(tx, batch) is None

    assert calls == [[1, 2, 2, 3], [1], [2], [2], [3]]
    assert rows(other) == [1, 2, 3, *others]
    assert ends_of(batch) == [1, 2, sqlite3.IntegrityError, 3, *others]


async def test_where_each_is_run_alone_they_are_committed_together_all_the_same(
    tx: Faulty, other: sqlite3.Connection
) -> None:
    tx.fault = ("COMMIT", sqlite3.SQLITE_FULL)

    failure = run_batch(tx, together(1, 2, 2))

    assert failure is not None
    assert failure.stored == "no"
    tx.close()
    assert rows(other) == []


async def test_the_only_one_of_them_that_raises_is_rolled_back(tx: Faulty, other: sqlite3.Connection) -> None:
    add(tx, 1)
    for batch in (together(1), [*together(1), Step(add, (2,), {})]):
        assert run_batch(tx, batch) is None
        assert ends_of(batch)[0] is sqlite3.IntegrityError
    assert rows(other) == [1, 2]


async def test_what_the_machine_refuses_them_fails_the_batch(tx: Faulty, other: sqlite3.Connection) -> None:
    tx.fault = ("INSERT INTO t VALUES (1),(2)", sqlite3.SQLITE_FULL)

    failure = run_batch(tx, together(1, 2))

    assert failure is not None
    assert failure.stored == "no"
    assert calls == [[1, 2]]
    tx.close()
    assert rows(other) == []


async def test_a_step_that_is_alone_is_rolled_back_too(tx: Faulty, other: sqlite3.Connection) -> None:
    step = Step(add_and_refuse, (1,), {})

    assert run_batch(tx, [step]) is None

    assert isinstance(step.outcome, outcome.Error)
    assert rows(other) == []
    assert not tx.in_transaction


@pytest.mark.parametrize("others", [0, 2])
async def test_a_step_sees_what_the_ones_before_it_in_the_batch_did(tx: Faulty, others: int) -> None:
    batch = [Step(add, (x,), {}) for x in range(others)]
    batch.append(Step(rows, (), {}))

    assert run_batch(tx, batch) is None

    assert batch[-1].outcome == outcome.Value(list(range(others)))


@pytest.mark.parametrize(
    ("statement", "code", "stored"),
    [
        ("BEGIN IMMEDIATE", sqlite3.SQLITE_READONLY, "no"),
        ("BEGIN IMMEDIATE", sqlite3.SQLITE_BUSY, "no"),
        ("SAVEPOINT step", sqlite3.SQLITE_IOERR_WRITE, "no"),
        ("RELEASE step", sqlite3.SQLITE_NOMEM, "no"),
        ("ROLLBACK TO step", sqlite3.SQLITE_IOERR_READ, "no"),
        ("INSERT INTO t VALUES (?)", sqlite3.SQLITE_FULL, "no"),
        ("INSERT INTO t VALUES (?)", sqlite3.SQLITE_IOERR_WRITE, "no"),
        ("INSERT INTO t VALUES (?)", sqlite3.SQLITE_CORRUPT, "no"),
        ("COMMIT", sqlite3.SQLITE_FULL, "no"),
        ("COMMIT", sqlite3.SQLITE_IOERR_FSYNC, "unknown"),
        ("COMMIT", sqlite3.SQLITE_IOERR_WRITE, "unknown"),
    ],
)
async def test_a_machine_that_says_no_fails_the_batch_and_only_a_commit_leaves_a_doubt(
    tx: Faulty, other: sqlite3.Connection, statement: str, code: int, stored: str
) -> None:
    batch = [Step(add_and_refuse, (1,), {}), Step(add, (2,), {})]
    tx.fault = (statement, code)

    failure = run_batch(tx, batch)

    assert failure is not None
    assert failure.stored == stored
    error = failure.as_error()
    assert type(error) is (StoreUnavailable if stored == "no" else OutcomeUnknown)
    assert isinstance(error.__cause__, sqlite3.OperationalError)
    assert failure.as_error() is not error, "a traceback belongs to one waiter"
    tx.close()
    assert rows(other) == []


@pytest.mark.parametrize("raised", [None, InvalidState("no")])
@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
async def test_a_step_that_ends_the_transaction_leaves_its_batch_in_doubt(
    tx: Faulty, ending: str, raised: Exception | None
) -> None:
    for batch in (
        [Step(add_and_end, (1, ending, raised), {})],
        [Step(add, (2,), {}), Step(add_and_end, (3, ending, raised), {}), Step(add, (4,), {})],
    ):
        failure = run_batch(tx, batch)
        assert failure is not None
        assert (failure.stored, failure.cause) == ("unknown", raised)


def roll_back_and_raise(tx: sqlite3.Connection) -> None:
    tx.execute("ROLLBACK")
    raise sqlite3.OperationalError("interrupted")


async def test_a_transaction_that_sqlite_itself_rolled_back_is_a_definite_no(tx: Faulty) -> None:

    failure = run_batch(tx, [Step(add, (1,), {}), Step(roll_back_and_raise, (), {})])

    assert failure is not None
    assert failure.stored == "no"
    assert rows(tx) == []


def test_words_say_what_to_do_and_an_unknown_error_speaks_for_itself() -> None:
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    assert "free some space" in words_for(full)
    assert words_for(KeyError("x")) == "KeyError: 'x'"


@pytest.mark.parametrize(
    ("code", "machine"),
    [
        (sqlite3.SQLITE_IOERR_READ, True),
        (sqlite3.SQLITE_CANTOPEN, True),
        (sqlite3.SQLITE_READONLY_CANTLOCK, True),
        (sqlite3.SQLITE_READONLY, False),
        (sqlite3.SQLITE_ERROR, False),
        (sqlite3.SQLITE_INTERRUPT, False),
        (None, False),
    ],
)
def test_a_read_is_refused_by_the_machine_and_not_for_a_bug_in_its_query(
    code: int | None, machine: bool
) -> None:
    error = sqlite3.OperationalError("a fault")
    if code is not None:
        error.sqlite_errorcode = code
    if not machine:
        return refuse_read(error)
    with pytest.raises(StoreUnavailable, match="cannot be read: the") as refused:
        refuse_read(error)
    assert refused.value.__cause__ is error
