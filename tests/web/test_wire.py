"""A connection as hypercorn sees it: what was read before, deadlines, and an end that loses nothing."""

from __future__ import annotations

import socket
import tracemalloc
from contextlib import ExitStack

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from payd.web.front import listen
from payd.web.wire import (
    CHUNK_BYTES,
    HEAD_S,
    KEEP_ALIVE_S,
    LINGER_S,
    SEND_S,
    SETTLED_S,
    Wire,
    Wires,
    accept_now,
    linger,
    receive_now,
    send_now,
)
from tests.web.street import stream_pair


@pytest.fixture
def ends() -> tuple[trio.SocketStream, trio.SocketStream]:
    return stream_pair()


async def close(*streams: trio.SocketStream) -> None:
    for stream in streams:
        await stream.aclose()


async def test_what_was_put_back_comes_first(ends: tuple[trio.SocketStream, trio.SocketStream]) -> None:
    near, far = ends
    wire = Wires().open(far)
    await near.send_all(b"later")
    wire.unread(b"first")

    assert [await wire.receive_some(100), await wire.receive_some(100)] == [b"first", b"later"]
    await close(near, far)


async def test_deadlines_follow_what_the_connection_does(
    ends: tuple[trio.SocketStream, trio.SocketStream],
) -> None:
    near, far = ends
    wire = Wires().open(far)
    await trio.sleep(5)
    await near.send_all(b"GET")
    await wire.receive_some(100)
    assert wire.scope.deadline == trio.current_time() + HEAD_S
    await trio.sleep(5)
    await near.send_all(b" / HTTP/1.1")
    await wire.receive_some(100)
    assert wire.scope.deadline == trio.current_time() + HEAD_S - 5, "one deadline for the whole head"

    wire.begin_request()
    wire.begin_request()
    await near.send_all(b"body")
    await wire.receive_some(100)
    wire.end_request()
    assert wire.scope.deadline == float("inf"), "one is still answered"
    wire.end_request()
    assert wire.scope.deadline == trio.current_time() + KEEP_ALIVE_S
    await near.send_all(b"GET")
    await wire.receive_some(100)
    assert wire.scope.deadline == trio.current_time() + HEAD_S
    await close(near, far)


async def test_closing_waits_for_nothing_and_ends_the_scope(
    ends: tuple[trio.SocketStream, trio.SocketStream],
) -> None:
    near, far = ends
    wire = Wires().open(far)
    with trio.CancelScope() as cancelled:
        cancelled.cancel()
        await wire.send_eof()
        await wire.aclose()
        reached = True

    assert reached
    assert (wire.ended, wire.scope.cancel_called) == (True, True)
    assert far.socket.fileno() >= 0, "the guard closes it"
    await close(near, far)


async def test_a_send_that_the_client_takes_in_pieces_is_whole(
    ends: tuple[trio.SocketStream, trio.SocketStream],
) -> None:
    near, far = ends
    wire = Wires().open(far)
    data = bytes(range(256)) * 20_000
    got = bytearray()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send_all, data)
        while len(got) < len(data):
            got += await near.receive_some(50_000)

    assert got == data
    await close(near, far)


async def test_a_send_that_the_client_takes_slowly_is_whole(
    ends: tuple[trio.SocketStream, trio.SocketStream],
) -> None:
    near, far = ends
    wire = Wires().open(far)
    data = bytes(range(256)) * 8_000
    got = bytearray()
    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send_all, data)
        while len(got) < len(data):
            await trio.sleep(SEND_S / 10)
            got += await near.receive_some(CHUNK_BYTES)

    assert got == data
    assert trio.current_time() - began_s > 2 * SEND_S
    await close(near, far)


async def test_a_send_that_the_client_does_not_take_ends(
    ends: tuple[trio.SocketStream, trio.SocketStream],
) -> None:
    near, far = ends
    wire = Wires().open(far)
    began_s = trio.current_time()
    with pytest.raises(trio.BrokenResourceError):
        await wire.send_all(bytes(10 << 20))

    assert trio.current_time() - began_s == pytest.approx(SEND_S)
    assert wire.scope.cancel_called
    await close(near, far)


async def test_an_aborted_connection_ends_a_shielded_send(
    ends: tuple[trio.SocketStream, trio.SocketStream],
) -> None:
    near, far = ends
    wire = Wires().open(far)

    async def shielded() -> None:
        with (
            trio.CancelScope(shield=True),
            pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)),
        ):
            await wire.send_all(bytes(10 << 20))

    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shielded)
        await trio.testing.wait_all_tasks_blocked()
        wire.abort()

    assert trio.current_time() == began_s
    await close(near)


async def test_what_was_closed_here_is_not_waited_for(
    ends: tuple[trio.SocketStream, trio.SocketStream],
) -> None:
    near, far = ends
    wire = Wires().open(far)
    wire.abort()
    for _ in range(2):
        with pytest.raises(trio.ClosedResourceError):
            await wire.receive_some()
    await close(near)


