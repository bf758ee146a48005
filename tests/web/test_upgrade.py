"""Upgrades on a connection that hypercorn has: feeds are those of a fresh connection, the rest is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked
from wsproto.events import CloseConnection, Ping, Pong, TextMessage

from payd.actors.feed import GOODBYE, text_frame
from tests.web.street import ACCOUNT_FEED, PAYMENT_FEED, Client, Socket, Street, open_street


async def used(street: Street, path: str = "/v1/payments/a") -> Client:
    """A connection that has had a plain request, which the lane answers unless its path is another."""
    client = await street.connect()
    assert (await client.get(path)).status == 200
    return client


@asynccontextmanager
async def open_feed(request: bytes) -> AsyncIterator[tuple[Street, Socket]]:
    async with open_street() as street:
        client = await used(street)
        await client.send(request)
        yield street, await client.opened()


async def test_a_page_gets_the_snapshot_the_updates_and_the_end() -> None:
    async with open_feed(PAYMENT_FEED) as (street, page):
        assert await page.text() == '{"version":0}'
        await wait_all_tasks_blocked()
        street.feed.publish("pay_t1", b'{"version":1}', final=False)
        street.feed.publish("pay_t1", b'{"version":2}', final=False)
        assert [await page.text(), await page.text()] == ['{"version":1}', '{"version":2}']
        street.feed.publish("pay_t1", b'{"version":3}', final=True)

        assert await page.text() == '{"version":3}'
        assert await page.closed() == 1000


async def test_an_accounts_handshake_tells_where_the_feed_begins() -> None:
    async with open_street() as street:
        client = await used(street)
        await client.send(ACCOUNT_FEED.replace(b"after=0", b"after=3"))
        head = bytes(await client.stream.receive_some(4096))
        assert b"\r\nfeed-cursor: 3\r\n" in head


async def test_a_final_snapshot_is_the_end() -> None:
    async with open_street() as street:
        street.snapshots["pay_t1"] = (b'{"version":9}', True)
        client = await used(street)
        await client.send(PAYMENT_FEED)
        page = await client.opened()

        assert await page.text() == '{"version":9}'
        assert await page.closed() == 1000


@pytest.mark.parametrize(
    ("request_head", "status", "code"),
    [
        (PAYMENT_FEED.replace(b"pay_t1", b"pay_t2"), 404, "payment_not_found"),
        (ACCOUNT_FEED.replace(b"Api-Key: k\r\n", b""), 401, "missing_api_key"),
    ],
)
async def test_who_may_not_is_refused_before_the_upgrade(request_head: bytes, status: int, code: str) -> None:
    async with open_street() as street:
        client = await used(street)
        await client.send(request_head)
        answer = await client.answer()

        assert answer.status == status
        assert f'"code":"{code}"'.encode() in answer.body
        assert await client.rest() == b""


async def test_an_account_gets_its_events() -> None:
    async with open_feed(ACCOUNT_FEED) as (street, socket):
        await wait_all_tasks_blocked()
        for n in range(3):
            street.account.events.append(b'{"cursor":%d}' % n)
        street.account.feed.wake("acct_1")

        assert [await socket.text() for _ in range(3)] == [f'{{"cursor":{n}}}' for n in range(3)]


async def test_pings_are_answered_and_data_is_against_the_rules() -> None:
    async with open_feed(PAYMENT_FEED) as (_, page):
        await page.text()
        await page.send(Ping(payload=b"x"))
        while not isinstance(event := await page.next(), Pong):
            assert isinstance(event, Ping)
        await page.send(TextMessage(data="hi"))

        assert await page.closed() == 1008


async def test_a_client_that_leaves_is_forgotten() -> None:
    async with open_feed(PAYMENT_FEED) as (street, page):
        await page.text()
        await page.send(CloseConnection(code=1001))
        await page.stream.aclose()
        await trio.sleep(3)

        assert (len(street.sockets), len(street.feed), len(street.front)) == (0, 0, 0)


async def test_stopping_says_when_to_come_back() -> None:
    async with open_feed(PAYMENT_FEED) as (street, page):
        await page.text()
        street.stop.set()

        assert await page.closed() == 1012


@pytest.mark.parametrize("path", ["/v1/payments/a", "/v1/page"])
@pytest.mark.parametrize("last", range(5))
async def test_it_does_not_matter_where_its_head_is_cut(path: str, last: int) -> None:
    """A head is cut where a packet ends, also between the two lines that end it."""
    cut = len(PAYMENT_FEED) - last
    async with open_street() as street:
        client = await used(street, path)
        await client.send(PAYMENT_FEED[:cut])
        await wait_all_tasks_blocked()
        await client.send(PAYMENT_FEED[cut:])

        assert await (await client.opened()).text() == '{"version":0}'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Sec-WebSocket-Key", b"X-Key"),
        (b"Version: 13", b"Version: 12"),
        (b"Sec-WebSocket-Version", b"X-Version"),
        (b"HTTP/1.1", b"HTTP/1.0"),
    ],
)
async def test_what_is_asked_for_in_a_wrong_way_is_a_plain_request(old: bytes, new: bytes) -> None:
    async with open_street() as street:
        client = await used(street, "/v1/page")
        await client.send(PAYMENT_FEED.replace(old, new))
        answer = await client.answer()

        # Of the real house: 426, and how to connect.
        assert json.loads(answer.body)["path"] == "/v1/payments/pay_t1/feed"


async def test_what_comes_behind_it_is_a_request_where_it_is_one() -> None:
    """Whoever sends before the answer gets no websocket: its next request would be lost in it."""
    async with open_street() as street:
        client = await used(street)
        await client.send(PAYMENT_FEED + b"GET /v1/next HTTP/1.1\r\nHost: x\r\n\r\n")

        paths = [json.loads((await client.answer()).body)["path"] for _ in range(2)]
        assert paths == ["/v1/payments/pay_t1/feed", "/v1/next"]
        assert (len(street.sockets), street.front.caught) == (0, 0)


@pytest.mark.parametrize(
    "pieces", [(PAYMENT_FEED + b"\x8a\x80aaaa",), (PAYMENT_FEED[:-2], b"\r\n\x8a\x80aaaa")]
)
async def test_who_sends_before_the_answer_gets_no_websocket(pieces: tuple[bytes, ...]) -> None:
    """A fresh connection is read by whoever serves the feed; here hypercorn has the bytes."""
    async with open_street() as street:
        client = await used(street)
        for piece in pieces:
            await client.send(piece)
        rest = await client.rest()
        await client.stream.aclose()
        await trio.sleep(3)

        assert b" 101 " not in rest
        assert (len(street.sockets), len(street.feed), len(street.front)) == (0, 0, 0)
        assert street.front.caught == 0


async def test_hypercorn_says_nothing_on_a_connection_that_a_feed_took() -> None:
    async with open_street() as street:
        client = await used(street)
        await client.send(PAYMENT_FEED)
        page = await client.opened()
        await page.text()
        await wait_all_tasks_blocked()
        street.feed.publish("pay_t1", b'{"version":1}', final=True)

        assert await page.stream.receive_some() == text_frame(b'{"version":1}') + GOODBYE
        await page.send(CloseConnection(code=1000))
        assert await page.stream.receive_some() == b""
        await wait_all_tasks_blocked()
        assert (len(street.sockets), len(street.feed), len(street.front)) == (0, 0, 0)
        assert street.front.caught == 0
