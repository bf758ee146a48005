"""The account feed over a websocket: every event after a cursor, in order, however slow the listener."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog.testing
import trio
from trio.testing import wait_all_tasks_blocked
from wsproto.events import Ping, Pong, TextMessage

from payd.web.sockets import BATCH_MAX, READ_AGAIN_S
from tests.web.street import ACCOUNT_FEED, PAYMENT_FEED, Socket, Street, open_street, shrink


@asynccontextmanager
async def open_account(events: int, request: bytes = ACCOUNT_FEED) -> AsyncIterator[tuple[Street, Socket]]:
    """An account's listener, with so many events before it."""
    async with open_street() as street:
        street.account.events = [b'{"cursor":%d}' % n for n in range(1, events + 1)]
        client = await street.connect()
        await client.send(request)
        yield street, await client.opened()


async def test_an_account_gets_all_events_after_its_cursor_and_then_new_ones() -> None:
    many = 3 * BATCH_MAX + 1
    async with open_account(many) as (street, socket):
        for n in range(1, many + 1):
            assert await socket.text() == f'{{"cursor":{n}}}'
        await wait_all_tasks_blocked()
        for n in range(many + 1, many + 4):
            street.account.events.append(b'{"cursor":%d}' % n)
            street.account.feed.wake("acct_1")

        for n in range(many + 1, many + 4):
            assert await socket.text() == f'{{"cursor":{n}}}'


async def test_an_account_resumes_from_its_cursor() -> None:
    async with open_account(5, ACCOUNT_FEED.replace(b"after=0", b"after=3")) as (_, socket):
        assert [await socket.text(), await socket.text()] == ['{"cursor":4}', '{"cursor":5}']


async def test_an_account_without_a_cursor_gets_what_is_new() -> None:
    async with open_account(5, ACCOUNT_FEED.replace(b"?after=0", b"")) as (street, socket):
        await wait_all_tasks_blocked()
        street.account.events.append(b'{"cursor":6}')
        street.account.feed.wake("acct_1")

        assert await socket.text() == '{"cursor":6}'


async def test_the_handshake_tells_where_the_feed_begins() -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.send(ACCOUNT_FEED.replace(b"after=0", b"after=3"))
        head = bytes(await client.stream.receive_some(4096))
        assert b"\r\nfeed-cursor: 3\r\n" in head


async def test_what_is_sent_again_comes_behind_what_is_new_and_moves_no_cursor() -> None:
    many = BATCH_MAX + 1
    async with open_account(0) as (street, socket):
        await wait_all_tasks_blocked()
        street.account.events = [b'{"cursor":%d}' % n for n in range(1, many + 1)]
        for seq in range(2, many + 2):
            street.account.feed.resend("acct_1", seq)
        assert [await socket.text() for _ in range(many)] == [f'{{"cursor":{n}}}' for n in range(1, many + 1)]
        assert [await socket.text() for _ in range(many)] == [f'{{"again":{n}}}' for n in range(2, many + 2)]
        street.account.events.append(b'{"cursor":"new"}')
        street.account.feed.wake("acct_1")
        assert await socket.text() == '{"cursor":"new"}'


async def test_a_silent_account_is_not_asked_again() -> None:
    async with open_account(0) as (street, _):
        await trio.sleep(20)
        assert street.account.asked == 1


async def test_a_slow_listener_costs_nothing_and_misses_nothing() -> None:
    async with open_account(0) as (street, socket):
        shrink(street)
        for n in range(1, 501):
            street.account.events.append(b'{"cursor":%d,"x":"%b"}' % (n, b"x" * 500))
            street.account.feed.wake("acct_1")
        await wait_all_tasks_blocked()
        assert street.account.asked < 20, "it stops asking when it cannot send"

        for n in range(1, 501):
            assert f'"cursor":{n},' in await socket.text()


async def test_a_listener_stays_while_nothing_can_be_read_and_misses_nothing() -> None:
    async with open_account(0) as (street, socket):
        await wait_all_tasks_blocked()
        street.account.events = [b'{"cursor":1}']
        street.account.unreadable = 2
        street.account.feed.wake("acct_1")

        since_s = trio.current_time()
        assert await socket.text() == '{"cursor":1}'
        assert trio.current_time() - since_s == 2 * READ_AGAIN_S
        assert len(street.account.feed) == 1


async def test_what_is_sent_again_waits_until_it_can_be_read_in_its_order() -> None:
    async with open_account(0) as (street, socket):
        await wait_all_tasks_blocked()
        street.account.events = [b'{"cursor":1}']
        street.account.unreadable_again = 1
        street.account.feed.resend("acct_1", 7)
        await trio.sleep(READ_AGAIN_S / 2)
        street.account.feed.resend("acct_1", 3)

        assert [await socket.text() for _ in range(3)] == ['{"cursor":1}', '{"again":7}', '{"again":3}']


@pytest.mark.parametrize("unreadable", [0, 30])
async def test_a_client_is_heard_while_much_is_to_be_sent_and_while_nothing_can_be_read(
    unreadable: int,
) -> None:
    async with open_account(0) as (street, socket):
        await wait_all_tasks_blocked()
        street.account.events = [b'{"cursor":%d}' % n for n in range(1, 100 * BATCH_MAX)]
        street.account.unreadable = unreadable
        street.account.feed.wake("acct_1")
        await socket.send(Ping(b"there?"))

        since_s, texts = trio.current_time(), 0
        while not isinstance(event := await socket.next(), Pong):
            texts += isinstance(event, TextMessage)
        assert event.payload == b"there?"
        assert texts <= 2 * BATCH_MAX
        assert trio.current_time() - since_s <= READ_AGAIN_S


@pytest.mark.parametrize("head", [ACCOUNT_FEED, PAYMENT_FEED])
async def test_a_feed_that_cannot_be_read_at_its_beginning_is_refused_until_later(head: bytes) -> None:
    async with open_street() as street:
        street.account.unreadable = 1
        client = await street.connect()
        await client.send(head)

        assert (await client.answer()).status == 503
        await client.stream.aclose()
        await wait_all_tasks_blocked()
        assert (len(street.sockets), len(street.account.feed), len(street.feed)) == (0, 0, 0)


async def test_a_listener_whose_key_was_revoked_is_closed() -> None:
    async with open_account(0) as (street, socket):
        await wait_all_tasks_blocked()
        street.account.revoked = True
        street.account.feed.wake("acct_1")

        assert await socket.closed() == 1008
        assert len(street.account.feed) == 1
        await socket.stream.aclose()
        await wait_all_tasks_blocked()
        assert len(street.account.feed) == 0


async def test_an_error_behind_the_feed_is_no_normal_end() -> None:
    async with open_account(0) as (street, socket):

        async def broken(cursor: int, limit: int) -> list[tuple[int, bytes]]:
            raise ZeroDivisionError

        await wait_all_tasks_blocked()
        street.account.events_after = broken  # type: ignore[method-assign]
        with structlog.testing.capture_logs():
            street.account.feed.wake("acct_1")
            assert await socket.closed() == 1011

        assert street.front.caught == 1
        assert (len(street.sockets), len(street.account.feed)) == (0, 0)
