"""The lane: what it takes, what it hands on, and that nobody can tell the difference."""

from __future__ import annotations

from dataclasses import replace

import pytest
import structlog.testing
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from payd.web.asgi import BODY_S
from payd.web.call import Request
from payd.web.lane import STARTS, is_plain, may_be_hot, shape_of
from tests.web.street import Street, open_street

POST = "POST /v1/payments HTTP/1.1\r\nHost: x\r\n"
# Makes a request the other door's, and is ignored there.
OTHER_DOOR = "TE: trailers\r\n"


def heard(street: Street) -> list[tuple[Request, str]]:
    """The requests that came, each with what was found wrong with it."""
    return [(replace(request, refusal=None), repr(request.refusal)) for request in street.requests]


async def said(street: Street, *pieces: bytes) -> bytes:
    """All that comes back on a new connection on which no more is sent."""
    client = await street.connect()
    for piece in pieces:
        await client.send(piece)
        await wait_all_tasks_blocked()
    await client.stream.send_eof()
    return await client.rest()


SAME = [
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /v1/payments?status=a&status=b%20c&d HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\nhost:x\r\nX-Two:  words here  \r\nX-None:\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\nConnection: Keep-Alive\r\n\r\n",
    f"{POST}Content-Length: 2\r\n\r\nhi",
    f"{POST}Content-Length: 002\r\n\r\nhi",
    f"{POST}Content-Length: 1000\r\n\r\n{'x' * 1000}",
    f"{POST}\r\n",
    f"{POST}X-Forwarded-For: 203.0.113.9\r\nContent-Length: 0\r\n\r\n",
    "DELETE /v1/merchants/m/logo HTTP/1.1\r\nHost: x\r\n\r\n",
    "PUT /v1/gateway/payment/pay_t1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n{",
    "GET /v1/payments//a/../b HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /v1/payments/bug HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /v1/payments/none HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /v1/payments/worded HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /v1/payments/closing HTTP/1.1\r\nHost: x\r\n\r\n",
]


@pytest.mark.parametrize("request_text", SAME)
async def test_both_doors_say_the_same_to_the_same(request_text: str) -> None:
    line, _, rest = request_text.partition("\r\n")
    again = f"{line}\r\n{OTHER_DOOR}{rest}".encode()
    async with open_street(trusted=("127.0.0.0/8",)) as street:
        with structlog.testing.capture_logs():
            by_lane = await said(street, request_text.encode() * 2)
            assert street.handed_on == []
            by_hypercorn = await said(street, again * 2)

    assert by_lane == by_hypercorn
    assert by_lane.startswith(b"HTTP/1.1 ")
    count = len(street.handed_on)
    assert count in {1, 2}  # an answer that ends the connection leaves the second unread
    assert len(street.requests) == 2 * count
    for one, other in zip(street.requests[:count], street.requests[count:], strict=True):
        assert other.headers.pop("te") == "trailers"
        assert one == other


ODD = [
    "GET /pay/pay_t1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /v1/webhooks/endpoint HTTP/1.1\r\nHost: x\r\n\r\n",
    "HEAD /v1/payments HTTP/1.1\r\nHost: x\r\n\r\n",
    "OPTIONS /v1/payments HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /v1/payments/a?maxPollMs=1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /v1/payments/%61 HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET http://x/v1/payments HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /v1/payments/a HTTP/1.0\r\nHost: x\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\nX: a\r\nx: b\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\nX: caf\xe9\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\nX: a\tb\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\nHost: x\r\n\r\n",
    f"{POST}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    f"{POST}Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
    f"{POST}Content-Length: 1001\r\n\r\n{'x' * 1001}",
]


@pytest.mark.parametrize("request_text", ODD)
async def test_what_is_odd_is_handed_on_with_every_byte(request_text: str) -> None:
    async with open_street() as street:
        answered = await said(
            street, b"GET /v1/payments/a HTTP/1.1\r\nHost: x\r\n\r\n", request_text.encode("latin-1")
        )

        assert answered.count(b"HTTP/1.1 200") >= 1
        assert len(street.handed_on) == 1


BROKEN = [
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\nX : a\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\n: a\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\nX: a\r\n folded\r\n\r\n",
    "GET  /v1/payments/a HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /v1/payments/a  HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1 \r\nHost: x\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "GET /v1/payments/a\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /v1/payments/a HTTP/1.1\r\nHost: x\r\nX: a\rb\r\n\r\n",
    "GET /v1/payments/a HTTP/9.9\r\nHost: x\r\n\r\n",
]


@pytest.mark.parametrize("request_text", BROKEN)
async def test_the_lane_judges_nothing_that_is_broken(request_text: str) -> None:
    async with open_street() as street, open_street(lane=-1) as without:
        assert await said(street, request_text.encode()) == await said(without, request_text.encode())
        assert heard(street) == heard(without)
        assert street.handed_on == without.handed_on


