"""A transfer as it is stored and as nodes show it: what a merchant named, and what nobody was asked for."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from payd.chains.base import Accepted, Found
from payd.chains.defaults import DepthPolicy
from payd.chains.evm.track import Told, read_track
from payd.chains.following import is_account, until_final
from payd.core.payment import FundsCommitted, Payment, TransferConfirmed
from payd.core.relay import RelayJob
from payd.core.status import Status
from payd.store.db import Database
from payd.store.sightings import assign, matched_of, pay_in_stead
from payd.store.transfers import Follow
from tests.chains.evm.scene import CHAIN, Scene, open_scene, sign
from tests.live.anvil import Anvil
from tests.live.chain import BUYER_2, MERCHANT, STRANGER, account, address, calldata
from tests.live.proxy import open_proxy

pytestmark = pytest.mark.real_time


async def paid_plainly(scene: Scene) -> tuple[Payment, str]:
    """A payment, and a transfer of its price that nothing binds to it."""
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset)
    data = calldata("transfer(address,uint256)", address(MERCHANT), quote.amount)
    receipt = await scene.chain.done(account(BUYER_2), scene.dai, data)
    await scene.watch(3)
    return payment, str(receipt["transactionHash"])


async def test_a_transfer_that_a_merchant_names_needs_no_binding(scene: Scene) -> None:
    payment, tx_id = await paid_plainly(scene)
    assert await scene.look(payment) is None
    await scene.db.write(assign, payment.id, str(CHAIN), tx_id, "merchant", await scene.now_ms())
    payment = await scene.follow(payment)

    assert payment.status is Status.SUCCEEDED
    sent = await scene.chain.rpc("eth_getTransactionByHash", tx_id)
    nonce = int(sent["nonce"], 16)
    assert read_track(payment).told == Told(tx_id, address(BUYER_2).lower(), nonce, assigned=True)


async def test_a_stored_match_that_nobody_assigned_needs_its_binding(scene: Scene) -> None:
    """As when the node lied that showed it: the looks ask again, and are not told the same."""
    payment, tx_id = await paid_plainly(scene)
    await scene.db.write(assign, payment.id, str(CHAIN), tx_id, "merchant", await scene.now_ms())
    await scene.db.write(lambda tx: tx.execute("UPDATE transfers SET assigned = 0"))

    assert await scene.look(payment) is None


async def test_an_amount_that_nobody_was_asked_for_commits_nothing(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset)
    await scene.chain.receipt(await scene.send(quote))
    await scene.watch(3)
    assert scene.db.point(matched_of, payment.id)
    await scene.db.write(lambda tx: tx.execute("UPDATE quotes SET amount = ?", (str(quote.amount + 1),)))

    with capture_logs() as logs:
        assert await scene.look(payment) is None
    assert [one["payment_id"] for one in logs if one["event"] == "chain.transfer_without_quote"] == [
        payment.id
    ]


async def test_what_waits_for_a_tag_is_looked_at_as_soon_as_that_moves(
    realm_db: Database, anvil: Anvil
) -> None:
    async with open_scene(realm_db, anvil, depth=DepthPolicy.of("safe")) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment, scene.dai_asset)
        tx_hash = await scene.send(quote)
        await scene.chain.receipt(tx_hash)
        await scene.watch()
        [row] = scene.db.point(matched_of, payment.id)
        found = await scene.look(payment)

        assert found is not None
        assert isinstance(found.trigger, FundsCommitted)
        assert found.follow == Follow(str(CHAIN), tx_hash, row.block_hash or "", "depth", row.block_number)


async def test_an_authorization_is_of_who_signed_it_among_those_who_were_asked(scene: Scene) -> None:
    """A stranger brought it, and another account was asked for the same since."""
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    await scene.quote(payment, scene.usdc_asset, buyer=address(BUYER_2), option_id="opt_2")
    never_stored = await scene.check(payment, quote, sign(quote.actions[0]))
    assert isinstance(never_stored, Accepted)
    assert isinstance(never_stored.job, RelayJob)
    await scene.chain.done(account(STRANGER), never_stored.job.target, never_stored.job.data)
    await scene.watch(3)
    payment = await scene.follow(payment)

    assert payment.status is Status.SUCCEEDED
    assert payment.processing is not None
    assert is_account(quote.account, payment.processing.buyer or "")


async def test_what_pays_in_stead_of_what_was_signed_is_let_go_of_once_its_own_block_is_final(
    realm_db: Database, anvil: Anvil
) -> None:
    async with open_proxy(anvil) as node, open_scene(realm_db, anvil, urls=[node.url]) as scene:
        payment = await scene.payment()
        signed = await scene.quote(payment, scene.usdc_asset)
        sent = await scene.quote(payment, scene.dai_asset, option_id="opt_2")
        payment = await scene.commit(payment, signed, sign(signed.actions[0]))
        tx_hash = await scene.send(sent)
        await scene.chain.receipt(tx_hash)
        await scene.watch()
        assert await scene.db.write(pay_in_stead, payment.id)
        [row] = scene.db.point(matched_of, payment.id)
        node.hidden.add(tx_hash)
        while (final := scene.final()) is None or final.number < row.block_number:
            assert await scene.look(payment) is None
            await scene.watch(1)
        assert final.number == row.block_number
        with capture_logs() as logs:
            assert await scene.look(payment) == Found(None, denied=row)
        assert [one["tx_id"] for one in logs if one["event"] == "chain.transfer_denied"] == [tx_hash]


async def test_what_has_succeeded_is_looked_at_again_once_it_is_final(scene: Scene) -> None:
    payment = await scene.payment()
    await scene.chain.receipt(await scene.send(await scene.quote(payment, scene.dai_asset)))
    await scene.watch(1)
    found = await scene.look(payment)
    assert found is not None
    assert found.trigger is not None
    found = await scene.look(await scene.move(payment, found.trigger))
    assert found is not None
    assert isinstance(found.trigger, TransferConfirmed)
    [row] = scene.db.point(matched_of, payment.id)
    assert found.follow == until_final(row)


async def test_what_waits_for_its_depth_again_after_success_waits_to_be_final(scene: Scene) -> None:
    """As what a reorg moved to another block."""
    payment = await scene.payment()
    await scene.chain.receipt(await scene.send(await scene.quote(payment, scene.dai_asset)))
    await scene.watch(1)
    payment = await scene.follow(payment)
    assert payment.status is Status.SUCCEEDED
    await scene.db.write(lambda tx: tx.execute("UPDATE transfers SET awaits = 'depth'"))
    [row] = scene.db.point(matched_of, payment.id)

    assert await scene.look(payment) == Found(None, follow=until_final(row))


async def test_a_stored_transfer_is_shown_in_its_place_among_the_logs_alone(scene: Scene) -> None:
    payment = await scene.payment()
    await scene.chain.receipt(await scene.send(await scene.quote(payment, scene.dai_asset)))
    await scene.watch(1)
    await scene.db.write(lambda tx: tx.execute("UPDATE transfers SET log_index = log_index + 1"))

    assert await scene.look(payment) is None
