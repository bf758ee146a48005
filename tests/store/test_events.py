"""Events as they are stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from itertools import product

import pytest

from payd.core.payment import transition
from payd.store.db import Database, Tx
from payd.store.events import (
    FEW,
    SET_BACK_MAX_MS,
    cursor_before,
    events_after,
    get_event,
    insert_events,
    list_events,
    seq_in_history,
    sold_few,
)
from tests.inserts import record_transition
from tests.store.test_payments import event, funds, payment, store


async def happen(
    db: Database,
    number: int,
    *,
    account_id: str = "acct_1",
    payment_id: str = "pay_1",
    at_ms: int | None = None,
) -> int:
    event_type = "payment.created" if number == 0 else "payment.processing"
    created_at_ms = number if at_ms is None else at_ms
    row = (f"evt_{number}", account_id, payment_id, number, event_type, created_at_ms, b"{%d}" % number)
    return (await db.write(insert_events, [row]))[0]


async def test_events_come_newest_first_or_behind_a_cursor(realm_db: Database) -> None:
    seqs = [await happen(realm_db, number) for number in range(4)]
    await happen(realm_db, 9, account_id="acct_2", payment_id="pay_2")
    newest = realm_db.point(lambda tx: list_events(tx, "acct_1", limit=2))
    older = realm_db.point(lambda tx: list_events(tx, "acct_1", before_seq=newest[-1].seq, limit=2))
    behind = realm_db.point(events_after, "acct_1", seqs[1], 10)

    assert [row.version for row in newest + older] == [3, 2, 1, 0]
    assert [row.version for row in behind] == [2, 3]
    assert behind[0].body == b"{2}"


@pytest.mark.parametrize("few", [FEW, 1], ids=["few are sold", "many are sold"])
async def test_a_page_has_what_was_asked_for_and_all_of_it(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """Whichever way it is found."""
    monkeypatch.setattr("payd.store.events.FEW", few)
    sold = {"pay_t1": ("acct_1", "mrch_1"), "pay_t2": ("acct_1", "mrch_2"), "pay_t3": ("acct_1", "mrch_1")}
    sold |= {"pay_t4": ("acct_2", "mrch_4")}
    for number, (account_id, merchant_id) in enumerate(sold.values(), start=1):
        draft = payment(number, account_id=account_id, merchant_id=merchant_id)
        await store(realm_db, draft)
        moved = transition(draft, funds(), 6000)
        await realm_db.write(record_transition, moved, event(moved), None)
    every = realm_db.point(lambda tx: list_events(tx, "acct_1", limit=99))
    assert [row.payment_id for row in every] == ["pay_t3", "pay_t3", "pay_t2", "pay_t2", "pay_t1", "pay_t1"]

    for event_type, payment_id, merchants, before in product(
        (None, "payment.created", "payment.failed"),
        (None, "pay_t1", "pay_t2", "pay_t4"),
        (None, (), ("mrch_1",), ("mrch_2", "mrch_1"), ("mrch_4",)),
        (None, every[2].seq),
    ):
        found = realm_db.point(
            partial(
                list_events,
                account_id="acct_1",
                event_type=event_type,
                payment_id=payment_id,
                merchants=merchants,
                before_seq=before,
                limit=2,
            )
        )
        wanted = [
            row
            for row in every
            if event_type in {None, row.type}
            and payment_id in {None, row.payment_id}
            and (merchants is None or sold[row.payment_id][1] in merchants)
            and (before is None or row.seq < before)
        ]
        assert found == wanted[:2], (event_type, payment_id, merchants, before)


async def test_who_sold_few_payments_is_told_from_who_sold_many(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payd.store.events.FEW", 2)
    await store(realm_db, payment(1), payment(2, merchant_id="mrch_2"))

    assert [realm_db.point(sold_few, of) for of in ({"mrch_1"}, {"mrch_1", "mrch_2"})] == [True, False]


async def test_an_event_is_found_by_its_own_account_only(realm_db: Database) -> None:
    await happen(realm_db, 0)

    found = realm_db.point(get_event, "acct_1", "evt_0")
    assert found is not None
    assert found.type == "payment.created"
    assert realm_db.point(get_event, "acct_2", "evt_0") is None


async def test_a_version_of_a_payment_has_one_event(realm_db: Database) -> None:
    await happen(realm_db, 0)
    with pytest.raises(sqlite3.IntegrityError):
        await realm_db.write(insert_events, [("evt_x", "acct_1", "pay_1", 0, "payment.created", 0, b"")])


def plan_of(db: Database, query: Callable[[Tx], object]) -> str:
    """How SQLite goes about the last statement of a query."""

    def explained(tx: Tx) -> str:
        seen: list[str] = []
        tx.set_trace_callback(seen.append)
        query(tx)
        tx.set_trace_callback(None)
        return " / ".join(row[3] for row in tx.execute(f"EXPLAIN QUERY PLAN {seen[-1]}"))

    return db.point(explained)


async def test_a_page_of_one_type_is_read_from_an_index_in_its_order(realm_db: Database) -> None:
    plan = plan_of(realm_db, lambda tx: list_events(tx, "acct_1", event_type="payment.failed", limit=9))

    assert plan == "SEARCH events USING INDEX events_by_type (account_id=? AND type=? AND seq<?)"


async def test_the_cursor_before_a_time_has_all_since_behind_it_and_nothing_older(realm_db: Database) -> None:
    times = [10, 10, 20, 30, 30, 50]
    for number, at_ms in enumerate(times):
        await happen(realm_db, 2 * number, at_ms=at_ms)
        await happen(realm_db, 2 * number + 1, at_ms=5, account_id="acct_2", payment_id="pay_2")

    for at_ms in range(0, 60, 5):
        cursor = realm_db.point(cursor_before, "acct_1", at_ms)
        behind = realm_db.point(events_after, "acct_1", cursor, 10)
        assert [row.created_at_ms for row in behind] == [time for time in times if time >= at_ms]
    assert realm_db.point(cursor_before, "acct_3", 0) == 0


async def test_an_event_of_another_history_is_gone_on_from_where_the_two_parted(realm_db: Database) -> None:
    for number, spans in enumerate((0, 1, 10, 11)):
        await happen(realm_db, number, at_ms=spans * SET_BACK_MAX_MS)

    def at(seq: int, at_ms: int, start_seq: int) -> int:
        return realm_db.point(seq_in_history, "acct_1", seq, at_ms, start_seq)

    assert at(3, 10 * SET_BACK_MAX_MS, 4) == 3, "it is there"
    assert at(3, 3 * SET_BACK_MAX_MS, 4) == 2, "lost ones of a time before its third and fourth"
    assert at(9, 3 * SET_BACK_MAX_MS, 4) == 2
    assert at(1, 3 * SET_BACK_MAX_MS, 4) == 1, "an event that age took away is behind nobody"
    assert at(9, 10 * SET_BACK_MAX_MS + 1, 4) == 2, "a clock set back gives later ones earlier times"
    assert at(9, 99 * SET_BACK_MAX_MS, 1) == 1, "what a clock says that was moved on is not believed alone"
