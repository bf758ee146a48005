"""Feeds over websockets: handshake, order, slow readers, pings, and every way it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked
from trio_websocket import ConnectionClosed, ConnectionRejected, wrap_client_stream
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

from payd.web.call import Answer, Request
from payd.web.sockets import (
    INBOUND_BYTES_MAX,
    PING_S,
    STUCK_S,
    close_frame,
    encode_answer,
    is_feed,
    wants_upgrade,
)
from tests.web.street import ACCOUNT_FEED, KEY, PAYMENT_FEED, Socket, Street, open_street, shrink


@asynccontextmanager
async def open_page() -> AsyncIterator[tuple[Street, Socket]]:
    """A payment's page that has its first snapshot."""
    async with open_street() as street:
        client = await street.connect()
        await client.send(PAYMENT_FEED)
        page = await client.opened()
        assert await page.text() == '{"version":0}'
        await wait_all_tasks_blocked()
        yield street, page


async def refusal(street: Street, request: bytes) -> Any:
    client = await street.connect()
    await client.send(request)
    answer = await client.answer()
    assert await client.rest() == b"", "the connection ends"
    await client.stream.aclose()
    await trio.sleep(3)
    assert (len(street.sockets), len(street.feed), len(street.front)) == (0, 0, 0)
    return answer


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        (f"Sec-WebSocket-Key: {KEY}\r\n", "", 400),
        (KEY, "c2hvcnQ=", 400),
        (KEY, "not base64 at all!!", 400),
        ("Sec-WebSocket-Version: 13\r\n", "", 426),
        ("Version: 13", "Version: 8", 426),
    ],
)
async def test_a_broken_handshake_is_refused(old: str, new: str, status: int) -> None:
    async with open_street() as street:
        answer = await refusal(street, PAYMENT_FEED.replace(old.encode(), new.encode()))

        assert answer.status == status
        if status == 426:
            assert answer.headers["sec-websocket-version"] == "13"
            assert b'"code":"upgrade_required"' in answer.body


@pytest.mark.parametrize("payment_id", ["pay_t2", "pay_l1", "x", "%2e%2e", "x" * 200])
async def test_an_unknown_payment_is_refused_before_the_upgrade(payment_id: str) -> None:
    async with open_street() as street:
        answer = await refusal(street, PAYMENT_FEED.replace(b"pay_t1", payment_id.encode()))

        assert answer.status == 404
        assert b'"code":"payment_not_found"' in answer.body


@pytest.mark.parametrize(
    ("old", "new", "status", "code"),
    [("Api-Key: k\r\n", "", 401, "missing_api_key"), ("after=0", "after=x", 400, "invalid_params")],
)
async def test_an_account_feed_is_refused_before_the_upgrade(
    old: str, new: str, status: int, code: str
) -> None:
    async with open_street() as street:
        answer = await refusal(street, ACCOUNT_FEED.replace(old.encode(), new.encode()))

        assert answer.status == status
        assert f'"code":"{code}"'.encode() in answer.body
        assert len(street.account.feed) == 0


async def test_feeds_over_the_limit_of_their_address_are_refused() -> None:
    async with open_street() as street:
        street.sockets._trusted = OneAddress()  # type: ignore[assignment]
        pages = []
        for _ in range(3):
            client = await street.connect()
            await client.send(PAYMENT_FEED)
            pages.append(await client.opened())
        over = await street.connect()
        await over.send(PAYMENT_FEED)
        answer = await over.answer()

        assert (answer.status, answer.headers["retry-after"]) == (429, "5")
        await pages[0].stream.aclose()
        await wait_all_tasks_blocked()
        again = await street.connect()
        await again.send(PAYMENT_FEED)
        assert await (await again.opened()).text() == '{"version":0}'


class OneAddress:
    """Everybody comes from one address."""

    def slot_key(self, ip: str) -> str:
        return "192.0.2.1"


