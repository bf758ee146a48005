"""Feeds over websockets: who gets one, handshake, order, pings, and every way it ends."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked
from trio_websocket import ConnectionClosed, ConnectionRejected, wrap_client_stream
from wsproto.events import Ping, Pong

from payd.web.call import Request
from payd.web.sockets import PING_S, is_feed, wants_upgrade
from tests.web.street import ACCOUNT_FEED, KEY, PAYMENT_FEED, Socket, Street, open_page, open_street


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


async def test_feeds_over_the_limit_of_their_payment_are_refused_and_those_of_others_are_not() -> None:
    async with open_street() as street:
        street.sockets._per_payment = 2
        street.snapshots["pay_t2"] = (b'{"version":7}', False)
        pages = []
        for _ in range(2):
            client = await street.connect()
            await client.send(PAYMENT_FEED)
            pages.append(await client.opened())
        over = await street.connect()
        await over.send(PAYMENT_FEED)
        assert (await over.answer()).status == 429

        other = await street.connect()
        await other.send(PAYMENT_FEED.replace(b"pay_t1", b"pay_t2"))
        assert await (await other.opened()).text() == '{"version":7}'
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
