"""Looks at a chain: what the watcher found moves a payment when it is proven, deep enough, and final."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest
from solders.instruction import Instruction

from payd.chains.base import Found
from payd.chains.defaults import DepthPolicy
from payd.chains.fee_terms import FeeTerms
from payd.chains.solana.binding import memo_of, reference_key, reference_of
from payd.chains.solana.lifetime import BLOCKHASH_BLOCKS
from payd.chains.solana.look import LANDS_WITHIN_MS
from payd.chains.solana.track import read_track
from payd.core.caip import parse_asset
from payd.core.errors import ChainUnavailable
from payd.core.option import Build
from payd.core.payment import (
    FundsCommitted,
    Payment,
    SettlementCompleted,
    TransferConfirmed,
    transition,
)
from payd.core.status import Status
from payd.store.db import Database
from payd.store.sightings import assign, matched_of
from payd.store.transfers import Follow
from tests.chains.solana.scene import Scene, open_scene, sign, signed_by, transaction_of
from tests.live.solana import (
    BUYER,
    BUYER_2,
    CHAIN,
    MERCHANT,
    OPERATOR,
    POOR,
    PYUSD,
    SOL,
    USDC,
    USDC_MINT,
    account_id,
    address,
    keypair,
    memo,
    pay_token,
    pubkey,
)
from tests.live.solana_proxy import with_err

pytestmark = pytest.mark.real_time

PRICE = 25_000_000


def committed(payment: Payment, found: Found | None) -> Payment:
    """The payment after a commitment that the chain showed."""
    assert found is not None
    assert isinstance(found.trigger, FundsCommitted)
    assert found.trigger.results_hash is None
    return transition(payment, found.trigger, payment.created_at_ms).payment


async def sent_by_wallet(scene: Scene, payment: Payment, asset: str = USDC) -> str:
    """The transaction of a quote, signed by the buyer, who sends it without telling anybody."""
    quote = await scene.quote(payment, asset)
    tx_id = await scene.local.send_raw(signed_by(transaction_of(quote), keypair(BUYER)))
    await scene.watch()
    return tx_id


# Transfers that no wallet told of.


@pytest.mark.parametrize("asset", [USDC, PYUSD, SOL])
async def test_a_transfer_commits_its_payment_though_no_wallet_ever_told_of_it(
    scene: Scene, asset: str
) -> None:
    payment = await scene.payment()
    tx_id = await sent_by_wallet(scene, payment, asset)
    height = scene.node.ledger.at("confirmed").height
    found = await scene.look(payment)
    after, row = committed(payment, found), scene.row(payment)
    track = read_track(after)

    assert after.processing is not None
    assert after.processing.buyer == account_id(BUYER)
    assert after.processing.fee is None
    assert (track.tx_id, track.asset, track.depth) == (tx_id, asset, "confirmed")
    assert track.valid_until_height == height + BLOCKHASH_BLOCKS
    assert found is not None
    assert found.follow == Follow(CHAIN, tx_id, f"slot:{row.block_number}", "depth", row.block_number)


def transfer_to_merchant(payment: Payment, payer: int, amount: int = PRICE) -> list[Instruction]:
    """What a wallet makes by itself of a link."""
    reference = reference_of(payment.id)
    paid = pay_token(pubkey(payer), pubkey(MERCHANT), USDC_MINT, amount, reference_key(payment.id))
    return [memo(memo_of(reference)), paid]


async def test_who_paid_is_the_buyer_and_not_who_was_asked(scene: Scene) -> None:
    payment = await scene.payment()
    await scene.quote(payment)
    await scene.local.send(transfer_to_merchant(payment, BUYER_2), keypair(BUYER_2))
    await scene.watch()
    after = committed(payment, await scene.look(payment))

    assert after.processing is not None
    assert after.processing.buyer == account_id(BUYER_2)


async def test_what_was_asked_of_who_paid_is_what_was_committed(scene: Scene) -> None:
    """Two accounts were offered the same; what one of them paid is its own quote."""
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.quote(payment, buyer=BUYER_2, option_id="opt_2")
    await scene.local.send_raw(signed_by(transaction_of(quote), keypair(BUYER)))
    await scene.watch()
    after = committed(payment, await scene.look(payment))

    assert after.processing is not None
    assert after.processing.buyer == account_id(BUYER)


async def test_of_several_amounts_that_were_asked_for_the_one_that_was_paid_is_committed(
    scene: Scene,
) -> None:
    payment = await scene.payment()
    offer = await scene.offer(payment, USDC)
    assert offer is not None
    await scene.hand_out(payment, USDC, offer)
    dearer = msgspec.structs.replace(offer, amount=PRICE + 1, actions=(Build("dearer"),))
    await scene.hand_out(payment, USDC, dearer)
    # The newest that comes to the same for the merchant had ended long before.
    ended = msgspec.structs.replace(
        offer, amount=PRICE + 2, due=PRICE, actions=(Build("ended"),), valid_until_ms=0
    )
    await scene.hand_out(payment, USDC, ended)
    await scene.local.send(transfer_to_merchant(payment, BUYER), keypair(BUYER))
    await scene.watch()
    after = committed(payment, await scene.look(payment))

    assert after.processing is not None
    assert after.processing.option_amount.value == str(PRICE)


async def test_whoever_follows_a_link_pays_by_it(scene: Scene) -> None:
    payment = await scene.payment()
    offer = await scene.solana.pay_offer(payment, parse_asset(USDC), account_id(MERCHANT), scene.now_ms())
    assert offer is not None
    await scene.hand_out(payment, USDC, offer)
    await scene.local.send(transfer_to_merchant(payment, BUYER), keypair(BUYER))
    await scene.watch()
    payment = await scene.follow(payment)

    assert payment.status is Status.SUCCEEDED
    assert payment.processing is not None
    assert payment.processing.buyer == account_id(BUYER)


async def paid_plainly(scene: Scene) -> tuple[Payment, str]:
    """A payment, and a transfer of its price that nothing binds to it."""
    payment = await scene.payment()
    await scene.quote(payment)
    plain = [pay_token(pubkey(BUYER_2), pubkey(MERCHANT), USDC_MINT, PRICE)]
    tx_id = await scene.local.send(plain, keypair(BUYER_2))
    await scene.watch()
    return payment, tx_id


async def test_a_transfer_that_a_merchant_names_needs_no_binding(scene: Scene) -> None:
    payment, tx_id = await paid_plainly(scene)
    assert await scene.look(payment) is None
    await scene.db.write(assign, payment.id, CHAIN, tx_id, "merchant", scene.now_ms())
    payment = await scene.follow(payment)

    assert payment.status is Status.SUCCEEDED
    assert read_track(payment).assigned


async def test_a_stored_match_that_nobody_assigned_needs_its_binding(scene: Scene) -> None:
    """As when the node lied that showed it: the looks ask again, and are not told the same."""
    payment, tx_id = await paid_plainly(scene)
    await scene.db.write(assign, payment.id, CHAIN, tx_id, "merchant", scene.now_ms())
    await scene.db.write(lambda tx: tx.execute("UPDATE transfers SET assigned = 0"))

    assert await scene.look(payment) is None


async def test_an_assigned_transfer_that_the_store_lost_fails_nobody(scene: Scene) -> None:
    """Its transaction is there and pays: that it has no binding is no proof that it paid nothing."""
    payment, tx_id = await paid_plainly(scene)
    await scene.db.write(assign, payment.id, CHAIN, tx_id, "merchant", scene.now_ms())
    found = await scene.look(payment)
    assert found is not None
    assert found.trigger is not None
    payment = await scene.move(payment, found.trigger)
    await scene.db.write(lambda tx: tx.execute("DELETE FROM transfers"))
    await scene.watch(BLOCKHASH_BLOCKS + 10)

    assert payment.status is Status.PROCESSING
    assert await scene.look(payment) is None


async def test_what_was_stored_of_another_amount_than_nodes_show_commits_nothing(scene: Scene) -> None:
    payment = await scene.payment()
    await scene.quote(payment)
    await scene.local.send(transfer_to_merchant(payment, BUYER, PRICE - 1), keypair(BUYER))
    await scene.watch()
    lie = "UPDATE transfers SET kind = 'matched', value = ?"
    await scene.db.write(lambda tx: tx.execute(lie, (str(PRICE),)))

    assert await scene.look(payment) is None


async def test_an_open_payment_without_a_transfer_is_left_alone(scene: Scene) -> None:
    payment = await scene.payment()
    await scene.quote(payment)
    await scene.watch(5)

    assert await scene.look(payment) is None


async def test_a_node_that_does_not_show_the_transfer_commits_nothing_yet(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=1) as scene:
        payment = await scene.payment()
        tx_id = await sent_by_wallet(scene, payment)
        for node in (scene.proxies[0].node,):
            node.forgotten.add(tx_id)
            assert await scene.look(payment) is None
            node.forgotten.clear()
        scene.proxies[0].rewrite = with_err({"InstructionError": [4, {"Custom": 1}]})
        assert await scene.look(payment) is None
        scene.proxies[0].rewrite = None

        assert committed(payment, await scene.look(payment)).status is Status.PROCESSING


@pytest.mark.parametrize("liar", [0, 1])
async def test_what_another_node_contradicts_commits_nothing_until_both_show_it(
    realm_db: Database, liar: int
) -> None:
    async with open_scene(realm_db, proxies=2) as scene:
        payment = await scene.payment()
        await sent_by_wallet(scene, payment)
        scene.proxies[liar].rewrite = with_err({"InstructionError": [4, {"Custom": 1}]})
        assert await scene.look(payment) is None
        assert scene.solana.evidence.disagreements == 1
        scene.proxies[liar].rewrite = None

        assert committed(payment, await scene.look(payment)).status is Status.PROCESSING


# The operator's part.

FEE = FeeTerms(Fraction(2, 100), Fraction(0), address(OPERATOR))


@pytest.mark.parametrize("buyer", [BUYER, POOR])
async def test_a_payment_with_a_fee_succeeds_by_the_merchants_part(realm_db: Database, buyer: int) -> None:
    async with open_scene(realm_db, fee=FEE) as scene:
        payment = await scene.follow(await scene.paid(buyer=buyer))
        assert scene.row(payment).value == 24_500_000
        await scene.watch(3)
        payment = await scene.follow(payment)

        assert payment.settled is not None
        assert payment.settled.amount.value == "24500000"
        assert payment.processing is not None
        assert payment.processing.option_amount.value == str(PRICE)
        assert payment.processing.fee is not None
        assert payment.processing.fee.total_amount.value == "500000"


async def test_a_fee_that_the_chain_shows_is_told(realm_db: Database) -> None:
    async with open_scene(realm_db, fee=FEE) as scene:
        payment = await scene.payment()
        await sent_by_wallet(scene, payment)
        after = committed(payment, await scene.look(payment))

        assert after.processing is not None
        assert after.processing.fee is not None
        assert after.processing.fee.total_amount.value == "500000"


@pytest.mark.parametrize("part", [0, 499_999])
async def test_a_fee_that_was_left_out_is_told_to_nobody(realm_db: Database, part: int) -> None:
    """The merchant has what was asked for; what the operator did not get is not booked as got."""
    async with open_scene(realm_db, fee=FEE) as scene:
        payment = await scene.payment()
        await scene.quote(payment)
        paid = transfer_to_merchant(payment, BUYER, 24_500_000)
        paid += [pay_token(pubkey(BUYER), pubkey(OPERATOR), USDC_MINT, part)] if part else []
        await scene.local.send(paid, keypair(BUYER))
        await scene.watch()
        after = committed(payment, await scene.look(payment))

        assert after.processing is not None
        assert after.processing.fee is None
        assert after.processing.option_amount == after.processing.settlement_amount
        assert after.processing.settlement_amount.value == "24500000"


# From commitment to success.


@pytest.mark.parametrize("asset", [USDC, PYUSD, SOL])
async def test_a_payment_succeeds_when_it_is_confirmed_and_settles_when_it_is_final(
    scene: Scene, asset: str
) -> None:
    payment = await scene.follow(await scene.paid(asset))
    assert payment.status is Status.SUCCEEDED
    assert payment.success is not None
    assert payment.success.tx_id == scene.row(payment).tx_id
    assert payment.settled is None
    assert scene.row(payment).awaits == "final"

    await scene.watch(2)
    assert (await scene.follow(payment)).settled is None
    await scene.watch(1)
    payment = await scene.follow(payment)
    assert payment.settled is not None
    assert payment.settled.tx_id == scene.row(payment).tx_id
    assert scene.row(payment).awaits is None
    assert await scene.look(payment) is None


async def test_a_payment_that_waits_for_finality_succeeds_and_settles_at_once(realm_db: Database) -> None:
    async with open_scene(realm_db, depth=DepthPolicy.of("finalized")) as scene:
        payment = await scene.follow(await scene.paid())
        assert payment.status is Status.PROCESSING
        assert scene.row(payment).awaits == "final"
        await scene.watch(2)
        assert (await scene.follow(payment)).status is Status.PROCESSING
        await scene.watch(1)
        payment = await scene.follow(payment)

        assert payment.status is Status.SUCCEEDED
        assert payment.settled is not None


async def test_large_payments_wait_longer_than_small_ones(realm_db: Database) -> None:
    async with open_scene(realm_db, depth=DepthPolicy.of({"0": "confirmed", "25": "finalized"})) as scene:
        small = await scene.follow(await scene.paid(value=2499))
        large = await scene.paid(id="pay_l01jw0000000000000000000000000000000b")

        assert small.status is Status.SUCCEEDED
        assert (await scene.follow(large)).status is Status.PROCESSING


async def test_the_depth_is_that_of_the_day_of_the_commitment(realm_db: Database) -> None:
    async with open_scene(realm_db, depth=DepthPolicy.of("finalized")) as scene:
        payment = await scene.paid()
        restarted = scene.restarted(depth=DepthPolicy.of("confirmed"))
        found = await restarted.look(payment, scene.now_ms())

        assert found is not None
        assert found.trigger is None


# Doubt.


async def test_one_of_two_nodes_that_does_not_answer_keeps_a_payment_waiting(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=2) as scene:
        payment = await scene.paid()
        scene.proxies[1].status = 503
        with pytest.raises(ChainUnavailable):
            await scene.look(payment)


async def test_a_transfer_that_a_fork_took_is_nobodys_success_and_pays_when_it_lands_again(
    scene: Scene,
) -> None:
    payment = await scene.signed()
    await scene.bring()
    await scene.watch()
    row = scene.row(payment)
    await scene.local.rpc("payd_fork", 2)
    assert await scene.look(payment) is None
    await scene.watch(4)
    found = await scene.look(payment)
    assert found == Found(None, denied=row)
    await scene.take_back(row)
    assert scene.db.point(matched_of, payment.id) == []
    assert await scene.look(payment) is None

    # The same bytes, which somebody still has.
    await scene.bring()
    await scene.watch()
    payment = await scene.follow(payment)
    assert payment.status is Status.SUCCEEDED
    assert scene.row(payment).block_number > row.block_number


async def test_a_transfer_that_moved_to_another_slot_is_proven_there_alone(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.bring()
    await scene.watch()
    await scene.local.rpc("payd_fork", 2)
    await scene.bring()
    await scene.local.slots(1)
    # The store still has the slot that lost.
    assert await scene.look(payment) is None
    assert scene.solana.evidence.disagreements == 2, "asked with who signed, and without"
    await scene.watch()

    assert (await scene.follow(payment)).status is Status.SUCCEEDED


async def test_an_open_payment_is_committed_by_a_transfer_where_it_is(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    raw = signed_by(transaction_of(quote), keypair(BUYER))
    await scene.local.send_raw(raw)
    await scene.watch()
    await scene.local.rpc("payd_fork", 2)
    await scene.local.send_raw(raw)
    await scene.local.slots(1)
    # The store still has the slot that lost.
    assert await scene.look(payment) is None
    await scene.watch()

    assert committed(payment, await scene.look(payment)).status is Status.PROCESSING


async def test_nothing_is_let_go_of_before_what_is_final_was_read(scene: Scene) -> None:
    payment = await scene.payment()
    tx_id = await sent_by_wallet(scene, payment)
    row = scene.row(payment)
    scene.node.forgotten.add(tx_id)
    await scene.local.slots(9)
    assert await scene.look(payment) is None
    await scene.watch(0)

    assert await scene.look(payment) == Found(None, denied=row)


async def test_an_open_payment_lets_go_of_a_transfer_that_is_nowhere(realm_db: Database) -> None:
    """A node that says confirmed and then forgets."""
    async with open_scene(realm_db, proxies=1) as scene:
        payment = await scene.payment()
        tx_id = await sent_by_wallet(scene, payment)
        row = scene.row(payment)
        scene.proxies[0].node.forgotten.add(tx_id)
        await scene.watch(2)
        assert await scene.look(payment) is None
        await scene.watch(1)

        assert await scene.look(payment) == Found(None, denied=row)


async def test_what_succeeded_and_is_gone_is_not_taken_back(scene: Scene) -> None:
    payment = await scene.follow(await scene.paid())
    assert payment.status is Status.SUCCEEDED
    await scene.local.rpc("payd_fork", 2)
    await scene.watch(6)

    assert await scene.look(payment) is None


# When to ask.


async def test_a_payment_is_looked_after_when_its_transaction_has_landed_or_cannot_any_more(
    scene: Scene,
) -> None:
    payment = await scene.payment()
    assert scene.solana.due_at_ms(payment) is None
    quote = await scene.quote(payment)
    payment = await scene.commit(payment, quote, sign(quote))
    assert payment.processing is not None
    assert scene.solana.due_at_ms(payment) == payment.processing.processing_at_ms + LANDS_WITHIN_MS
    succeeded = transition(payment, TransferConfirmed("x"), payment.created_at_ms).payment
    settled = transition(succeeded, SettlementCompleted("x"), payment.created_at_ms).payment

    assert scene.solana.due_at_ms(succeeded) is None
    assert scene.solana.due_at_ms(settled) is None


async def test_windows_close_by_the_time_of_the_newest_final_slot_that_was_read(
    realm_db: Database, scene: Scene
) -> None:
    await scene.watch(1)
    assert scene.solana.read_until_ms(CHAIN) == scene.node.ledger.at("finalized").time_s * 1000
    await realm_db.write(lambda tx: tx.execute("DELETE FROM chain_cursors WHERE kind = 'final'"))

    assert scene.solana.read_until_ms(CHAIN) == 0
