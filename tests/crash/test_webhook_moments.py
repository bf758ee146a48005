"""kill -9 at the moments that matter to a delivery, chosen by the receiver: it is what kills the server.

Source: SPEC.md, "Delivery rules"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from standardwebhooks import Webhook

from tests.crash.aftermath import come_to_rest
from tests.crash.client import Client
from tests.crash.hook import Hook, Receipt
from tests.crash.process import Furnished, Server, furnish
from tests.crash.rows import read_rows
from tests.receiver import Does

pytestmark = [pytest.mark.crash, pytest.mark.real_time]

ATTEMPTS_MAX: Final = 8
IN_FLIGHT_MAX: Final = 10
FIRST_STEP_MS: Final = 5000
ROUNDING_MS: Final = 2
# A start of the server on a machine that does other things too.
START_MAX_MS: Final = 10_000
LOOK_MAX_S: Final = 20
LOOK_S: Final = 0.005


@dataclass
class Till:
    """A server that sells, and the receiver of its webhooks, which may kill it."""

    server: Server
    hook: Hook
    at: Furnished

    @property
    def database(self) -> Path:
        return self.at.folder / "data" / "test.db"

    async def sell(self) -> str:
        """Create a payment, whose one event is owed from then on; its id."""
        body = {"referenceId": "order", "amount": {"unit": "iso4217/USD", "value": "1250"}}
        async with Client(self.server.port) as client:
            made = await client.ask("POST", "/v1/payments", body, self.at.headers)
        assert made.status == 201, made.raw
        return str(made.body["paymentId"])

    async def advance(self, by: str) -> None:
        """Move the clock, and return when what was due on the way is done."""
        async with Client(self.server.port) as client:
            await come_to_rest(client, self.at, by)

    def die(self) -> None:
        """Kill the server, now and not a moment later."""
        os.kill(self.server.pid, signal.SIGKILL)

    async def live_again(self) -> None:
        """Start the server, which is dead or dies now."""
        await self.server.kill()
        self.hook.life += 1
        await self.server.start()

    async def received(self, number: int) -> Receipt:
        """The receipt of this number, from 1, once it is there."""
        with trio.fail_after(LOOK_MAX_S):
            await self.hook.count(number)
        return self.hook.receipts[number - 1]

    async def shown(self, question: Callable[[list[dict[str, Any]]], object]) -> None:
        """Return once the deliveries that the API shows are as asked: the server decides when."""
        async with Client(self.server.port) as client:
            with trio.fail_after(LOOK_MAX_S):
                while True:
                    page = await client.ask("GET", "/v1/webhooks/deliveries", None, self.at.headers)
                    if question(page.body["data"]):
                        return
                    await trio.sleep(LOOK_S)

    def delivery(self) -> dict[str, Any]:
        """The only delivery, as stored."""
        (row,) = read_rows(self.database).deliveries
        return row

    def recorded(self) -> list[int]:
        """The statuses of the attempts that were recorded."""
        return [row["status"] for row in read_rows(self.database).attempts]

    def assert_one_message(self) -> None:
        """All that was received is one message: the same id, the same bytes, each time well signed."""
        event = read_rows(self.database).events[0]
        for receipt in self.hook.receipts:
            assert receipt.message_id == self.delivery()["message_id"]
            assert receipt.body == bytes(event["body"])
            Webhook(self.at.secret).verify(receipt.body, receipt.headers)


async def until(question: Callable[[], object]) -> None:
    """Return once it is true: the server decides when."""
    with trio.fail_after(LOOK_MAX_S):
        while not question():
            await trio.sleep(LOOK_S)


def all_succeeded(deliveries: list[dict[str, Any]]) -> bool:
    """Whether nothing is owed any more."""
    return {delivery["state"] for delivery in deliveries} == {"succeeded"}


@pytest.fixture
async def till(tmp_path: Path) -> AsyncIterator[Till]:
    """A server that answers, with an endpoint that does and that wants one event of each payment."""
    async with trio.open_nursery() as nursery:
        hook = Hook(nursery)
        port = await hook.listen()
        at = await furnish(tmp_path, f"http://127.0.0.1:{port}/hook")
        server = Server(tmp_path)
        try:
            await server.start()
            async with Client(server.port) as client:
                wanted = {"url": f"http://127.0.0.1:{port}/hook", "events": ["payment.created"]}
                changed = await client.ask("PUT", "/v1/webhooks/endpoint", wanted, at.headers)
                assert changed.status == 200, changed.raw
            yield Till(server, hook, at)
            assert server.complaints() == []
        finally:
            await server.put_away()
            nursery.cancel_scope.cancel()


async def test_deaths_while_the_receiver_holds_the_request_cost_no_attempt(till: Till) -> None:
    def kill(_: Receipt) -> Does:
        till.die()
        return Does(hangs=True)

    till.hook.decide = kill
    await till.sell()
    for deaths in range(1, ATTEMPTS_MAX + 1):
        await till.received(deaths)
        await till.server.kill()
        if deaths < ATTEMPTS_MAX:
            # It sends what is due before it is ready, and dies of it.
            await till.server.spawn()
    till.hook.decide = lambda _: Does(status=500)
    await till.server.start()
    await till.received(ATTEMPTS_MAX + 1)
    await till.advance("18h")
    assert (till.delivery()["state"], till.delivery()["attempts"]) == ("pending", ATTEMPTS_MAX - 1)
    await till.advance("20h")
    assert (till.delivery()["state"], till.delivery()["attempts"]) == ("failed", ATTEMPTS_MAX)
    assert till.recorded() == [500] * ATTEMPTS_MAX
    assert len(till.hook.receipts) == ATTEMPTS_MAX + ATTEMPTS_MAX
    till.assert_one_message()


@pytest.mark.alike
@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_that_the_server_did_not_live_to_read_counts_for_nothing(
    till: Till, status: int
) -> None:
    def stop(_: Receipt) -> Does:
        os.kill(till.server.pid, signal.SIGSTOP)
        return Does(status=status)

    till.hook.decide = stop
    await till.sell()
    first = await till.received(1)
    await until(lambda: first.answered)
    await assert_it_comes_again_as_if_new(till)


@pytest.mark.alike
@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_that_was_read_and_not_recorded_counts_for_nothing(till: Till, status: int) -> None:
    lock = sqlite3.connect(till.database, isolation_level=None)

    def stop_writing(_: Receipt) -> Does:
        lock.execute("BEGIN IMMEDIATE")
        return Does(status=status, closes=True)

    till.hook.decide = stop_writing
    await till.sell()
    first = await till.received(1)
    await until(lambda: first.was_read)
    till.die()
    await until(lambda: not Path(f"/proc/{till.server.pid}/exe").exists())
    lock.execute("ROLLBACK")
    try:
        await assert_it_comes_again_as_if_new(till)
    finally:
        # Not before: the last one to close a database tidies up, and nobody did so for the server.
        lock.close()


async def assert_it_comes_again_as_if_new(till: Till) -> None:
    """Kill the server, and see the delivery again, the same, with an attempt that is its first."""
    till.hook.decide = lambda _: Does()
    await till.live_again()
    await till.received(2)
    await till.shown(all_succeeded)
    assert till.delivery()["attempts"] == 1
    assert till.recorded() == [200]
    assert len(till.hook.receipts) == 2
    till.assert_one_message()


async def test_an_answer_that_was_recorded_is_not_asked_for_again(till: Till) -> None:
    await till.sell()
    first = await till.received(1)
    await till.shown(all_succeeded)
    await till.live_again()
    await till.sell()
    second = await till.received(2)
    await till.advance("1h")
    about = [receipt.message_id for receipt in till.hook.receipts]
    assert about[:2] == [first.message_id, second.message_id]
    assert about.count(first.message_id) == 1


async def test_a_death_between_two_attempts_does_not_shorten_the_wait(till: Till) -> None:
    till.hook.decide = lambda _: Does(status=500)
    await till.sell()
    first = await till.received(1)
    await till.shown(lambda deliveries: deliveries[0]["attempts"] == 1)
    await till.live_again()
    second = await till.received(2)
    assert first.done_at_ms is not None
    pause_ms = second.at_ms - first.done_at_ms
    assert FIRST_STEP_MS - ROUNDING_MS <= pause_ms < FIRST_STEP_MS + START_MAX_MS
    await till.shown(lambda deliveries: deliveries[0]["attempts"] == 2)
    await till.advance("280s")
    await till.live_again()
    await till.advance("5s")
    assert len(till.hook.receipts) == 2
    await till.live_again()
    await till.advance("15s")
    await till.shown(lambda deliveries: deliveries[0]["attempts"] == 3)
    till.assert_one_message()


async def test_what_was_in_flight_together_comes_again_once_each(till: Till) -> None:
    till.hook.decide = lambda _: Does(hangs=True)
    waiting = 3
    for _ in range(IN_FLIGHT_MAX + waiting):
        await till.sell()
    await till.received(IN_FLIGHT_MAX)
    till.die()
    till.hook.decide = lambda _: Does()
    await till.live_again()
    await till.received(2 * IN_FLIGHT_MAX + waiting)
    await till.shown(all_succeeded)
    times = Counter(receipt.message_id for receipt in till.hook.receipts)
    assert Counter(times.values()) == {2: IN_FLIGHT_MAX, 1: waiting}
    lives = {receipt.message_id: receipt.life for receipt in till.hook.receipts if receipt.answered == 200}
    assert lives.keys() == times.keys()
    assert set(lives.values()) == {1}
