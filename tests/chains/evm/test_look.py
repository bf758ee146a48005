"""Looks at a chain: what the watcher found moves a payment when it is proven, deep enough, and final."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from payd.chains.base import Accepted, Found
from payd.chains.defaults import DepthPolicy
from payd.chains.evm.actions import Sending, read_actions
from payd.chains.evm.look import EXPIRY_MARGIN_MS, SENT_GRACE_MS
from payd.chains.evm.track import Told, notes_of, read_track
from payd.core.errors import ChainUnavailable
from payd.core.money import asset_amount
from payd.core.payment import (
    FundsCommitted,
    Payment,
    PaymentFailed,
    SettlementCompleted,
    TransferConfirmed,
    transition,
)
from payd.core.relay import RelayJob
from payd.core.status import Status
from payd.store.db import Database
from payd.store.relays import insert_job
from payd.store.sightings import Sighting, hold_to_commitment, matched_of
from payd.store.transfers import Follow
from tests.chains.evm.scene import CHAIN, ETH, Scene, open_scene, sign, two_nodes
from tests.live.anvil import Anvil
from tests.live.chain import BUYER, BUYER_2, MERCHANT, OPERATOR, STRANGER, account, address, calldata
from tests.live.proxy import open_proxy

pytestmark = pytest.mark.real_time


def transfer_of(scene: Scene, payment: Payment) -> Sighting:
    [row] = scene.db.point(matched_of, payment.id)
    return row


def committed(payment: Payment, found: Found | None) -> Payment:
    """The payment after a commitment that the chain showed."""
    assert found is not None
    assert isinstance(found.trigger, FundsCommitted)
    assert found.trigger.results_hash is None
    return transition(payment, found.trigger, payment.created_at_ms).payment


async def signed_and_relayed(scene: Scene, **other: Any) -> Payment:
    """A payment whose signature was taken, and whose transfer is in the newest block and found."""
    payment = await scene.payment(**other)
    quote = await scene.quote(payment, scene.usdc_asset)
    payment = await scene.commit(payment, quote, *map(sign, quote.actions))
    await scene.relay()
    await scene.watch()
    return payment


# Transfers that no wallet told of.


@pytest.mark.parametrize("coin", [False, True])
async def test_a_transfer_commits_its_payment_though_no_wallet_ever_told_of_it(
    scene: Scene, coin: bool
) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, ETH if coin else scene.dai_asset)
    tx_hash = await scene.send(quote)
    await scene.chain.receipt(tx_hash)
    await scene.watch()
    found = await scene.look(payment)
    after, row = committed(payment, found), transfer_of(scene, payment)

    assert payment.id in scene.told
    assert after.processing is not None
    assert after.processing.buyer == quote.account
    assert after.processing.option_amount.value == str(quote.amount)
    told = read_track(after).told
    assert told is not None
    assert (told.tx_hash, told.sender) == (tx_hash, address(BUYER).lower())
    assert told.nonce is not None
    assert found is not None
    assert found.follow == Follow(str(CHAIN), tx_hash, row.block_hash or "", "depth", row.block_number + 1)


async def test_who_paid_is_the_buyer_and_not_who_was_asked(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset)
    await scene.chain.receipt(await scene.send(quote, BUYER_2))
    await scene.watch()
    after = committed(payment, await scene.look(payment))

    assert after.processing is not None
    assert after.processing.buyer == f"{CHAIN}:{address(BUYER_2).lower()}"


async def test_where_the_merchant_has_moved_what_was_asked_for_at_the_place_that_was_paid_counts(
    scene: Scene,
) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset)
    await scene.quote(payment, scene.dai_asset, merchant=address(OPERATOR))
    await scene.chain.receipt(await scene.send(quote))
    await scene.watch(3)
    payment = await scene.follow(payment)

    assert payment.status is Status.SUCCEEDED
    assert read_track(payment).recipient == f"{CHAIN}:{address(MERCHANT).lower()}"


async def test_an_authorization_that_somebody_else_brought_commits_what_was_signed(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    never_stored = await scene.check(payment, quote, sign(quote.actions[0]))
    assert isinstance(never_stored, Accepted)
    assert isinstance(never_stored.job, RelayJob)
    await scene.chain.done(account(STRANGER), never_stored.job.target, never_stored.job.data)
    await scene.watch()
    after = committed(payment, await scene.look(payment))
    track = read_track(after)

    # Whatever becomes of the stranger's transaction: the authorization can land until it ends.
    assert track.told is None
    assert track.valid_until_s == payment.expires_at_ms // 1000 + 45 * 60
    assert after.processing is not None
    assert after.processing.buyer == quote.account


async def test_a_smart_wallets_transfer_has_no_nonce_to_wait_for(scene: Scene) -> None:
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(STRANGER)])
    await scene.chain.mint(scene.dai, wallet, 25_000_000)
    payment = await scene.payment()
    asked = read_actions((await scene.quote(payment, scene.dai_asset, buyer=wallet)).actions)
    assert isinstance(asked, Sending)
    wrapped = calldata("execute(address,uint256,bytes)", scene.dai, 0, asked.data)
    receipt = await scene.chain.done(account(STRANGER), wallet, wrapped)
    await scene.watch()
    track = read_track(committed(payment, await scene.look(payment)))

    assert track.told == Told(receipt["transactionHash"], address(STRANGER).lower(), None)


async def test_an_open_payment_without_a_transfer_is_left_alone(scene: Scene) -> None:
    payment = await scene.payment()
    await scene.quote(payment, scene.dai_asset)
    await scene.watch(5)

    assert await scene.look(payment) is None


async def test_a_node_that_does_not_show_the_transfer_commits_nothing_yet(
    realm_db: Database, anvil: Anvil
) -> None:
    async with open_proxy(anvil) as proxy, open_scene(realm_db, anvil, urls=[proxy.url]) as scene:
        payment = await scene.payment()
        tx_hash = await scene.send(await scene.quote(payment, scene.dai_asset))
        await scene.chain.receipt(tx_hash)
        await scene.watch()
        proxy.hidden.add(tx_hash)
        assert await scene.look(payment) is None
        proxy.hidden.clear()

        assert committed(payment, await scene.look(payment)).status is Status.PROCESSING


@pytest.mark.parametrize("other", [0, 1])
async def test_what_another_node_contradicts_commits_nothing_until_both_show_it(
    realm_db: Database, anvil: Anvil, other: int
) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, second):
        payment = await scene.payment()
        tx_hash = await scene.send(await scene.quote(payment, scene.dai_asset))
        await scene.chain.receipt(tx_hash)
        await scene.watch()
        one = (first, second)[other]
        one.hidden.add(tx_hash)
        assert await scene.look(payment) is None
        assert scene.evm.evidence.disagreements == 1
        one.hidden.clear()

        assert committed(payment, await scene.look(payment)).status is Status.PROCESSING


# From commitment to success.


async def test_a_payment_succeeds_at_its_depth_and_settles_when_that_is_final(scene: Scene) -> None:
    payment = await signed_and_relayed(scene)
    row = transfer_of(scene, payment)
    found = await scene.look(payment)
    assert found is not None
    assert found.trigger is None
    assert found.follow == Follow(str(CHAIN), row.tx_id, row.block_hash or "", "depth", row.block_number + 1)
    payment = await scene.follow(payment)
    assert payment.status is Status.PROCESSING

    await scene.watch(1)
    payment = await scene.follow(payment)
    assert payment.status is Status.SUCCEEDED
    assert payment.success is not None
    assert payment.success.tx_id == row.tx_id
    assert payment.settled is None
    assert transfer_of(scene, payment).awaits == "final"

    await scene.watch(1)
    payment = await scene.follow(payment)
    assert payment.settled is not None
    assert payment.settled.tx_id == row.tx_id
    assert transfer_of(scene, payment).awaits is None
    assert await scene.look(payment) is None


async def test_what_is_not_deep_enough_by_what_was_read_asks_no_node(
    realm_db: Database, anvil: Anvil
) -> None:
    async with open_proxy(anvil) as proxy, open_scene(realm_db, anvil, urls=[proxy.url]) as scene:
        payment = await signed_and_relayed(scene)
        proxy.posts = 0
        found = await scene.look(payment)
        assert found is not None
        assert found.trigger is None
        assert await scene.follow(payment) is payment
        assert await scene.look(payment) is None

        assert proxy.posts == 0


@pytest.mark.parametrize(("depth", "blocks"), [(1, 0), (2, 1), (3, 2), ("safe", 1), ("finalized", 2)])
async def test_a_payment_succeeds_at_the_depth_of_its_policy_and_not_a_block_before(
    realm_db: Database, anvil: Anvil, depth: Any, blocks: int
) -> None:
    async with open_scene(realm_db, anvil, depth=DepthPolicy.of(depth), final=9) as scene:
        payment = await signed_and_relayed(scene)
        if blocks:
            await scene.watch(blocks - 1)
            payment = await scene.follow(payment)
            assert payment.status is Status.PROCESSING
            await scene.watch(1)
        payment = await scene.follow(payment)

        assert payment.status is Status.SUCCEEDED
        assert payment.settled is None


@pytest.mark.parametrize(("depth", "awaits"), [("safe", "depth"), ("finalized", "final")])
async def test_a_tag_is_waited_for_where_the_watcher_sees_it(
    realm_db: Database, anvil: Anvil, depth: str, awaits: str
) -> None:
    async with open_scene(realm_db, anvil, depth=DepthPolicy.of(depth)) as scene:
        payment = await signed_and_relayed(scene)
        await scene.follow(payment)
        row = transfer_of(scene, payment)

        assert row.awaits == awaits
        # How soon the safe tag moves nobody tells: it is asked for again after a while.
        assert row.look_at == (row.block_number + 12 if depth == "safe" else None)


@pytest.mark.parametrize(("final", "blocks"), [(3, 2), (5, 4)])
async def test_where_there_is_no_tag_so_many_blocks_are_final(
    realm_db: Database, anvil: Anvil, final: int, blocks: int
) -> None:
    async with open_scene(realm_db, anvil, depth=DepthPolicy.of(1), final=final) as scene:
        payment = await scene.follow(await signed_and_relayed(scene))
        assert payment.status is Status.SUCCEEDED
        await scene.watch(blocks - 1)
        assert (await scene.follow(payment)).settled is None
        await scene.watch(1)

        assert (await scene.follow(payment)).settled is not None


async def test_the_depth_is_that_of_the_day_of_the_commitment(realm_db: Database, anvil: Anvil) -> None:
    async with open_scene(realm_db, anvil, depth=DepthPolicy.of("finalized")) as scene:
        payment = await signed_and_relayed(scene)
        restarted = scene.restarted(depth=DepthPolicy.of(1), final=1)
        found = await restarted.look(payment, await scene.now_ms())

        assert found is not None
        assert found.trigger is None


# Doubt.


async def test_one_of_two_nodes_that_does_not_answer_keeps_a_payment_waiting(
    realm_db: Database, anvil: Anvil
) -> None:
    async with two_nodes(realm_db, anvil) as (scene, _, second):
        payment = await signed_and_relayed(scene)
        await scene.watch(1)
        second.status = 503
        with pytest.raises(ChainUnavailable):
            await scene.look(payment)


async def test_a_transfer_that_a_reorg_took_is_nobodys_success(scene: Scene) -> None:
    payment = await scene.follow(await signed_and_relayed(scene))
    await scene.chain.reorg(1)
    await scene.watch(3)

    assert scene.db.point(matched_of, payment.id) == []
    assert await scene.look(payment) is None


async def test_a_look_that_was_slower_than_a_reorg_moves_nothing(scene: Scene) -> None:
    payment = await scene.follow(await signed_and_relayed(scene))
    # The store still has the block, and the node does not.
    await scene.chain.mine(1)
    await scene.watch()
    await scene.chain.reorg(2)
    await scene.chain.mine(3)

    assert await scene.look(payment) is None
    assert scene.evm.evidence.disagreements == 2, "asked with who signed, and without"


async def test_what_was_only_seen_and_is_gone_leaves_the_payment_to_what_is_paid_then(scene: Scene) -> None:
    payment = await scene.payment()
    await scene.chain.receipt(await scene.send(await scene.quote(payment, scene.dai_asset)))
    await scene.watch()
    found = await scene.look(payment)
    assert found is not None
    assert found.trigger is not None
    payment = await scene.move(payment, found.trigger)
    await scene.chain.reorg(1)
    await scene.watch(2)
    coin = await scene.quote(payment, ETH, option_id="opt_2")
    tx_hash = await scene.send(coin, BUYER_2)
    await scene.chain.receipt(tx_hash)
    await scene.watch(3)

    after = await scene.follow(payment)

    assert payment.processing is not None
    assert after.processing is not None
    assert after.success is not None
    assert after.success.tx_id == tx_hash
    assert after.processing.settlement_amount.value == str(coin.amount)
    assert after.processing.buyer == f"{CHAIN}:{address(BUYER_2).lower()}"
    assert after.processing.processing_at_ms == payment.processing.processing_at_ms
    told = read_track(after).told
    assert told is not None
    assert told.tx_hash == tx_hash


async def test_what_pays_is_proven_by_what_it_was_asked_for_and_not_by_other_notes(scene: Scene) -> None:
    payment = await signed_and_relayed(scene)
    await scene.watch(3)
    assert payment.processing is not None
    for other in ({"value": "24999999"}, {"recipient": f"{CHAIN}:{address(OPERATOR).lower()}"}):
        notes = msgspec.structs.replace(read_track(payment), **other)
        processing = msgspec.structs.replace(payment.processing, track=msgspec.msgpack.encode(notes))

        found = await scene.look(msgspec.structs.replace(payment, processing=processing))

        assert found is not None
        assert isinstance(found.trigger, TransferConfirmed)
        assert found.trigger.processing is not None
        assert found.trigger.processing.track == payment.processing.track


async def test_what_pays_on_another_chain_is_not_this_ones_to_end(scene: Scene) -> None:
    payment = await signed_and_relayed(scene)
    await scene.db.write(lambda tx: tx.execute("UPDATE transfers SET chain = 'eip155:1'"))
    await scene.db.write(lambda tx: tx.execute("UPDATE relay_jobs SET state = 'dead', left_us = 0"))
    assert await scene.look(payment) is None

    await scene.db.write(lambda tx: tx.execute("UPDATE transfers SET block_hash = NULL"))
    found = await scene.look(payment)
    assert found is not None
    assert isinstance(found.trigger, PaymentFailed)


@pytest.mark.parametrize("track", [b"of another kind", None])
async def test_what_was_committed_on_another_chain_is_not_this_ones_to_end(
    scene: Scene, track: bytes | None
) -> None:
    """A transfer was found here, and told of only after a wallet had committed its buyer elsewhere."""
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset)
    await scene.chain.receipt(await scene.send(quote))
    await scene.watch()
    found = await scene.look(payment)
    assert found is not None
    assert isinstance(found.trigger, FundsCommitted)
    here = found.trigger.processing
    told = Told("0x" + "ab" * 32, address(BUYER).lower(), 0)
    notes = msgspec.structs.replace(notes_of(here), asset="eip155:1/slip44:60", told=told)
    elsewhere = msgspec.structs.replace(
        here,
        chain="eip155:1",
        settlement_amount=asset_amount("eip155:1/slip44:60", 10**16),
        track=track or msgspec.msgpack.encode(notes),
    )
    payment = await scene.move(payment, FundsCommitted(elsewhere, b"results"))
    job = RelayJob("eip155:1", f"{CHAIN}:{address(BUYER)}", address(OPERATOR), b"", 2**31)
    await scene.db.write(insert_job, payment.id, job, await scene.now_ms())
    await scene.db.write(hold_to_commitment, payment.id)
    await scene.watch(5)

    assert scene.db.point(matched_of, payment.id) == []
    assert await scene.look(payment) is None


async def test_what_was_paid_on_another_chain_is_not_this_ones_to_settle(scene: Scene) -> None:
    payment = await signed_and_relayed(scene)
    await scene.watch(3)
    assert payment.processing is not None
    elsewhere = msgspec.structs.replace(payment.processing, chain="solana:5eykt", track=b"of another kind")
    trigger = TransferConfirmed("0x1", elsewhere)

    assert await scene.look(transition(payment, trigger, payment.created_at_ms).payment) is None


async def test_a_transfer_that_never_was_is_denied_once_its_block_is_final(
    realm_db: Database, anvil: Anvil
) -> None:
    """The node showed it, and shows it no more; for an open payment, and for a committed one."""
    async with open_proxy(anvil) as node, open_scene(realm_db, anvil, urls=[node.url]) as scene:
        payment = await scene.payment()
        await scene.chain.receipt(await scene.send(await scene.quote(payment, scene.dai_asset)))
        await scene.watch()
        after, row = committed(payment, await scene.look(payment)), transfer_of(scene, payment)
        node.hidden.add(row.tx_id)
        assert await scene.look(payment) is None
        await scene.watch(4)

        assert [await scene.look(one) for one in (payment, after)] == [Found(None, denied=row)] * 2


async def test_a_transfer_that_one_of_two_nodes_still_shows_is_not_denied(
    realm_db: Database, anvil: Anvil
) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, _):
        payment = await scene.payment()
        tx_hash = await scene.send(await scene.quote(payment, scene.dai_asset))
        await scene.chain.receipt(tx_hash)
        await scene.watch(4)
        first.hidden.add(tx_hash)

        assert await scene.look(payment) is None


# When to ask.


async def test_a_signed_payment_is_looked_after_when_its_authorization_has_ended(scene: Scene) -> None:
    payment = await scene.payment()
    assert scene.evm.due_at_ms(payment) is None
    quote = await scene.quote(payment, scene.usdc_asset)
    payment = await scene.commit(payment, quote, sign(quote.actions[0]))
    ends_ms = (payment.expires_at_ms // 1000 + 45 * 60) * 1000

    assert scene.evm.due_at_ms(payment) == ends_ms + EXPIRY_MARGIN_MS


async def test_a_sent_payment_is_looked_after_when_its_transfer_should_have_come(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset)
    payment = await scene.commit(payment, quote, await scene.send(quote))
    assert payment.processing is not None
    short = msgspec.structs.replace(payment, expires_at_ms=payment.created_at_ms + 1)
    long = msgspec.structs.replace(payment, expires_at_ms=payment.created_at_ms + 2 * SENT_GRACE_MS)

    assert scene.evm.due_at_ms(short) == payment.processing.processing_at_ms + SENT_GRACE_MS
    assert scene.evm.due_at_ms(long) == long.expires_at_ms


async def test_what_has_succeeded_waits_for_the_watcher_alone(scene: Scene) -> None:
    payment = await signed_and_relayed(scene)
    succeeded = transition(payment, TransferConfirmed("0x1"), payment.created_at_ms).payment
    settled = transition(succeeded, SettlementCompleted("0x1"), payment.created_at_ms).payment

    assert scene.evm.due_at_ms(succeeded) is None
    assert scene.evm.due_at_ms(settled) is None


async def test_windows_close_by_the_time_of_the_newest_block_that_was_read(
    realm_db: Database, scene: Scene
) -> None:
    payment = await scene.payment()
    await scene.quote(payment, scene.dai_asset)
    await realm_db.write(lambda tx: tx.execute("UPDATE watches SET until_ms = until_ms - 901000"))
    await scene.watch(1)

    assert scene.evm.read_until_ms(str(CHAIN)) == await scene.now_ms()
    await realm_db.write(lambda tx: tx.execute("DELETE FROM chain_cursors"))
    assert scene.evm.read_until_ms(str(CHAIN)) == 0
