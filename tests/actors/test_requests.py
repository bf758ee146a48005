"""Requests under a key whose work is more than one step: each once, whoever leaves or repeats meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from payd.actors.requests import Requests
from payd.core.errors import IdempotencyConflict, InternalError, InvalidState
from payd.store.db import Database
from payd.store.idempotency import IdempotentRequest, Outcome, keep_answer

REQUEST = IdempotentRequest("acct_1", b"scope", b"body", "req_1", 0)


@asynccontextmanager
async def opened(db: Database) -> AsyncIterator[Requests]:
    async with trio.open_nursery() as nursery:
        yield Requests(db, nursery)
        nursery.cancel_scope.cancel()


def work(
    db: Database, done: list[str], request: IdempotentRequest | None = REQUEST
) -> Callable[[], Awaitable[Outcome]]:
    """Work of two steps with a second between them."""

    async def run() -> Outcome:
        done.append("begun")
        await trio.sleep(1)
        outcome = Outcome(200, b"%d" % len(done))
        await db.write(keep_answer, request, outcome)
        return outcome

    return run


async def test_many_at_once_under_one_key_are_one_and_all_get_its_answer(realm_db: Database) -> None:
    done: list[str] = []
    answers: list[Outcome] = []
    async with opened(realm_db) as requests:

        async def one(number: int) -> None:
            request = msgspec.structs.replace(REQUEST, request_id=f"req_{number}")
            answers.append(await requests.once(request, work(realm_db, done, request)))

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(one, number)

    assert done == ["begun"]
    assert {answer.body for answer in answers} == {b"1"}
    [first] = {answer.original_request for answer in answers if answer.original_request is not None}
    assert sorted(answer.original_request or "" for answer in answers) == ["", *[first] * 49]


async def test_another_key_or_account_waits_for_nobody(realm_db: Database) -> None:
    done: list[str] = []
    others = (
        REQUEST,
        msgspec.structs.replace(REQUEST, scope=b"other"),
        msgspec.structs.replace(REQUEST, account_id="acct_2"),
    )
    async with opened(realm_db) as requests:
        started_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            for request in others:
                nursery.start_soon(requests.once, request, work(realm_db, done, request))
        assert trio.current_time() == started_s + 1
    assert len(done) == 3


async def test_the_work_ends_when_the_caller_has_gone_and_a_repetition_gets_its_answer(
    realm_db: Database,
) -> None:
    done: list[str] = []
    async with opened(realm_db) as requests:
        with trio.move_on_after(0.5):
            await requests.once(REQUEST, work(realm_db, done))
        again = await requests.once(REQUEST, work(realm_db, done))
    assert (done, again) == (["begun"], Outcome(200, b"1", "req_1"))


async def test_a_refusal_leaves_the_key_unused_and_so_does_a_bug(realm_db: Database) -> None:
    done: list[str] = []

    async def refused() -> Outcome:
        raise InvalidState("no")

    async def broken() -> Outcome:
        raise ZeroDivisionError

    async with opened(realm_db) as requests:
        with pytest.raises(InvalidState):
            await requests.once(REQUEST, refused)
        with pytest.raises(InternalError):
            await requests.once(REQUEST, broken)
        assert (await requests.once(REQUEST, work(realm_db, done))).original_request is None


async def test_another_body_under_the_key_is_a_conflict_and_does_nothing(realm_db: Database) -> None:
    done: list[str] = []
    async with opened(realm_db) as requests:
        await requests.once(REQUEST, work(realm_db, done))
        with pytest.raises(IdempotencyConflict):
            await requests.once(msgspec.structs.replace(REQUEST, fingerprint=b"other"), work(realm_db, done))
    assert done == ["begun"]


async def test_without_a_key_each_is_done(realm_db: Database) -> None:
    done: list[str] = []
    async with opened(realm_db) as requests:
        for _ in range(2):
            await requests.once(None, work(realm_db, done, None))
    assert done == ["begun"] * 2
