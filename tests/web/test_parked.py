"""Connections that wait side by side: what comes is answered at once or reaches its task, whole."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
import structlog.testing
import trio
from trio.testing import wait_all_tasks_blocked

from payd.web.call import Answer, Request
from payd.web.parked import AT_ONCE, Parked
from payd.web.wire import CHUNK_BYTES, KEEP_ALIVE_S, SEND_S, Wire, Wires, send_now
from tests.web.street import Client, Street, open_street, shrink, stream_pair
from tests.web.test_wire import close

KNOWN = "GET /v1/payments/known HTTP/1.1\r\nHost: x\r\n\r\n"
OTHER = "GET /v1/payments/other HTTP/1.1\r\nHost: x\r\n\r\n"
BIG = "GET /v1/payments/known?big HTTP/1.1\r\nHost: x\r\n\r\n"


class Side:
    """Parked connections, each with a task that keeps what reaches it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.parked = Parked(self.answer_now)
        self.wires = Wires()
        self.answered: list[bytes] = []
        self.reached: dict[Wire, list[bytes | str]] = {}
        self.clients: list[trio.SocketStream] = []
        self.busy = trio.Event()
        self.busy.set()

    def answer_now(self, wire: Wire, data: bytes) -> bytes | None:
        """What says so is answered now."""
        if data == b"bug":
            raise ZeroDivisionError
        if not data.startswith(b"now"):
            return data
        self.answered.append(data)
        return None

    def add(self) -> tuple[trio.SocketStream, Wire]:
        """A client, and the connection that its task waits on."""
        near, far = stream_pair()
        self.clients.append(near)
        wire = self.wires.open(far)
        self.nursery.start_soon(self.serve, wire)
        return near, wire

    async def serve(self, wire: Wire) -> None:
        came = self.reached[wire] = []
        try:
            with wire.scope:
                while data := await self.parked.receive(wire):
                    came.append(data)
                    await self.busy.wait()
                came.append("end")
        except (trio.BrokenResourceError, trio.ClosedResourceError, ZeroDivisionError) as error:
            came.append(type(error).__name__)
        finally:
            self.parked.leave(wire)
            wire.socket.close()


@pytest.fixture
async def epoll_side() -> AsyncIterator[Side]:
    async with trio.open_nursery() as nursery:
        side = Side(nursery)
        nursery.start_soon(side.parked.run)
        yield side
        nursery.cancel_scope.cancel()
        for client in side.clients:
            client.socket.close()


@pytest.fixture
def without_epoll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payd.web.parked.select", SimpleNamespace())


@pytest.fixture(params=["epoll", "none"])
def side(request: pytest.FixtureRequest) -> Side:
    if request.param == "none":
        request.getfixturevalue("without_epoll")
    found: Side = request.getfixturevalue("epoll_side")
    return found


async def test_what_is_answered_at_once_does_not_wake_its_task(epoll_side: Side) -> None:
    near, wire = epoll_side.add()
    await wait_all_tasks_blocked()
    for text in (b"now 1", b"later 2", b"now 3"):
        await near.send_all(text)
        await wait_all_tasks_blocked()

    assert epoll_side.answered == [b"now 1", b"now 3"]
    assert epoll_side.reached[wire] == [b"later 2"]
    assert len(epoll_side.parked) == 1


async def test_a_bug_ends_its_own_connection_and_no_other(epoll_side: Side) -> None:
    (near, wire), (other, its) = epoll_side.add(), epoll_side.add()
    await wait_all_tasks_blocked()
    await near.send_all(b"bug")
    await wait_all_tasks_blocked()
    await other.send_all(b"now 1")
    await wait_all_tasks_blocked()

    assert epoll_side.reached == {wire: ["ZeroDivisionError"], its: []}
    assert epoll_side.answered == [b"now 1"]


async def test_what_came_before_it_was_waited_for_arrives(side: Side) -> None:
    near, wire = side.add()
    await near.send_all(b"early")
    await wait_all_tasks_blocked()

    assert side.reached[wire] == [b"early"]


