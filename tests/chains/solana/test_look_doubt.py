"""What is stored of a transfer and what nodes show of it, where the two differ or a node cannot tell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from payd.chains.base import Found
from payd.chains.fee_terms import FeeTerms
from payd.chains.following import until_final
from payd.core.caip import canonical_asset, parse_asset
from payd.core.option import Build
from payd.core.payment import FundsCommitted, TransferConfirmed
from payd.core.status import Status
from payd.store.db import Database
from payd.store.options import Route, hand_out
from payd.store.sightings import pay_in_stead
from tests.chains.solana.scene import Scene, open_scene, sign, signed_by, transaction_of
from tests.chains.solana.test_look import FEE, PRICE, committed, sent_by_wallet, transfer_to_merchant
from tests.live.proxy import Request
from tests.live.solana import BUYER, BUYER_2, SOL, USDC, account_id, keypair

pytestmark = pytest.mark.real_time


async def test_a_stored_transfer_is_shown_in_its_place_among_the_accounts_alone(scene: Scene) -> None:
    payment = await scene.payment()
    await sent_by_wallet(scene, payment)
    await scene.db.write(lambda tx: tx.execute("UPDATE transfers SET log_index = log_index + 1"))

    assert await scene.look(payment) is None


def rubbish(request: Request, result: Any) -> Any:
    return {"slot": "one"} if request["method"] == "getTransaction" else result


async def test_what_cannot_be_read_commits_nothing(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=1) as scene:
        payment = await scene.payment()
        await sent_by_wallet(scene, payment)
        scene.proxies[0].rewrite = rubbish
        assert await scene.look(payment) is None
        scene.proxies[0].rewrite = None

        assert committed(payment, await scene.look(payment)).status is Status.PROCESSING


async def test_a_node_that_does_not_say_how_far_it_is_contradicts_nobody(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=2) as scene:
        payment = await scene.payment()
        tx_id = await sent_by_wallet(scene, payment)
        scene.proxies[1].node.forgotten.add(tx_id)
        assert await scene.look(payment) is None
        scene.proxies[1].errors["getSlot"] = (-32601, "Method not found")

        assert committed(payment, await scene.look(payment)).status is Status.PROCESSING


async def test_of_the_same_amount_to_two_addresses_the_one_that_was_paid_is_committed(scene: Scene) -> None:
    """The merchant's destination was changed while the page was open."""
    payment = await scene.payment()
    offer = await scene.offer(payment, USDC)
    assert offer is not None
    await scene.hand_out(payment, USDC, offer)
    elsewhere = Route(USDC, canonical_asset(parse_asset(USDC)), "crypto_1", account_id(BUYER_2))
    other = msgspec.structs.replace(offer, actions=(Build("elsewhere"),))
    handed = [(elsewhere, other, "opt_2")]
    await scene.db.write(hand_out, payment.id, handed, scene.now_ms(), payment.expires_at_ms)
    await scene.local.send(transfer_to_merchant(payment, BUYER), keypair(BUYER))
    await scene.watch()

    assert (await scene.follow(payment)).status is Status.SUCCEEDED


async def test_what_pays_in_stead_of_what_was_signed_and_is_nowhere_is_let_go_of(scene: Scene) -> None:
    payment = await scene.payment()
    signed, sent = await scene.quote(payment), await scene.quote(payment, SOL, BUYER_2, "opt_2")
    payment = await scene.commit(payment, signed, sign(signed))
    tx_id = await scene.local.send_raw(signed_by(transaction_of(sent), keypair(BUYER_2)))
    await scene.watch(150 + 5)
    assert await scene.db.write(pay_in_stead, payment.id)
    row = scene.row(payment)
    scene.node.forgotten.add(tx_id)

    with capture_logs() as logs:
        assert await scene.look(payment) == Found(None, denied=row)
    assert [one["tx_id"] for one in logs if one["event"] == "chain.transfer_denied"] == [tx_id]


async def test_an_amount_that_nobody_was_asked_for_commits_nothing(scene: Scene) -> None:
    payment = await scene.payment()
    await sent_by_wallet(scene, payment)
    await scene.db.write(lambda tx: tx.execute("UPDATE quotes SET amount = '25000001'"))
    with capture_logs() as logs:
        assert await scene.look(payment) is None
    assert [one["payment_id"] for one in logs if one["event"] == "chain.transfer_without_quote"] == [
        payment.id
    ]


# The next look.


async def test_what_has_succeeded_is_looked_at_again_once_it_is_final(scene: Scene) -> None:
    payment = await scene.paid()
    found = await scene.look(payment)
    assert found is not None
    assert isinstance(found.trigger, TransferConfirmed)
    assert found.follow == until_final(scene.row(payment))


async def test_what_landed_again_after_success_waits_to_be_final_where_it_is_now(scene: Scene) -> None:
    payment = await scene.follow(await scene.paid())
    await scene.local.rpc("payd_fork", 2)
    await scene.bring()
    await scene.watch()
    row = scene.row(payment)
    assert row.awaits == "depth"
    assert await scene.look(payment) == Found(None, follow=until_final(row))
    await scene.watch(3)

    assert (await scene.follow(payment)).settled is not None


# The operator's part.


@pytest.mark.parametrize("fee", [None, FEE])
async def test_a_fee_that_was_asked_for_is_told_whatever_is_asked_for_today(
    realm_db: Database, fee: FeeTerms | None
) -> None:
    async with open_scene(realm_db, fee=FEE) as scene:
        payment = await scene.payment()
        await sent_by_wallet(scene, payment)
        found = await scene.restarted(fee=fee).look(payment, scene.now_ms())
        assert found is not None
        assert isinstance(found.trigger, FundsCommitted)
        processing = found.trigger.processing
        assert processing.option_amount.value == str(PRICE)
        assert processing.settlement_amount.value == "24500000"
        assert processing.fee is not None
        assert processing.fee.total_amount.value == "500000"
