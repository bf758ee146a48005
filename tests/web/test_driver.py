"""Requests that wait for a commit without a task: how they go on, and what becomes of their connections."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import outcome
import pytest
import structlog.testing
import trio
from trio.testing import wait_all_tasks_blocked

from payd.core.errors import StoreUnavailable
from payd.store.batch import Failure, Step
from payd.web.call import Answer, Request
from payd.web.driver import Driver, WaitsForMore
from payd.web.front import GRACE_S
from payd.web.wire import Wire, send_now
from tests.web.street import Client, Street, open_street, shrink

HEAD = "POST /v1/payments/known HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
STOPPED = Failure("no", "the disk is full")


class Store:
    """Steps that wait until they are stored here."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    async def write(self) -> Any:
        """What a step comes to."""
        step = Step(lambda tx: None, (), {})
        self.steps.append(step)
        return await step.wait()

    def store(self, value: object = None) -> None:
        """The oldest one is on the disk."""
        step = self.steps.pop(0)
        step.outcome = outcome.Value(value)
        assert step.end() is None

    def fail(self) -> None:
        """The oldest one is not."""
        assert self.steps.pop(0).fail(STOPPED) is None


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def driver() -> AsyncIterator[Driver[str]]:
    async with trio.open_nursery() as nursery:
        opened: Driver[str] = Driver()
        nursery.start_soon(opened.run)
        yield opened
        nursery.cancel_scope.cancel()


async def test_who_waits_for_nothing_has_ended_when_it_has_begun(driver: Driver[str]) -> None:
    async def answer() -> str:
        return "done"

    async def fail() -> str:
        raise ZeroDivisionError

    told: list[str | Exception] = []
    assert driver.start(answer(), told.append) == "done"
    failed = driver.start(fail(), told.append)
    assert told == []
    assert isinstance(failed, ZeroDivisionError)


async def test_who_waits_for_steps_goes_on_with_what_came_of_them_each_in_its_turn(
    driver: Driver[str], store: Store
) -> None:
    told: list[str | Exception] = []

    async def answer(name: str) -> str:
        first = await store.write()
        try:
            return f"{name} {first} {await store.write()}"
        except StoreUnavailable:
            return f"{name} {first}, then nothing"

    for name in ("a", "b", "c"):
        assert driver.start(answer(name), told.append) is None
    for value in (1, 2, 3):
        store.store(value)
    assert told == []  # the committer comes first
    await wait_all_tasks_blocked()
    store.store(4)
    store.fail()
    store.store(6)
    await wait_all_tasks_blocked()

    assert told == ["a 1 4", "b 2, then nothing", "c 3 6"]


@pytest.mark.parametrize("goes_on", [False, True])
async def test_who_waits_for_anything_else_is_told_so_and_holds_up_nobody(
    driver: Driver[str], store: Store, goes_on: bool
) -> None:
    ended: list[str] = []
    told: list[str | Exception] = []

    async def answer() -> str:
        await store.write()
        try:
            await trio.sleep(1)
        finally:
            ended.append("closed")
            if goes_on:
                await trio.lowlevel.cancel_shielded_checkpoint()
        return ""

    for _ in range(2):
        assert driver.start(answer(), told.append) is None
        store.store()
        await wait_all_tasks_blocked()

    assert ended == ["closed"] * 2
    assert [type(found) for found in told] == [RuntimeError if goes_on else WaitsForMore] * 2


async def test_a_task_waits_for_its_steps_as_ever_also_beside_who_is_driven(
    driver: Driver[str], store: Store
) -> None:
    told: list[str | Exception] = []
    found: list[str] = []

    async def in_a_task() -> None:
        found.append(await store.write())

    assert driver.start(store.write(), told.append) is None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(in_a_task)
        await wait_all_tasks_blocked()
        store.store("driven")
        store.store("in a task")
    await wait_all_tasks_blocked()
    assert (told, found) == (["driven"], ["in a task"])


# With connections.


@asynccontextmanager
async def open_shop(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, size: int = 0
) -> AsyncIterator[tuple[Street, Client]]:
    """A street where known requests wait for a commit, and a client that is known there."""
    async with open_street() as street:
        client = await street.connect()
        for _ in range(2):
            await client.send(f"{HEAD}{{}}")
            await client.answer()

        async def answer(request: Request) -> Answer:
            await store.write()
            return Answer(201, request.body + bytes(size))

        monkeypatch.setattr(street.front._lane, "_answer", answer)
        yield street, client


async def until(is_so: Callable[[], bool]) -> None:
    with trio.fail_after(5):
        while not is_so():
            await trio.sleep(0.001)


async def test_it_is_answered_once_it_is_stored_and_its_task_sleeps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_shop(store, monkeypatch) as (street, client):
        monkeypatch.setattr(street.front._lane.parked, "_wake", pytest.fail)
        for body in ("ab", "cd"):
            await client.send(HEAD + body)
            await until(lambda: bool(store.steps))
            with trio.move_on_after(1):
                await client.answer()
                raise AssertionError("it was answered before it was stored")
            store.store()
            found = await client.answer()
            assert (found.status, found.body) == (201, body.encode())