async def test_what_comes_while_the_task_is_at_work_is_not_lost(side: Side) -> None:
    near, wire = side.add()
    side.busy = trio.Event()
    for text in (b"one", b"two", b"three"):
        await near.send_all(text)
        await wait_all_tasks_blocked()
    assert side.reached[wire] == [b"one"]
    side.busy.set()
    await wait_all_tasks_blocked()

    assert side.reached[wire] == [b"one", b"twothree"]


async def test_more_than_is_read_at_once_arrives_whole(side: Side) -> None:
    near, wire = side.add()
    await wait_all_tasks_blocked()
    sent = b"".join(b"%9d\n" % number for number in range(40_000))
    assert len(sent) > 5 * CHUNK_BYTES
    await near.send_all(sent)
    await wait_all_tasks_blocked()

    assert b"".join(part for part in side.reached[wire] if isinstance(part, bytes)) == sent


async def test_what_comes_behind_a_full_chunk_is_not_lost(side: Side) -> None:
    near, wire = side.add()
    await wait_all_tasks_blocked()
    first = b"now".ljust(CHUNK_BYTES)
    assert send_now(near.socket, first + b"later") == CHUNK_BYTES + 5
    await wait_all_tasks_blocked()

    assert side.reached[wire] == [first, b"later"]


async def test_the_end_and_a_reset_reach_the_task(side: Side) -> None:
    (left, its), (reset, other) = side.add(), side.add()
    await wait_all_tasks_blocked()
    await left.send_eof()
    await other.socket.send(b"never read")  # so that closing resets
    await wait_all_tasks_blocked()
    reset.socket.close()
    await wait_all_tasks_blocked()

    assert side.reached[its] == ["end"]
    assert side.reached[other] in (["end"], ["BrokenResourceError"])
    assert len(side.parked) == 0


async def test_who_is_ended_from_outside_waits_no_more_and_its_number_is_free(side: Side) -> None:
    for _ in range(5):
        near, wire = side.add()
        await wait_all_tasks_blocked()
        wire.abort()
        again, other = side.add()  # has its number before its task has left
        await wait_all_tasks_blocked()
        await again.send_all(b"here")
        await wait_all_tasks_blocked()
        assert side.reached[wire] == []
        assert side.reached[other] == [b"here"]
        await near.aclose()
        await again.aclose()


@pytest.mark.parametrize("gives_back", [False, True])
async def test_a_number_that_is_anothers_by_now_stays_with_it(epoll_side: Side, gives_back: bool) -> None:
    parked, leaves = epoll_side.parked, trio.Event()
    old, near = stream_pair()
    wire = epoll_side.wires.open(old)

    async def leave_late() -> None:
        with wire.scope:
            await parked.receive(wire)
        await leaves.wait()
        parked.leave(wire)

    epoll_side.nursery.start_soon(leave_late)
    await wait_all_tasks_blocked()
    number = old.socket.fileno()
    wire.abort()
    new, other_near = stream_pair()
    assert new.socket.fileno() == number
    other = epoll_side.wires.open(new)
    epoll_side.nursery.start_soon(epoll_side.serve, other)
    await wait_all_tasks_blocked()
    if gives_back:
        await other_near.aclose()
        await wait_all_tasks_blocked()
    leaves.set()
    await wait_all_tasks_blocked()
    if not gives_back:
        await other_near.send_all(b"here")
        await wait_all_tasks_blocked()

    assert epoll_side.reached[other] == (["end"] if gives_back else [b"here"])
    await close(near, other_near)
    await wait_all_tasks_blocked()
    assert parked._known == {} == parked._numbers
    assert parked._ready == set()


@pytest.mark.parametrize("text", [b"now", b"later", b"now 1", b"later" * 20_000])
@pytest.mark.parametrize("is_busy", [False, True])
async def test_the_end_that_comes_with_something_is_not_missed(
    side: Side, text: bytes, is_busy: bool
) -> None:
    near, wire = side.add()
    await wait_all_tasks_blocked()
    if is_busy:
        side.busy = trio.Event()
        await near.send_all(b"first")
        await wait_all_tasks_blocked()
    assert send_now(near.socket, text) == len(text)
    near.socket.shutdown(socket.SHUT_WR)
    side.busy.set()
    await wait_all_tasks_blocked()

    assert side.reached[wire][-1] == "end"
    assert len(side.parked) == 0


