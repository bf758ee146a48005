"""What the chain says of a payment of which the operator takes a part: the merchant's part decides."""

from __future__ import annotations

from fractions import Fraction

import pytest

from payd.chains.base import Accepted
from payd.chains.evm.binding import payment_tag, tagged_transfer
from payd.chains.fee_terms import FeeTerms
from payd.core.payment import FundsCommitted
from payd.core.relay import RelayJob
from payd.core.status import Status
from payd.store.db import Database
from payd.store.sightings import matched_of
from tests.chains.evm.scene import open_scene, sign
from tests.live.anvil import Anvil
from tests.live.chain import BUYER, MERCHANT, OPERATOR, STRANGER, account, address

pytestmark = pytest.mark.real_time

FEE = FeeTerms(Fraction(2, 100), Fraction(0), address(OPERATOR).lower())
PART = 24_500_000


async def test_a_payment_succeeds_by_the_merchants_part(realm_db: Database, anvil: Anvil) -> None:
    async with open_scene(realm_db, anvil, fee=FEE) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment, scene.usdc_asset)
        payment = await scene.commit(payment, quote, *map(sign, quote.actions))
        await scene.relay()
        await scene.watch()
        assert [one.value for one in scene.db.point(matched_of, payment.id)] == [PART]
        await scene.watch(3)
        payment = await scene.follow(payment)

        assert payment.settled is not None
        assert payment.settled.amount.value == str(PART)


async def test_who_sends_the_merchants_part_alone_has_paid(realm_db: Database, anvil: Anvil) -> None:
    async with open_scene(realm_db, anvil, fee=FEE) as scene:
        payment = await scene.payment()
        await scene.quote(payment, scene.usdc_asset)
        sent = tagged_transfer(address(MERCHANT), PART, payment_tag(payment.id))
        await scene.chain.receipt(await scene.chain.send_as(account(BUYER), scene.usdc, sent, gas=300_000))
        await scene.watch(40)
        payment = await scene.follow(payment)

        assert (payment.status, payment.settled is not None) == (Status.SUCCEEDED, True)
        assert payment.processing is not None
        assert payment.processing.option_amount.value == str(PART)
        assert payment.processing.fee is None


async def test_of_two_quotes_the_one_commits_whose_authorization_somebody_brought(
    realm_db: Database, anvil: Anvil
) -> None:
    """They have one nonce. The second was handed out with the operator's part."""
    async with open_scene(realm_db, anvil) as scene:
        payment = await scene.payment()
        whole = await scene.quote(payment, scene.usdc_asset)
        verdict = await scene.check(payment, whole, sign(whole.actions[0]))
        assert isinstance(verdict, Accepted)
        assert isinstance(verdict.job, RelayJob)
        scene.evm = scene.restarted(fee=FEE)
        part = await scene.quote(payment, scene.usdc_asset)
        assert (whole.settlement_value, part.settlement_value) == (25_000_000, PART)
        await scene.chain.done(account(STRANGER), verdict.job.target, verdict.job.data)
        await scene.watch()
        found = await scene.look(payment)

        assert found is not None
        assert isinstance(found.trigger, FundsCommitted)
        assert found.trigger.processing.settlement_amount.value == "25000000"
