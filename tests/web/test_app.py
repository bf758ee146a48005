"""The Quart door: every request reaches `answer` as it was sent, and every answer leaves as it was given."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec
import pytest
import structlog.testing
import trio

from payd.core.errors import BodyTooLarge, InvalidParams
from payd.web.app import make_app, respond
from payd.web.asgi import BODY_S
from payd.web.call import Answer, Request
from payd.web.client import TrustedProxies
from tests.web.street import ROUTES


class House:
    """Remembers the requests and gives one answer."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.requests: list[Request] = []
        self.given = answer or Answer(200, b"{}")

    async def answer(self, request: Request) -> Answer:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        return self.given


def client_of(house: House) -> object:
    app = make_app(house.answer, ROUTES, trusted=TrustedProxies(), body_max=100)
    return app.test_client()


async def ask(house: House, method: str, path: str, **options: object) -> tuple[int, dict[str, str], bytes]:
    client = client_of(house)
    response = await client.open(path, method=method, **options)  # type: ignore[attr-defined]
    headers = {name.lower(): value for name, value in response.headers}
    return response.status_code, headers, await response.get_data()


async def test_a_request_arrives_as_it_was_sent() -> None:
    house = House()
    await ask(house, "POST", "/v1/payments?a=1&a=2&b=%C3%A9&c=", data=b'{"x": 1}', headers={"Api-Key": "k"})
    request = house.requests[0]

    assert (request.method, request.path, request.body) == ("POST", "/v1/payments", b'{"x": 1}')
    assert request.query == {"a": ["1", "2"], "b": ["é"], "c": [""]}
    assert request.headers["api-key"] == "k"
    assert request.query_string == "a=1&a=2&b=%C3%A9&c="
    assert request.refusal is None


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/payments/pay_t1"),
        ("DELETE", "/v1/payments/pay_t1"),
        ("OPTIONS", "/v1/payments/pay_t1"),
        ("GET", "/v1/nowhere"),
        ("GET", "/v1/payments/pay_t1/"),
        ("PURGE", "/v1/payments"),
        ("GET", "/"),
    ],
)
async def test_every_path_and_method_is_answered_by_the_house(method: str, path: str) -> None:
    house = House()
    status, _, _ = await ask(house, method, path)

    assert status == 200
    assert [(request.method, request.path) for request in house.requests] == [(method, path)]


async def test_a_head_is_a_get_without_the_body() -> None:
    house = House(Answer(200, b'{"a":1}'))
    status, headers, _ = await ask(house, "HEAD", "/v1/payments/pay_t1")

    assert house.requests[0].method == "GET"
    assert (status, headers["content-length"]) == (200, "7")


async def test_an_answer_leaves_as_it_was_given() -> None:
    house = House(Answer(201, b"x", (("Request-Id", "req_1"), ("content-type", "text/plain"))))
    status, headers, body = await ask(house, "GET", "/v1/slow")

    assert (status, body) == (201, b"x")
    assert headers == {"request-id": "req_1", "content-type": "text/plain", "content-length": "1"}


async def test_a_body_without_a_type_is_json_and_no_body_has_none() -> None:
    _, headers, _ = await ask(House(Answer.json({"a": 1})), "GET", "/v1/slow")
    assert headers["content-type"] == "application/json"
    assert list(respond(Answer(204)).headers) == []
    assert list(respond(Answer(304)).headers) == [("Content-Length", "0")]


async def test_a_body_over_the_limit_is_a_refusal_for_the_house_to_word() -> None:
    house = House(Answer(413))
    _, headers, _ = await ask(house, "POST", "/v1/payments", data=bytes(101))

    assert isinstance(house.requests[0].refusal, BodyTooLarge)
    assert house.requests[0].body == b""
    assert headers["connection"] == "close"


async def test_a_body_that_does_not_come_is_a_refusal_too() -> None:
    house = House(Answer(400))
    client = client_of(house)
    began_s = trio.current_time()
    async with client.request("/v1/payments", method="POST") as connection:  # type: ignore[attr-defined]
        await connection.send(b"x")
        response = await connection.as_response()

    assert trio.current_time() - began_s == pytest.approx(BODY_S)
    assert isinstance(house.requests[0].refusal, InvalidParams)
    assert response.headers["connection"] == "close"


async def test_a_house_that_raises_tells_nothing() -> None:
    class Broken(House):
        async def answer(self, request: Request) -> Answer:
            raise ZeroDivisionError("the secret")

    with structlog.testing.capture_logs() as lines:
        status, headers, body = await ask(Broken(), "GET", "/v1/slow")

    assert status == 500
    assert msgspec.json.decode(body)["code"] == "internal_error"
    assert b"secret" not in body
    assert headers["connection"] == "close"
    assert lines[0]["event"] == "app.answer_raised"


async def test_a_trusted_proxy_names_the_client() -> None:
    house = House()
    app = make_app(house.answer, ROUTES, trusted=TrustedProxies(["127.0.0.1"]))
    for peer in (("127.0.0.1", 1), ("192.0.2.1", 1), None):
        headers = {"X-Forwarded-For": "198.51.100.7"}
        await app.test_client().get("/v1/slow", headers=headers, scope_base={"client": peer})

    assert [request.client_ip for request in house.requests] == ["198.51.100.7", "192.0.2.1", ""]


async def test_a_long_answer_leaves_in_its_parts() -> None:
    async def parts() -> AsyncGenerator[bytes, None]:
        for part in (b"a\r\n", b"b\r\n"):
            await trio.lowlevel.checkpoint()
            yield part

    given = Answer(200, b"", (("Content-Type", "text/csv"),), parts())
    status, headers, body = await ask(House(given), "GET", "/elsewhere")
    assert (status, headers["content-type"], body) == (200, "text/csv", b"a\r\nb\r\n")