async def test_a_crowd_is_read_to_the_last(epoll_side: Side) -> None:
    ends = [epoll_side.add() for _ in range(3 * AT_ONCE)]
    await wait_all_tasks_blocked()
    for number, (near, _) in enumerate(ends):
        await near.send_all(b"now %d" % number)
    await wait_all_tasks_blocked()

    assert len(epoll_side.answered) == len(set(epoll_side.answered)) == 3 * AT_ONCE


# On the lane


async def known(street: Street) -> Client:
    """A client whose next request is known."""
    client = await street.connect()
    for _ in range(2):
        await client.send(KNOWN)
        assert (await client.answer()).status == 200
        await wait_all_tasks_blocked()
    return client


async def test_known_requests_are_answered_where_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_street() as street:
        client = await known(street)
        monkeypatch.setattr(street.front._lane, "_serve_one", None)  # would fail
        for _ in range(3):
            await client.send(KNOWN)
            answer = await client.answer()
            assert (answer.status, answer.headers["content-type"]) == (200, "application/json")

        assert len(street.requests) == 5
        assert street.front.caught == 0


async def test_what_only_begins_like_a_known_request_is_another() -> None:
    async with open_street() as street:
        client = await known(street)
        await client.send(KNOWN + OTHER + KNOWN)
        paths = [(await client.answer()).body for _ in range(3)]
        await client.send(KNOWN[:30])
        await wait_all_tasks_blocked()
        await client.send(KNOWN[30:])
        assert b"/v1/payments/known" in (await client.answer()).body

        assert [b"known" in path for path in paths] == [True, False, True]
        assert len(street.requests) == 6


async def test_a_body_that_is_shared_by_a_head_is_read_each_time() -> None:
    async with open_street() as street:
        client = await street.connect()
        for body in ("ab", "cd", "ef"):
            await client.send(
                f"POST /v1/payments/known HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{body}"
            )
            assert f'"body":"{body}"'.encode() in (await client.answer()).body


async def test_a_known_head_whose_body_is_on_its_way_is_not_answered_before_it() -> None:
    async with open_street() as street:
        client = await street.connect()
        head = "GET /v1/payments/known HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
        for body in ("ab", "cd", "ef"):
            await client.send(head)
            await wait_all_tasks_blocked()
            await client.send(body)
            assert f'"body":"{body}"'.encode() in (await client.answer()).body

        assert len(street.front._lane._heads) == 1