async def test_what_comes_meanwhile_waits_its_turn(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_shop(store, monkeypatch) as (_, client):
        await client.send(f"{HEAD}ab")
        await until(lambda: len(store.steps) == 1)
        await client.send(f"{HEAD}cd")
        await client.send(f"{HEAD}ef{HEAD}gh")
        await wait_all_tasks_blocked()
        assert len(store.steps) == 1
        for body in (b"ab", b"cd", b"ef", b"gh"):
            await until(lambda: len(store.steps) == 1)
            store.store()
            assert (await client.answer()).body == body


async def test_a_body_that_is_on_its_way_is_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_shop(store, monkeypatch) as (_, client):
        for part, rest in ((HEAD, "ab"), (f"{HEAD}c", "d")):
            await client.send(part)
            await wait_all_tasks_blocked()
            assert store.steps == []
            await client.send(rest)
            await until(lambda: len(store.steps) == 1)
            store.store()
            assert (await client.answer()).status == 201


@pytest.mark.parametrize("leaves", ["sends no more at once", "sends no more", "closes", "is made to go"])
async def test_a_client_that_leaves_meanwhile_harms_nobody(
    store: Store, monkeypatch: pytest.MonkeyPatch, leaves: str
) -> None:
    async with open_shop(store, monkeypatch) as (street, client):
        send_now(client.stream.socket, f"{HEAD}ab".encode())
        if leaves == "sends no more at once":
            client.stream.socket.shutdown(socket.SHUT_WR)
        await until(lambda: len(store.steps) == 1)
        if leaves == "closes":
            client.stream.socket.close()
        elif leaves == "sends no more":
            client.stream.socket.shutdown(socket.SHUT_WR)
        elif leaves == "is made to go":
            assert street.front._wires.end_longest()
        await wait_all_tasks_blocked()
        assert len(street.front) == (leaves != "is made to go")
        store.store()
        if leaves.startswith("sends no more"):
            assert b"201" in await client.rest()
        await until(lambda: len(street.front) == 0)
        assert street.front.caught == 0
        assert not street.front._lane.parked._held


async def test_what_raises_ends_its_connection_and_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_shop(store, monkeypatch) as (street, client):
        other = await street.connect()
        await other.send(f"{HEAD}cd")
        await until(lambda: len(store.steps) == 1)
        await client.send(f"{HEAD}ab")
        await until(lambda: len(store.steps) == 2)
        store.store()
        with structlog.testing.capture_logs() as lines:
            store.fail()
            found = await client.answer()
            assert await client.rest() == b""
        assert (await other.answer()).status == 201
        assert (found.status, found.headers["connection"]) == (500, "close")
        assert [(line["event"], line["path"]) for line in lines] == [
            ("lane.answer_raised", "/v1/payments/known")
        ]


async def test_an_answer_that_cannot_be_written_ends_its_connection_and_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_shop(store, monkeypatch) as (street, client):
        other = await street.connect()
        monkeypatch.setattr("payd.web.lane.encode", lambda answer, *, closes: answer.nothing)
        await client.send(f"{HEAD}ab")
        await until(lambda: len(store.steps) == 1)
        store.store()
        assert await client.rest() == b""
        assert street.front.caught == 1
        monkeypatch.undo()
        await other.send(f"{HEAD}cd")
        assert (await other.answer()).status == 200


async def test_at_stop_it_is_answered_and_then_closed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_shop(store, monkeypatch) as (street, client):
        await client.send(f"{HEAD}ab")
        await until(lambda: len(store.steps) == 1)
        street.stop.set()
        await wait_all_tasks_blocked()
        assert len(street.front) == 1
        store.store()
        found = await client.answer()
        assert (found.status, found.headers["connection"]) == (201, "close")
        assert await client.rest() == b""
        await street.returned.wait()


async def test_an_answer_that_is_taken_slowly_is_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_shop(store, monkeypatch, size=1 << 20) as (street, client):
        shrink(street)
        active: list[int] = []
        wake = street.front._lane.parked._wake

        def note_and_wake(wire: Wire, found: outcome.Outcome[bytes]) -> None:
            active.append(wire.active)
            wake(wire, found)

        monkeypatch.setattr(street.front._lane.parked, "_wake", note_and_wake)
        for _ in range(2):
            await client.send(f"{HEAD}ab")
            await until(lambda: len(store.steps) == 1)
            store.store()
            assert len((await client.answer()).body) == 2 + (1 << 20)
        assert active == [1, 1]  # who is idle is ended at stop, and where somebody needs room
        await wait_all_tasks_blocked()
        assert len(street.front._wires._busy) == 0


@pytest.mark.parametrize("stops", ["before", "meanwhile", "never"])
async def test_the_last_answer_is_whole_also_where_it_is_taken_slowly(
    store: Store, monkeypatch: pytest.MonkeyPatch, stops: str
) -> None:
    broken = Answer(500, bytes(1 << 20), (("connection", "close"),))
    monkeypatch.setattr("payd.web.lane.BROKEN", broken)
    async with open_shop(store, monkeypatch, size=1 << 20) as (street, client):
        shrink(street)
        await client.send(f"{HEAD}ab")
        await until(lambda: len(store.steps) == 1)
        if stops == "before":
            street.stop.set()
            await wait_all_tasks_blocked()
        if stops == "never":
            store.fail()
        else:
            store.store()
        if stops == "meanwhile":
            await wait_all_tasks_blocked()
            street.stop.set()
        assert len((await client.answer()).body) >= 1 << 20
        assert await client.rest() == b""
        await until(lambda: len(street.front) == 0)
        assert trio.current_time() < GRACE_S


async def test_it_is_busy_until_it_is_answered_and_idle_from_then_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_shop(store, monkeypatch) as (street, client):
        wires = street.front._wires
        send_now(client.stream.socket, f"{HEAD}ab".encode())
        await until(lambda: len(store.steps) == 1)
        assert (len(wires._idle), len(wires._busy)) == (0, 1)
        await trio.sleep(300)  # no deadline of ours
        store.store()
        assert (await client.answer()).status == 201
        assert (len(wires._idle), len(wires._busy)) == (1, 0)
        assert len(street.front) == 1
