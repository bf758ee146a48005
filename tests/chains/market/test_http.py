"""JSON from a public service: what counts as an answer, and what an answer may not do."""

from __future__ import annotations

import ipaddress

import msgspec
import pytest
import trio

from payd import __version__
from payd.chains.market.http import BODY_BYTES_MAX, BadStatus, PublicService, market_client
from payd.chains.market.source import ASK_S, FRESH_MS, SourceFailed
from payd.core.errors import InvalidParams
from tests.chains.market.exchanges import open_line, says
from tests.receiver import Does, Receiver, always

HTML = b"<!DOCTYPE html><html><body>Checking your browser before accessing api.test</body></html>"


class Shape(msgspec.Struct):
    price: str


async def said(does: Does) -> tuple[str, int]:
    """The price and its age when the service does this."""
    async with open_line(always(does)) as (client, _):
        answer = await PublicService(client, "http://api.test").get("/one", {}, Shape)
        return answer.said.price, answer.age_ms


async def error_of(does: Does) -> str:
    """What is wrong when the service does this."""
    with pytest.raises(SourceFailed) as caught:
        await said(does)
    return str(caught.value)


async def test_it_asks_by_path_and_query_and_says_who_asks() -> None:
    async with open_line(always(says({"price": "1"}))) as (client, receiver):
        service = PublicService(client, "http://api.test:8080/mirror/")
        answer = await service.get("/0/Ticker", {"pair": "A/B&c=d"}, Shape)

        [received] = receiver.received
        assert answer.said == Shape("1")
        assert (received.method, received.path) == ("GET", "/mirror/0/Ticker?pair=A%2FB%26c%3Dd")
        assert received.headers["host"] == "api.test:8080"
        assert received.headers["user-agent"] == f"payd/{__version__}"
        assert received.headers["accept"] == "application/json"


async def test_an_answer_may_have_more_than_is_asked_for() -> None:
    assert await said(says({"price": "1", "news": [1, 2]})) == ("1", 0)


@pytest.mark.parametrize(
    "body",
    [
        HTML,
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"price": 1}',
        b'{"price": null}',
        b'{"price": "1"',
        b'{"price": "\xff"}',
    ],
)
async def test_another_body_with_status_200_is_no_answer(body: bytes) -> None:
    assert (await error_of(Does(body=body))).startswith("not the expected JSON")


async def test_an_error_repeats_nothing_of_what_was_sent() -> None:
    assert "browser" not in await error_of(Does(body=HTML))
    assert "secret" not in await error_of(says({"price": {"secret": "secret"}}))


@pytest.mark.parametrize("status", [201, 301, 302, 400, 401, 403, 404, 429, 500, 502, 503])
async def test_only_status_200_is_an_answer_and_nothing_is_followed(status: int) -> None:
    does = Does(status=status, body=b'{"price": "1"}', headers=(("location", "http://elsewhere.test/"),))
    async with open_line(always(does)) as (client, receiver):
        with pytest.raises(BadStatus) as caught:
            await PublicService(client, "http://api.test").get("/one", {}, Shape)

        assert caught.value.status == status
        assert len(receiver.received) == 1


async def test_half_an_answer_is_none() -> None:
    half = b'HTTP/1.1 200 OK\r\ncontent-length: 400\r\n\r\n{"price": "1"}'

    assert await error_of(Does(raw=half)) == "the answer was cut off"


async def test_an_endless_answer_is_cut_at_its_time() -> None:
    started_s = trio.current_time()

    assert await error_of(Does(body=b" ", drips=True)) == "the answer was cut off"
    assert trio.current_time() - started_s <= ASK_S + 0.001


async def test_a_huge_answer_is_cut_at_its_size() -> None:
    whole = b'{"price": "1"}'
    fits = whole.ljust(BODY_BYTES_MAX)

    assert await said(Does(body=fits)) == ("1", 0)
    assert await error_of(Does(body=fits + b" ")) == "the answer was cut off"


async def test_a_service_that_hangs_or_resets_has_failed() -> None:
    assert (await error_of(Does(hangs=True))).startswith("timeout_response")
    assert (await error_of(Does(resets=True))).startswith("connection_reset")
    assert (await error_of(Does(raw=b"no http"))).startswith("protocol_error")


@pytest.mark.parametrize(
    ("age", "age_ms"),
    [
        ("0", 0),
        ("30", 30_000),
        ("121", 121_000),
        ("soon", FRESH_MS),
        ("-5", FRESH_MS),
        ("9" * 30, FRESH_MS),
    ],
)
async def test_an_answer_out_of_a_cache_is_as_old_as_the_cache_says(age: str, age_ms: int) -> None:
    assert await said(says({"price": "1"}, age=age)) == ("1", age_ms)


def test_a_service_needs_a_url_that_can_be_called() -> None:
    for url in ("ftp://api.test", "https://user@api.test", "api.test", "https://"):
        with pytest.raises(InvalidParams):
            PublicService(market_client(), url)


@pytest.mark.real_time
async def test_a_service_at_an_address_that_is_not_public_is_not_called() -> None:
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery, always(says({"price": "1"})))
        url = f"http://127.0.0.1:{await receiver.listen()}"

        closed, opened = market_client(), market_client([ipaddress.ip_network("127.0.0.0/8")])
        with pytest.raises(SourceFailed, match="blocked_address"):
            await PublicService(closed, url).get("/one", {}, Shape)
        assert receiver.connections == 0
        assert (await PublicService(opened, url).get("/one", {}, Shape)).said == Shape("1")

        await opened.aclose()
        nursery.cancel_scope.cancel()