@pytest.mark.parametrize("is_known", [False, True])
async def test_who_is_not_known_or_may_wait_has_its_own_task(
    is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_street() as street:
        street.known = SimpleNamespace(prompt=False) if is_known else None
        client = await known(street)

        async def answer(request: Request) -> Answer:
            await trio.sleep(1)
            return Answer(200, b"{}")

        monkeypatch.setattr(street.front._lane, "_answer", answer)
        await client.send(KNOWN)

        assert (await client.answer()).status == 200
        assert len(street.front._lane._heads) == is_known


async def test_an_answer_that_the_client_takes_slowly_is_whole() -> None:
    async with open_street() as street:
        client = await street.connect()
        shrink(street)
        for _ in range(3):
            await client.send(BIG)
            answer = await client.answer()
            assert len(answer.body) == 8 << 20
        await client.send(KNOWN)
        assert (await client.answer()).status == 200

        assert len(street.front._lane._heads) == 1
        assert street.front.caught == 0


async def test_a_client_that_takes_nothing_of_a_prompt_answer_is_dropped() -> None:
    async with open_street() as street:
        client = await street.connect()
        for _ in range(2):
            await client.send(BIG)
            assert (await client.answer()).status == 200
        assert len(street.front._lane._heads) == 1
        await client.send(BIG)
        await trio.sleep(SEND_S - 1)
        assert len(street.front) == 1
        await trio.sleep(5)

        assert len(street.front) == 0
        assert street.front.caught == 0


async def test_who_asked_at_once_is_idle_from_then_on() -> None:
    async with open_street() as street:
        client, other = await known(street), await known(street)
        await trio.sleep(KEEP_ALIVE_S - 5)
        await client.send(KNOWN)
        await client.answer()
        asked_s = trio.current_time()

        assert await other.rest() == b""
        assert trio.current_time() - asked_s == pytest.approx(5, abs=0.1)
        assert await client.rest() == b""
        assert trio.current_time() - asked_s == pytest.approx(KEEP_ALIVE_S, abs=0.1)


async def test_a_known_request_is_answered_before_the_connection_ends_at_stop() -> None:
    async with open_street() as street:
        client, busy = await known(street), await street.connect()
        await busy.send("GET /v1/payments/slow HTTP/1.1\r\nHost: x\r\n\r\n")
        await wait_all_tasks_blocked()
        street.stop.set()
        await wait_all_tasks_blocked()

        assert await client.rest() == b""
        assert (await busy.answer()).status == 200


@pytest.mark.parametrize("fault", ["raises", "waits", "closes"])
async def test_a_prompt_answer_that_goes_wrong_ends_its_connection(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_street() as street:
        client, other = await known(street), await known(street)
        is_wrong = True

        async def answer(request: Request) -> Answer:
            if is_wrong and fault == "raises":
                raise ZeroDivisionError
            if is_wrong and fault == "waits":
                await trio.sleep(1)
            return Answer(200, b"{}", (("Connection", "close"),) if is_wrong else ())

        monkeypatch.setattr(street.front._lane, "_answer", answer)
        with structlog.testing.capture_logs() as lines:
            await client.send(KNOWN)
            found = await client.answer()
            assert found.headers["connection"] == "close"
            assert await client.rest() == b""
        is_wrong = False
        await other.send(KNOWN)

        assert found.status == (200 if fault == "closes" else 500)
        assert [line["event"] for line in lines] == ["lane.answer_raised"] * (fault != "closes")
        assert (await other.answer()).status == 200


@pytest.mark.parametrize("is_known", [False, True])
async def test_who_asks_and_sends_no_more_is_answered_and_not_kept(is_known: bool) -> None:
    async with open_street() as street:
        client = await (known(street) if is_known else street.connect())
        send_now(client.stream.socket, KNOWN.encode())
        client.stream.socket.shutdown(socket.SHUT_WR)

        assert b"200" in await client.rest()
        assert trio.current_time() < 1
        await wait_all_tasks_blocked()
        assert len(street.front) == 0


async def test_a_long_poll_waits_whatever_its_query_is_spelled_like() -> None:
    async with open_street() as street:
        client = await street.connect()
        street.slow_s = 1
        with structlog.testing.capture_logs() as lines:
            for _ in range(4):
                await client.send("GET /v1/payments/known?%6daxPollMs=1000 HTTP/1.1\r\nHost: x\r\n\r\n")
                assert (await client.answer()).status == 200
        assert lines == []


async def test_heads_that_are_too_long_or_never_come_again_are_not_kept() -> None:
    async with open_street() as street:
        client = await street.connect()
        for header in (f"X: {'x' * 2000}", "Idempotency-Key:1"):
            for _ in range(3):
                await client.get("/v1/payments/known", f"{header}\r\n")
        for number in range(3):
            await client.get(f"/v1/payments/{number}/known")
        assert street.front._lane._heads == {}


async def test_only_so_many_heads_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payd.web.lane.HEADS_MAX", 3)
    async with open_street() as street:
        client = await street.connect()
        kept = []
        for number in range(8):
            for _ in range(2):
                await client.get(f"/v1/payments/{number}/known")
            kept.append(len(street.front._lane._heads))
        assert kept == [1, 2, 3, 1, 2, 3, 1, 2]


async def test_who_came_once_is_forgotten_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("payd.web.lane.ONCE_MAX", 3)
    async with open_street() as street:
        client = await street.connect()
        for _ in range(3):
            for number in range(4):
                await client.get(f"/v1/payments/{number}/known")
        assert street.front._lane._heads == {}
        assert len(street.front._lane._once) == 3
