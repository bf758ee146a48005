"""Refunds in the store: one a payment."""

from __future__ import annotations

import pytest

from payd.core.errors import AlreadyRefunded
from payd.store.db import Database
from payd.store.refunds import (
    Refund,
    RefundOut,
    forget_out,
    insert_refund,
    is_refunded,
    refund_out,
    refunds_of,
    send_out,
)


async def test_a_refund_is_recorded_once_a_payment(realm_db: Database) -> None:
    await realm_db.write(insert_refund, "pay_1", "0xa", "cup", 1000)
    with pytest.raises(AlreadyRefunded):
        await realm_db.write(insert_refund, "pay_1", "0xb", None, 2000)
    await realm_db.write(insert_refund, "pay_2", None, None, 2000)
    rows = await realm_db.read(lambda tx: tx.execute("SELECT * FROM refunds ORDER BY payment_id").fetchall())
    assert rows == [("pay_1", "0xa", "cup", 1000), ("pay_2", None, None, 2000)]


async def test_the_refunds_of_some_payments_are_found_at_once(realm_db: Database) -> None:
    for number in range(3):
        await realm_db.write(insert_refund, f"pay_{number}", "0xa", None, number)

    assert realm_db.point(refunds_of, ["pay_1", "pay_2", "pay_9"]) == {
        "pay_1": Refund(1, "0xa", None),
        "pay_2": Refund(2, "0xa", None),
    }
    assert realm_db.point(refunds_of, []) == {}


async def test_who_forgets_what_cannot_land_does_not_forget_what_was_brought_since(
    realm_db: Database,
) -> None:
    newer = RefundOut("0xb", 900)
    await realm_db.write(send_out, "pay_1", newer, 1000)
    await realm_db.write(forget_out, "pay_1", "0xa")

    assert realm_db.point(refund_out, "pay_1") == newer


async def test_a_refund_that_is_out_is_its_own_payments(realm_db: Database) -> None:
    outs = {"pay_1": RefundOut("0xa", 900), "pay_2": RefundOut("0xb", 800), "pay_3": RefundOut("0xa", 700)}
    for payment_id, out in outs.items():
        assert await realm_db.write(send_out, payment_id, out, 1000) is None
    assert {payment_id: realm_db.point(refund_out, payment_id) for payment_id in outs} == outs
    await realm_db.write(forget_out, "pay_1", "0xa")
    await realm_db.write(insert_refund, "pay_1", "0xa", None, 1000)
    assert realm_db.point(refund_out, "pay_3") == outs["pay_3"]
    assert [realm_db.point(is_refunded, payment_id) for payment_id in outs] == [True, False, False]
