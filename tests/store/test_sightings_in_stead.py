"""What pays a payment in stead of what a wallet signed, once that can not come any more."""

from __future__ import annotations

from typing import Any

import pytest

from payd.core.payment import WindowClosed
from payd.store.chain_cursors import Cursor, move_cursor
from payd.store.db import Database
from payd.store.sightings import pay_in_stead, rewind
from tests.store.shown import due, seen, show
from tests.till import CHAIN, EURC, PRICE, START_MS, WINDOW_MS, Till

START_S = START_MS // 1000


@pytest.fixture
async def till(realm_db: Database) -> Till:
    return await Till(realm_db).open()


async def test_what_was_asked_for_pays_in_stead_of_a_signature_that_came_to_nothing(till: Till) -> None:
    payment = await till.sell()
    await till.offer(payment, asset=EURC, value=PRICE)
    await till.sign(payment)
    await till.db.write(move_cursor, CHAIN, "head", None, Cursor(120, "0xa120", START_S))
    await show(till, seen(payment, asset=EURC, value=PRICE - 1), seen(payment, asset=EURC, tx_id="0x02"))
    assert [till.kinds("0x01"), till.kinds("0x02")] == [["surplus"], ["surplus"]]

    assert await till.db.write(pay_in_stead, payment)

    assert [till.kinds("0x01"), till.kinds("0x02")] == [["surplus"], ["matched"]]
    assert due(till) == [payment]
    await till.db.write(rewind, CHAIN, Cursor(99, "0xb99", START_S))
    await show(till, seen(payment, asset=EURC, tx_id="0x02", block_hash="0xb100"))
    assert till.kinds("0x02") == ["matched"], "as any other that pays"


@pytest.mark.parametrize(
    "other",
    [
        {"asset": EURC, "value": PRICE - 1},
        {"asset": EURC, "value": PRICE + 1},
        {"asset": EURC, "block_time_s": START_S + WINDOW_MS // 1000 + 121},
    ],
)
async def test_nothing_else_pays_in_stead_of_a_signature(till: Till, other: dict[str, Any]) -> None:
    payment = await till.sell()
    await till.offer(payment, asset=EURC, value=PRICE)
    await till.sign(payment)
    await show(till, seen(payment, **other))

    assert not await till.db.write(pay_in_stead, payment)


async def test_a_payment_that_is_over_or_open_is_paid_in_nobodys_stead(till: Till) -> None:
    payment = await till.sell()
    await till.offer(payment, asset=EURC, value=PRICE)
    assert not await till.db.write(pay_in_stead, payment)
    await till.sign(payment)
    await show(till, seen(payment, asset=EURC))
    await till.move(payment, WindowClosed())

    assert not await till.db.write(pay_in_stead, payment)
