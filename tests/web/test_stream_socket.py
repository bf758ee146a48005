"""A websocket straight on a connection: what it says and hears, slow readers, and every way it ends."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

from payd.actors.feed import GOODBYE, text_frame
from payd.web.call import Answer, Request
from payd.web.sockets import PING_S
from payd.web.stream_socket import INBOUND_BYTES_MAX, STUCK_S, close_frame, encode_answer
from payd.web.wire import LINGER_S
from tests.web.street import PAYMENT_FEED, Client, open_page, open_street, shrink


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


async def test_the_last_snapshot_and_the_goodbye_are_one_piece_and_the_answer_to_it_is_the_end() -> None:
    async with open_page() as (street, page):
        street.feed.publish("pay_t1", b'{"version":1}', final=True)
        street.feed.publish("pay_t1", b'{"version":2}', final=False)
        began_s = trio.current_time()
        assert await page.stream.receive_some() == text_frame(b'{"version":1}') + GOODBYE
        await wait_all_tasks_blocked()
        assert len(street.sockets) == 1, "nobody is called before the client answers"
        await page.send(CloseConnection(code=1000))

        assert await page.stream.receive_some() == b""
        await wait_all_tasks_blocked()
        assert (len(street.sockets), len(street.feed), len(street.front)) == (0, 0, 0)
        assert trio.current_time() == began_s


@pytest.mark.parametrize("said", [b"\x8a\x80aaaa", b"\x88", b"hello"])
async def test_whatever_else_is_said_to_the_goodbye_ends_it_too(said: bytes) -> None:
    async with open_page() as (street, page):
        street.feed.publish("pay_t1", b'{"version":1}', final=True)
        assert [await page.text(), await page.closed()] == ['{"version":1}', 1000]
        await page.stream.send_all(said)

        assert await page.stream.receive_some() == b""
        assert len(street.sockets) == 1, "what else comes is read, so that nothing told is lost to a reset"
        await trio.sleep(LINGER_S + 1)
        assert (len(street.sockets), len(street.feed), len(street.front)) == (0, 0, 0)


async def test_a_client_that_says_nothing_to_the_goodbye_is_hung_up_on_after_a_while() -> None:
    async with open_page() as (street, page):
        street.feed.publish("pay_t1", b'{"version":1}', final=True)
        assert [await page.text(), await page.closed()] == ['{"version":1}', 1000]
        assert await page.stream.receive_some() == b""
        await trio.sleep(LINGER_S + 1)

        assert trio.current_time() <= PING_S + LINGER_S + 2
        assert (len(street.sockets), len(street.feed), len(street.front)) == (0, 0, 0)


async def test_a_stop_does_not_wait_for_answers_to_the_goodbye() -> None:
    async with open_page() as (street, page):
        street.feed.publish("pay_t1", b'{"version":1}', final=True)
        began_s = trio.current_time()
        street.stop.set()
        await street.returned.wait()

        assert trio.current_time() - began_s <= LINGER_S
        assert [await page.text(), await page.closed()] == ['{"version":1}', 1000]
        assert await page.stream.receive_some() == b""


@pytest.mark.parametrize("before", [[], [b"x" * 1_000_000]], ids=["it fits in part", "nothing fits"])
async def test_a_last_snapshot_that_waits_arrives_whole_with_one_goodbye(before: list[bytes]) -> None:
    async with open_page() as (street, page):
        last = b'{"version":2,"x":"%b"}' % (b"x" * 1_000_000)
        for payload in before:
            street.feed.publish("pay_t1", payload, final=False)
        street.feed.publish("pay_t1", last, final=True)
        began_s = trio.current_time()

        told = b"".join(map(text_frame, (*before, last))) + GOODBYE
        assert await Client(page.stream).rest() == told
        assert trio.current_time() == began_s


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


@pytest.mark.parametrize(
    "pieces",
    [
        (b"\x8a\x80aaaa",),
        (b"\x8a\x84aaaa1234",),
        (b"\x8a\x80aaaa\x8a\x80aaaa",),
        (b"\x8a", b"\x80aaaa"),
        (b"\x8a\x80aa", b"aa"),
    ],
    ids=["whole", "unasked payload", "two", "in parts", "in other parts"],
)
async def test_a_pong_is_one_however_it_comes(pieces: tuple[bytes, ...]) -> None:
    async with open_page() as (street, page):
        for _ in range(5):
            assert isinstance(await page.next(), Ping)
            for piece in pieces:
                await page.stream.send_all(piece)
                await wait_all_tasks_blocked()
        await trio.sleep(PING_S)

        assert len(street.sockets) == 1
        assert await page.next() == Ping(payload=b"")


@pytest.mark.parametrize("said", [b"\x8a\x00", b"\x8a\xfeaaaaaa" + b"x" * 120], ids=["unmasked", "too long"])
async def test_what_only_looks_like_a_pong_is_none(said: bytes) -> None:
    async with open_page() as (_, page):
        await page.stream.send_all(said)

        assert await page.closed() == 1002


async def test_a_page_keeps_nothing_of_its_request_and_no_parser() -> None:
    async with open_page() as (street, page):
        await page.next()
        await page.stream.send_all(b"\x8a\x80aaaa")
        await wait_all_tasks_blocked()
        gc.collect()
        mine = [one for one in gc.get_objects() if isinstance(one, Request) and one.path.endswith("/feed")]
        (socket,) = next(group for group in street.sockets._groups if group)

        assert [one.headers for one in mine] == [{}]
        assert socket._parser is None


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


def test_a_plain_answer_ends_its_connection() -> None:
    data = encode_answer(Answer(404, b"{}", (("Request-Id", "req_1"), ("Connection", "keep-alive"))))
    head, _, body = data.partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 404 Not Found\r\nrequest-id: req_1\r\n")
    assert b"content-length: 2" in head
    assert b"connection: close" in head
    assert b"keep-alive" not in head
    assert b"\r\ndate: " in head
    assert body == b"{}"


def test_a_close_frame_without_a_code_is_empty() -> None:
    assert close_frame(CloseReason.NO_STATUS_RCVD) == b"\x88\x00"
    assert close_frame(1012) == b"\x88\x02\x03\xf4"
