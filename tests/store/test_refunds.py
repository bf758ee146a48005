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
