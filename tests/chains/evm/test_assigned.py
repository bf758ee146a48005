"""What a merchant assigned: the chain's looks take it without a binding, and nothing else without one."""

from __future__ import annotations

import pytest

from payd.chains.evm.abi import Call, aggregate3_call
from payd.chains.evm.binding import transfer_call
from payd.chains.evm.track import read_track
from payd.core.failure import DECLINED, REPLACED
from payd.core.payment import FundsCommitted, Payment, PaymentFailed
from payd.store.sightings import assign
from tests.chains.evm.scene import CHAIN, Scene
from tests.live.chain import (
    BUYER,
    BUYER_2,
    MERCHANT,
    MULTICALL3,
    STRANGER,
    account,
    address,
    calldata,
)

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
APPROVE = "approve(address,uint256)"
TRANSFER_FROM = "transferFrom(address,address,uint256)"


async def by_hand(scene: Scene) -> tuple[Payment, str]:
    """A payment, and a transfer of its price that nothing binds to it."""
    payment = await scene.payment()
    await scene.quote(payment, scene.dai_asset)
    receipt = await scene.chain.done(account(BUYER), scene.dai, transfer_call(address(MERCHANT), AMOUNT))
    await scene.watch()
    return payment, str(receipt["transactionHash"])


async def say(scene: Scene, payment: Payment, tx_id: str) -> None:
    words = await scene.db.write(assign, payment.id, str(CHAIN), tx_id, "key_1", await scene.now_ms())
    assert ("linked", "matched") in [(word.came_to, word.sighting.kind) for word in words]


async def test_a_transfer_without_a_binding_pays_nothing_until_its_merchant_says_so(scene: Scene) -> None:
    payment, tx_id = await by_hand(scene)
    assert await scene.look(payment) is None

    await say(scene, payment, tx_id)
    found = await scene.look(payment)

    assert found is not None
    assert isinstance(found.trigger, FundsCommitted)
    payment = await scene.follow(payment)
    told = read_track(payment).told
    assert told is not None
    assert (told.tx_hash, told.assigned) == (tx_id, True)
    await scene.watch(3)
    payment = await scene.follow(payment)
    assert payment.settled is not None
    assert payment.settled.tx_id == tx_id


async def test_of_several_transfers_of_one_transaction_the_one_that_was_assigned_says_who_paid(
    scene: Scene,
) -> None:
    payment = await scene.payment()
    await scene.quote(payment, scene.dai_asset)
    calls = []
    for place, value in ((BUYER_2, 1), (BUYER, AMOUNT)):
        await scene.chain.done(account(place), scene.dai, calldata(APPROVE, MULTICALL3, value))
        moved = calldata(TRANSFER_FROM, address(place), address(MERCHANT), value)
        calls.append(Call(scene.dai, moved, may_fail=False))
    receipt = await scene.chain.done(account(STRANGER), MULTICALL3, aggregate3_call(calls))
    await scene.watch()
    await say(scene, payment, str(receipt["transactionHash"]))
    payment = await scene.follow(payment)

    assert payment.processing is not None
    assert payment.processing.buyer == f"{CHAIN}:{address(BUYER)}"


async def test_a_stored_match_that_nobody_assigned_needs_its_binding(scene: Scene) -> None:
    """As when the node lied that showed it: the looks ask again, and are not told the same."""
    payment, tx_id = await by_hand(scene)
    await say(scene, payment, tx_id)
    await scene.db.write(lambda tx: tx.execute("UPDATE transfers SET assigned = 0"))

    assert await scene.look(payment) is None


async def test_an_assigned_transfer_that_the_store_lost_fails_nobody(scene: Scene) -> None:
    """Its transaction is there and pays: that it has no binding is no proof that it paid nothing."""
    payment, tx_id = await by_hand(scene)
    await say(scene, payment, tx_id)
    payment = await scene.follow(payment)
    await scene.db.write(lambda tx: tx.execute("DELETE FROM transfers"))
    await scene.watch(4)

    assert await scene.look(payment) is None


async def test_what_took_the_place_of_an_assigned_transaction_ends_the_payment(scene: Scene) -> None:
    payment, tx_id = await by_hand(scene)
    await say(scene, payment, tx_id)
    payment = await scene.follow(payment)
    told = read_track(payment).told
    assert told is not None
    await scene.chain.reorg(1)
    await scene.chain.send_as(account(BUYER), address(BUYER), nonce=told.nonce)
    await scene.watch(4)

    found = await scene.look(payment)

    assert found is not None
    assert found.trigger == PaymentFailed(REPLACED, DECLINED)
