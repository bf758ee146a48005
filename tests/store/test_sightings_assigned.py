"""A merchant's word about a transfer: what it links, what it leaves, and that it holds from then on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from payd.chains.evm.binding import payment_tag
from payd.core.payment import PaymentCancelled, WindowClosed
from payd.store.chain_cursors import Cursor, find_cursor, move_cursor
from payd.store.sightings import Seen, Word, assign, matched_of, record, rewind
from payd.store.sightings_due import due_sightings
from tests.chains.evm.json import BUYER, OTHER_SHOP, SHOP
from tests.till import CHAIN, ETH, PRICE, START_MS, USDC, WINDOW_MS, Till, account

START_S = START_MS // 1000
NOW_MS = START_MS + 60_000
TX = "0x01"


async def show(till: Till, binding: bytes | None = None, **more: Any) -> None:
    """A transfer of the price to the shop, with nothing that binds it."""
    plain: dict[str, Any] = {
        "chain": CHAIN,
        "tx_id": TX,
        "log_index": 0,
        "asset": USDC,
        "value": PRICE,
        "sender": account(BUYER),
        "recipient": account(SHOP),
        "block_number": 100,
        "block_hash": "0xa100",
        "block_time_s": START_S + 60,
    }
    await till.db.write(record, [Seen(**(plain | more), binding=binding)], NOW_MS)


async def word(till: Till, payment_id: str) -> list[Word]:
    return await till.db.write(assign, payment_id, CHAIN, TX, "key_1", NOW_MS)


async def came_to(till: Till, payment_id: str) -> list[str]:
    return [one.came_to for one in await word(till, payment_id)]


def audited(till: Till) -> list[tuple[str, str, str, str, dict[str, Any]]]:
    rows = till.db.point(
        lambda tx: tx.execute("SELECT account_id, actor, act, subject, details FROM audit").fetchall()
    )
    return [(*row[:4], json.loads(row[4])) for row in rows]


async def test_an_exact_transfer_in_time_pays_by_its_merchants_word(till: Till) -> None:
    payment = await till.sell()
    await show(till)

    [one] = await word(till, payment)

    assert (one.came_to, one.sighting.kind, one.sighting.assigned) == ("linked", "matched", True)
    assert till.db.point(matched_of, payment) == [one.sighting]
    assert [due.payment_id for due in till.db.point(due_sightings, CHAIN, 100, None, 0, 9)] == [payment]
    details = {"chain": CHAIN, "txId": TX, "logIndex": 0, "kind": "matched", "before": None}
    assert audited(till) == [("acct_1", "key_1", "transfer.assign", payment, details)]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"value": PRICE - 1}, "partial"),
        ({"value": PRICE + 1}, "surplus"),
        ({"block_time_s": START_S + WINDOW_MS // 1000 + 121}, "late"),
    ],
)
async def test_what_does_not_pay_is_linked_as_what_it_is_and_not_followed(
    till: Till, changes: dict[str, Any], kind: str
) -> None:
    payment = await till.sell()
    await show(till, **changes)

    [one] = await word(till, payment)

    assert (one.came_to, one.sighting.kind, one.sighting.awaits) == ("linked", kind, None)
    assert till.db.point(matched_of, payment) == []


@pytest.mark.parametrize("end", [PaymentCancelled("cancelled_by_user"), WindowClosed()])
async def test_a_payment_that_is_over_stays_over(till: Till, end: Any) -> None:
    payment = await till.sell()
    await till.move(payment, end)
    before = till.payment(payment)
    await show(till)

    [one] = await word(till, payment)

    assert (one.sighting.kind, one.sighting.awaits) == ("late", None)
    assert till.payment(payment) == before


@pytest.mark.parametrize(
    "changes", [{"asset": ETH, "log_index": -1}, {"block_time_s": START_S - 121}], ids=["asset", "older"]
)
async def test_what_was_never_asked_for_stays_as_it_is(till: Till, changes: dict[str, Any]) -> None:
    payment = await till.sell()
    await show(till, **changes)
    before = till.shown(TX)

    assert await came_to(till, payment) == ["strange"]
    assert till.shown(TX) == before
    assert audited(till) == []


async def test_what_went_to_another_account_is_not_told_and_not_touched(till: Till) -> None:
    payment = await till.sell()
    await show(till, recipient=account(OTHER_SHOP))
    before = till.shown(TX)

    assert await word(till, payment) == []
    assert till.shown(TX) == before


async def test_a_transfer_that_the_chain_binds_to_another_payment_is_not_taken_away(till: Till) -> None:
    first, second = await till.sell("1"), await till.sell("2")
    for value, kind in ((PRICE - 1, "partial"), (PRICE, "matched")):
        tx_id = f"0x{kind}"
        await show(till, payment_tag(first), value=value, tx_id=tx_id)
        words = await till.db.write(assign, second, CHAIN, tx_id, "key_1", NOW_MS)
        assert [one.came_to for one in words] == ["taken"]
        assert [(one.payment_id, one.kind) for one in till.shown(tx_id)] == [(first, kind)]


async def test_a_word_that_paid_is_not_taken_back_by_another_word(till: Till) -> None:
    first, second = await till.sell("1"), await till.sell("2")
    await show(till)

    assert await came_to(till, first) == ["linked"]
    assert await came_to(till, second) == ["taken"]
    assert [one.payment_id for one in till.shown(TX)] == [first]


async def test_a_word_for_the_wrong_payment_can_be_corrected_while_it_pays_for_nothing(till: Till) -> None:
    wrong, right = await till.sell("1", value=PRICE + 5), await till.sell("2")
    await show(till)
    await word(till, wrong)

    [one] = await word(till, right)

    assert (one.came_to, one.sighting.payment_id, one.sighting.kind) == ("linked", right, "matched")
    assert [row[4]["before"] for row in audited(till)] == [None, wrong]


async def test_the_same_word_again_changes_nothing_and_is_audited_once(till: Till) -> None:
    payment = await till.sell()
    await show(till)
    first = await word(till, payment)

    second = await word(till, payment)

    assert [one.came_to for one in second] == ["linked"]
    assert [one.sighting for one in second] == [one.sighting for one in first]
    assert len(audited(till)) == 1


async def test_a_second_transfer_is_surplus(till: Till) -> None:
    payment = await till.sell()
    await show(till, payment_tag(payment), tx_id="0x02")
    await show(till)

    [one] = await word(till, payment)

    assert one.sighting.kind == "surplus"


async def test_the_word_holds_when_the_chain_shows_the_transfer_again(till: Till) -> None:
    """Also when it carries the tag of somebody else's payment, who is not paid by it."""
    payment, foreign = await till.sell("1"), await till.sell("2", merchant=2)
    for binding in (None, payment_tag(foreign)):
        tx_id = f"0x{'00' if binding is None else '01'}"
        await show(till, binding, tx_id=tx_id)
        await till.db.write(assign, payment, CHAIN, tx_id, "key_1", NOW_MS)
        before = till.shown(tx_id)
        assert before[0].payment_id == payment

        await show(till, binding, tx_id=tx_id)
        assert till.shown(tx_id) == before


async def test_a_reorg_takes_an_assigned_transfer_and_brings_it_back_for_the_same_payment(till: Till) -> None:
    payment = await till.sell()
    await show(till)
    await word(till, payment)
    assert till.db.point(find_cursor, CHAIN, "head") is None
    await till.db.write(move_cursor, CHAIN, "head", None, Cursor(120, "0xa120", START_S))

    await till.db.write(rewind, CHAIN, Cursor(99, "0xb99", START_S))
    assert till.db.point(matched_of, payment) == []

    await show(till, block_number=101, block_hash="0xb101")
    [again] = till.db.point(matched_of, payment)
    assert (again.block_hash, again.assigned, again.awaits) == ("0xb101", True, "depth")
