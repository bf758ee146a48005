"""What goes wrong with one payment again and again: later and later, counted in a row, and given up once."""

from __future__ import annotations

import sqlite3

import pytest
import trio
from structlog.testing import capture_logs

from payd.actors.tending import CRASHES_MAX, LOOK_DEADLINE_S, STORE_RETRY_MS
from payd.chains.base import Found
from payd.core.errors import InternalError, OutcomeUnknown, StoreUnavailable
from payd.core.payment import FundsCommitted, Payment, TransferConfirmed
from payd.core.relay import RelayJob
from payd.store.db import Database
from payd.store.payments import park_payment
from payd.store.relays import insert_job
from payd.store.transfers import Follow
from tests.actors.test_tending import awaits, committed
from tests.actors.windows import ASSET, CHAIN, processing_of, sighting, watched
from tests.shop import BUYER, Shop


class Looks:
    """A chain's looks, as a test wants them.

    Attributes:
        at_s: When each began.
        hangs: Whether they never end.
        stumbles: Whether each crashes.
        crash: By what.
    """

    def __init__(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at_s: list[float] = []
        self.hangs = self.stumbles = False
        self.crash: Exception = ZeroDivisionError()
        [chain] = shop.realm.payments.chains
        monkeypatch.setattr(chain, "has_nodes", True)
        monkeypatch.setattr(chain, "look", self.look)

    async def look(self, payment: Payment, now_ms: int) -> None:
        self.at_s.append(trio.current_time())
        if self.hangs:
            await trio.sleep_forever()
        if self.stumbles:
            raise self.crash

    def waits_s(self) -> list[int]:
        """How long after each the next one began."""
        return [round(after - before) for before, after in zip(self.at_s, self.at_s[1:], strict=False)]


async def hear(shop: Shop, payment_id: str, times: int) -> None:
    for _ in range(times):
        await shop.realm.payments.tending.news(payment_id, CHAIN)


async def test_who_crashes_again_and_again_comes_back_later_and_later(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(shop, monkeypatch)
    looks.stumbles = True
    await committed(shop)
    await trio.sleep(600)

    assert looks.waits_s() == [1, 2, 4, 8]
    assert shop.realm.payments.parked == 1


async def test_crashes_that_are_not_in_a_row_park_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await committed(shop)
    looks = Looks(shop, monkeypatch)
    await trio.sleep(2)
    for _ in range(3):
        looks.stumbles = True
        await hear(shop, payment_id, CRASHES_MAX - 1)
        looks.stumbles = False
        await hear(shop, payment_id, 1)

    assert shop.realm.payments.parked == 0


async def test_who_was_parked_and_moved_since_may_crash_as_often_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await committed(shop)
    looks = Looks(shop, monkeypatch)
    looks.stumbles = True
    await trio.sleep(30)
    assert shop.realm.payments.parked == 1
    await shop.call("POST", f"/v1/test/payments/{payment_id}/simulate", {"to": "succeeded"})
    await trio.sleep(10)
    assert shop.realm.payments.parked == 0

    await trio.sleep(20)
    assert shop.realm.payments.parked == 1


async def test_looks_that_end_at_no_time_come_back_later_and_later_until_one_does(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await committed(shop)
    looks = Looks(shop, monkeypatch)
    looks.hangs = True
    await trio.sleep(4 * LOOK_DEADLINE_S)
    assert looks.waits_s() == [LOOK_DEADLINE_S + after for after in (1, 2, 4)]
    looks.hangs = False
    await trio.sleep(3 * LOOK_DEADLINE_S)

    looks.at_s.clear()
    looks.hangs = True
    await hear(shop, payment_id, 1)
    await trio.sleep(2)
    assert looks.waits_s() == [LOOK_DEADLINE_S + 1]


async def test_who_waits_for_a_first_look_does_not_wait_for_second_ones(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(shop, monkeypatch)
    looks.hangs = True
    shop.realm.payments.tending._looks.total_tokens = 2
    payments = [await committed(shop) for _ in range(5)]
    await trio.sleep(1 + 2 * LOOK_DEADLINE_S + 0.5)

    assert len(looks.at_s) == len(payments), "no one has had two"
    await trio.sleep(1)
    assert len(looks.at_s) > len(payments), "nobody waits any more"


async def test_a_chain_that_is_slow_to_say_whether_a_payment_is_settled_is_not_called_gone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await committed(shop)
    looks = Looks(shop, monkeypatch)
    # As of a live chain, whose watcher tells when it is time.
    monkeypatch.setattr(shop.realm.payments.chains[0], "due_at_ms", lambda payment: None)
    looks.hangs = True
    with capture_logs() as logs:
        await hear(shop, payment_id, 1)
        await trio.sleep(10)

    assert [line["event"] for line in logs] == ["payment.look_timed_out"]


async def test_a_store_that_breaks_under_the_parking_stops_nobody(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await committed(shop)
    looks, db = Looks(shop, monkeypatch), shop.realm.db
    await trio.sleep(2)
    looks.stumbles = True
    write = db.write

    async def breaks(step: object, *args: object) -> object:
        if step is park_payment:
            raise InternalError("The store is broken.")
        return await write(step, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(db, "write", breaks)
    await hear(shop, payment_id, CRASHES_MAX)
    assert shop.realm.payments.parked == 0

    monkeypatch.undo()
    await trio.sleep(30)
    assert await shop.status(payment_id) == "succeeded"


@pytest.mark.parametrize(
    ("trouble", "is_healthy"),
    [
        (StoreUnavailable("It is full."), True),
        (OutcomeUnknown("Nobody knows."), True),
        (sqlite3.OperationalError("disk I/O error"), False),
    ],
)
async def test_a_store_in_trouble_parks_nobody_however_often(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, trouble: Exception, is_healthy: bool
) -> None:
    payment_id = await committed(shop)
    looks = Looks(shop, monkeypatch)
    monkeypatch.setattr(Database, "healthy", is_healthy)
    await trio.sleep(2)
    looks.stumbles, looks.crash = True, trouble
    await hear(shop, payment_id, 2 * CRASHES_MAX)
    assert shop.realm.payments.parked == 0

    monkeypatch.undo()
    await trio.sleep(STORE_RETRY_MS / 1000 + 1)
    assert await shop.status(payment_id) == "succeeded"


async def test_after_a_commit_in_doubt_what_is_stored_is_looked_after_at_its_time(shop: Shop) -> None:
    payments = shop.realm.payments
    payment_id = await shop.pay(expiresAt=payments.clock.now_ms() // 1000 + 20)
    payments.tending.deadlines._heap.clear()  # as if it were stored, and nobody had been told
    payments._reload()
    await trio.sleep(21)

    assert await shop.status(payment_id) == "expired"


async def test_whose_time_has_not_come_is_left_alone_until_then(shop: Shop) -> None:
    payment_id = await shop.pay()
    payments = shop.realm.payments
    payments.tending.deadlines.add(payment_id, payments.clock.now_ms())
    await trio.sleep(899)
    assert await shop.status(payment_id) == "requires_action"
    await trio.sleep(2)
    assert await shop.status(payment_id) == "expired"


async def test_what_a_look_found_is_not_kept_of_a_payment_that_has_moved_since(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await committed(shop)
    await shop.realm.db.write(sighting(payment_id, "0xaa"))

    async def look(payment: Payment, now_ms: int) -> Found:
        await shop.realm.payments.ask(payment_id, lambda actor: actor.move(TransferConfirmed("0x1")))
        return Found(None, follow=Follow(CHAIN, "0x1", "0xaa", "depth", 9))

    monkeypatch.setattr(shop.realm.payments.chains[0], "look", look)
    await hear(shop, payment_id, 1)

    assert shop.realm.db.point(awaits, payment_id) == ("depth", 5)


async def test_what_payd_brings_itself_is_looked_after_before_its_window_was_read(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await watched(shop)
    monkeypatch.setattr(shop.realm.payments.chains[0], "read_until_ms", {CHAIN: 0}.get)
    looks, processing = Looks(shop, monkeypatch), processing_of(shop, payment_id)
    job = RelayJob(CHAIN, BUYER, ASSET, b"call", shop.realm.payments.find(payment_id).expires_at_ms // 1000)
    await shop.realm.db.write(insert_job, payment_id, job, 0)
    await shop.realm.payments.ask(
        payment_id, lambda actor: actor.move(FundsCommitted(processing, b"results"))
    )
    await trio.sleep(10)

    assert looks.at_s
