"""Looks at a chain: what the watcher found moves a payment when it is proven, deep enough, and final."""

from __future__ import annotations

import pytest

from payd.chains.base import Found
from payd.chains.solana.look import BLOCKHASH_BLOCKS
from payd.chains.solana.track import read_track
from payd.core.payment import FundsCommitted, Payment, transition
from payd.core.status import Status
from payd.store.transfers import Follow
from tests.chains.solana.scene import (
    PYUSD,
    SOL,
    USDC,
    Scene,
    signed_by,
    transaction_of,
)
from tests.live.solana import BUYER, CHAIN, account_id, keypair

pytestmark = pytest.mark.real_time


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


async def test_an_open_payment_without_a_transfer_is_left_alone(scene: Scene) -> None:
    payment = await scene.payment()
    await scene.quote(payment)
    await scene.watch(5)

    assert await scene.look(payment) is None


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
