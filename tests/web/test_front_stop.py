"""How the front ends: requests finish, feeds hear when to come back, nothing outlasts the grace."""

from __future__ import annotations

import pytest
import structlog.testing
import trio
from trio.testing import wait_all_tasks_blocked

from payd.web.front import GRACE_S
from payd.web.wire import LINGER_S
from tests.web.street import PAYMENT_FEED, open_street, shrink

pytestmark = pytest.mark.usefixtures("by_both_doors")


async def test_stopping_lets_requests_finish_and_ends_the_rest_at_once() -> None:
    async with open_street() as street:
        idle, busy, page, fresh = [await street.connect() for _ in range(4)]
        await idle.get("/v1/payments/a")
        await busy.send("GET /v1/slow HTTP/1.1\r\nHost: x\r\n\r\n")
        await page.send(PAYMENT_FEED)
        socket = await page.opened()
        assert await socket.text() == '{"version":0}'
        await wait_all_tasks_blocked()
        began_s = trio.current_time()

        street.stop.set()

        assert await socket.closed() == 1012
        await page.stream.aclose()
        assert await idle.rest() == b""
        assert await fresh.rest() == b""
        assert trio.current_time() == began_s
        assert street.door.closed
        assert (await busy.answer()).status == 200
        assert await busy.rest() == b""
        assert trio.current_time() - began_s == pytest.approx(street.slow_s)


async def test_serving_returns_when_all_is_done() -> None:
    async with open_street() as street:
        busy = await street.connect()
        await busy.send("GET /v1/slow HTTP/1.1\r\nHost: x\r\n\r\n")
        await wait_all_tasks_blocked()
        street.stop.set()
        await busy.answer()
        await busy.stream.aclose()
        with trio.move_on_after(1):
            await street.returned.wait()

        assert street.returned.is_set()


async def test_who_still_takes_its_last_answer_at_stop_is_given_the_time() -> None:
    async with open_street() as street:
        taking = await street.connect()
        await taking.get("/v1/payments/closing")
        await wait_all_tasks_blocked()
        street.stop.set()
        await wait_all_tasks_blocked()
        assert len(street.front) == 1
        await street.returned.wait()
        assert trio.current_time() == pytest.approx(LINGER_S)


async def test_who_waits_for_a_place_at_stop_is_closed() -> None:
    async with open_street(connections_max=1) as street:
        page = await street.connect()
        await page.send(PAYMENT_FEED)
        await page.opened()
        waiting = await street.connect()
        await wait_all_tasks_blocked()
        street.stop.set()
        with trio.fail_after(1):
            assert await waiting.rest() == b""


async def test_a_slow_client_whose_answer_was_under_way_at_stop_is_closed_after_it() -> None:
    async with open_street() as street:
        slow = await street.connect()
        shrink(street)
        await slow.send("GET /v1/payments/a?big HTTP/1.1\r\nHost: x\r\n\r\n")
        await wait_all_tasks_blocked()
        street.stop.set()
        await wait_all_tasks_blocked()
        assert len((await slow.answer()).body) == 8 << 20
        assert await slow.rest() == b""
        assert trio.current_time() < GRACE_S


async def test_a_request_that_takes_too_long_is_cut_when_the_grace_is_over() -> None:
    async with open_street() as street:
        street.slow_s = 10 * GRACE_S
        slow, stuck = await street.connect(), await street.connect()
        await slow.send("GET /v1/slow HTTP/1.1\r\nHost: x\r\n\r\n")
        await stuck.send("GET /v1/big HTTP/1.1\r\nHost: x\r\n\r\n")
        await wait_all_tasks_blocked()
        began_s = trio.current_time()
        with structlog.testing.capture_logs() as lines:
            street.stop.set()
            assert await slow.rest() == b""

        assert trio.current_time() - began_s == pytest.approx(GRACE_S)
        assert [line["event"] for line in lines] == ["front.grace_over"]
        await wait_all_tasks_blocked()
        assert len(street.front) == 0


async def test_cancellation_ends_everything_at_once_even_a_stuck_send() -> None:
    async with open_street() as street:
        stuck = await street.connect()
        await stuck.send("GET /v1/big HTTP/1.1\r\nHost: x\r\n\r\n")
        page = await street.connect()
        await page.send(PAYMENT_FEED)
        await wait_all_tasks_blocked()
        began_s = trio.current_time()
        street.serving.cancel()
        await street.returned.wait()

        assert trio.current_time() == began_s
        assert len(street.front) == 0
