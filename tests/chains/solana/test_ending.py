"""What became of a commitment that no transfer shows: no failure while anything of ours can still land."""

from __future__ import annotations

import struct

import msgspec
import pytest

from payd.chains.base import Found
from payd.chains.solana.binding import memo_of, reference_key, reference_of
from payd.chains.solana.ending import GIVEN_UP_S, LISTED_MAX, End
from payd.chains.solana.extensions import Kind
from payd.chains.solana.failures import NO_FUNDS
from payd.chains.solana.keys import TOKEN_2022
from payd.chains.solana.track import read_track
from payd.core.failure import BROADCAST_FAILED, PAID_NOTHING
from payd.core.payment import FundsCommitted, Payment, PaymentFailed, WindowClosed
from payd.store.chain_cursors import find_cursor
from payd.store.submissions import end_submission, find_submission
from tests.chains.solana.scene import Scene, sign, signed_by, transaction_of
from tests.live.solana import (
    BUYER,
    BUYER_2,
    CHAIN,
    MERCHANT,
    PYUSD,
    PYUSD_MINT,
    STRANGER,
    USDC_MINT,
    extension,
    hand_over,
    keypair,
    memo,
    pay_sol,
    pay_token,
    pubkey,
)

pytestmark = pytest.mark.real_time

# So many blocks, and a blockhash does not serve any more; so many later, that is final.
LIFE = 150
FINAL = 4


def end(found: Found | None) -> End | None:
    if found is None:
        return None
    assert isinstance(found.trigger, (PaymentFailed, WindowClosed)), found
    assert found.follow is None
    return found.trigger


async def kill(scene: Scene, payment: Payment, reason: str = "the disk was full") -> None:
    """Note that what was owed to the chain cannot be brought there any more."""
    submission = scene.db.point(find_submission, payment.id)
    assert submission is not None
    assert await scene.db.write(end_submission, submission.seq, "dead", reason)


# What never left.


async def test_what_never_left_us_has_failed_and_says_why(scene: Scene) -> None:
    payment = await scene.signed()
    assert await scene.look(payment) is None
    await kill(scene, payment)
    words = "It could not be brought to the blockchain: the disk was full"

    assert end(await scene.look(payment)) == PaymentFailed(words, BROADCAST_FAILED)


async def test_what_never_left_us_has_not_failed_while_something_else_can_land_that_was_built_for_it(
    scene: Scene,
) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.local.slots(80)
    # Another account fetched its own, and may still send it.
    await scene.quote(payment, buyer=BUYER_2, option_id="opt_2")
    payment = await scene.commit(payment, quote, sign(quote))
    await kill(scene, payment)
    await scene.watch(LIFE + FINAL - 1)
    assert await scene.look(payment) is None
    await scene.watch(1)

    ended = end(await scene.look(payment))
    assert isinstance(ended, PaymentFailed)
    assert "the disk was full" in ended.reason


async def test_what_left_us_may_land_whatever_became_of_it_here(scene: Scene) -> None:
    payment = await scene.signed()
    scene.node.mode = "blackhole"
    await scene.bring()
    await kill(scene, payment)

    assert await scene.look(payment) is None


# Nowhere.


