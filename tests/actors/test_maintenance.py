"""Chores: what is forgotten is old, and nothing else is touched."""

from __future__ import annotations

import pytest
import trio

from payd.actors import maintenance
from payd.actors.clock_check import LOOKS_MIN, ClockCheck
from payd.actors.maintenance import (
    AHEAD_MAX_S,
    ANSWERS_KEPT_MS,
    DAY_MS,
    EVERY_S,
    FIRST_S,
    WATCHES_KEPT_MS,
    Maintenance,
)
from payd.clock import Clock
from payd.core.payment import PaymentCancelled
from payd.store.attempts import attempts_of
from payd.store.collected import holders_of
from payd.store.db import Database, Tx
from payd.store.deliveries import count_pending
from payd.store.endpoints import secrets_of
from payd.store.webhook_jobs import find_job, start_job
from tests.ledger import run_sql
from tests.outbox import ACCOUNT, Outbox, open_outbox
from tests.receiver import Does, always
from tests.shop import BUYER, SIGNATURE, WALLET, Shop
from tests.till import START_MS, WINDOW_MS, Till
from tests.web.asking import ANSWERS, ask_for, confirm, shown


async def test_an_idempotency_key_is_remembered_for_thirty_days_and_then_new_again(shop: Shop) -> None:
    body = {"merchantName": "A", "merchantEmail": "a@b.example"}
    first = await shop.call("POST", "/v1/merchants", body, idempotency_key="k")
    chores = Maintenance(shop.realm.db, shop.realm.clock, keep_days=30, collected_days=90)

    shop.realm.clock.move_to_offset(ANSWERS_KEPT_MS - 60_000)
    assert (await chores.run_once())["answers"] == 0
    replay = await shop.call("POST", "/v1/merchants", body, idempotency_key="k")
    assert replay.raw == first.raw

    shop.realm.clock.move_to_offset(ANSWERS_KEPT_MS + 60_000)
    assert (await chores.run_once())["answers"] >= 1
    fresh = await shop.call("POST", "/v1/merchants", body, idempotency_key="k")
    assert fresh.body["merchant"]["id"] != first.body["merchant"]["id"]


async def test_a_clock_that_is_years_ahead_when_the_machine_starts_has_nothing_forgotten(shop: Shop) -> None:
    for _ in range(2):
        await shop.pay()
    now_ms, ahead_ms = shop.realm.clock.now_ms, [3650 * DAY_MS]
    chores = Maintenance(shop.realm.db, Clock(lambda: now_ms() + ahead_ms[0]), 30, 90)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chores.run)
        await trio.sleep(FIRST_S / 2)
        ahead_ms[0] = 0
        await trio.sleep(FIRST_S)
        left = events_left(shop.realm.db)
        ahead_ms[0] = 3650 * DAY_MS
        await trio.sleep(EVERY_S)
        nursery.cancel_scope.cancel()
    assert (left, events_left(shop.realm.db)) == (2, 1)


@pytest.mark.parametrize(("ahead_s", "kept"), [(40 * DAY_MS / 1000, 2), (AHEAD_MAX_S - 1, 1), (-9999.0, 1)])
async def test_by_a_clock_that_is_ahead_as_nodes_say_nothing_is_forgotten(
    shop: Shop, ahead_s: float, kept: int
) -> None:
    for _ in range(2):
        await shop.pay()
    clock = Clock(shop.realm.clock.now_ms)
    clock.move_to_offset(40 * DAY_MS)
    check = ClockCheck(clock, [])
    for _ in range(LOOKS_MIN):
        check._settle(ahead_s)
    chores = Maintenance(shop.realm.db, clock, 30, 90, clock_check=check)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chores.run)
        await trio.sleep(FIRST_S + 1)
        assert events_left(shop.realm.db) == kept
        for _ in range(LOOKS_MIN):
            check._settle(0)
        await trio.sleep(EVERY_S)
        assert events_left(shop.realm.db) == 1, "it is right again"
        nursery.cancel_scope.cancel()


