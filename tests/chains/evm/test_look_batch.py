"""Two payments of one sum to one merchant in one transaction, as a smart wallet or a bundler makes them."""

from __future__ import annotations

from typing import Final

import pytest

from payd.chains.evm.abi import MULTICALL3, Call, aggregate3_call
from payd.chains.evm.binding import payment_tag, tagged_transfer
from payd.core.payment import Payment
from payd.core.status import Status
from payd.store.sightings import sightings_in
from tests.chains.evm.scene import CHAIN, Scene
from tests.live.chain import MERCHANT, STRANGER, account, address

pytestmark = pytest.mark.real_time

OTHER_ID: Final = "pay_l01jw0000000000000000000000000000000b"
AMOUNT: Final = 25_000_000


async def sold(scene: Scene, payment_id: str, option_id: str) -> Payment:
    payment = await scene.payment(id=payment_id)
    await scene.quote(payment, scene.dai_asset, option_id=option_id)
    return payment


async def test_each_of_two_payments_of_one_sum_in_one_transaction_is_paid(scene: Scene) -> None:
    await scene.chain.mint(scene.dai, MULTICALL3, 2 * AMOUNT)
    first, second = await sold(scene, "pay_l1", "opt_1"), await sold(scene, OTHER_ID, "opt_2")
    calls = [
        Call(scene.dai, tagged_transfer(address(MERCHANT), AMOUNT, payment_tag(one.id)))
        for one in (first, second)
    ]
    receipt = await scene.chain.done(account(STRANGER), MULTICALL3, aggregate3_call(calls))
    await scene.watch(3)
    paid = scene.db.point(sightings_in, str(CHAIN), receipt["transactionHash"])
    assert [(one.payment_id, one.kind) for one in paid] == [(first.id, "matched"), (second.id, "matched")]

    for payment in (first, second):
        assert (await scene.follow(payment)).status is Status.SUCCEEDED
