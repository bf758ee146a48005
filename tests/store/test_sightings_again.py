"""Transfers that are shown once more: what has not changed stays what it was, the rest is judged anew."""

from __future__ import annotations

from typing import Any

import pytest

from payd.chains.evm.binding import payment_tag
from payd.core.gas import Fees
from payd.core.payment import PaymentCancelled
from payd.store.chain_cursors import Cursor, move_cursor
from payd.store.db import Database
from payd.store.relay_transactions import Attempt, Mined, add_transaction, note_mined, open_transactions
from payd.store.relays import job_of_seq
from payd.store.settlements import set_destination
from payd.store.sightings import matched_of, rewind
from tests.chains.evm.json import OTHER_SHOP, SHOP, THIRD
from tests.store.shown import seen, show
from tests.till import CHAIN, EURC, PRICE, START_MS, USDC, WINDOW_MS, Till, account

START_S = START_MS // 1000
SENDER = "0x" + "0a" * 20
TOO_LATE_S = START_S + WINDOW_MS // 1000 + 121


@pytest.fixture
async def till(realm_db: Database) -> Till:
    return await Till(realm_db).open()


async def test_what_was_judged_when_it_was_found_is_not_judged_by_what_happened_since(till: Till) -> None:
    payment = await till.sell()
    short = seen(payment, value=PRICE - 1)
    await show(till, short)
    await till.move(payment, PaymentCancelled("cancelled_by_user"))

    assert await show(till, short) == []
    assert till.kinds("0x01") == ["partial"]


async def test_what_carries_the_tag_of_somebody_elses_payment_is_told_of_once(till: Till) -> None:
    payment = await till.sell()
    astray = seen(payment, recipient=account(OTHER_SHOP))
    assert len(await show(till, astray)) == 1
    before = till.shown("0x01")

    assert await show(till, astray) == []
    assert till.shown("0x01") == before


async def test_what_pays_for_nothing_that_was_offered_is_shown_with_the_payment_of_its_account(
    till: Till,
) -> None:
    payment = await till.sell()
    await show(till, seen(payment, block_time_s=START_S - 121))

    assert [(one.kind, one.payment_id) for one in till.shown("0x01")] == [("unmatched", payment)]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"asset": EURC}, "unmatched"),
        ({"value": PRICE - 1}, "partial"),
        ({"sender": account(THIRD)}, "matched"),
        ({"recipient": account(OTHER_SHOP)}, "unmatched"),
        ({"block_number": 101}, "matched"),
        ({"block_hash": "0xb100"}, "matched"),
    ],
)
async def test_whatever_a_chain_shows_otherwise_is_stored_so(
    till: Till, changes: dict[str, Any], kind: str
) -> None:
    payment = await till.sell()
    await show(till, seen(payment))

    [noted] = await show(till, seen(payment, **changes))

    assert [noted.sighting] == till.shown("0x01")
    assert noted.sighting.kind == kind
    assert {name: getattr(noted.sighting, name) for name in changes} == changes


async def test_of_what_pays_another_time_of_its_block_is_no_matter(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment))

    assert await show(till, seen(payment, block_time_s=TOO_LATE_S)) == []
    assert till.kinds("0x01") == ["matched"]


async def test_what_a_node_had_shown_with_a_wrong_time_pays_once_that_is_put_right(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment, block_time_s=TOO_LATE_S))
    assert till.kinds("0x01") == ["late"]

    await show(till, seen(payment))

    assert till.kinds("0x01") == ["matched"]


async def test_what_paid_one_payment_in_time_is_not_in_time_for_another(till: Till) -> None:
    """A node bound it to the wrong one; in its next block it is too late for the right one."""
    wrong, right = await till.sell("1"), await till.sell("2", valid_ms=60_000)
    await show(till, seen(wrong))
    await till.db.write(move_cursor, CHAIN, "head", None, Cursor(120, "0xa120", START_S))
    await till.db.write(rewind, CHAIN, Cursor(99, "0xb99", START_S))

    late_s = START_S + 60 + 121
    again = seen(block_number=101, block_hash="0xb101", block_time_s=late_s, binding=payment_tag(right))
    await show(till, again)

    assert [(one.kind, one.payment_id) for one in till.shown("0x01")] == [("late", right)]


async def test_who_has_its_destination_by_now_takes_nothing_of_what_pays_a_payment(till: Till) -> None:
    payment = await till.sell()
    await till.db.write(set_destination, f"crypto_1_{USDC}", account(THIRD), START_MS)
    await till.db.write(set_destination, f"crypto_2_{USDC}", account(SHOP), START_MS)
    await show(till, seen(payment), seen(payment, tx_id="0x02", value=PRICE - 1))

    assert [one.tx_id for one in till.db.point(matched_of, payment)] == ["0x01"]
    for tx_id in ("0x01", "0x02"):
        assert [(one.account_id, one.payment_id) for one in till.shown(tx_id)] == [("acct_1", payment)]


async def test_a_reorg_opens_what_the_relayer_had_mined_above_it(till: Till) -> None:
    await till.sign(await till.sell("1"))
    await till.sign(await till.sell("2"))
    for nonce, block in enumerate((99, 100)):
        job = till.db.point(job_of_seq, nonce + 1)
        assert job is not None
        form = Attempt(f"0x{nonce}", b"raw", Fees(100, 1), 1500)
        sent = await till.db.write(add_transaction, job, SENDER, nonce, 1000, form, 1500)
        assert sent is not None
        await till.db.write(note_mined, sent, Mined(block, 1, 5), landed=None, retry_at_ms=7000)
    await till.db.write(move_cursor, CHAIN, "head", None, Cursor(120, "0xa120", START_S))

    await till.db.write(rewind, CHAIN, Cursor(99, "0xb99", START_S))

    assert [one.nonce for one in till.db.point(open_transactions, CHAIN, SENDER, 9)] == [1]
