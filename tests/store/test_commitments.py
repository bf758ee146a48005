"""What a buyer committed, whether another transfer may still pay, and what has paid for good."""

from __future__ import annotations

from payd.core.submission import Submission
from payd.store.chain_cursors import Cursor, move_cursor
from payd.store.commitments import committed, is_held
from payd.store.sightings import rewind
from payd.store.submissions import insert_submission
from tests.chains.evm.json import BUYER
from tests.store.shown import seen, show
from tests.till import CHAIN, PRICE, START_MS, USDC, Till, account


async def test_only_what_payd_brings_itself_holds_its_buyer(till: Till) -> None:
    told, seen, signed, built = [await till.sell(name) for name in "1234"]
    await till.commit(told)
    await till.commit(seen, results_hash=None)
    await till.sign(signed)
    await till.commit(built)
    await till.db.write(
        insert_submission, built, Submission(CHAIN, account(BUYER), "0x01", b"raw", 100), START_MS
    )

    held = {one: till.db.point(is_held, till.payment(one)) for one in (told, seen, signed, built)}

    assert held == {told: False, seen: False, signed: True, built: True}


async def test_one_that_waits_for_nothing_is_no_longer_kept_by_another(till: Till) -> None:
    payment = till.payment(await till.sell())
    assert till.db.point(is_held, payment)
    await till.succeed(payment.id, "0x01")
    assert till.db.point(is_held, till.payment(payment.id))


async def test_what_reaches_the_merchant_is_what_was_committed(till: Till) -> None:
    payment_id = await till.sell()
    assert committed(till.payment(payment_id)) is None
    await till.commit(payment_id)
    assert committed(till.payment(payment_id)) == (USDC, PRICE)


async def test_what_a_payment_succeeded_by_pays_no_other_whatever_binds_it_since(till: Till) -> None:
    one, two = await till.sell("1"), await till.sell("2")
    await show(till, seen(one))
    await till.succeed(one, "0x01")
    await till.sign(two)

    await show(till, seen(two))
    assert [(each.kind, each.payment_id) for each in till.shown("0x01")] == [("matched", one)]
    await till.db.write(move_cursor, CHAIN, "head", None, Cursor(120, "0xa120", START_MS // 1000))
    await till.db.write(rewind, CHAIN, Cursor(99, "0xb99", START_MS // 1000))
    await show(till, seen(two, block_hash="0xb100"))
    assert [(each.kind, each.payment_id) for each in till.shown("0x01")] == [("matched", one)]
