"""The front and clients that leave, or that say no more and wait for their answer."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from payd.web.wire import LAST_WORD_S
from tests.web.street import open_street

pytestmark = pytest.mark.usefixtures("by_both_doors")


@pytest.mark.parametrize(
    "sent", ["", "GET /v1", "GET /v1/payments/pay_t1/f", "GET /v1/slow HTTP/1.1\r\nHost: x\r\n\r\n"]
)
async def test_a_connection_whose_client_left_is_not_kept(sent: str) -> None:
    async with open_street() as street:
        client = await street.connect()
        await client.send(sent)
        await wait_all_tasks_blocked()
        await client.stream.aclose()
        await trio.sleep(LAST_WORD_S if street.requests else 0)
        await wait_all_tasks_blocked()

        assert len(street.front) == 0
        assert street.front.caught == 0


@pytest.mark.parametrize("path", ["/v1/slow", "/v1/payments/a", "/elsewhere"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_client_that_says_no_more_gets_its_answer(path: str, version: str) -> None:
    async with open_street() as street:
        street.slow_s = LAST_WORD_S / 2
        client = await street.connect()
        await client.send(f"GET {path} HTTP/{version}\r\nHost: x\r\n\r\n")
        await client.stream.send_eof()

        assert path.encode() in (await client.answer()).body
        assert await client.rest() == b""
        await wait_all_tasks_blocked()
        assert len(street.front) == 0


async def test_a_used_connection_whose_client_left_is_not_kept() -> None:
    async with open_street() as street:
        for _ in range(20):  # in whatever order the tasks run
            client = await street.connect()
            await client.get("/v1/payments/a")
            await client.stream.aclose()
        await wait_all_tasks_blocked()

        assert len(street.front) == 0
