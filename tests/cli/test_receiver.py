"""The demo's receiver believes a delivery only when somebody else's code verifies its raw bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from payd.cli import receiver
from payd.cli.receiver import Received, Receiver, check
from payd.clock import system_wall_ms
from payd.core.signature import make_secret, sign
from payd.net.http import Client, Target

SECRET = make_secret(b"r" * 32)
BODY = '{"type": "payment.created", "data": {"ü": 1}}'.encode()


def signed(body: bytes = BODY, secret: str = SECRET, at_s: int | None = None) -> dict[str, str]:
    at_s = system_wall_ms() // 1000 if at_s is None else at_s
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(at_s),
        "webhook-signature": sign([secret], "msg_1", at_s, body),
    }


def test_an_authentic_delivery_is_believed() -> None:
    received = check(SECRET, signed(), BODY)
    assert received.problem is None
    assert received.event["type"] == "payment.created"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (signed(), BODY + b" "),
        (signed(secret=make_secret(b"x" * 32)), BODY),
        (signed(at_s=1_000_000_000), BODY),
        ({}, BODY),
        ({**signed(), "webhook-id": "msg_2"}, BODY),
        ({**signed(), "webhook-signature": "v1"}, BODY),
        (signed(b"\xff"), b"\xff"),
        (signed(b"no json"), b"no json"),
    ],
)
def test_anything_else_is_refused_with_a_reason(headers: dict[str, str], body: bytes) -> None:
    received = check(SECRET, headers, body)
    assert received.problem
    assert received.event == {}


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Receiver, list[Received]]]:
    got: list[Received] = []
    serving = Receiver(got.append)
    serving.secret = SECRET
    async with trio.open_nursery() as nursery:
        await nursery.start(serving.serve)
        yield serving, got
        nursery.cancel_scope.cancel()


@pytest.mark.real_time
async def test_deliveries_are_answered_by_what_they_are_on_one_connection() -> None:
    client = Client(may_call=lambda _address: True)
    async with listening() as (serving, got):
        target = Target.of(serving.url)
        statuses = [
            (await client.send("POST", target, headers.items(), BODY)).status
            for headers in (signed(), {**signed(), "webhook-id": "msg_2"}, signed())
        ]
        await client.aclose()
    assert statuses == [204, 400, 204]
    assert [one.problem is None for one in got] == [True, False, True]
    assert got[0].body == BODY


@pytest.mark.real_time
async def test_a_body_without_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "BODY_BYTES_MAX", 10)
    client = Client(may_call=lambda _address: True)
    async with listening() as (serving, got):
        reply = await client.send("POST", Target.of(serving.url), signed().items(), BODY)
        await client.aclose()
    assert reply.status is None
    assert got == []


@pytest.mark.real_time
@pytest.mark.parametrize(
    "data", [b"", b"nonsense\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"]
)
async def test_nonsense_is_left_and_the_next_delivery_is_served(data: bytes) -> None:
    client = Client(may_call=lambda _address: True)
    async with listening() as (serving, _got):
        target = Target.of(serving.url)
        async with await trio.open_tcp_stream("127.0.0.1", target.port) as stream:
            await stream.send_all(data)
        assert (await client.send("POST", target, signed().items(), BODY)).status == 204
        await client.aclose()