HEADS = st.lists(
    st.sampled_from(
        [
            b"GET /v1/payments/a HTTP/1.1\r\n", b"POST /v1/payments HTTP/1.1\r\n", b"GET /v1/", b"\r\n",
            b"\n",
            b"\r", b" ", b":", b"Host: x\r\n", b"Content-Length: 3\r\n", b"Content-Length: 0\r\n", b"abc",
            b"\x00",
            b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Connection: upgrade\r\n", b"%61",
            b"\xff",
            b"X: y\r\n", b"3\r\nabc\r\n0\r\n\r\n", b"Expect: 100-continue\r\n", b"\t", b"#", b"?a=b",
            b"HTTP/1.1",
        ]
    ),
    max_size=14,
)  # fmt: skip


@given(st.lists(HEADS.map(b"".join), min_size=1, max_size=3))
@settings(max_examples=150, deadline=None)
def test_no_bytes_tell_the_doors_apart(pieces: list[bytes]) -> None:
    async def main() -> None:
        async with open_street() as street, open_street(lane=-1) as without:
            # What hypercorn says to one who leaves in a body depends on whether its application was begun.
            sent = b"".join(pieces) + b"\r\n\r\n"
            start = b"GET /v1/payments/a HTTP/1.1\r\nHost: x\r\n\r\n"
            assert await said(street, start, sent) == await said(without, start, sent)
            assert heard(street) == heard(without)

    trio.run(main, clock=MockClock(autojump_threshold=0))


def keyed(key_line: str, *, host: str = "x") -> bytes:
    """A request of which the street knows all but its key."""
    head = f"POST /v1/payments/known HTTP/1.1\r\nHost: {host}\r\n{key_line}Content-Length: 2\r\n\r\n"
    return f"{head}hi".encode()


async def test_heads_that_differ_in_their_idempotency_key_are_read_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_street() as street:
        client, lane = await street.connect(), street.front._lane
        keys = ("a", "b", "c c", "d" * 255, "a")
        for key in keys[:2]:
            await client.send(keyed(f"Idempotency-Key: {key}\r\n"))
            assert (await client.answer()).status == 200
        (kept,) = lane._heads.values()
        monkeypatch.setattr(lane, "_read", None)  # would fail
        for key in keys[2:]:
            await client.send(keyed(f"Idempotency-Key: {key}\r\n"))
            assert (await client.answer()).status == 200

        assert tuple(one.headers["idempotency-key"] for one in street.requests) == keys
        assert len({id(one.headers) for one in street.requests}) == 5
        assert len({one.seen for one in street.requests[1:]}) == 1
        assert [id(one) for one in lane._heads.values()] == [id(kept)]
        assert "idempotency-key" not in kept[0].headers


@pytest.mark.parametrize(
    "key_line", ["", "Idempotency-Key: \r\n", "Idempotency-Key:b\r\n", "Idempotency-Key: a\tb\r\n"]
)
async def test_a_head_with_a_key_is_not_known_by_one_without(key_line: str) -> None:
    async with open_street() as street:
        client = await street.connect()
        for key in ("a", "b", "c"):
            await client.send(keyed(f"Idempotency-Key: {key}\r\n"))
            assert (await client.answer()).status == 200
        await client.send(keyed(key_line))
        assert (await client.answer()).status == 200

        *known, last = street.requests
        assert last.seen is not known[-1].seen
        assert last.headers.get("idempotency-key", "") == key_line.partition(":")[2].strip()


KEYS = st.lists(
    st.sampled_from(
        [
            "Idempotency-Key: a\r\n", "idempotency-key: b\r\n", "Idempotency-Key:a\r\n", "Idempotency-Key",
            "Idempotency-Key: \r\n", "Idempotency-Key: a b \r\n", "Idempotency-Key: \"a\"\r\n", " folded\r\n",
            "X-Idempotency-Key: a\r\n", "Idempotency-Key:  a\r\n", "Idempotency-Key: \x00\r\n", "\r\n", "\n",
            "Idempotency-Key : a\r\n", "Idempotency-Key: caf\xe9\r\n", "Api-Key: k\r\n",
            "Content-Length: 2\r\n",
        ]
    ),
    max_size=4,
)  # fmt: skip


@given(st.lists(KEYS.map("".join), min_size=1, max_size=3))
@settings(max_examples=150, deadline=None)
def test_no_key_tells_the_doors_apart(key_lines: list[str]) -> None:
    async def main() -> None:
        async with open_street() as street, open_street(lane=-1) as without:
            start = keyed("Idempotency-Key: k\r\n") * 2 + keyed("") * 2
            sent = b"".join(keyed(lines) for lines in key_lines)
            assert await said(street, start, sent) == await said(without, start, sent)
            assert heard(street) == heard(without)

    trio.run(main, clock=MockClock(autojump_threshold=0))


