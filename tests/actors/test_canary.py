"""The canary: that it arrives proves the whole way, and that it does not is said."""

from __future__ import annotations

import pytest
import trio

from payd.actors.canary import EVERY_S, LATE_S, MISSED_MAX, Canary
from payd.core.endpoint import CANARY
from payd.entropy import system_entropy
from payd.store.db import Database
from payd.store.endpoints import endpoint_of_id
from tests.outbox import ACCOUNT, Outbox, open_outbox
from tests.receiver import Does, Receiver, always

URL = "http://own.test/canary/test"


class Nest:
    """A canary, and the door that it flies to."""

    def __init__(self, outbox: Outbox, does: Does | None = None) -> None:
        self.outbox = outbox
        self.ends: list[tuple[bool, int]] = []
        self.door: Receiver = outbox.host("own.test", always(does or Does(status=204, body=b"")))
        self.canary = Canary(
            db=outbox.db,
            clock=outbox.clock,
            seal=outbox.seal,
            entropy=system_entropy,
            wake=outbox.deliveries.wake,
            report=lambda ok, took_ms, at_s: self.ends.append((ok, took_ms)),
        )

    def receive(self) -> bool:
        """Hand what came last to the canary, as our door does."""
        received = self.door.received[-1]
        return self.canary.arrive(
            message_id=received.headers["webhook-id"],
            timestamp=received.headers["webhook-timestamp"],
            signature=received.headers["webhook-signature"],
            body=received.body,
        )

    async def deliver(self) -> None:
        """Be our door: take what comes."""
        taken = 0
        while True:
            await trio.sleep(0.01)
            if len(self.door.received) > taken:
                taken = len(self.door.received)
                assert self.receive()


async def test_one_each_minute_arrives_signed_and_leaves_one_row(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox, trio.open_nursery() as nursery:
        nest = Nest(outbox)
        nursery.start_soon(nest.canary.run, URL)
        nursery.start_soon(nest.deliver)
        await trio.sleep(3 * EVERY_S + 1)
        nursery.cancel_scope.cancel()

        assert [ok for ok, _ in nest.ends] == [True] * 4
        assert len({received.headers["webhook-id"] for received in nest.door.received}) == 4
        assert {received.headers["connection"] for received in nest.door.received} == {"close"}
        assert [row.state for row in outbox.rows(CANARY)] == ["succeeded"]
        assert outbox.rows(ACCOUNT) == []
        assert nest.canary.problems() == []
        assert outbox.deliveries.stats.ok == 0, "it is no delivery of anybody's"


async def test_one_that_does_not_come_back_is_not_sent_again_and_three_in_a_row_are_a_problem(
    realm_db: Database,
) -> None:
    async with open_outbox(realm_db) as outbox, trio.open_nursery() as nursery:
        nest = Nest(outbox, Does(status=500))
        nursery.start_soon(nest.canary.run, URL)
        await trio.sleep(2 * (EVERY_S + LATE_S) + 1)
        assert nest.canary.problems() == []
        await trio.sleep(EVERY_S + LATE_S)
        assert nest.canary.problems() == [f"the last {MISSED_MAX} webhooks to payd itself did not arrive"]
        nursery.start_soon(nest.deliver)
        await trio.sleep(2 * EVERY_S)
        nursery.cancel_scope.cancel()

        assert nest.canary.problems() == [], "it recovers by itself"
        assert {row.attempts for row in outbox.rows(CANARY)} == {1}


async def never(*_: object, **__: object) -> None:
    await trio.sleep_forever()


async def test_one_that_cannot_be_stored_in_time_is_missing_too(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_outbox(realm_db) as outbox:
        nest = Nest(outbox)
        monkeypatch.setattr(realm_db, "write", never)
        with trio.fail_after((MISSED_MAX + 1) * LATE_S):
            for _ in range(MISSED_MAX):
                assert not await nest.canary.run_once()

        assert nest.canary.problems() != []


async def test_what_is_no_canary_of_ours_is_not_taken(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox, trio.open_nursery() as nursery:
        nest, stranger = Nest(outbox), Nest(outbox)
        nursery.start_soon(nest.canary.run, URL)
        await trio.sleep(1)
        received = stranger.door.received[-1] if stranger.door.received else nest.door.received[-1]
        nest.door.received.append(received)
        parts = {
            "message_id": received.headers["webhook-id"],
            "timestamp": received.headers["webhook-timestamp"],
            "signature": received.headers["webhook-signature"],
        }

        assert not stranger.canary.arrive(**parts, body=received.body)
        assert not nest.canary.arrive(**parts, body=received.body + b" ")
        assert not nest.canary.arrive(message_id="", timestamp="", signature="", body=b"")
        assert nest.ends == []
        assert nest.canary.arrive(**parts, body=received.body)
        await trio.sleep(1)
        assert [ok for ok, _ in nest.ends] == [True]
        nursery.cancel_scope.cancel()


async def test_switched_off_it_sends_nothing_and_forgets_what_it_was_owed(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox, trio.open_nursery() as nursery:
        nest = Nest(outbox, Does(hangs=True))
        with trio.move_on_after(1):
            await nest.canary.run(URL)
        nursery.start_soon(nest.canary.run, None)
        await trio.sleep(5 * EVERY_S)
        nursery.cancel_scope.cancel()

        endpoint = realm_db.point(endpoint_of_id, CANARY)
        assert endpoint is not None
        assert endpoint.state == "disabled"
        assert len(nest.door.received) == 1
        assert "pending" not in {row.state for row in outbox.rows(CANARY)}
