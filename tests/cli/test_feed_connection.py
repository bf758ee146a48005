"""One connection to a feed, on a street with the real feed sockets, in virtual time."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from payd.cli.feed_connection import (
    CONNECT_S,
    PING_S,
    PONG_S,
    Greeting,
    Message,
    Place,
    SecretNews,
    TurnedAway,
    read_feed,
)
from payd.net.http import tls_context
from tests.receiver import CA_FILE, Does, Receiver, always, server_tls
from tests.web.street import ACCEPTED, Street, open_street, stream_pair

PLACE = Place("http://pay.test", "svc_test_1", "account main")


class Ears:
    def __init__(self, room: int = 1000) -> None:
        self.greetings: list[Greeting] = []
        self.messages: list[Message] = []
        self.news = 0
        self.room = room

    def greet(self, greeting: Greeting) -> None:
        self.greetings.append(greeting)

    def take(self, message: Message | SecretNews) -> bool:
        if isinstance(message, SecretNews):
            self.news += 1
            return True
        self.messages.append(message)
        return len(self.messages) < self.room


def dials(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], Awaitable[trio.abc.Stream]]) -> None:
    async def dial(_target: Any) -> trio.abc.Stream:
        return await answer()

    monkeypatch.setattr("payd.cli.feed_connection._dial", dial)


def to_street(monkeypatch: pytest.MonkeyPatch, street: Street) -> None:
    async def connect() -> trio.abc.Stream:
        return (await street.connect()).stream

    dials(monkeypatch, connect)


def event(number: int) -> bytes:
    return b'{"cursor":"%d","event":{"id":"evt_%d","text":"\xc3\xa9 \\u00e9"}}' % (number, number)


async def test_events_come_byte_for_byte_behind_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_street() as street:
        street.account.events = [event(n) for n in range(1, 151)]
        to_street(monkeypatch, street)
        ears = Ears(room=147)
        assert await read_feed(PLACE, "3", ears.greet, ears.take) is None
    assert ears.greetings == [Greeting("3", None)]
    assert [int(one.cursor) for one in ears.messages] == list(range(4, 151))
    assert bytes(ears.messages[0].event) == b'{"id":"evt_4","text":"\xc3\xa9 \\u00e9"}'


async def test_news_of_the_secret_are_no_event_and_anything_else_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_street() as street:
        street.account.events = [b'{"secret":"changed"}', event(2), b'{"cursor":"3"}']
        to_street(monkeypatch, street)
        ears = Ears()
        assert await read_feed(PLACE, "0", ears.greet, ears.take) == "what came is no event"
    assert (ears.news, [one.cursor for one in ears.messages]) == (1, ["2"])


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        (lambda street: street.sockets.close_all(), "the server stops"),
        (lambda street: setattr(street.account, "revoked", True), "the server takes the key no more"),
        (lambda street: street.streams[-1].socket.close(), "it was cut off"),
    ],
)
async def test_an_end_is_told_as_what_it_is(
    monkeypatch: pytest.MonkeyPatch, ends: Callable[[Street], None], reason: str
) -> None:
    reasons: list[str | None] = []
    async with open_street() as street:
        to_street(monkeypatch, street)

        async def read() -> None:
            reasons.append(await read_feed(PLACE, "0", lambda _: None, lambda _: True))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await wait_all_tasks_blocked()
            ends(street)
            street.account.feed.wake("acct_1")
            with trio.move_on_after(5):
                while not reasons:
                    await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
    assert reasons == [reason]


async def test_a_refusal_is_told_in_the_servers_words(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_street() as street:
        to_street(monkeypatch, street)
        with pytest.raises(TurnedAway, match="after is no cursor") as away:
            await read_feed(PLACE, "x", lambda _: None, lambda _: True)
    assert away.value.status == 400


async def test_an_idle_connection_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    ears = Ears()
    async with open_street() as street:
        to_street(monkeypatch, street)
        with trio.move_on_after(3600):
            await read_feed(PLACE, "0", ears.greet, ears.take)
            raise AssertionError("it ended")
    assert len(ears.greetings) == 1


async def far_end(monkeypatch: pytest.MonkeyPatch, says: bytes | None) -> trio.SocketStream:
    """A peer that says this and nothing more; None: it goes away at once."""
    near, far = stream_pair()
    if says is None:
        await far.aclose()
    elif says:
        await far.send_all(says)

    async def connect() -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return near

    dials(monkeypatch, connect)
    return far


@pytest.mark.parametrize("says", [None, b"HTTP/1.1 101 Switching Prot"])
async def test_a_connection_that_dies_in_its_handshake_is_noticed_at_once(
    monkeypatch: pytest.MonkeyPatch, says: bytes | None
) -> None:
    far = await far_end(monkeypatch, says)
    if says:
        await far.send_eof()
    started_s = trio.current_time()
    reason = await read_feed(PLACE, None, lambda _: None, lambda _: True)
    assert reason == "it was cut off before an answer"
    assert trio.current_time() - started_s < 1
    await far.aclose()


async def test_where_nobody_listens_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect() -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        raise OSError(errno.ECONNREFUSED, "Error connecting to ('127.0.0.1', 1): Connection refused")

    dials(monkeypatch, connect)
    assert await read_feed(PLACE, None, lambda _: None, lambda _: True) == "connection refused"


async def test_a_server_that_says_nothing_is_waited_for_no_longer_than_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    far = await far_end(monkeypatch, b"")
    started_s = trio.current_time()
    assert await read_feed(PLACE, None, lambda _: None, lambda _: True) == f"no answer within {CONNECT_S:g} s"
    assert trio.current_time() - started_s == CONNECT_S
    await far.aclose()


async def test_a_dead_connection_is_noticed_by_its_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    switching = (
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        f"sec-websocket-accept: {ACCEPTED}\r\n\r\n"
    )
    monkeypatch.setattr("wsproto.handshake.generate_accept_token", lambda _: ACCEPTED.encode())
    far = await far_end(monkeypatch, switching.encode())
    ears, started_s = Ears(), trio.current_time()
    with trio.fail_after(3600):
        reason = await read_feed(PLACE, None, ears.greet, ears.take)
    assert reason == f"no answer to a ping within {PONG_S:g} s"
    assert ears.greetings == [Greeting(None, None)]
    assert trio.current_time() - started_s == PING_S + PONG_S
    await far.aclose()


@pytest.mark.real_time
async def test_tls_is_verified_by_the_usual_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    async with trio.open_nursery() as nursery:
        refusal = Does(status=401, body=b'{"message":"no such key"}')
        server = Receiver(nursery, always(refusal), tls=server_tls())
        place = Place(f"https://localhost:{await server.listen()}", "svc_test_1", "account main")
        reason = await read_feed(place, None, lambda _: None, lambda _: True)
        assert (reason or "").startswith("its certificate was not accepted (")
        monkeypatch.setenv("SSL_CERT_FILE", str(CA_FILE))
        tls_context.cache_clear()  # another process: it reads them once
        with pytest.raises(TurnedAway, match="no such key"):
            await read_feed(place, None, lambda _: None, lambda _: True)
        tls_context.cache_clear()
        nursery.cancel_scope.cancel()