async def test_sending_at_once_takes_what_fits(ends: tuple[trio.SocketStream, trio.SocketStream]) -> None:
    near, far = ends
    assert send_now(far.socket, b"hello") == 5
    assert 0 < send_now(far.socket, bytes(10 << 20)) < 10 << 20
    while send_now(far.socket, bytes(1000)):
        pass
    assert send_now(far.socket, b"x") == 0
    await near.aclose()
    with pytest.raises(trio.BrokenResourceError):
        send_now(far.socket, b"x")
    await far.aclose()
    with pytest.raises(trio.BrokenResourceError):
        send_now(far.socket, b"x")


async def test_reading_at_once_takes_what_has_come(ends: tuple[trio.SocketStream, trio.SocketStream]) -> None:
    near, far = ends
    assert receive_now(far.socket, 3) is None
    await near.send_all(b"hello")
    assert [receive_now(far.socket, 3), receive_now(far.socket, 3)] == [b"hel", b"lo"]
    await near.aclose()
    assert receive_now(far.socket, 3) == b""
    await far.aclose()
    with pytest.raises(trio.BrokenResourceError):
        receive_now(far.socket, 3)


async def test_lingering_lets_the_client_finish(ends: tuple[trio.SocketStream, trio.SocketStream]) -> None:
    near, far = ends
    await far.send_all(b"the answer")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(linger, far)
        await near.send_all(bytes(1 << 20))
        assert await near.receive_some() == b"the answer"
        assert await near.receive_some() == b""
        began_s = trio.current_time()
        await near.aclose()

    assert trio.current_time() == began_s
    await close(far)


async def test_lingering_has_an_end(ends: tuple[trio.SocketStream, trio.SocketStream]) -> None:
    near, far = ends
    began_s = trio.current_time()
    await linger(far)

    assert trio.current_time() - began_s == LINGER_S
    await close(near, far)
    await linger(far)  # closed already: nothing to wait for


async def test_a_client_that_is_gone_ends_the_scope(
    ends: tuple[trio.SocketStream, trio.SocketStream],
) -> None:
    near, far = ends
    wire = Wires().open(far)
    await near.aclose()
    with pytest.raises(trio.BrokenResourceError):
        await wire.send_all(b"answer")

    assert wire.scope.cancel_called
    await close(far)


HEAD = b"HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\n"


async def arrived(near: trio.SocketStream) -> bytes:
    """What has arrived by now."""
    with trio.move_on_after(1):
        return bytes(await near.receive_some(10_000))
    return b""


async def test_a_head_waits_for_its_body_and_leaves_with_it(
    ends: tuple[trio.SocketStream, trio.SocketStream],
) -> None:
    near, far = ends
    wire = Wires().open(far)
    wire.begin_request()
    await wire.send_all(HEAD)
    assert await arrived(near) == b""

    await wire.send_all(b"{}")
    assert await arrived(near) == HEAD + b"{}"
    await close(near, far)


async def test_a_long_answer_that_nobody_takes_is_held_once_for_all_who_asked_for_it(
    ends: tuple[trio.SocketStream, trio.SocketStream],
) -> None:
    near, far = ends
    wire = Wires().open(far)
    body = bytes(range(256)) * 8_000
    got = bytearray()
    tracemalloc.start()
    async with trio.open_nursery() as nursery:
        await wire.send_all(HEAD)
        nursery.start_soon(wire.send_all, body)
        await wait_all_tasks_blocked()
        held_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        while len(got) < len(HEAD) + len(body):
            got += await near.receive_some(CHUNK_BYTES)

    assert got == HEAD + body
    assert held_bytes < len(body) / 10
    await close(near, far)


@pytest.mark.parametrize("end", ["end_request", "hang_up"])
async def test_a_head_without_a_body_leaves_at_the_end(
    ends: tuple[trio.SocketStream, trio.SocketStream], end: str
) -> None:
    near, far = ends
    wire = Wires().open(far)
    wire.begin_request()
    await wire.send_all(HEAD)
    getattr(wire, end)()

    assert await arrived(near) == HEAD
    await close(near, far)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 100 \r\n\r\n",
        b"HTTP/1.1 101 \r\nupgrade: websocket\r\n\r\n",
        b"\x00\x00\x12\x04 an HTTP/2 frame\r\n\r\n",
        HEAD + b"{}",
    ],
)
async def test_what_is_no_final_head_leaves_at_once(
    ends: tuple[trio.SocketStream, trio.SocketStream], data: bytes
) -> None:
    near, far = ends
    wire = Wires().open(far)
    await wire.send_all(data)

    assert await arrived(near) == data
    await close(near, far)


async def test_a_client_that_sends_nothing_more_is_not_kept_once_it_is_answered(
    ends: tuple[trio.SocketStream, trio.SocketStream],
) -> None:
    near, far = ends
    wire = Wires().open(far)
    wire.begin_request()
    await near.send_eof()
    assert await wire.receive_some(100) == b""
    is_kept = not wire.scope.cancel_called  # its answer is under way
    wire.end_request()

    assert (is_kept, wire.scope.cancel_called) == (True, True)
    await close(near, far)


