"""New payments: many at once are as they would be one by one, and what cannot be paid harms no other."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from typing import Any

import outcome
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payd.core.errors import IdempotencyConflict, InvalidParams, NotFound
from payd.core.payment import open_payment
from payd.store.creations import Created, Creation, create_payments, insert_payments
from payd.store.db import Database, Tx
from payd.store.idempotency import IdempotentRequest, Outcome, find_replay
from payd.store.migrate import bring_up_to_date
from payd.store.payments import Move, find_payment
from tests.store.test_payments import event, payment

MERCHANTS = ("active", "inactive", "suspended", "empty")


def open_shops(tx: Tx) -> None:
    """A merchant of each kind, and an endpoint that wants the first events of payments."""
    for name in MERCHANTS:
        tx.execute(
            "INSERT INTO merchants (id, account_id, name, email, status, created_at_ms)"
            " VALUES (?, 'acct_1', ?, 'a@shop.test', ?, 0)",
            (f"mrch_{name}", name, "active" if name == "empty" else name),
        )
        if name != "empty":
            tx.execute(
                "INSERT INTO settlements (id, merchant_id, asset, asset_key, destination, created_at_ms,"
                " updated_at_ms) VALUES (?, ?, 'a', 'a', 'x', 0, 0)",
                (f"crypto_{name}", f"mrch_{name}"),
            )
    tx.execute(
        "INSERT INTO endpoints (id, account_id, url, events, state, created_at_ms, updated_at_ms)"
        " VALUES ('end_1', 'acct_1', 'https://a.test/', 'payment.created', 'enabled', 0, 0)"
    )


@pytest.fixture
async def shop_db(realm_db: Database) -> Database:
    """A realm with these shops."""
    await realm_db.write(open_shops)
    return realm_db


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """The same on a plain connection, where what each example writes is taken back."""
    path = tmp_path_factory.mktemp("shops") / "realm.db"
    bring_up_to_date(path, "realm")
    with closing(sqlite3.connect(path, isolation_level=None)) as tx:
        open_shops(tx)
        yield tx


def creation(number: int, merchant: str = "active", **more: Any) -> Move:
    moved = open_payment(payment(number, **{"merchant_id": f"mrch_{merchant}"} | more))
    return Move(moved, event(moved), 901_000)


def asks(number: int, merchant: str = "active", *, key: int = 0, body: bytes = b"f", **more: Any) -> Creation:
    """A request for a payment, under a key where there is one."""
    request = IdempotentRequest(
        more.get("account_id", "acct_1"), bytes([key]) * 32, body * 32, f"req_{number}", 901_000
    )
    return Creation(
        creation(number, merchant, **more), Outcome(201, b"answer %d" % number), request if key else None
    )


def made(number: int, endpoint_id: str | None = "end_1") -> outcome.Value[Created]:
    return outcome.Value(Created(Outcome(201, b"answer %d" % number), endpoint_id))


def replayed(number: int) -> outcome.Value[Created]:
    return outcome.Value(Created(Outcome(201, b"answer %d" % number, f"req_{number}"), None))


async def stored_ids(db: Database) -> list[str]:
    payments, events, _ = await db.read(written)
    assert [row[3] for row in events] == [row[1] for row in payments]
    return [row[1] for row in payments]


def written(tx: Tx) -> list[list[tuple[Any, ...]]]:
    """All rows of the three tables, in the order in which they came."""
    return [
        tx.execute(f"SELECT * FROM {table} ORDER BY seq").fetchall()
        for table in ("payments", "events", "deliveries")
    ]


def write_and_take_back(tx: Tx, *groups: list[Move]) -> list[list[tuple[Any, ...]]]:
    """What is written of these groups, one after the other."""
    tx.execute("SAVEPOINT look")
    for group in groups:
        insert_payments(tx, group)
    found = written(tx)
    tx.execute("ROLLBACK TO look")
    return found


async def test_many_at_once_are_stored_as_one_by_one(shop_db: Database) -> None:
    new = [creation(number) for number in range(70)]

    at_once = await shop_db.write(write_and_take_back, new)
    one_by_one = await shop_db.write(write_and_take_back, *([one] for one in new))

    assert at_once == one_by_one
    assert [len(rows) for rows in at_once] == [70, 70, 70]


async def test_each_delivery_is_of_the_event_of_its_payment(shop_db: Database) -> None:
    await shop_db.write(insert_payments, [creation(number) for number in range(9)])
    rows = await shop_db.read(
        lambda tx: tx.execute(
            "SELECT d.id, d.payment_id, e.payment_id, p.id FROM deliveries d JOIN events e"
            " ON e.seq = d.event_seq JOIN payments p ON p.id = e.payment_id ORDER BY d.seq"
        ).fetchall()
    )
    assert rows == [(f"dlv_pay_t{n}_0", *[f"pay_t{n}"] * 3) for n in range(9)]


async def test_who_cannot_be_paid_is_told_so_and_the_others_are_stored(shop_db: Database) -> None:
    asked = [
        asks(1),
        asks(2, "inactive"),
        asks(3, "empty"),
        asks(4, "gone"),
        asks(5, account_id="acct_2"),
        asks(6),
        asks(7, "empty"),
    ]

    ends = await shop_db.write(create_payments, asked)

    assert [ends[0], ends[5]] == [made(1), made(6)]
    errors = [end.error for end in ends if isinstance(end, outcome.Error)]
    assert [type(error) for error in errors] == [
        InvalidParams, InvalidParams, NotFound, NotFound, InvalidParams,
    ]  # fmt: skip
    assert "inactive" in str(errors[0])
    assert "/v1/merchants/mrch_empty/settlements/crypto" in str(errors[1])
    assert errors[1] is not errors[4], "a traceback belongs to one waiter"
    rows = await shop_db.read(written)
    assert [row[1] for row in rows[0]] == ["pay_t1", "pay_t6"]
    assert [len(table) for table in rows] == [2, 2, 2]


async def test_where_nobody_can_be_paid_nothing_is_written(shop_db: Database) -> None:
    (end,) = await shop_db.write(create_payments, [asks(1, "suspended", key=1)])
    assert isinstance(end, outcome.Error)
    assert await shop_db.read(written) == [[], [], []]
    assert shop_db.point(find_replay, asks(1, key=1).request) is None


async def test_of_many_under_one_key_the_first_makes_a_payment(shop_db: Database) -> None:
    asked = [asks(1, key=1), asks(2, key=2), asks(3, key=1), asks(4), asks(5, key=1), asks(6)]

    ends = await shop_db.write(create_payments, asked)

    assert ends == [made(1), made(2), replayed(1), made(4), replayed(1), made(6)]
    assert await stored_ids(shop_db) == ["pay_t1", "pay_t2", "pay_t4", "pay_t6"]


async def test_a_key_is_found_again_in_a_later_step(shop_db: Database) -> None:
    await shop_db.write(create_payments, [asks(1, key=1), asks(2, key=2)])

    ends = await shop_db.write(create_payments, [asks(3, key=2), asks(4, key=3), asks(5, key=1)])

    assert ends == [replayed(2), made(4), replayed(1)]
    assert await stored_ids(shop_db) == ["pay_t1", "pay_t2", "pay_t4"]
    assert shop_db.point(find_replay, asks(9, key=3).request) == Outcome(201, b"answer 4", "req_4")


async def test_where_all_are_repeated_nothing_is_written(shop_db: Database) -> None:
    await shop_db.write(create_payments, [asks(1, key=1)])
    assert await shop_db.write(create_payments, [asks(2, key=1), asks(3, key=1)]) == [replayed(1)] * 2
    assert await stored_ids(shop_db) == ["pay_t1"]


async def test_a_repeated_request_is_answered_whatever_became_of_its_merchant(shop_db: Database) -> None:
    await shop_db.write(create_payments, [asks(1, key=1)])
    await shop_db.write(lambda tx: tx.execute("UPDATE merchants SET status = 'inactive'"))

    again, fresh = await shop_db.write(create_payments, [asks(2, key=1), asks(3, key=2)])

    assert again == replayed(1)
    with pytest.raises(InvalidParams, match="only an active merchant"):
        fresh.unwrap()


async def test_another_body_under_a_key_is_a_conflict_now_and_later(shop_db: Database) -> None:
    for number in (1, 4):
        ends = await shop_db.write(
            create_payments, [asks(number, key=1), asks(number + 1, key=1, body=b"g"), asks(number + 2)]
        )
        assert [type(end) for end in ends] == [outcome.Value, outcome.Error, outcome.Value]
        with pytest.raises(IdempotencyConflict):
            ends[1].unwrap()
    assert await stored_ids(shop_db) == ["pay_t1", "pay_t3", "pay_t6"]


async def test_a_refused_request_leaves_its_key_to_the_next(shop_db: Database) -> None:
    asked = [asks(1, "empty", key=1), asks(2, key=1), asks(3, key=1, body=b"g"), asks(4, key=1)]

    ends = await shop_db.write(create_payments, asked)

    assert [type(end) for end in ends] == [outcome.Error, outcome.Value, outcome.Error, outcome.Value]
    assert [ends[1], ends[3]] == [made(2), replayed(2)]
    assert await stored_ids(shop_db) == ["pay_t2"]


async def test_a_key_is_of_one_account(shop_db: Database) -> None:
    await shop_db.write(
        lambda tx: tx.execute(
            "UPDATE merchants SET account_id = 'acct_2', status = 'active' WHERE id = 'mrch_inactive'"
        )
    )
    other = asks(2, "inactive", key=1, account_id="acct_2")

    assert await shop_db.write(create_payments, [asks(1, key=1), other]) == [made(1), made(2, None)]


async def test_seventy_keys_at_once_are_each_its_own(shop_db: Database) -> None:
    asked = [asks(number, key=number + 1) for number in range(70)]
    assert await shop_db.write(create_payments, asked) == [made(number) for number in range(70)]
    assert await shop_db.write(create_payments, asked[::-1]) == [replayed(n) for n in reversed(range(70))]
    assert await stored_ids(shop_db) == [f"pay_t{number}" for number in range(70)]


def come_to(tx: Tx, groups: list[list[Creation]]) -> tuple[list[Any], list[list[Any]]]:
    """What requests are told, and what is written then."""
    tx.execute("BEGIN")
    ends = [end for group in groups for end in create_payments(tx, group)]
    told = [type(end.error) if isinstance(end, outcome.Error) else end.unwrap() for end in ends]
    answers = tx.execute("SELECT * FROM idempotency ORDER BY account_id, scope").fetchall()
    found = [*written(tx), answers]
    tx.execute("ROLLBACK")
    return told, found


REQUESTS = st.lists(
    st.tuples(
        st.sampled_from(["active", "active", "empty", "inactive", "gone"]),
        st.integers(0, 4),
        st.sampled_from([b"f", b"f", b"g"]),
    ),
    max_size=20,
)


@given(first=REQUESTS, then=REQUESTS)
@settings(max_examples=60, deadline=None)
def test_together_they_come_to_what_they_would_one_by_one(
    shops: sqlite3.Connection, first: list[tuple[str, int, bytes]], then: list[tuple[str, int, bytes]]
) -> None:
    numbers = count()
    groups = [
        [asks(next(numbers), merchant, key=key, body=body) for merchant, key, body in group]
        for group in (first, then)
    ]

    together = come_to(shops, groups)
    one_by_one = come_to(shops, [[one] for group in groups for one in group])

    assert together == one_by_one


async def test_only_who_wants_to_hear_of_it_is_owed_a_delivery(shop_db: Database) -> None:
    other = creation(2, account_id="acct_2")
    assert await shop_db.write(insert_payments, [creation(1), other]) == ["end_1", None]
    assert await shop_db.write(insert_payments, [creation(3, account_id="acct_2")]) == [None]
    assert [len(table) for table in await shop_db.read(written)] == [3, 3, 1]


async def test_an_id_that_is_taken_stores_none_of_them(shop_db: Database) -> None:
    await shop_db.write(insert_payments, [creation(1)])
    with pytest.raises(sqlite3.IntegrityError):
        await shop_db.write(insert_payments, [creation(2), creation(1), creation(3)])
    assert shop_db.point(find_payment, "pay_t2") is None
    assert [len(table) for table in await shop_db.read(written)] == [1, 1, 1]
