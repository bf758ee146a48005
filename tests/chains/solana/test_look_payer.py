"""Who paid: who may have it back is the word of more than one node, and not of who told of it first."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.payment import Payment
from payd.core.refund import repayment_of
from payd.core.status import Status
from payd.store.db import Database
from tests.chains.solana.scene import Scene, open_scene, sign, signed_by, transaction_of
from tests.live.solana import BUYER, BUYER_2, STRANGER, account_id, address, keypair
from tests.live.solana_proxy import with_payer

pytestmark = pytest.mark.real_time

LIE = with_payer(address(BUYER), address(STRANGER))


async def sent_by_wallet(scene: Scene) -> Payment:
    """A payment whose transaction the buyer sent without telling anybody."""
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.local.send_raw(signed_by(transaction_of(quote), keypair(BUYER)))
    await scene.watch()
    return payment


@pytest.mark.parametrize("liar", [0, 1])
async def test_who_paid_is_whom_two_nodes_show(realm_db: Database, liar: int) -> None:
    async with open_scene(realm_db, proxies=2) as scene:
        scene.proxies[liar].rewrite = LIE
        payment = await scene.follow(await sent_by_wallet(scene))
        assert payment.status is Status.REQUIRES_ACTION
        assert scene.solana.evidence.disagreements == 1
        scene.proxies[liar].rewrite = None
        payment = await scene.follow(payment)

        assert payment.status is Status.SUCCEEDED
        assert repayment_of(payment).to == account_id(BUYER)


async def test_what_one_node_told_alone_of_who_paid_is_not_what_succeeds(realm_db: Database) -> None:
    """The other one was behind when it was committed."""
    async with open_scene(realm_db, proxies=2) as scene:
        scene.proxies[0].rewrite = LIE
        scene.proxies[1].node.lag = 5
        payment = await scene.follow(await sent_by_wallet(scene))
        assert payment.processing is not None
        assert payment.processing.buyer == account_id(STRANGER)
        scene.proxies[1].node.lag = 0
        payment = await scene.follow(payment)
        assert payment.status is Status.PROCESSING
        scene.proxies[0].rewrite = None
        payment = await scene.follow(payment)

        assert payment.status is Status.SUCCEEDED
        assert repayment_of(payment).to == account_id(BUYER)


async def test_who_signed_for_us_is_known_without_the_nodes(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=2) as scene:
        payment = await scene.paid()
        payment = msgspec.structs.replace(payment, results_hash=bytes(32))
        scene.proxies[0].rewrite = LIE
        payment = await scene.follow(payment)

        assert payment.status is Status.SUCCEEDED
        assert repayment_of(payment).to == account_id(BUYER)


async def test_who_signs_and_lets_another_pay_does_not_get_it_back(scene: Scene) -> None:
    payment = await scene.payment()
    own = await scene.quote(payment)
    others = await scene.quote(payment, buyer=BUYER_2, option_id="opt_2")
    payment = await scene.commit(payment, others, sign(others, BUYER_2))
    await scene.local.send_raw(signed_by(transaction_of(own), keypair(BUYER)))
    await scene.watch()
    payment = await scene.follow(payment)

    assert payment.status is Status.SUCCEEDED
    assert repayment_of(payment).to == account_id(BUYER)
