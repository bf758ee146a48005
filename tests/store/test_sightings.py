"""Sightings in the store: what each transfer pays for, each once, and what a reorg takes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from payd.core.fee import FeeRule, compute_fee
from payd.core.money import asset_amount
from payd.core.payment import (
    PaymentCancelled,
    PaymentFailed,
    SettlementCompleted,
    TransferConfirmed,
    WindowClosed,
)
from payd.store.chain_cursors import Cursor, find_cursor, move_cursor
from payd.store.settlements import set_destination
from payd.store.sightings import (
    blocks_of,
    matched_of,
    rewind,
    sightings_between,
    take_back,
)
from payd.store.sightings_due import is_busy
from payd.store.transfers import Follow, follow_transfer, list_transfers
from tests.chains.evm.json import OTHER_SHOP, SHOP, THIRD
from tests.store.shown import due, seen, show
from tests.till import CHAIN, ETH, EURC, PRICE, START_MS, USDC, WINDOW_MS, Till, account

START_S = START_MS // 1000


async def reorg(till: Till, number: int = 99) -> Any:
    cursor = till.db.point(find_cursor, CHAIN, "head")
    if cursor is None:
        await till.db.write(move_cursor, CHAIN, "head", None, Cursor(120, "0xa120", START_S))
    return await till.db.write(rewind, CHAIN, Cursor(number, f"0xb{number}", START_S))


async def test_an_exact_transfer_with_the_payments_tag_pays_it(till: Till) -> None:
    payment = await till.sell()
    [noted] = await show(till, seen(payment))
    [sighting] = till.db.point(matched_of, payment)
    assert noted.sighting == sighting
    assert (sighting.kind, sighting.account_id, sighting.payment_id) == ("matched", "acct_1", payment)
    assert (sighting.value, sighting.block_number, sighting.block_hash) == (PRICE, 100, "0xa100")
    assert (sighting.awaits, sighting.look_at) == ("depth", 100)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"value": PRICE - 1}, "partial"),
        ({"value": PRICE + 1}, "surplus"),
        ({"block_time_s": START_S + WINDOW_MS // 1000 + 121}, "late"),
        ({"block_time_s": START_S + WINDOW_MS // 1000 + 119}, "matched"),
        ({"block_time_s": START_S - 121}, "unmatched"),
        ({"binding": None}, "unmatched"),
    ],
)
async def test_a_transfer_that_does_not_pay_is_kept_as_what_it_is(
    till: Till, changes: dict[str, Any], kind: str
) -> None:
    payment = await till.sell()
    await show(till, seen(payment, **changes))
    assert till.kinds("0x01") == [kind]
    assert [one.awaits for one in till.shown("0x01")] == ["depth" if kind == "matched" else None]


async def test_a_transfer_without_a_payment_is_shown_to_whose_destination_it_went(till: Till) -> None:
    await show(till, seen(), seen(tx_id="0x02", recipient=account(OTHER_SHOP)))
    assert [(one.account_id, one.payment_id) for one in till.shown("0x01")] == [("acct_1", None)]
    assert [(one.account_id, one.payment_id) for one in till.shown("0x02")] == [("acct_2", None)]
    listed = await till.db.read(
        lambda tx: list_transfers(tx, "acct_1", matched=False, before_seq=None, limit=9)
    )
    assert [one.tx_id for _, one in listed] == ["0x01"]


async def test_capitals_of_a_registered_destination_do_not_matter(till: Till) -> None:
    await till.db.write(set_destination, f"crypto_1_{USDC}", account("0x" + SHOP[2:].upper()), START_MS)
    await show(till, seen())
    assert till.kinds("0x01") == ["unmatched"]


async def test_a_transfer_to_nobodys_destination_is_not_kept(till: Till) -> None:
    assert await show(till, seen(recipient=account(THIRD))) == []
    assert till.shown("0x01") == []


async def test_a_destination_that_was_changed_is_still_its_merchants_while_it_is_watched(till: Till) -> None:
    await till.sell()
    await till.db.write(set_destination, f"crypto_1_{USDC}", account(THIRD), START_MS)
    await show(till, seen())
    assert [one.account_id for one in till.shown("0x01")] == ["acct_1"]


async def test_a_tag_that_goes_to_another_merchant_shows_the_money_to_that_one(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment, recipient=account(OTHER_SHOP)))
    [sighting] = till.shown("0x01")
    assert (sighting.kind, sighting.account_id, sighting.payment_id) == ("unmatched", "acct_2", None)


async def test_an_asset_that_was_never_offered_pays_nothing(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment, asset=EURC, binding=None))
    assert till.kinds("0x01") == ["unmatched"]
    assert till.db.point(matched_of, payment) == []


async def test_each_of_several_quotes_may_be_paid_while_it_was_valid(till: Till) -> None:
    payment = await till.sell(asset=ETH, value=10**16, valid_ms=90_000)
    await till.offer(payment, asset=ETH, value=2 * 10**16, at_ms=START_MS + 300_000, valid_ms=90_000)
    coin: dict[str, Any] = {"asset": ETH, "log_index": -1}
    await show(
        till,
        seen(payment, tx_id="0x01", value=10**16, block_time_s=START_S + 600, **coin),
        seen(payment, tx_id="0x02", value=10**16, block_time_s=START_S + 400, **coin),
        seen(payment, tx_id="0x03", value=2 * 10**16, block_time_s=START_S + 400, **coin),
    )
    assert [till.kinds(f"0x0{number}") for number in (1, 2, 3)] == [["late"], ["partial"], ["matched"]]


async def test_a_second_exact_transfer_is_surplus(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment), seen(payment, tx_id="0x02"), seen(payment, log_index=3))
    assert [*till.kinds("0x01"), *till.kinds("0x02")] == ["matched", "surplus", "surplus"]
    assert len(till.db.point(matched_of, payment)) == 1


async def test_two_payments_of_one_payer_with_one_amount_are_each_paid_by_their_own(till: Till) -> None:
    one, two = await till.sell("1"), await till.sell("2")
    await show(till, seen(two, tx_id="0x02"), seen(one, tx_id="0x01"))
    assert [sighting.tx_id for sighting in till.db.point(matched_of, one)] == ["0x01"]
    assert [sighting.tx_id for sighting in till.db.point(matched_of, two)] == ["0x02"]


async def test_a_transfer_that_is_seen_again_is_stored_once_and_followed_on(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment))
    await till.db.write(follow_transfer, payment, Follow(CHAIN, "0x01", "0xa100", "depth", 112))
    assert await show(till, seen(payment)) == []
    assert [one.look_at for one in till.shown("0x01")] == [112]
    assert due(till, head=111) == []
    assert due(till, head=112) == [payment]


async def test_what_the_buyer_committed_pays_also_after_its_quote(till: Till) -> None:
    payment = await till.sell()
    await till.commit(payment)
    await show(till, seen(payment, block_time_s=START_S + 7200))
    assert till.kinds("0x01") == ["matched"]


async def test_once_a_wallet_signed_for_one_asset_no_other_pays(till: Till) -> None:
    payment = await till.sell()
    await till.offer(payment, asset=EURC, value=PRICE)
    other, own = seen(payment, asset=EURC), seen(payment, tx_id="0x02")
    await show(till, other, own)
    assert [till.kinds("0x01"), till.kinds("0x02")] == [["matched"], ["surplus"]]
    await till.sign(payment)

    assert [till.kinds("0x01"), till.kinds("0x02")] == [["surplus"], ["matched"]]
    assert due(till) == [payment]
    assert await show(till, other, own) == []


async def test_what_a_reorg_took_before_the_commitment_to_another_asset_does_not_pay_when_it_comes_again(
    till: Till,
) -> None:
    payment = await till.sell()
    await till.offer(payment, asset=EURC, value=PRICE)
    await show(till, seen(payment, asset=EURC))
    await reorg(till)
    await till.sign(payment)

    await show(till, seen(payment, asset=EURC, block_hash="0xb100"), seen(payment, tx_id="0x02"))
    assert [till.kinds("0x01"), till.kinds("0x02")] == [["surplus"], ["matched"]]


async def test_a_transaction_that_a_wallet_told_of_and_that_never_lands_holds_nobody_to_its_asset(
    till: Till,
) -> None:
    payment = await till.sell()
    await till.offer(payment, asset=EURC, value=PRICE)
    await till.commit(payment)

    await show(till, seen(payment, asset=EURC), seen(payment, tx_id="0x02"))

    assert [till.kinds("0x01"), till.kinds("0x02")] == [["matched"], ["surplus"]]
    assert due(till) == [payment]
    await till.move(payment, TransferConfirmed("0x01"))
    assert (await reorg(till)).lost == (payment,)
    await show(till, seen(payment, tx_id="0x03", asset=EURC, value=PRICE, block_hash="0xb100"))
    assert till.kinds("0x03") == ["surplus"], "a payment that has succeeded is paid by what it was told by"


@pytest.mark.parametrize("noticed", ["a reorg", "a denial"])
async def test_once_what_was_only_seen_is_gone_anything_that_was_asked_for_pays(
    till: Till, noticed: str
) -> None:
    payment = await till.sell()
    await till.offer(payment, asset=EURC, value=PRICE)
    await show(till, seen(payment, asset=EURC))
    await till.commit(payment, asset=EURC, results_hash=None)
    early = seen(payment, tx_id="0x02", block_number=90, block_hash="0xa90")
    await show(till, early)
    assert till.kinds("0x02") == ["surplus"], "while the other is shown, that pays"

    if noticed == "a reorg":
        assert (await reorg(till)).paid_by_others == (payment,)
    else:
        await till.db.write(take_back, till.shown("0x01")[0])

    assert [one.tx_id for one in till.db.point(matched_of, payment)] == ["0x02"]
    assert due(till) == [payment]
    await show(till, seen(payment, asset=EURC, block_number=101, block_hash="0xb101"))
    assert [till.kinds("0x01"), till.kinds("0x02")] == [["surplus"], ["matched"]]


async def test_what_is_paid_after_what_was_only_seen_is_gone_is_judged_by_the_quotes(till: Till) -> None:
    payment = await till.sell()
    await till.offer(payment, asset=EURC, value=PRICE)
    await show(till, seen(payment, asset=EURC))
    await till.commit(payment, asset=EURC, results_hash=None)
    await reorg(till)

    await show(
        till,
        seen(payment, tx_id="0x02", value=PRICE - 1),
        seen(payment, tx_id="0x03", block_time_s=START_S + WINDOW_MS // 1000 + 121),
        seen(payment, tx_id="0x04"),
    )

    assert [till.kinds(f"0x0{number}") for number in (2, 3, 4)] == [["partial"], ["late"], ["matched"]]


@pytest.mark.parametrize(
    ("committed", "kind"), [("seen", "partial"), ("told", "partial"), ("signed", "surplus")]
)
async def test_what_turns_out_to_be_of_another_amount_pays_no_more_and_another_does(
    till: Till, committed: str, kind: str
) -> None:
    payment = await till.sell()
    await show(till, seen(payment), seen(payment, tx_id="0x02"))
    if committed == "signed":
        await till.sign(payment)
    else:
        await till.commit(payment, results_hash=b"results" if committed == "told" else None)

    # Another node shows the same transfer in the same block, and what it really carries.
    await show(till, seen(payment, value=1))

    assert [till.kinds("0x01"), till.kinds("0x02")] == [[kind], ["matched"]]
    assert due(till) == [payment]


async def test_what_had_seemed_to_pay_before_another_transfer_did_does_not_when_both_are_mined_again(
    till: Till,
) -> None:
    payment = await till.sell()
    await till.offer(payment, asset=EURC, value=PRICE)
    await show(till, seen(payment, asset=EURC))
    await till.commit(payment, asset=EURC, results_hash=None)
    await reorg(till)
    await show(till, seen(payment, tx_id="0x02", block_hash="0xb100"))
    paid = till.payment(payment).processing
    assert paid is not None
    amount = asset_amount(USDC, PRICE)
    paid = msgspec.structs.replace(paid, option_amount=amount, settlement_amount=amount)
    await till.move(payment, TransferConfirmed("0x02", paid))
    assert (await reorg(till)).lost == (payment,)

    await show(
        till,
        seen(payment, asset=EURC, block_hash="0xc100"),
        seen(payment, tx_id="0x02", block_hash="0xc100"),
    )

    assert [till.kinds("0x01"), till.kinds("0x02")] == [["surplus"], ["matched"]]


async def test_a_commitment_to_what_pays_already_changes_nothing(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment), seen(payment, tx_id="0x02"))
    [before] = till.db.point(matched_of, payment)
    await till.sign(payment)

    assert till.db.point(matched_of, payment) == [before]


async def test_with_a_fee_the_merchants_part_pays(till: Till) -> None:
    payment = await till.sell()
    fee = compute_fee(FeeRule(0, 1, 100), PRICE, f"caip19/{USDC}")
    await till.sign(payment, fee=fee)
    await show(till, seen(payment, value=PRICE), seen(payment, tx_id="0x02", value=PRICE * 99 // 100))
    assert [till.kinds("0x01"), till.kinds("0x02")] == [["surplus"], ["matched"]]


@pytest.mark.parametrize(
    "trigger", [WindowClosed(), PaymentCancelled("cancelled_by_user"), PaymentFailed("no")]
)
async def test_what_comes_after_the_end_is_late(till: Till, trigger: Any) -> None:
    payment = await till.sell()
    await till.move(payment, trigger)
    await show(till, seen(payment))
    [sighting] = till.shown("0x01")
    assert (sighting.kind, sighting.payment_id, sighting.awaits) == ("late", payment, None)


# Reorgs.


async def test_what_a_reorg_takes_pays_nothing_until_it_is_seen_again(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment), seen(tx_id="0x02", block_number=99, block_hash="0xa99"))
    turned = await reorg(till)
    assert (turned.transfers, turned.lost, turned.paid_by_others) == (1, (), ())
    assert till.db.point(matched_of, payment) == []
    assert due(till, 10**6, 10**6) == []
    assert till.db.point(is_busy, CHAIN, START_MS + 99 * WINDOW_MS), "it may be mined again"
    assert [one.block_hash for one in till.shown("0x02")] == ["0xa99"]
    assert till.db.point(find_cursor, CHAIN, "head") == Cursor(99, "0xb99", START_S)

    moved = seen(payment, block_number=103, block_hash="0xb103", block_time_s=START_S + 7200)
    [noted] = await show(till, moved)
    assert (noted.sighting.kind, noted.sighting.look_at) == ("matched", 103)
    assert [one.block_hash for one in till.db.point(matched_of, payment)] == ["0xb103"]
    assert till.count("transfers") == 2


async def test_what_a_reorg_takes_for_good_lets_another_transfer_pay(till: Till) -> None:
    payment = await till.sell()
    await show(
        till,
        seen(payment),
        seen(payment, tx_id="0x02", block_number=90, value=1),
        seen(payment, tx_id="0x03", block_number=90),
    )
    assert [till.kinds(f"0x0{number}") for number in (1, 2, 3)] == [["matched"], ["surplus"], ["surplus"]]
    turned = await reorg(till)
    assert turned.paid_by_others == (payment,)
    assert [one.tx_id for one in till.db.point(matched_of, payment)] == ["0x03"]
    assert due(till) == [payment]

    # The first one is mined again after all: one of the two pays, as before.
    await show(till, seen(payment, block_number=101, block_hash="0xb101"))
    assert [one.tx_id for one in till.db.point(matched_of, payment)] == ["0x03"]
    assert till.kinds("0x01") == ["surplus"]


async def test_a_transfer_that_never_comes_again_keeps_no_chain_busy_once_another_has_paid(
    till: Till,
) -> None:
    over_ms = START_MS + WINDOW_MS + 1
    payment = await till.sell()
    await show(till, seen(payment), seen(payment, tx_id="0x03", block_number=90))
    await reorg(till)
    assert till.db.point(is_busy, CHAIN, over_ms)

    await till.succeed(payment, "0x03")
    assert till.db.point(is_busy, CHAIN, over_ms), "what pays is not final yet"
    await till.db.write(follow_transfer, payment, Follow(CHAIN, "0x03", "0xa100", None))

    assert not till.db.point(is_busy, CHAIN, over_ms)


async def test_what_never_was_in_its_block_pays_nothing_and_lets_another_transfer_pay(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment), seen(payment, tx_id="0x02", block_number=90))
    [first] = till.db.point(matched_of, payment)
    await till.db.write(take_back, msgspec.structs.replace(first, block_hash="0xb100"))
    assert till.db.point(matched_of, payment) == [first], "it is in another block by now"

    await till.db.write(take_back, first)

    [second] = till.db.point(matched_of, payment)
    assert (second.tx_id, second.awaits) == ("0x02", "depth")
    assert due(till) == [payment]
    await till.db.write(take_back, second)
    assert not till.db.point(is_busy, CHAIN, START_MS + WINDOW_MS + 1)
    await show(till, seen(payment))
    assert till.db.point(matched_of, payment) == [first], "it is seen again"


async def test_whichever_of_two_is_mined_first_after_a_reorg_pays(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment), seen(payment, tx_id="0x02"))
    turned = await reorg(till)
    assert turned.paid_by_others == ()
    await show(till, seen(payment, tx_id="0x02", block_hash="0xb100"), seen(payment, block_hash="0xb100"))
    assert [till.kinds("0x01"), till.kinds("0x02")] == [["surplus"], ["matched"]]


async def test_a_payment_that_succeeded_is_reported_and_may_be_settled_by_another_transfer(
    till: Till,
) -> None:
    payment = await till.sell()
    await show(till, seen(payment), seen(payment, tx_id="0x02", block_number=90, block_hash="0xa90"))
    await till.succeed(payment, "0x01")
    turned = await reorg(till)
    assert (turned.lost, turned.paid_by_others) == ((payment,), ())
    assert till.kinds("0x02") == ["surplus"]

    # Such as the same authorization in a transaction that pays better; the first one then is too much.
    await show(till, seen(payment, tx_id="0x03", block_hash="0xb100"))
    assert till.kinds("0x03") == ["matched"]
    await show(till, seen(payment, block_number=104, block_hash="0xb104"))
    [pays] = till.db.point(matched_of, payment)
    assert (pays.tx_id, pays.awaits, pays.look_at) == ("0x03", "depth", 100)
    assert till.kinds("0x01") == ["surplus"]


async def test_a_transfer_that_comes_back_after_success_is_followed_again(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment))
    await till.succeed(payment, "0x01")
    await reorg(till)
    await show(till, seen(payment, block_number=104, block_hash="0xb104"))

    [back] = till.db.point(matched_of, payment)
    assert (back.tx_id, back.awaits, back.look_at) == ("0x01", "depth", 104)


async def test_nothing_more_is_awaited_for_a_payment_that_is_settled_or_over(till: Till) -> None:
    one, two = await till.sell("1"), await till.sell("2")
    await show(till, seen(one), seen(two, tx_id="0x02"))
    await till.succeed(one, "0x01")
    await till.move(one, SettlementCompleted("0x01"))
    await till.move(two, PaymentCancelled("cancelled_by_user"))
    turned = await reorg(till)
    assert turned.lost == (one,)
    assert [each.awaits for each in (*till.shown("0x01"), *till.shown("0x02"))] == [None, None]
    await show(till, seen(one, block_hash="0xb100"), seen(two, tx_id="0x02", block_hash="0xb100"))
    assert [(each.kind, each.awaits) for each in (*till.shown("0x01"), *till.shown("0x02"))] == [
        ("matched", None),
        ("late", None),
    ]


async def test_other_chains_know_nothing_of_a_reorg(till: Till) -> None:
    payment = await till.sell()
    other = "eip155:10"
    elsewhere = seen(
        chain=other,
        asset=f"{other}/slip44:60",
        recipient=account(SHOP),
        block_number=500,
        block_hash="0xc500",
        tx_id="0x09",
    )
    await show(till, seen(payment), elsewhere)
    await reorg(till)
    assert [one.block_hash for one in till.shown("0x09", other)] == ["0xc500"]


async def test_a_node_that_bound_a_transfer_to_the_wrong_payment_is_corrected(till: Till) -> None:
    right, wrong = await till.sell("1"), await till.sell("2")
    await show(till, seen(wrong))
    [noted] = await show(till, seen(right))
    assert (noted.sighting.payment_id, noted.sighting.kind) == (right, "matched")
    assert till.db.point(matched_of, wrong) == []

    # One that hides the tag changes nothing.
    assert await show(till, seen()) == []


async def test_what_is_shown_is_found_by_its_transactions_and_by_its_blocks(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment), seen(tx_id="0x02", block_number=101, block_hash="0xa101"))
    await show(till, seen(tx_id="0x03", block_number=102, block_hash="0xa102"))
    some = [f"0x0{number}" for number in range(9)] * 100
    assert till.db.point(blocks_of, CHAIN, some) == {
        ("0x01", "0xa100"),
        ("0x02", "0xa101"),
        ("0x03", "0xa102"),
    }
    assert [one.tx_id for one in till.db.point(sightings_between, CHAIN, 100, 101)] == ["0x02"]
    await reorg(till, 101)
    assert till.db.point(blocks_of, CHAIN, ["0x02", "0x03"]) == {("0x02", "0xa101")}
    assert till.db.point(sightings_between, CHAIN, 101, 999) == []
    assert till.db.point(blocks_of, "eip155:1", ["0x02"]) == set()