async def crowd(wires: Wires, count: int) -> tuple[list[Wire], list[trio.SocketStream]]:
    """Connections that came one second after the other."""
    pairs = [stream_pair() for _ in range(count)]
    found = []
    for _, far in pairs:
        found.append(wires.open(far))
        await trio.sleep(1)
    return found, [stream for pair in pairs for stream in pair]


def ended(*wires: Wire) -> list[bool]:
    return [wire.scope.cancel_called for wire in wires]


async def test_who_is_idle_for_longest_makes_room_first() -> None:
    wires = Wires()
    (one, two, three), streams = await crowd(wires, 3)
    one.begin_request()
    one.end_request()
    await trio.sleep(SETTLED_S)

    assert wires.end_longest()
    assert ended(one, two, three) == [False, True, False]
    assert wires.end_longest()
    assert ended(one, two, three) == [False, True, True]
    assert wires.end_longest()
    assert not wires.end_longest(), "nobody is left"
    await close(*streams)


async def test_who_is_busy_makes_room_after_who_is_idle() -> None:
    wires = Wires()
    (busy, idle), streams = await crowd(wires, 2)
    busy.begin_request()
    await trio.sleep(SETTLED_S)

    assert wires.end_longest()
    assert ended(busy, idle) == [False, True]
    assert wires.end_longest()
    assert ended(busy, idle) == [True, True]
    assert busy.socket.fileno() == -1, "closed under whatever it waits for"
    await close(*streams)


async def test_who_has_just_come_can_say_what_it_wants() -> None:
    """Where all others are busy, each newcomer would else make room for the next one."""
    wires = Wires()
    (busy,), streams = await crowd(wires, 1)
    busy.begin_request()
    await trio.sleep(SETTLED_S)
    (newcomer,), more = await crowd(wires, 1)
    newcomer.begin_request()
    newcomer.end_request()

    assert wires.end_longest()
    assert ended(busy, newcomer) == [True, False]
    assert wires.end_longest(), "a newcomer goes where there is nobody else"
    assert ended(newcomer) == [True]
    await close(*streams, *more)


async def test_who_has_just_asked_is_answered_before_it_makes_room() -> None:
    wires = Wires()
    (busy,), streams = await crowd(wires, 1)
    busy.begin_request()
    (newcomer,), more = await crowd(wires, 1)
    newcomer.begin_request()
    newcomer.end_request()
    busy.end_request()
    busy.begin_request()

    assert wires.end_longest()
    assert ended(busy, newcomer) == [False, True]
    assert wires.end_longest()
    assert ended(busy) == [True]
    await close(*streams, *more)


async def test_who_only_waits_for_its_client_to_go_makes_room_before_all() -> None:
    wires = Wires()
    (idle, leaving), streams = await crowd(wires, 2)
    leaving.begin_request()
    leaving.hang_up()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leaving.linger)
        await wait_all_tasks_blocked()

        assert wires.end_longest()
        assert ended(idle, leaving) == [False, True]
    assert [*wires] == [idle]
    await close(*streams)


async def test_a_connection_that_is_forgotten_makes_no_room() -> None:
    wires = Wires()
    (idle, busy), streams = await crowd(wires, 2)
    busy.begin_request()
    wires.discard(idle)
    wires.discard(busy)
    busy.end_request()
    idle.begin_request()

    assert not wires.end_longest()
    assert ended(idle, busy) == [False, False]
    await close(*streams)


@pytest.mark.real_time
async def test_who_has_come_is_accepted_without_a_turn_of_others() -> None:
    [listener] = await listen("127.0.0.1", 0)
    port = listener.socket.getsockname()[1]
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(3)]
        streams = [accept_now(listener) for _ in clients]
        assert accept_now(listener) is None
        for client, stream in zip(clients, streams, strict=True):
            assert stream is not None
            client.sendall(b"hello")
            assert await stream.receive_some() == b"hello"
            await stream.aclose()
        await listener.aclose()
        assert accept_now(listener) is None


async def test_idle_ones_without_a_deadline_end_in_their_time_and_who_leaves_is_left_alone() -> None:
    wires = Wires()
    (first, leaving, second, other), streams = await crowd(wires, 4)
    ended_s: dict[str, float] = {}

    async def live(name: str, wire: Wire) -> None:
        with wire.scope:
            await trio.sleep_forever()
        ended_s[name] = trio.current_time() - began_s

    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        for name, wire in (("first", first), ("leaving", leaving), ("second", second), ("other", other)):
            wire.begin_request()
            wire.end_request(parks=True)
            nursery.start_soon(live, name, wire)
        nursery.start_soon(wires.end_idle)
        await trio.sleep(10)
        wires.note_leaving(leaving)
        second.note_answered()
        other.begin_head()
        await trio.sleep(10 * KEEP_ALIVE_S)
        nursery.cancel_scope.cancel()
    await close(*streams)

    assert ended_s == {"first": KEEP_ALIVE_S, "other": 10 + HEAD_S, "second": 10 + KEEP_ALIVE_S}
