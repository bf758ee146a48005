"""New payments: many at once are as they would be one by one, and what cannot be paid harms no other."""

from __future__ import annotations

import sqlite3
from typing import Any

import outcome
import pytest

from payd.core.errors import InvalidParams, NotFound
from payd.core.payment import Payment, open_payment
from payd.store.creations import check_payable, create_payments, insert_payments
from payd.store.db import Database, Tx
from payd.store.payments import Move, find_payment
from tests.store.test_payments import event, payment

MERCHANTS = ("active", "inactive", "suspended", "empty")


@pytest.fixture
async def shop_db(realm_db: Database) -> Database:
    """A realm with a merchant of each kind, and an endpoint that wants the first events of payments."""

    def write(tx: Tx) -> None:
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

    await realm_db.write(write)
    return realm_db


def creation(number: int, merchant: str = "active", **more: Any) -> Move:
    moved = open_payment(payment(number, **{"merchant_id": f"mrch_{merchant}"} | more))
    return Move(moved, event(moved), 901_000)


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
        creation(1),
        creation(2, "inactive"),
        creation(3, "empty"),
        creation(4, "gone"),
        creation(5, account_id="acct_2"),
        creation(6),
        creation(7, "empty"),
    ]

    ends = await shop_db.write(create_payments, asked)

    assert [type(end) for end in ends] == [outcome.Value, *[outcome.Error] * 4, outcome.Value, outcome.Error]
    assert [ends[0].unwrap(), ends[5].unwrap()] == ["end_1", "end_1"]
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
    (end,) = await shop_db.write(create_payments, [creation(1, "suspended")])
    assert isinstance(end, outcome.Error)
    assert await shop_db.read(written) == [[], [], []]


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


async def test_a_merchant_is_looked_at_in_the_step(shop_db: Database) -> None:
    draft: Payment = creation(1).payment
    await shop_db.write(check_payable, draft)
    await shop_db.write(lambda tx: tx.execute("UPDATE merchants SET status = 'inactive'"))
    with pytest.raises(InvalidParams, match="only an active merchant"):
        await shop_db.write(check_payable, draft)
