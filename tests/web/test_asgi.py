"""The short way: the same requests arrive and the same bytes leave as through Quart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import structlog.testing
import trio

from payd.core.errors import BodyTooLarge, InvalidApiKey, InvalidParams
from payd.web.app import make_app
from payd.web.asgi import BODY_S, ShortWay, is_short
from payd.web.call import Answer, Request
from payd.web.client import TrustedProxies
from tests.web.street import ROUTES

BODY_MAX = 100


class House:
    """Remembers the requests and gives one answer."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[Request] = []
        self.given = answer

    async def answer(self, request: Request) -> Answer:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        return self.given


def scope_of(method: str, target: str, headers: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in (("host", "a.test"), *headers)],
        "client": ("203.0.113.7", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
        "extensions": {},
    }


def target_of(target: str) -> tuple[str, str]:
    path, _, query = target.partition("?")
    return path, query


async def say(app: Any, scope: dict[str, Any], *pieces: bytes, last: bool = True) -> list[dict[str, Any]]:
    """What an application sends back for a request whose body comes in pieces."""
    messages = [
        {"type": "http.request", "body": piece, "more_body": not last or place < len(pieces) - 1}
        for place, piece in enumerate(pieces or (b"",))
    ]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        if messages:
            return messages.pop(0)
        return await trio.sleep_forever()

    async def send(message: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    await app(scope, receive, send)
    return sent


def joined(sent: list[dict[str, Any]]) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body, however they were cut."""
    body = b"".join(message.get("body", b"") for message in sent[1:])
    headers = [(bytes(name).lower(), bytes(value)) for name, value in sent[0]["headers"]]
    return sent[0]["status"], headers, body


ANSWERS = [
    Answer(200, b'{"a": 1}', (("Request-Id", "req_1"), ("Service-Version", "2026-02-18"))),
    Answer(201, b"{}", (("Idempotent-Replayed", "true"),)),
    Answer(200, b"a 1\n", (("Content-Type", "text/plain"),)),
    Answer(204, b"", (("Request-Id", "req_1"),)),
    Answer(429, b"{}", (("Retry-After", "1"),)),
]
REQUESTS = [
    ("GET", "/v1/payments/pay_t1", (), b""),
    ("GET", "/v1/payments?status=failed&status=expired&a=%C3%A9&empty=", (("api-key", "k"),), b""),
    ("POST", "/v1/payments", (("content-type", "application/json"), ("content-length", "2")), b"{}"),
    ("POST", "/v1/payments", (("x-forwarded-for", "198.51.100.1"), ("a", "1"), ("a", "2")), b"{}"),
    ("DELETE", "/v1/payments/nothing/here", (), b""),
    ("PUT", "/v1/payments", (), b""),
    ("POST", "/v1/payments", (("content-length", "101"),), b"x" * 101),
]


@pytest.mark.parametrize("given", ANSWERS)
@pytest.mark.parametrize(("method", "target", "headers", "body"), REQUESTS)
async def test_both_ways_say_the_same(
    given: Answer, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes
) -> None:
    trusted = TrustedProxies(["203.0.113.0/24"])
    short, long = House(given), House(given)
    app = make_app(short.answer, ROUTES, trusted=trusted, body_max=BODY_MAX)
    quart = make_app(long.answer, ROUTES, trusted=trusted, body_max=BODY_MAX).asgi_app._app  # type: ignore[attr-defined]
    scope = scope_of(method, target, headers)
    assert is_short(method, *target_of(target))

    by_short = joined(await say(app.asgi_app, dict(scope), body))
    by_quart = joined(await say(quart, dict(scope), body))

    assert by_short[0] == by_quart[0]
    assert sorted(by_short[1]) == sorted(by_quart[1])
    assert by_short[2] == by_quart[2]
    (one,), (other,) = short.requests, long.requests
    assert type(one.refusal) is type(other.refusal)
    assert [getattr(one, name) for name in COMPARED] == [getattr(other, name) for name in COMPARED]
    assert one.body == other.body or one.refusal is not None


COMPARED = ("method", "path", "query", "headers", "client_ip", "query_string")


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/pay/pay_t1"),
        ("GET", "/livez"),
        ("POST", "/v1/webhooks/endpoint/test"),
        ("HEAD", "/v1/payments"),
        ("OPTIONS", "/v1/payments"),
        ("GET", "/v1/payments/pay_t1/status?maxPollMs=1000"),
        ("GET", "/v1/payments/pay_t1/status?m%61xPollMs=1000"),
        ("GET", "http://a.test/v1/payments"),
        ("CONNECT", "a.test:1"),
    ],
)
def test_what_needs_more_goes_on_to_quart(method: str, target: str) -> None:
    assert not is_short(method, *target_of(target))


async def test_a_websocket_goes_on_to_quart() -> None:
    taken: list[Any] = []

    async def quart(scope: Any, receive: Any, send: Any) -> None:
        await trio.lowlevel.checkpoint()
        taken.append(scope["type"])

    short = ShortWay(quart, House(Answer(200)).answer, TrustedProxies(), BODY_MAX)
    await say(short, scope_of("GET", "/v1/payments/pay_t1/feed") | {"type": "websocket"})

    assert taken == ["websocket"]


def way(house: House) -> ShortWay:
    async def nobody(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("this was for the short way")

    return ShortWay(nobody, house.answer, TrustedProxies(), BODY_MAX)


async def test_a_body_in_pieces_is_put_together() -> None:
    house = House(Answer(200, b"{}"))
    await say(way(house), scope_of("POST", "/v1/payments"), b'{"a"', b": ", b"1}")

    assert house.requests[0].body == b'{"a": 1}'


async def test_a_body_over_the_limit_is_refused_before_all_of_it_is_read() -> None:
    house = House(Answer(413, b"{}"))
    sent = await say(way(house), scope_of("POST", "/v1/payments"), b"x" * 60, b"x" * 60, last=False)

    assert isinstance(house.requests[0].refusal, BodyTooLarge)
    assert (b"connection", b"close") in joined(sent)[1]


async def test_a_body_that_does_not_arrive_is_refused_in_time() -> None:
    house = House(Answer(400, b"{}"))
    begun = trio.current_time()
    sent = await say(way(house), scope_of("POST", "/v1/payments"), b"{", last=False)

    assert trio.current_time() - begun == BODY_S
    assert isinstance(house.requests[0].refusal, InvalidParams)
    assert (b"connection", b"close") in joined(sent)[1]


async def test_a_client_that_leaves_before_its_body_is_complete_is_answered_nothing() -> None:
    house = House(Answer(200, b"{}"))
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    await way(house)(scope_of("POST", "/v1/payments"), receive, send)

    assert (house.requests, sent) == ([], [])


async def test_an_answer_that_raises_is_an_internal_error_with_nothing_inside() -> None:
    async def broken(request: Request) -> Answer:
        raise ZeroDivisionError("secret")

    app = ShortWay(way(House(Answer(200))), broken, TrustedProxies(), BODY_MAX)
    with structlog.testing.capture_logs() as logs:
        status, headers, body = joined(await say(app, scope_of("GET", "/v1/payments")))

    assert status == 500
    assert (b"connection", b"close") in headers
    assert b"secret" not in body
    assert logs[0]["event"] == "app.answer_raised"


async def test_what_may_be_larger_is_asked_once_and_before_it_is_read() -> None:
    house, asked = House(Answer(200)), []

    def larger(request: Request) -> int:
        asked.append((request.method, request.path, len(request.body)))
        return 300

    app = ShortWay(None, house.answer, TrustedProxies(), BODY_MAX, larger)  # type: ignore[arg-type]
    said = (("content-length", "300"),)
    await say(app, scope_of("PUT", "/v1/merchants/a/logo", said), b"x" * 150, b"x" * 150)
    await say(app, scope_of("PUT", "/v1/merchants/a/logo"), b"x" * 80, b"x" * 80, b"x" * 80)
    assert [len(request.body) for request in house.requests] == [300, 240]
    assert asked == [("PUT", "/v1/merchants/a/logo", 0)] * 2
    await say(app, scope_of("PUT", "/v1/merchants/a/logo", (("content-length", "100"),)), b"x" * 100)
    assert len(asked) == 2, "a body like all others is nobody's question"


@pytest.mark.parametrize("headers", [(("content-length", str(2 << 20)),), ()], ids=["says it", "shows it"])
async def test_what_is_larger_has_the_time_that_a_slow_line_takes(headers: Sequence[tuple[str, str]]) -> None:
    house = House(Answer(200))
    app = ShortWay(None, house.answer, TrustedProxies(), BODY_MAX, lambda _: 2 << 20)  # type: ignore[arg-type]
    left = 32

    async def receive() -> dict[str, Any]:
        nonlocal left
        await trio.sleep(3)
        left -= 1
        return {"type": "http.request", "body": bytes(1 << 16), "more_body": left > 0}

    async def send(message: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()

    scope = scope_of("PUT", "/v1/merchants/a/logo", headers)
    await app(scope, receive, send)
    begun = trio.current_time()
    await say(app, scope, b"x" * 200, last=False)

    assert [len(request.body) for request in house.requests] == [2 << 20, 200]
    assert house.requests[0].refusal is None
    assert "within 148 s" in str(house.requests[1].refusal)
    assert trio.current_time() - begun == 148


@pytest.mark.parametrize("headers", [(("content-length", "301"),), ()])
async def test_larger_has_a_limit_too(headers: Sequence[tuple[str, str]]) -> None:
    house = House(Answer(413))
    app = ShortWay(None, house.answer, TrustedProxies(), BODY_MAX, lambda _: 300)  # type: ignore[arg-type]
    await say(app, scope_of("PUT", "/v1/merchants/a/logo", headers), b"x" * 301)
    [request] = house.requests
    assert isinstance(request.refusal, BodyTooLarge)
    assert request.body == b""


async def test_who_may_not_send_what_is_large_is_refused_for_that_without_reading_it() -> None:
    house = House(Answer(401))

    def larger(request: Request) -> int:
        raise InvalidApiKey("no")

    app = ShortWay(None, house.answer, TrustedProxies(), BODY_MAX, larger)  # type: ignore[arg-type]
    scope = scope_of("PUT", "/v1/merchants/a/logo", (("content-length", "300"),))
    headers = joined(await say(app, scope, last=False))[1]
    assert isinstance(house.requests[0].refusal, InvalidApiKey)
    assert (b"connection", b"close") in headers


@pytest.mark.parametrize("headers", [(("content-length", "150"),), (("transfer-encoding", "chunked"),)])
async def test_a_pages_file_takes_the_short_way_for_quart_knows_one_limit_for_all(
    headers: Sequence[tuple[str, str]],
) -> None:
    house, most = House(Answer(303)), {"/d/test/logo": 300, "/d/test/note": BODY_MAX}

    def larger(request: Request) -> int:
        if request.path not in most:
            raise InvalidApiKey("no")
        return most[request.path]

    app = make_app(house.answer, ROUTES, trusted=TrustedProxies(), body_max=BODY_MAX, larger=larger)
    for path in (*most, "/d/test/else"):
        await say(app, scope_of("POST", path, headers), b"x" * 75, b"x" * 75)

    assert [len(request.body) for request in house.requests] == [150, 0, 0]
    refusals = [type(request.refusal) for request in house.requests]
    assert refusals == [type(None), BodyTooLarge, BodyTooLarge]
