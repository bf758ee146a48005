"""Idempotency records: in the transaction of their effect, found again, forgotten in batches."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec
import pytest

from payd.core.errors import IdempotencyConflict
from payd.store.db import Database, Tx
from payd.store.idempotency import (
    IdempotentRequest,
    Outcome,
    find_answers,
    find_replay,
    keep_answer,
    keep_answers,
    once,
    prune_answers,
)


def request(number: int = 1, **more: Any) -> IdempotentRequest:
    plain = IdempotentRequest("acct_1", bytes([number]) * 32, b"f" * 32, f"req_{number}", 1000)
    return msgspec.structs.replace(plain, **more)


class Work:
    """Counts how often it was done, and leaves a row each time."""

    def __init__(self, fails: bool = False) -> None:
        self.done = 0
        self.fails = fails

    def __call__(self, tx: Tx) -> Outcome:
        self.done += 1
        tx.execute("INSERT INTO refunds (payment_id, created_at_ms) VALUES (?, 0)", (f"pay_{self.done}",))
        if self.fails:
            raise ValueError("refused")
        return Outcome(201, b'{"n":%d}' % self.done)


async def effects(db: Database) -> int:
    (count,) = await db.read(lambda tx: tx.execute("SELECT count(*) FROM refunds").fetchone())
    return int(count)


async def test_the_work_is_done_once_and_its_answer_given_again(realm_db: Database) -> None:
    work = Work()
    first = await realm_db.write(once, request(), work)
    again = await realm_db.write(once, request(request_id="req_later", now_ms=9000), work)
    assert first == Outcome(201, b'{"n":1}', None)
    assert again == Outcome(201, b'{"n":1}', "req_1")
    assert (work.done, await effects(realm_db)) == (1, 1)


async def test_without_a_key_the_work_is_done_each_time(realm_db: Database) -> None:
    work = Work()
    for _ in range(2):
        assert (await realm_db.write(once, None, work)).original_request is None
    assert work.done == 2


async def test_another_body_under_the_key_is_a_conflict_and_does_nothing(realm_db: Database) -> None:
    work = Work()
    await realm_db.write(once, request(), work)
    with pytest.raises(IdempotencyConflict):
        await realm_db.write(once, request(fingerprint=b"g" * 32), work)
    assert work.done == 1


async def test_scope_and_account_are_apart(realm_db: Database) -> None:
    work = Work()
    for one in (request(1), request(2), request(1, account_id="acct_2")):
        assert (await realm_db.write(once, one, work)).original_request is None
    assert work.done == 3


async def test_work_that_fails_leaves_neither_effect_nor_record(realm_db: Database) -> None:
    with pytest.raises(ValueError, match="refused"):
        await realm_db.write(once, request(), Work(fails=True))
    assert await effects(realm_db) == 0
    assert realm_db.point(find_replay, request()) is None
    assert (await realm_db.write(once, request(), Work())).original_request is None


async def test_a_record_that_is_there_is_never_written_over(realm_db: Database) -> None:
    await realm_db.write(keep_answer, request(), Outcome(200, b"a"))
    with pytest.raises(sqlite3.IntegrityError):
        await realm_db.write(keep_answer, request(), Outcome(200, b"b"))
    assert realm_db.point(find_replay, request()) == Outcome(200, b"a", "req_1")


async def test_answers_of_many_are_kept_and_found_at_once(realm_db: Database) -> None:
    kept = [(request(number), Outcome(200, b"%d" % number)) for number in range(70)]
    await realm_db.write(keep_answers, kept)

    found = realm_db.point(find_answers, [request(number) for number in (3, 69, 70, 200)])

    assert {place[1][0]: record.body for place, record in found.items()} == {3: b"3", 69: b"69"}
    assert found[request(3).place].request_id == "req_3"


async def test_of_answers_at_once_all_or_none_are_kept(realm_db: Database) -> None:
    await realm_db.write(keep_answer, request(2), Outcome(200, b"a"))
    with pytest.raises(sqlite3.IntegrityError):
        await realm_db.write(keep_answers, [(request(n), Outcome(200, b"b")) for n in (1, 2, 3)])
    assert list(realm_db.point(find_answers, [request(n) for n in (1, 2, 3)])) == [request(2).place]


async def test_answers_are_looked_up_by_their_keys(realm_db: Database) -> None:
    said: list[str] = []

    def plan(tx: Tx) -> list[str]:
        tx.set_trace_callback(said.append)
        find_answers(tx, [request(1), request(2)])
        tx.set_trace_callback(None)
        return [row[3] for row in tx.execute(f"EXPLAIN QUERY PLAN {said[-1]}")]

    steps = await realm_db.write(plan)
    assert "SEARCH i USING PRIMARY KEY (account_id=? AND scope=?)" in steps


async def test_old_answers_are_forgotten_in_batches(realm_db: Database) -> None:
    for number in range(5):
        await realm_db.write(keep_answer, request(number, now_ms=1000 * number), Outcome(200, b"{}"))
    assert await realm_db.write(prune_answers, 3000, 2) == 2
    assert await realm_db.write(prune_answers, 3000, 2) == 1
    assert await realm_db.write(prune_answers, 3000, 2) == 0
    kept = [realm_db.point(find_replay, request(number)) is not None for number in range(5)]
    assert kept == [False, False, False, True, True]