HEAD = b"GET /v1/payments HTTP/1.1\r\n"


@pytest.mark.parametrize(
    ("head", "key"),
    [
        (HEAD + b"Idempotency-Key: a\r\n\r\n", "a"),
        (HEAD + b"IDEMPOTENCY-KEY: a b  \r\nHost: x\r\n\r\n", "a b"),
        (HEAD + b"Idempotency-Key: ~!\r\nHost: x\r\n\r\n", "~!"),
        (HEAD + b"Host: x\r\n\r\n", None),
        (HEAD + b"Idempotency-Key: \r\n\r\n", None),
        (HEAD + b"Idempotency-Key:a\r\n\r\n", None),
        (HEAD + b"Idempotency-Key:  a\r\n\r\n", None),
        (HEAD + b"Idempotency-Key: a\r\n b\r\n\r\n", None),
        (HEAD + b"Idempotency-Key: a\r\n\tb\r\n\r\n", None),
        (HEAD + b"Idempotency-Key: a\tb\r\n\r\n", None),
        (HEAD + b"Idempotency-Key: a\nX: y\r\n\r\n", None),
        (HEAD + b"X-Idempotency-Key: a\r\n\r\n", None),
        (HEAD + b"X: idempotency-key: a\r\n\r\n", None),
    ],
)
def test_a_key_is_taken_out_of_a_head_only_where_it_is_plain(head: bytes, key: str | None) -> None:
    shape, found = shape_of(head)
    assert found == key
    assert (shape == head) is (key is None)
    assert (b"\r\n\r\n" in shape[:-4]) is (key is not None), "no head looks like the shape of another"


async def test_a_head_in_pieces_is_taken_and_the_body_too() -> None:
    async with open_street() as street:
        answered = await said(
            street, *(bytes([byte]) for byte in f"{POST}Content-Length: 2\r\n\r\nhi".encode())
        )

        assert b'"body":"hi"' in answered
        assert street.handed_on == []


async def test_a_body_that_does_not_come_is_refused_and_the_connection_ends() -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.send(f"{POST}Content-Length: 2\r\n\r\nh")
        begun = trio.current_time()

        answer = await client.answer()

        assert trio.current_time() - begun == BODY_S
        assert answer.status == 400
        assert answer.headers["connection"] == "close"
        assert await client.rest() == b""
        assert street.handed_on == []


async def test_a_client_that_leaves_in_its_body_is_not_answered() -> None:
    async with open_street() as street:
        assert await said(street, f"{POST}Content-Length: 2\r\n\r\nh".encode()) == b""
        assert street.requests == []


async def test_who_sends_many_at_once_does_not_keep_the_others_waiting() -> None:
    async with open_street() as street:
        many, one = await street.connect(), await street.connect()
        await wait_all_tasks_blocked()
        await many.send(b"GET /v1/payments/many HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        await one.send(b"GET /v1/payments/one HTTP/1.1\r\nHost: x\r\n\r\n")

        assert (await one.answer()).status == 200
        assert len(street.requests) < 100


async def test_a_connection_ends_after_its_answer_when_the_server_stops() -> None:
    async with open_street() as street:
        busy, idle = await street.connect(), await street.connect()
        assert (await idle.get("/v1/payments/a")).status == 200
        await busy.send("GET /v1/payments/slow HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        await wait_all_tasks_blocked()
        street.stop.set()

        assert await idle.rest() == b""
        assert (await busy.answer()).status == 200
        assert await busy.rest() == b""
        assert street.handed_on == []


def test_only_what_may_be_the_lanes_is_waited_for() -> None:
    more = b"x" * max(map(len, STARTS))
    for start in STARTS:
        assert all(may_be_hot(start[:length]) for length in range(len(start) + 1))
        assert may_be_hot(start + more)
    for other in (b"GET /pay/", b"PRI * HTTP/2.0\r\n", b"\x16\x03\x01", b"\r\n", b"get /v1/payments", b"X"):
        assert not may_be_hot(other)
        assert not may_be_hot(other + more)
    assert not may_be_hot(STARTS[0] + b" HTTP/1.1\n")
    assert not may_be_hot(STARTS[0] + b"x" * 20_000)


@pytest.mark.parametrize(
    ("head", "plain"),
    [
        (b"a\r\nb\r\n\r\n", True),
        (b"a\nb\r\n\r\n", False),
        (b"a\rb\r\n\r\n", False),
        (b"a\n\rb\r\n\r\n", False),
        (b"a\tb\r\n\r\n", False),
        (b"a\x7f\r\n\r\n", False),
        (b"a\x80\r\n\r\n", False),
    ],
)
def test_a_plain_head_is_ascii_whose_lines_end_alike(head: bytes, plain: bool) -> None:
    assert is_plain(head) is plain
