"""Payments in the store: a row with its event or neither, due times, and lists by key."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from payd.core.money import AmountWire
from payd.core.payment import (
    FundsCommitted,
    Payment,
    PaymentCancelled,
    Processing,
    Success,
    Transition,
    open_payment,
    transition,
)
from payd.core.status import Status
from payd.store.db import Database, Tx
from payd.store.outbox import EventToStore
from payd.store.payments import (
    Move,
    PaymentFilter,
    TwoWriters,
    count_parked,
    decode_payment,
    due_payments,
    encode_payment,
    find_payment,
    find_payments,
    list_payments,
    next_payment_due_ms,
    park_payment,
    record_transitions,
    unpark_payments,
)
from tests.inserts import insert_payment, record_transition

USDC = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"


def payment(number: int, **more: Any) -> Payment:
    fields: dict[str, Any] = {
        "account_id": "acct_1",
        "merchant_id": "mrch_1",
        "reference_id": f"R-{number}",
        "currency": "USD",
        "value": 100,
        "created_at_ms": 1000 + number,
        "expires_at_ms": 901_000,
        "updated_at_ms": 1000,
    }
    return Payment(id=f"pay_t{number}", **fields | more)


def event(moved: Transition) -> EventToStore:
    name = f"{moved.payment.id}_{moved.payment.version}"
    return EventToStore(f"evt_{name}", b"{}", f"dlv_{name}", f"msg_{name}")


async def store(db: Database, *drafts: Payment, due_at_ms: int | None = 901_000) -> None:
    for draft in drafts:
        moved = open_payment(draft)
        await db.write(insert_payment, moved, event(moved), due_at_ms)


def funds() -> FundsCommitted:
    amount = AmountWire(f"caip19/{USDC}", "1000000")
    return FundsCommitted(Processing(2000, amount, amount, "eip155:8453:0xb", "eip155:8453"), b"hash")


async def listed(
    db: Database, after: tuple[int, int] | None = None, limit: int = 99, **chosen: Any
) -> list[str]:
    rows = await db.read(list_payments, PaymentFilter(account_id="acct_1", **chosen), after, limit)
    return [one.id for _, one in rows]


async def test_a_payment_is_found_as_it_was_stored_with_its_event(realm_db: Database) -> None:
    await store(realm_db, payment(1))
    assert realm_db.point(find_payment, "pay_t1") == payment(1)
    assert realm_db.point(find_payment, "pay_t2") is None
    rows = await realm_db.read(
        lambda tx: tx.execute("SELECT payment_id, version, type FROM events").fetchall()
    )
    assert rows == [("pay_t1", 0, "payment.created")]


async def test_several_are_found_at_once(realm_db: Database) -> None:
    for number in (1, 2, 3):
        await store(realm_db, payment(number))

    found = realm_db.point(find_payments, ["pay_t3", "pay_t9", "pay_t1"])
    assert sorted(found, key=lambda one: one.id) == [payment(1), payment(3)]
    assert realm_db.point(find_payments, []) == []


async def test_a_transition_is_stored_with_its_event(realm_db: Database) -> None:
    await store(realm_db, payment(1))
    moved = transition(payment(1), funds(), 2000)
    await realm_db.write(record_transition, moved, event(moved), 3000)
    assert realm_db.point(find_payment, "pay_t1") == moved.payment
    row = await realm_db.read(
        lambda tx: tx.execute("SELECT status, version, asset, network, due_at_ms FROM payments").fetchone()
    )
    assert row == ("processing", 1, USDC.lower(), "eip155:8453", 3000)


async def test_a_second_writer_of_a_version_is_a_bug_and_stores_nothing(realm_db: Database) -> None:
    await store(realm_db, payment(1))
    cancelled = transition(payment(1), PaymentCancelled("x"), 2000)
    await realm_db.write(record_transition, cancelled, event(cancelled), None)
    stale = transition(payment(1), funds(), 2000)
    with pytest.raises(TwoWriters):
        await realm_db.write(record_transition, stale, event(stale), None)
    assert realm_db.point(find_payment, "pay_t1") == cancelled.payment
    (events,) = await realm_db.read(lambda tx: tx.execute("SELECT count(*) FROM events").fetchone())
    assert events == 2


def stored_after(tx: Tx, *groups: list[Move]) -> list[list[tuple[Any, ...]]]:
    """All that is stored after these groups of moves, one after the other, which are taken back."""
    tx.execute("SAVEPOINT look")
    for group in groups:
        record_transitions(tx, group)
    tables = ("payments", "events", "tallies")
    found = [tx.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4").fetchall() for table in tables]
    tx.execute("ROLLBACK TO look")
    return found


async def test_transitions_of_many_are_stored_as_one_by_one(realm_db: Database) -> None:
    drafts = [payment(number, account_id=f"acct_{number % 2}", value=10**17) for number in range(40)]
    await store(realm_db, *drafts)
    moves = []
    for number, draft in enumerate(drafts):
        at_ms = 2000 + number * 60_000
        moved = transition(draft, PaymentCancelled(f"{number % 3}"), at_ms)
        if number % 5 == 0:
            after = replace(draft, status=Status.SUCCEEDED, version=1, success=Success(at_ms, None))
            moved = Transition(after, "payment.succeeded", at_ms)
        moves.append(Move(moved, event(moved), None))

    at_once = await realm_db.write(stored_after, moves)
    one_by_one = await realm_db.write(stored_after, *([move] for move in moves))

    assert at_once == one_by_one
    assert [len(rows) for rows in at_once[:2]] == [40, 80]
    ends = [row for row in at_once[2] if row[2] != "took"]
    assert sum(row[4] for row in ends) == 40
    assert sum(row[5] * 10**9 + row[6] for row in ends) == 8 * 10**17


async def test_a_second_writer_of_one_of_many_stores_none_of_them(realm_db: Database) -> None:
    await store(realm_db, payment(1), payment(2))
    cancelled, stale = (transition(payment(n), PaymentCancelled("x"), 2000) for n in (1, 2))
    await realm_db.write(record_transition, stale, event(stale), None)
    with pytest.raises(TwoWriters, match="pay_t2"):
        await realm_db.write(
            record_transitions, [Move(moved, event(moved), None) for moved in (cancelled, stale)]
        )
    assert realm_db.point(find_payment, "pay_t1") == payment(1)


async def test_what_is_due_comes_earliest_first_and_parked_ones_never(realm_db: Database) -> None:
    for number, due in ((1, 300), (2, 100), (3, 200), (4, None), (5, 50)):
        await store(realm_db, payment(number), due_at_ms=due)
    await realm_db.write(park_payment, "pay_t5", 50)
    assert await realm_db.read(due_payments, (0, ""), 200, 10) == [(100, "pay_t2"), (200, "pay_t3")]
    assert await realm_db.read(due_payments, (0, ""), 999, 2) == [(100, "pay_t2"), (200, "pay_t3")]
    assert realm_db.point(next_payment_due_ms) == 100


async def test_pages_of_what_is_due_join_to_the_whole(realm_db: Database) -> None:
    for number, due in enumerate((300, 100, 100, 100, 200)):
        await store(realm_db, payment(number), due_at_ms=due)
    whole = await realm_db.read(due_payments, (0, ""), 999, 10)
    pages, after = [], (0, "")
    while page := await realm_db.read(due_payments, after, 999, 2):
        pages += page
        after = page[-1]
    assert pages == whole
    assert len(whole) == 5


async def test_only_what_is_due_is_parked_and_what_moves_is_parked_no_more(realm_db: Database) -> None:
    await store(realm_db, payment(1), payment(2), due_at_ms=100)
    await store(realm_db, payment(3), due_at_ms=None)
    await store(realm_db, payment(4), due_at_ms=901_000)
    await realm_db.write(park_payment, "pay_t1", 100)
    assert realm_db.point(count_parked) == 1
    for number in (2, 3, 4):
        await realm_db.write(park_payment, f"pay_t{number}", 100)
    assert realm_db.point(count_parked) == 2

    moved = transition(payment(1), funds(), 2000)
    await realm_db.write(record_transition, moved, event(moved), 3000)

    assert realm_db.point(count_parked) == 1
    due = await realm_db.read(due_payments, (0, ""), 999_999, 10)
    assert due == [(3000, "pay_t1"), (901_000, "pay_t4")]

    await realm_db.write(unpark_payments)
    assert realm_db.point(count_parked) == 0
    assert realm_db.point(next_payment_due_ms) == 100


async def test_nothing_is_due_in_an_empty_store(realm_db: Database) -> None:
    assert realm_db.point(next_payment_due_ms) is None
    assert await realm_db.read(due_payments, (0, ""), 10**15, 10) == []


async def test_each_filter_narrows(realm_db: Database) -> None:
    await store(
        realm_db,
        payment(1),
        payment(2, merchant_id="mrch_2", currency="EUR"),
        payment(3, reference_id="S-1"),
        payment(4, account_id="acct_2"),
    )
    moved = transition(payment(1), funds(), 2000)
    await realm_db.write(record_transition, moved, event(moved), None)
    every = ["pay_t3", "pay_t2", "pay_t1"]
    assert await listed(realm_db) == every
    assert await listed(realm_db, start_ms=1002) == every[:2]
    assert await listed(realm_db, end_ms=1002) == every[2:]
    assert await listed(realm_db, until_seq=2) == every[1:]
    assert await listed(realm_db, statuses=("processing",)) == ["pay_t1"]
    assert await listed(realm_db, statuses=("processing", "requires_action")) == every
    assert await listed(realm_db, merchants=("mrch_2",)) == ["pay_t2"]
    assert await listed(realm_db, merchants=()) == []
    assert await listed(realm_db, asset=USDC.lower()) == ["pay_t1"]
    assert await listed(realm_db, networks=("eip155:8453", "eip155:1")) == ["pay_t1"]
    assert await listed(realm_db, currency="EUR") == ["pay_t2"]
    assert await listed(realm_db, reference_prefix="R-") == ["pay_t2", "pay_t1"]
    assert await listed(realm_db, reference_prefix="R_") == []


@pytest.mark.parametrize("sort_by", ["date", "amount"])
@pytest.mark.parametrize("descending", [True, False])
async def test_pages_by_key_join_to_the_whole(realm_db: Database, sort_by: Any, descending: bool) -> None:
    values = [5, 3, 3, 9, 3, 1, 9, 5]
    await store(realm_db, *(payment(n, value=value, created_at_ms=value) for n, value in enumerate(values)))
    chosen = {"sort_by": sort_by, "descending": descending, "currency": "USD"}
    whole = await listed(realm_db, **chosen)
    expected = sorted(range(len(values)), key=lambda n: (values[n], n), reverse=descending)
    assert whole == [f"pay_t{n}" for n in expected]
    seen: list[str] = []
    after: tuple[int, int] | None = None
    while True:
        rows = await realm_db.read(list_payments, PaymentFilter(account_id="acct_1", **chosen), after, 3)
        if not rows:
            break
        seen += [one.id for _, one in rows]
        after = (rows[-1][1].value, rows[-1][0])
    assert seen == whole


async def plan_of(db: Database, column: str, more: str) -> str:
    """How SQLite walks to a page of the list."""
    query = (
        f"EXPLAIN QUERY PLAN SELECT seq, body FROM payments WHERE account_id = ?{more}"
        f" AND ({column}, seq) < (?, ?) ORDER BY {column} DESC, seq DESC LIMIT 50"
    )
    rows = await db.read(lambda tx: tx.execute(query, ("acct_1", 1, 1)).fetchall())
    return " ".join(row[-1] for row in rows)


async def test_lists_walk_an_index(realm_db: Database) -> None:
    """No sort in memory, whatever the order: a page costs the same wherever it is."""
    for column, more in (("created_at_ms", ""), ("value", " AND currency = 'USD'")):
        words = await plan_of(realm_db, column, more)
        assert "USING INDEX payments_by" in words, words
        assert "TEMP B-TREE" not in words, words
    words = await plan_of(realm_db, "created_at_ms", " AND status = 'failed'")
    assert words.startswith("SEARCH payments USING INDEX payments_by_status (account_id=? AND status=?"), (
        words
    )
    assert "TEMP B-TREE" not in words, words


@given(st.text(st.characters(codec="utf-8")), st.integers(1, 10**18 - 1))
def test_a_body_is_decoded_as_it_was_encoded(reference: str, value: int) -> None:
    draft = payment(1, reference_id=reference, value=value)
    assert decode_payment(encode_payment(draft)) == draft
    moved = transition(draft, funds(), 1).payment
    assert decode_payment(encode_payment(moved)) == moved