async def test_a_strict_client_gets_the_snapshot_the_updates_and_the_end() -> None:
    async with open_street() as street, trio.open_nursery() as nursery:
        client = await street.connect()
        socket = await wrap_client_stream(nursery, client.stream, "x", "/v1/payments/pay_t1/feed")
        assert await socket.get_message() == '{"version":0}'
        await socket.ping(b"are you there")
        street.feed.publish("pay_t1", b'{"version":1}', final=False)
        assert await socket.get_message() == '{"version":1}'
        street.feed.publish("pay_t1", b'{"version":2}', final=True)
        assert await socket.get_message() == '{"version":2}'
        with pytest.raises(ConnectionClosed):
            await socket.get_message()

        assert socket.closed is not None
        assert socket.closed.code == 1000
        nursery.cancel_scope.cancel()


async def test_a_strict_client_sees_the_refusal() -> None:
    async with open_street() as street:
        client = await street.connect()
        with pytest.raises(ExceptionGroup) as refused:
            async with trio.open_nursery() as nursery:
                await wrap_client_stream(nursery, client.stream, "x", "/v1/payments/pay_t9/feed")

        assert refused.group_contains(ConnectionRejected, match="404")


async def test_a_final_snapshot_is_sent_and_then_the_end() -> None:
    async with open_street() as street:
        street.snapshots["pay_t1"] = (b'{"version":9}', True)
        client = await street.connect()
        await client.send(PAYMENT_FEED)
        page = await client.opened()

        assert await page.text() == '{"version":9}'
        assert await page.closed() == 1000
        assert await client.rest() == b""


@pytest.mark.parametrize(
    ("read", "pushed", "seen"),
    [
        (b'{"version":1}', b'{"version":2}', ['{"version":1}', '{"version":2}']),
        (b'{"version":2}', b'{"version":1}', ['{"version":2}']),
        (b'{"version":2}', b'{"version":2}', ['{"version":2}']),
    ],
    ids=["newer", "older", "same"],
)
async def test_what_changes_during_the_handshake_is_neither_lost_nor_told_backwards(
    read: bytes, pushed: bytes, seen: list[str]
) -> None:
    async with open_street() as street:

        async def snapshot(payment_id: str) -> tuple[bytes, bool]:
            await trio.sleep(1)
            street.feed.publish(payment_id, pushed, final=False)
            await trio.sleep(1)
            return read, False

        street.sockets._snapshot = snapshot
        client = await street.connect()
        await client.send(PAYMENT_FEED)
        page = await client.opened()
        await trio.sleep(3)
        street.feed.publish("pay_t1", b'{"version":3}', final=False)

        assert [await page.text() for _ in range(len(seen) + 1)] == [*seen, '{"version":3}']


async def test_a_final_update_during_the_handshake_ends_the_feed() -> None:
    async with open_street() as street:

        async def snapshot(payment_id: str) -> tuple[bytes, bool]:
            await trio.sleep(1)
            street.feed.publish(payment_id, b'{"version":1}', final=True)
            return b'{"version":0}', False

        street.sockets._snapshot = snapshot
        client = await street.connect()
        await client.send(PAYMENT_FEED)
        page = await client.opened()

        assert [await page.text(), await page.text()] == ['{"version":0}', '{"version":1}']
        assert await page.closed() == 1000


@pytest.mark.parametrize("event", [TextMessage(data="hi"), BytesMessage(data=b"hi"), BytesMessage(data=b"")])
async def test_client_data_is_against_the_rules(event: Any) -> None:
    async with open_page() as (_, page):
        await page.send(event)

        assert await page.closed() == 1008


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\x05hello", 1002),
        (b"\x8f\x80aaaa", 1002),
        (b"\x89\xfe\x00\x7eaaaa", 1002),
        (b"\xc1\x80aaaa", 1002),
        (b"\x81\x82\0\0\0\0\xff\xfe", 1007),
        (b"\x82\xff" + (2**62).to_bytes(8, "big") + b"aaaa" + b"x", 1008),
    ],
    ids=["unmasked", "opcode", "long ping", "reserved bit", "utf-8", "huge"],
)
async def test_broken_and_oversized_frames_end_the_socket(data: bytes, code: int) -> None:
    async with open_page() as (street, page):
        await page.stream.send_all(data)

        assert await page.closed() == code
        assert await page.stream.receive_some() == b""
        assert street.front.caught == 0


async def test_a_clients_close_is_echoed() -> None:
    for code in (1000, 1001, 3000):
        async with open_page() as (street, page):
            await page.send(CloseConnection(code=code))
            assert await page.closed() == code
            await page.stream.aclose()
            await wait_all_tasks_blocked()

            assert (len(street.sockets), len(street.feed)) == (0, 0)


