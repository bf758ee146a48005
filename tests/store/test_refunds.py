"""Refunds in the store: one a payment."""

from __future__ import annotations

import pytest

from payd.core.errors import AlreadyRefunded
from payd.store.db import Database
from payd.store.refunds import insert_refund


async def test_a_refund_is_recorded_once_a_payment(realm_db: Database) -> None:
    await realm_db.write(insert_refund, "pay_1", "0xa", "cup", 1000)
    with pytest.raises(AlreadyRefunded):
        await realm_db.write(insert_refund, "pay_1", "0xb", None, 2000)
    await realm_db.write(insert_refund, "pay_2", None, None, 2000)
    rows = await realm_db.read(lambda tx: tx.execute("SELECT * FROM refunds ORDER BY payment_id").fetchall())
    assert rows == [("pay_1", "0xa", "cup", 1000), ("pay_2", None, None, 2000)]