async def test_what_was_made_while_the_clock_was_years_ahead_keeps_nothing_behind_it(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk of a machine that once began in another century would fill for as long."""
    monkeypatch.setattr(maintenance, "BATCH_MAX", 2)
    ahead = f"+ {36500 * DAY_MS}"
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test")
        await outbox.register("a.test")
        for number in range(6):
            await outbox.happen()
            await outbox.drained()
            if number == 2:
                for table in ("events", "deliveries"):
                    await realm_db.write(run_sql, f"UPDATE {table} SET created_at_ms = created_at_ms {ahead}")
        age(outbox, 31)
        chores = Maintenance(realm_db, outbox.clock, keep_days=30, collected_days=90)
        pruned = await chores.run_once()

        assert (pruned["deliveries"], pruned["events"]) == (3, 2), "the newest event stays"
        assert len(outbox.rows()) == 3


def events_left(db: Database) -> int:
    (count,) = db.point(lambda tx: tx.execute("SELECT count(*) FROM events").fetchone())
    return int(count)


def age(outbox: Outbox, days: float) -> None:
    outbox.clock.move_to_offset(outbox.clock.offset_ms + round(days * DAY_MS))


async def test_deliveries_with_their_logs_and_events_are_kept_as_long_as_is_said(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test")
        await outbox.register("a.test")
        chores = Maintenance(realm_db, outbox.clock, keep_days=20, collected_days=90)
        for _ in range(3):
            await outbox.happen()
        await outbox.drained()
        [first, *_] = outbox.rows()
        age(outbox, 19.9)
        await outbox.happen()
        await outbox.drained()

        assert not any((await chores.run_once()).values())
        age(outbox, 0.2)
        pruned = await chores.run_once()

        assert (pruned["deliveries"], pruned["events"]) == (3, 3)
        assert len(outbox.rows()) == events_left(realm_db) == 1
        assert realm_db.point(attempts_of, first.id) == []
        assert len(outbox.log(outbox.rows()[0])) == 1


async def test_what_is_still_to_be_sent_is_not_forgotten(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(status=500)))
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.drained()
        # The retry that is due in 5 s, seen from a month later by somebody who prunes before it is made.
        later = type(outbox.clock)(outbox.clock.now_ms, 40 * DAY_MS)
        pruned = await Maintenance(realm_db, later, keep_days=30, collected_days=90).run_once()

        assert (pruned["deliveries"], pruned["events"]) == (0, 0)
        assert [row.state for row in outbox.rows()] == ["pending"]


async def test_a_paused_endpoint_is_owed_events_for_as_long_as_they_are_kept(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        receiver = outbox.host("a.test")
        await outbox.register("a.test")
        await outbox.switch("pause")
        await outbox.happen()
        age(outbox, 31)
        await outbox.happen()
        await Maintenance(realm_db, outbox.clock, keep_days=30, collected_days=90).run_once()
        assert realm_db.point(count_pending) == 1
        await outbox.switch("resume")
        await outbox.drained()

        assert len(receiver.received) == 1


async def test_more_than_a_batch_goes_and_what_is_young_in_between_stays(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test")
        await outbox.register("a.test")
        for _ in range(1100):
            await outbox.happen()
        await outbox.drained()
        age(outbox, 31)
        await outbox.happen()
        await outbox.drained()
        pruned = await Maintenance(realm_db, outbox.clock, keep_days=30, collected_days=90).run_once()

        assert (pruned["deliveries"], pruned["events"]) == (1100, 1100)
        assert len(outbox.rows()) == 1


async def test_a_chore_that_crashes_keeps_no_other_from_its_work(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(tx: Tx, before_ms: int, limit: int) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(maintenance, "prune_answers", crash)
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test")
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.drained()
        age(outbox, 31)
        pruned = await Maintenance(realm_db, outbox.clock, keep_days=30, collected_days=90).run_once()

    assert "answers" not in pruned
    assert pruned["deliveries"] == 1


async def test_old_jobs_and_secrets_that_ran_out_go_too(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(status=500)))
        endpoint, _ = await outbox.register("a.test")
        await outbox.happen()
        await outbox.advance(30 * 3600)
        now_ms = outbox.clock.now_ms()
        await realm_db.write(
            start_job, job_id="job_1", account_id=ACCOUNT, kind="recover", since_ms=0, now_ms=now_ms
        )
        outbox.deliveries.wake_jobs()
        await outbox.drained()
        await outbox.rotate(endpoint.id)
        assert len(realm_db.point(secrets_of, endpoint.id)) == 2
        await outbox.advance(40 * 24 * 3600)
        pruned = await Maintenance(realm_db, outbox.clock, keep_days=30, collected_days=90).run_once()

        assert (pruned["jobs"], pruned["secrets"]) == (2, 1)  # the job and the one delivery it queued
        assert realm_db.point(find_job, ACCOUNT, "job_1") is None
        assert len(realm_db.point(secrets_of, endpoint.id)) == 1


async def test_what_a_transfer_may_carry_is_known_for_thirty_days(
    realm_db: Database,
) -> None:
    till = await Till(realm_db).open()
    payment = await till.sell()
    await till.move(payment, PaymentCancelled("cancelled_by_user"))
    clock = Clock(lambda: START_MS + WINDOW_MS)
    chores = Maintenance(realm_db, clock, keep_days=30, collected_days=90)
    clock.move_to_offset(WATCHES_KEPT_MS)
    assert (await chores.run_once())["watches"] == 0
    clock.move_to_offset(WATCHES_KEPT_MS + 1)
    assert (await chores.run_once())["watches"] == 2


async def test_a_buyers_answers_are_kept_as_long_as_is_said_and_a_strangers_for_a_day(shop: Shop) -> None:
    await ask_for(shop)
    payment, stranger = await shop.pay(), f"eip155:8453:{WALLET}"
    for option in await shop.options(payment, [stranger, BUYER]):
        data = SIGNATURE if option["account"] == BUYER else "AQ=="
        await confirm(shop, payment, option["id"], ANSWERS, data)
    await trio.sleep(5)  # paid and settled: nothing more happens to it
    chores = Maintenance(shop.realm.db, shop.realm.clock, keep_days=30, collected_days=40)
    started_ms = shop.realm.clock.offset_ms

    for days, strays, of_buyers in ((0.9, 0, 0), (1.1, 1, 0), (39.9, 0, 0), (40.1, 0, 1)):
        assert len(shop.realm.db.point(holders_of, payment)) == (2 if strays or days < 1 else 1)
        shop.realm.clock.move_to_offset(started_ms + round(days * DAY_MS))
        pruned = await chores.run_once()
        assert (pruned["stray_answers"], pruned["collected"]) == (strays, of_buyers), days
    assert await shown(shop, payment) is None