async def test_a_close_without_a_code_is_echoed_without_one() -> None:
    async with open_page() as (_, page):
        await page.stream.send_all(b"\x88\x80aaaa")
        assert await page.stream.receive_some() == b"\x88\x00"


async def test_pings_are_answered_the_last_one_surely() -> None:
    async with open_page() as (_, page):
        await page.send(Ping(payload=b"one"))
        assert await page.next() == Pong(payload=b"one")
        await page.stream.send_all(
            page.protocol.send(Ping(payload=b"a")) + page.protocol.send(Ping(payload=b"b"))
        )

        assert await page.next() == Pong(payload=b"b")


async def test_frames_sent_with_the_handshake_are_read() -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.send(PAYMENT_FEED + b"\x89\x80aaaa")
        page = await client.opened()

        assert await page.text() == '{"version":0}'
        assert await page.next() == Pong(payload=b"")


async def test_a_client_that_answers_pings_stays_for_hours() -> None:
    async with open_page() as (street, page):
        pings = 0
        with trio.move_on_after(2 * 3600):
            while True:
                event = await page.next()
                assert isinstance(event, Ping), event
                pings += 1
                await page.send(event.response())
                await page.send(Ping(payload=b"x" * 100))
                assert await page.next() == Pong(payload=b"x" * 100)

        assert pings == pytest.approx(2 * 3600 / PING_S, abs=2)
        assert len(street.sockets) == 1


async def test_a_client_that_answers_no_ping_is_dropped() -> None:
    async with open_page() as (street, _):
        await trio.sleep(2 * PING_S)
        assert len(street.sockets) == 1
        await trio.sleep(2 * PING_S)

        assert (len(street.sockets), len(street.feed), len(street.front)) == (0, 0, 0)


async def test_pings_are_spread_over_the_period() -> None:
    async with open_street(connections_max=100) as street:
        pages = []
        for _ in range(50):
            client = await street.connect()
            await client.send(PAYMENT_FEED)
            pages.append(await client.opened())
            await pages[-1].text()
        times: list[float] = []

        async def note(page: Socket) -> None:
            await page.next()
            times.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            for page in pages:
                nursery.start_soon(note, page)

        assert len(set(times)) == 25
        assert max(times) - min(times) == pytest.approx(PING_S - 1, abs=0.1)


