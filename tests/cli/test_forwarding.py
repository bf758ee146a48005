"""Events forwarded: signed as real ones, in order, none left out while the receiver is away; virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import click
import pytest
import trio
from standardwebhooks.webhooks import Webhook

from payd import __version__
from payd.cli.following import State
from payd.cli.forwarding import (
    KNOCK_S,
    Forwarder,
    Header,
    Waiting,
    chosen_events,
    extra_headers,
    message_id_of,
    receiver_url,
)
from payd.clock import system_wall_ms
from payd.core.endpoint import EVENT_TYPES, RESPONSE_DEADLINE_S
from payd.core.signature import make_secret
from payd.net.dns import DnsFailed
from payd.net.http import Client, Target
from tests.receiver import Does, Receiver, always, in_turn

URL = "http://localhost:4242/hook"
SECRET = make_secret(b"s" * 32)
BODY = b'{"id":"evt_1","type":"payment.created"}'


@dataclass
class Desk:
    """A forwarder and its receiver, which can be away."""

    receiver: Receiver
    away: OSError | DnsFailed | None = None
    secrets: tuple[str, ...] = (SECRET,)
    states: list[State] = field(default_factory=list)

    def forwarder(self, *headers: Header) -> Forwarder:
        client = Client(may_call=lambda _: True, resolve=self._resolve, dial=self._dial)
        return Forwarder(
            client,
            url=URL,
            target=Target.of(URL),
            headers=headers,
            secrets=self._sign_with,
            tell=self.states.append,
            wall_ms=system_wall_ms,
        )

    async def _sign_with(self) -> tuple[str, ...]:
        await trio.lowlevel.checkpoint()
        return self.secrets

    async def _resolve(self, _host: str) -> list[str]:
        await trio.lowlevel.checkpoint()
        if isinstance(self.away, DnsFailed):
            raise self.away
        return ["127.0.0.1"]

    async def _dial(self, address: str, port: int) -> trio.abc.Stream:
        if isinstance(self.away, OSError):
            raise self.away
        return await self.receiver.dial(address, port)


@asynccontextmanager
async def open_desk() -> AsyncIterator[Desk]:
    async with trio.open_nursery() as nursery:
        yield Desk(Receiver(nursery))
        nursery.cancel_scope.cancel()


async def test_a_forwarded_event_is_signed_as_a_delivery_and_verifies_with_somebody_elses_code() -> None:
    async with open_desk() as desk:
        reply = await desk.forwarder().forward("evt_1", BODY)
        [got] = desk.receiver.received
    assert (reply.status, got.method, got.path, got.body) == (200, "POST", "/hook", BODY)
    assert Webhook(SECRET).verify(got.body, got.headers)["id"] == "evt_1"
    assert got.headers["webhook-id"] == "msg_1" == message_id_of("evt_1")
    assert got.headers["content-type"] == "application/json"
    assert got.headers["user-agent"] == f"payd/{__version__}"
    assert got.headers["host"] == "localhost:4242"


async def test_added_headers_come_along_and_replace_the_usual_ones() -> None:
    async with open_desk() as desk:
        await desk.forwarder(("x-tunnel", "a b"), ("user-agent", "mine")).forward("evt_1", BODY)
        [got] = desk.receiver.received
    assert (got.headers["x-tunnel"], got.headers["user-agent"]) == ("a b", "mine")


def got_at(headers: Mapping[str, str]) -> datetime:
    return datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)


async def test_another_secret_counts_from_the_next_attempt_and_all_sign() -> None:
    async with open_desk() as desk:
        forwarder = desk.forwarder()
        await forwarder.forward("evt_1", BODY)
        desk.secrets = (make_secret(b"t" * 32), SECRET)
        await forwarder.forward("evt_2", BODY)
        got = desk.receiver.received[1]
    for secret in desk.secrets:
        assert Webhook(secret).verify(got.body, got.headers)
    newest = Webhook(desk.secrets[0]).sign("msg_2", got_at(got.headers), BODY.decode())
    assert got.headers["webhook-signature"].split(" ")[0] == newest, "the newest first"


@pytest.mark.parametrize(
    ("away", "reason"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "the connection was refused"),
        (DnsFailed("no such host"), "its name does not resolve"),
        (OSError(101, "Network is unreachable"), "its network cannot be reached"),
    ],
)
async def test_a_receiver_that_is_away_is_waited_for_and_told_of_once(
    away: OSError | DnsFailed, reason: str
) -> None:
    async with open_desk() as desk:
        desk.away = away
        forwarder = desk.forwarder()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(forwarder.forward, "evt_1", BODY)
            await trio.sleep(3600)
            assert desk.states == [Waiting(URL, reason)]
            desk.away, desk.secrets = None, (make_secret(b"t" * 32),)
            await trio.sleep(KNOCK_S)
            [got] = desk.receiver.received
            assert got.event == "evt_1"
            assert Webhook(desk.secrets[0]).verify(got.body, got.headers), "it signs what signs by now"
        assert not nursery.cancel_scope.cancelled_caught


async def test_a_receiver_that_resets_has_not_taken_it() -> None:
    async with open_desk() as desk:
        desk.receiver.script = in_turn(Does(resets=True), Does(resets=True), Does(status=201))
        reply = await desk.forwarder().forward("evt_1", BODY)
    assert reply.status == 201
    assert len(desk.receiver.received) == 3
    assert desk.states == [Waiting(URL, "the connection was closed before an answer")]


@pytest.mark.parametrize("status", [204, 302, 400, 500])
async def test_every_answer_counts(status: int) -> None:
    async with open_desk() as desk:
        desk.receiver.script = always(Does(status=status, body=b""))
        assert (await desk.forwarder().forward("evt_1", BODY)).status == status
    assert len(desk.receiver.received) == 1


async def test_a_receiver_that_takes_too_long_counts_too() -> None:
    async with open_desk() as desk:
        desk.receiver.script = always(Does(hangs=True))
        reply = await desk.forwarder().forward("evt_1", BODY)
    assert (reply.status, reply.error_class) == (None, "timeout_response")
    assert reply.duration_ms == RESPONSE_DEADLINE_S * 1000
    assert desk.states == []


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:4242/hook", "http://localhost:4242/hook"),
        ("localhost:4242", "http://localhost:4242"),
        ("http://[::1]:1/", "http://[::1]:1/"),
        ("9998", "http://localhost:9998"),
        (":9998", "http://localhost:9998"),
        ("9998/path", "http://localhost:9998/path"),
        (":9998/path?a=1", "http://localhost:9998/path?a=1"),
        ("127.0.0.1:80/1", "http://127.0.0.1:80/1"),
        ("https://tunnel.example/x?y=1", "https://tunnel.example/x?y=1"),
    ],
)
def test_http_goes_unsaid(text: str, url: str) -> None:
    assert receiver_url(text) == url


@pytest.mark.parametrize("text", ["", "ftp://x/y", "http://user@x/", "localhost:99999", "a b"])
def test_what_cannot_be_called_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="The url"):
        receiver_url(text)


def test_events_are_chosen_by_name_and_without_names_all_are() -> None:
    assert chosen_events(()) == frozenset(EVENT_TYPES)
    assert chosen_events(("payment.created, payment.failed", "payment.settled")) == {
        "payment.created",
        "payment.failed",
        "payment.settled",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("payment.suceeded", r"did you mean payment\.succeeded\?"),
        ("suceeded", r"did you mean payment\.succeeded\?"),
        ("charge", "there are payment.created"),
        ("payment.*", "there are payment.created"),
        ("payment.refunded", "there are payment.created"),
        (",", "names no event type"),
    ],
)
def test_an_unknown_type_is_refused_with_the_one_that_is_meant(text: str, words: str) -> None:
    with pytest.raises(click.BadParameter, match=words):
        chosen_events((text,))


def test_headers_are_read_as_one_writes_them() -> None:
    assert extra_headers(("X-Key: a:b", "x-empty:")) == (("x-key", "a:b"), ("x-empty", ""))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nonsense", "is no header"),
        (": x", "is no header"),
        ("a b: x", "is no header"),
        ("x: a\r\ny: b", "is no header"),
        ("x: \u20ac", "is no header"),
        ("Host: x", "payd sets host itself"),
        ("connection: close", "payd sets connection itself"),
        ("Content-Length: 1", "payd sets content-length itself"),
        ("Transfer-Encoding: chunked", "payd sets transfer-encoding itself"),
        ("Webhook-Id: x", "payd sets webhook-id itself"),
    ],
)
def test_a_header_that_cannot_be_or_is_payds_is_refused(line: str, words: str) -> None:
    with pytest.raises(click.BadParameter, match=words):
        extra_headers((line,))
