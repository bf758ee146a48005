"""What pays a payment in another's stead, such as of what a wallet signed and cannot come, and what not."""

from __future__ import annotations

from typing import Any

import pytest

from payd.core.payment import WindowClosed
from payd.store.chain_cursors import Cursor, move_cursor
from payd.store.sightings import matched_of, pay_by_told, pay_in_stead, record, rewind, take_back
from payd.store.transfers import transfers_of_payment
from tests.chains.evm.json import OTHER_SHOP
from tests.store.shown import due, seen, show
from tests.till import CHAIN, EURC, PRICE, START_MS, WINDOW_MS, Till, account

START_S = START_MS // 1000


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


async def test_what_was_seen_before_a_wallet_signed_pays_in_no_stead_of_it(till: Till) -> None:
    payment = await till.sell()
    await till.offer(payment, asset=EURC, value=PRICE)
    await till.sign(payment)
    await till.db.write(record, [seen(payment, asset=EURC)], START_MS)

    assert not await till.db.write(pay_in_stead, payment, START_MS)
    assert await till.db.write(pay_in_stead, payment, START_MS - 1)


async def test_a_payment_that_is_over_or_open_is_paid_in_nobodys_stead(till: Till) -> None:
    payment = await till.sell()
    await till.offer(payment, asset=EURC, value=PRICE)
    assert not await till.db.write(pay_in_stead, payment)
    await till.sign(payment)
    await show(till, seen(payment, asset=EURC))
    await till.move(payment, WindowClosed())

    assert not await till.db.write(pay_in_stead, payment)


async def test_a_transfer_that_comes_again_was_seen_when_it_came_first(till: Till) -> None:
    payment = await till.sell()
    await till.db.write(move_cursor, CHAIN, "head", None, Cursor(120, "0xa120", START_S))
    await till.db.write(record, [seen(payment)], START_MS + 1)
    await till.db.write(rewind, CHAIN, Cursor(99, "0xb99", START_S))
    await till.db.write(record, [seen(payment, block_hash="0xb100")], START_MS + 2)

    [transfer] = till.db.point(transfers_of_payment, payment)
    assert transfer.seen_at_ms == START_MS + 1


@pytest.mark.parametrize("turns_out", ["gone", "less"])
async def test_what_a_payment_has_succeeded_by_has_no_other_transfer_pay_in_its_stead(
    till: Till, turns_out: str
) -> None:
    payment = await till.sell()
    await show(till, seen(payment), seen(payment, tx_id="0x02"))
    await till.succeed(payment, "0x01")
    if turns_out == "gone":
        await till.db.write(take_back, till.shown("0x01")[0])
    else:
        await show(till, seen(payment, value=1))

    assert till.kinds("0x02") == ["surplus"]
    assert due(till) == []


async def test_what_paid_in_a_block_that_is_gone_and_pays_another_destination_in_the_next_pays_nothing(
    till: Till,
) -> None:
    payment = await till.sell()
    await show(till, seen(payment))
    await till.db.write(move_cursor, CHAIN, "head", None, Cursor(120, "0xa120", START_S))
    await till.db.write(rewind, CHAIN, Cursor(99, "0xb99", START_S))
    await show(till, seen(payment, recipient=account(OTHER_SHOP), block_hash="0xb100"))

    assert till.db.point(matched_of, payment) == []


async def test_what_a_wallet_tells_of_pays_though_it_came_too_late_for_an_older_quote(till: Till) -> None:
    payment = await till.sell(valid_ms=90_000)
    await till.db.write(move_cursor, CHAIN, "head", None, Cursor(120, "0xa120", START_S))
    late = START_S + 300
    await show(
        till,
        seen(payment, block_time_s=late),
        seen(payment, tx_id="0x02", value=PRICE - 1, block_time_s=late),
    )
    assert [till.kinds("0x01"), till.kinds("0x02")] == [["late"], ["late"]]
    await till.commit(payment)

    await till.db.write(pay_by_told, payment)

    assert [till.kinds("0x01"), till.kinds("0x02")] == [["matched"], ["late"]]
    assert due(till) == [payment]


async def test_what_pays_already_is_not_paid_again_by_what_a_wallet_tells_of(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment), seen(payment, tx_id="0x02"))
    await till.commit(payment)

    await till.db.write(pay_by_told, payment)

    assert [till.kinds("0x01"), till.kinds("0x02")] == [["matched"], ["surplus"]]