async def test_a_client_that_floods_is_dropped() -> None:
    async with open_page() as (street, page):
        flood = page.protocol.send(Ping(payload=b"x" * 100)) * (INBOUND_BYTES_MAX // 100)
        with trio.move_on_after(1):
            await page.stream.send_all(flood)
        while not isinstance(event := await page.next(), CloseConnection):
            assert isinstance(event, Pong)

        assert event.code == 1008
        assert street.front.caught == 0


async def test_a_slow_reader_gets_only_the_newest_and_delays_nobody() -> None:
    async with open_page() as (street, slow):
        shrink(street)
        quick_client = await street.connect()
        await quick_client.send(PAYMENT_FEED)
        quick = await quick_client.opened()
        await quick.text()
        began_s = trio.current_time()
        for version in range(1, 1001):
            street.feed.publish("pay_t1", b'{"version":%d,"x":"%b"}' % (version, b"x" * 500), final=False)
            assert f'"version":{version},' in await quick.text()
            await wait_all_tasks_blocked()
        assert trio.current_time() == began_s

        seen: list[str] = []
        while not seen or '"version":1000,' not in seen[-1]:
            seen.append(await slow.text())

        versions = [int(text.partition(":")[2].partition(",")[0]) for text in seen]
        assert versions == sorted(versions)
        assert len(versions) < 500
        assert street.front.caught == 0


async def test_control_frames_do_not_replace_an_update_nor_the_other_way_round() -> None:
    """With a full buffer: a pong, a ping and the newest snapshot wait, and all of them come."""
    async with open_page() as (street, page):
        shrink(street)
        for version in range(1, 101):
            street.feed.publish("pay_t1", b'{"version":%d,"x":"%b"}' % (version, b"x" * 500), final=False)
        await wait_all_tasks_blocked()
        await page.send(Ping(payload=b"mine"))
        for group in street.sockets._groups:
            for socket in group:
                socket.ping()
        street.feed.publish("pay_t1", b'{"version":101}', final=False)
        await wait_all_tasks_blocked()

        events: list[Event] = []
        while Pong(payload=b"mine") not in events:
            events.append(await page.next())

        assert Ping(payload=b"") in events
        assert TextMessage(data='{"version":101}') in events
        street.feed.publish("pay_t1", b'{"version":102}', final=True)
        assert [await page.text(), await page.closed()] == ['{"version":102}', 1000]


async def test_a_frame_that_fits_only_in_part_arrives_whole_before_the_newest() -> None:
    async with open_page() as (street, page):
        big = b'{"version":1,"x":"%b"}' % (b"x" * 1_000_000)
        for payload in (big, b'{"version":2}', b'{"version":3}'):
            street.feed.publish("pay_t1", payload, final=False)

        assert await page.text() == big.decode()
        assert await page.text() == '{"version":3}'


async def test_a_stuck_reader_is_dropped() -> None:
    async with open_page() as (street, _):
        shrink(street)
        for version in range(1, 101):
            street.feed.publish("pay_t1", b'{"version":%d,"x":"%b"}' % (version, b"x" * 500), final=False)
        await trio.sleep(STUCK_S - 1)
        assert len(street.sockets) == 1
        await trio.sleep(2)

        assert (len(street.sockets), len(street.feed), len(street.front)) == (0, 0, 0)
        assert street.front.caught == 0


async def test_a_reader_that_went_away_is_forgotten_at_the_next_push() -> None:
    async with open_page() as (street, page):
        await page.stream.aclose()
        street.feed.publish("pay_t1", b'{"version":1}', final=False)
        street.feed.publish("pay_t1", b'{"version":2}', final=False)
        await wait_all_tasks_blocked()

        assert (len(street.sockets), len(street.feed)) == (0, 0)
        assert street.front.caught == 0


async def test_stopping_says_when_to_come_back() -> None:
    async with open_page() as (street, page):
        street.sockets.close_all()
        assert await page.closed() == 1012


async def test_a_feed_that_opens_during_the_stop_is_closed_too() -> None:
    async with open_street() as street:
        street.sockets.close_all()
        client = await street.connect()
        await client.send(PAYMENT_FEED)
        page = await client.opened()

        assert await page.text() == '{"version":0}'
        assert await page.closed() == 1012


@pytest.mark.parametrize(
    ("path", "feed"),
    [
        ("/v1/feed", True),
        ("/v1/payments/pay_t1/feed", True),
        ("/v1/payments/a/b/feed", False),
        ("/v1/payments//feed", False),
        ("/v1/payments/feed", False),
        ("/v1/feed/", False),
        ("/v1/feeds", False),
    ],
)
def test_the_paths_of_feeds(path: str, feed: bool) -> None:
    assert is_feed(path) is feed


@pytest.mark.parametrize(
    ("method", "upgrade", "connection", "wants"),
    [
        ("GET", "websocket", "Upgrade", True),
        ("GET", "WebSocket", "keep-alive, upgrade", True),
        ("GET", "websocket", "keep-alive", False),
        ("GET", "h2c", "upgrade", False),
        ("POST", "websocket", "upgrade", False),
    ],
)
def test_an_upgrade_is_one_by_all_its_parts(method: str, upgrade: str, connection: str, wants: bool) -> None:
    request = Request(method, "/v1/feed", headers={"upgrade": upgrade, "connection": connection})
    assert wants_upgrade(request) is wants


def test_a_plain_answer_ends_its_connection() -> None:
    data = encode_answer(Answer(404, b"{}", (("Request-Id", "req_1"), ("Connection", "keep-alive"))))
    head, _, body = data.partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 404 Not Found\r\nrequest-id: req_1\r\n")
    assert b"content-length: 2" in head
    assert b"connection: close" in head
    assert b"keep-alive" not in head
    assert body == b"{}"


def test_a_close_frame_without_a_code_is_empty() -> None:
    assert close_frame(CloseReason.NO_STATUS_RCVD) == b"\x88\x00"
    assert close_frame(1012) == b"\x88\x02\x03\xf4"