async def test_a_window_closes_once_the_blockhash_has_expired_in_a_final_block_and_not_a_block_before(
    scene: Scene,
) -> None:
    payment = await scene.signed()
    track = read_track(payment)
    assert track.valid_until_height is not None
    await scene.watch(LIFE + FINAL - 1)
    assert scene.node.ledger.at("finalized").height == track.valid_until_height
    assert await scene.look(payment) is None
    await scene.watch(1)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_heights_count_and_not_slots(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.local.rpc("payd_skip", 400)
    await scene.watch(FINAL)

    assert await scene.look(payment) is None


async def test_what_landed_just_in_time_is_no_end(scene: Scene) -> None:
    """Though no transfer of it was found yet."""
    payment = await scene.signed()
    await scene.local.slots(LIFE - 1)
    await scene.bring()
    for _ in range(3):
        await scene.local.slots(FINAL)
        assert await scene.look(payment) is None


async def test_a_node_that_has_the_slots_since_the_commitment_need_not_have_all(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.watch(LIFE + FINAL)
    assert payment.processing is not None
    scene.node.first_slot = scene.node.ledger.at("finalized").slot - 1000 - 10
    later_ms = payment.processing.processing_at_ms + 10 * 400 // 2
    assert isinstance(end(await scene.solana.look(payment, later_ms)), WindowClosed)

    assert await scene.solana.look(payment, later_ms + 400) is None
    scene.node.first_slot = scene.node.ledger.at("finalized").slot - 999
    set_back_ms = payment.processing.processing_at_ms - 3_600_000
    assert await scene.solana.look(payment, set_back_ms) is None, "a clock that was set back proves nothing"


async def test_what_every_node_has_forgotten_is_given_up_half_a_day_after_its_window(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.watch(LIFE + FINAL)
    scene.node.first_slot = scene.node.ledger.at("finalized").slot - 10
    then_ms = payment.expires_at_ms + GIVEN_UP_S * 1000
    assert await scene.solana.look(payment, then_ms - 1) is None
    assert isinstance(end(await scene.solana.look(payment, then_ms)), WindowClosed)


async def test_what_was_committed_after_its_window_is_given_up_as_long_after_that(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.watch(LIFE + FINAL)
    scene.node.first_slot = scene.node.ledger.at("finalized").slot - 10
    assert payment.processing is not None
    committed_ms = payment.processing.processing_at_ms
    payment = msgspec.structs.replace(payment, expires_at_ms=committed_ms - 3_600_000)
    then_ms = committed_ms + GIVEN_UP_S * 1000
    assert await scene.solana.look(payment, then_ms - 1) is None
    assert isinstance(end(await scene.solana.look(payment, then_ms)), WindowClosed)


async def test_what_some_node_shows_is_never_given_up(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.bring()
    await scene.local.slots(LIFE + FINAL)
    scene.node.first_slot = scene.node.ledger.at("finalized").slot - 10
    assert await scene.solana.look(payment, payment.expires_at_ms + 2 * GIVEN_UP_S * 1000) is None


async def test_nothing_closes_while_something_else_that_was_built_for_it_can_land(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.local.slots(80)
    # Another account fetched its own, and may still send it.
    await scene.quote(payment, buyer=BUYER_2, option_id="opt_2")
    payment = await scene.commit(payment, quote, sign(quote))
    await scene.watch(LIFE + FINAL - 1)
    assert await scene.look(payment) is None
    await scene.watch(1)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_another_transaction_that_pays_keeps_it_open(scene: Scene) -> None:
    """Its transfer was not found yet, wherever in the merchant's wallet it arrived."""
    payment = await scene.signed()
    named = [
        memo(memo_of(reference_of(payment.id))),
        pay_token(pubkey(BUYER_2), pubkey(MERCHANT), USDC_MINT, 25_000_000, reference_key(payment.id)),
    ]
    await scene.local.send(named, keypair(BUYER_2))
    await scene.local.slots(LIFE + FINAL)

    assert await scene.look(payment) is None


async def test_transactions_that_only_name_a_payment_do_not_keep_it_open(scene: Scene) -> None:
    payment = await scene.signed()
    for lamports in (1, 2):
        named = [pay_sol(pubkey(BUYER_2), pubkey(BUYER), lamports, reference_key(payment.id))]
        await scene.local.send(named, keypair(BUYER_2))
    await scene.local.slots(LIFE + FINAL)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_what_names_it_and_pays_the_merchant_for_nothing_does_not_keep_it_open(scene: Scene) -> None:
    """A reference without its memo binds nothing: anybody could have it count for another sale."""
    payment = await scene.signed()
    named = [
        pay_sol(pubkey(BUYER_2), pubkey(BUYER), 1, reference_key(payment.id)),
        pay_token(pubkey(BUYER_2), pubkey(MERCHANT), USDC_MINT, 25_000_000),
    ]
    await scene.local.send(named, keypair(BUYER_2))
    await scene.local.slots(LIFE + FINAL)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_of_transactions_that_name_it_a_few_are_read_and_what_more_do_was_read_with_the_window(
    scene: Scene,
) -> None:
    payment = await scene.signed()
    for lamports in range(LISTED_MAX + 1):
        named = [pay_sol(pubkey(BUYER_2), pubkey(BUYER), lamports + 1, reference_key(payment.id))]
        await scene.local.send(named, keypair(BUYER_2))
    await scene.watch(LIFE + FINAL)
    assert await scene.look(payment) is None
    read = scene.db.point(find_cursor, CHAIN, "final")
    assert read is not None
    just = msgspec.structs.replace(payment, expires_at_ms=read.time_s * 1000)
    assert await scene.look(just) is None, "another block may be of the same second"
    newest = next(reversed(scene.node.ledger.landed))
    scene.node.forgotten.add(newest)
    assert isinstance(end(await scene.look(payment)), WindowClosed)
    scene.node.forgotten.clear()
    await scene.local.rpc("payd_time", 901)
    await scene.watch(FINAL)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_nobody_keeps_it_open_by_naming_it_again_and_again(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.watch(LIFE)
    await scene.local.rpc("payd_time", 901)
    for lamports in range(LISTED_MAX + 1):
        named = [pay_sol(pubkey(BUYER_2), pubkey(BUYER), lamports + 1, reference_key(payment.id))]
        await scene.local.send(named, keypair(BUYER_2))
        await scene.watch(1)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_what_has_landed_and_pays_is_not_hidden_by_others_that_name_it(scene: Scene) -> None:
    """Too many to be read, and its transfer was lost from the store."""
    payment = await scene.signed()
    await scene.bring()
    for lamports in range(LISTED_MAX + 1):
        named = [pay_sol(pubkey(BUYER_2), pubkey(BUYER), lamports + 1, reference_key(payment.id))]
        await scene.local.send(named, keypair(BUYER_2))
    await scene.local.rpc("payd_time", 901)
    await scene.watch(LIFE + FINAL)
    await scene.db.write(lambda tx: tx.execute("DELETE FROM transfers"))

    assert await scene.look(payment) is None


async def test_nobody_keeps_it_open_with_a_part_of_its_amount(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.local.give(pubkey(BUYER_2), USDC_MINT, 1)
    named = [
        memo(memo_of(reference_of(payment.id))),
        pay_token(pubkey(BUYER_2), pubkey(MERCHANT), USDC_MINT, 1, reference_key(payment.id)),
    ]
    await scene.local.send(named, keypair(BUYER_2))
    await scene.watch(LIFE + FINAL)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_what_names_it_and_is_not_final_keeps_it_open(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.local.slots(LIFE + FINAL)
    named = [pay_sol(pubkey(BUYER_2), pubkey(BUYER), 1, reference_key(payment.id))]
    await scene.local.send(named, keypair(BUYER_2))
    await scene.local.slots(FINAL - 1)
    assert await scene.look(payment) is None
    await scene.local.slots(1)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def forked(scene: Scene) -> tuple[Payment, bytes]:
    """A payment whose wallet sent its transaction itself, which a fork then took; and the transaction."""
    payment = await scene.payment()
    quote = await scene.quote(payment)
    raw = signed_by(transaction_of(quote), keypair(BUYER))
    await scene.local.send_raw(raw)
    await scene.watch()
    found = await scene.look(payment)
    assert found is not None
    assert isinstance(found.trigger, FundsCommitted)
    payment, row = await scene.move(payment, found.trigger), scene.row(payment)
    await scene.local.rpc("payd_fork", 2)
    await scene.take_back(row)
    return payment, raw


async def test_what_a_wallet_sent_itself_may_be_sent_anew_until_the_window_closes(scene: Scene) -> None:
    payment, _ = await forked(scene)
    await scene.watch(LIFE + 2 * FINAL)
    assert await scene.look(payment) is None
    await scene.local.rpc("payd_time", 901)
    await scene.watch(FINAL - 1)
    assert await scene.look(payment) is None
    await scene.watch(1)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


# Failed.


async def failed(scene: Scene) -> Payment:
    """A payment whose buyer spent the money before it landed."""
    payment = await scene.signed()
    await scene.local.give(pubkey(BUYER), USDC_MINT, 1)
    await scene.bring()
    return payment


async def test_what_failed_on_the_chain_has_failed_once_that_is_final(scene: Scene) -> None:
    payment = await failed(scene)
    await scene.watch(FINAL - 1)
    assert await scene.look(payment) is None
    await scene.watch(1)
    found = end(await scene.look(payment))

    assert isinstance(found, PaymentFailed)
    assert found.code == BROADCAST_FAILED
    assert NO_FUNDS in found.reason


async def test_what_a_wallet_sent_itself_and_failed_does_not_wait_for_the_window(scene: Scene) -> None:
    payment, raw = await forked(scene)
    await scene.local.give(pubkey(BUYER), USDC_MINT, 1)
    await scene.local.send_raw(raw)
    await scene.watch(LIFE + 2 * FINAL)
    read = scene.db.point(find_cursor, CHAIN, "final")
    assert read is not None
    assert read.time_s * 1000 < payment.expires_at_ms

    assert isinstance(end(await scene.look(payment)), PaymentFailed)


async def test_a_failure_waits_for_what_else_was_built_for_it(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.quote(payment, buyer=BUYER_2, option_id="opt_2")
    payment = await scene.commit(payment, quote, sign(quote))
    await scene.local.give(pubkey(BUYER), USDC_MINT, 1)
    await scene.bring()
    await scene.watch(LIFE + FINAL - 1)
    assert await scene.look(payment) is None
    await scene.watch(1)

    assert isinstance(end(await scene.look(payment)), PaymentFailed)


@pytest.mark.parametrize("dies", ["on the chain", "here"])
async def test_nothing_has_failed_while_another_one_that_was_built_for_it_has_paid(
    scene: Scene, dies: str
) -> None:
    """Its transfer was not read yet."""
    payment = await scene.payment()
    quote = await scene.quote(payment)
    other = await scene.quote(payment, buyer=BUYER_2, option_id="opt_2")
    payment = await scene.commit(payment, quote, sign(quote))
    await scene.local.send_raw(signed_by(transaction_of(other), keypair(BUYER_2)))
    if dies == "here":
        await kill(scene, payment)
    else:
        await scene.local.give(pubkey(BUYER), USDC_MINT, 1)
        await scene.bring()
    await scene.local.slots(LIFE + FINAL)

    assert await scene.look(payment) is None


async def test_what_landed_and_paid_somebody_else_has_paid_nothing(scene: Scene) -> None:
    """The merchant's token account got another owner between the check and the chain."""
    payment = await scene.signed()
    given = [hand_over(pubkey(MERCHANT), USDC_MINT, pubkey(STRANGER))]
    await scene.local.send(given, keypair(MERCHANT))
    await scene.bring()
    await scene.watch(FINAL)

    assert end(await scene.look(payment)) == PaymentFailed(PAID_NOTHING, BROADCAST_FAILED)


async def test_another_amount_that_reached_the_merchant_is_no_failure_and_ends_with_the_window(
    scene: Scene,
) -> None:
    """A token begins to take a fee. What came is recorded as what it is, and somebody looks at it."""
    following = extension(Kind.TRANSFER_FEE_AMOUNT, bytes(8))
    await scene.local.mint(PYUSD_MINT, TOKEN_2022, extensions=fee_of_transfers(0))
    for place in (BUYER, MERCHANT):
        await scene.local.give(pubkey(place), PYUSD_MINT, 50_000_000, TOKEN_2022, following)
    payment = await scene.signed(PYUSD)
    await scene.local.mint(PYUSD_MINT, TOKEN_2022, extensions=fee_of_transfers(100))
    await scene.bring()
    await scene.watch(LIFE + FINAL)
    assert await scene.look(payment) is None
    await scene.local.rpc("payd_time", 901)
    await scene.watch(FINAL - 1)
    assert await scene.look(payment) is None
    await scene.watch(1)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


def fee_of_transfers(basis_points: int) -> bytes:
    fee = struct.pack("<QQH", 0, 2**32, basis_points)
    return extension(Kind.TRANSFER_FEE_CONFIG, 2 * bytes(pubkey(STRANGER)) + bytes(8) + fee + fee)
