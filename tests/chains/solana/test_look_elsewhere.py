"""What pays though it is not what was committed, and what another chain has to say about it."""

from __future__ import annotations

import msgspec
import pytest

from payd.chains.solana.track import read_track
from payd.core.payment import PaymentFailed, TransferConfirmed, WindowClosed, transition
from payd.store.sightings import pay_in_stead
from tests.chains.solana.scene import Scene, sign, signed_by, transaction_of
from tests.live.solana import BUYER_2, SOL, account_id, keypair

pytestmark = pytest.mark.real_time


async def test_what_pays_is_proven_by_what_it_was_asked_for_and_not_by_other_notes(scene: Scene) -> None:
    payment = await scene.paid()
    assert payment.processing is not None
    notes = msgspec.structs.replace(read_track(payment), value="24999999")
    other = msgspec.structs.replace(payment.processing, track=msgspec.msgpack.encode(notes))
    elsewhere = msgspec.structs.replace(payment.processing, chain="eip155:1", track=b"of another kind")
    for processing in (other, elsewhere):
        found = await scene.look(msgspec.structs.replace(payment, processing=processing))

        assert found is not None
        assert isinstance(found.trigger, TransferConfirmed)
        assert found.trigger.processing is not None
        assert found.trigger.processing.settlement_amount == payment.processing.settlement_amount
        assert read_track(transition(payment, found.trigger, 0).payment).value == read_track(payment).value


async def test_what_pays_on_another_chain_is_neither_ended_nor_settled_by_this_one(scene: Scene) -> None:
    payment = await scene.paid()
    assert payment.processing is not None
    elsewhere = msgspec.structs.replace(payment.processing, chain="eip155:1", track=b"of another kind")
    trigger = TransferConfirmed("0x1", elsewhere)
    assert await scene.look(transition(payment, trigger, 0).payment) is None

    await scene.db.write(lambda tx: tx.execute("UPDATE transfers SET chain = 'eip155:1'"))
    await scene.db.write(lambda tx: tx.execute("UPDATE submissions SET state = 'dead', left_us = 0"))
    assert await scene.look(payment) is None
    await scene.db.write(lambda tx: tx.execute("UPDATE transfers SET block_hash = NULL"))
    found = await scene.look(payment)
    assert found is not None
    assert isinstance(found.trigger, PaymentFailed)


async def test_what_was_committed_on_another_chain_is_not_this_ones_to_end(scene: Scene) -> None:
    committed = await scene.signed()
    assert committed.processing is not None
    elsewhere = msgspec.structs.replace(committed.processing, chain="eip155:1", track=b"of another kind")

    assert await scene.look(msgspec.structs.replace(committed, processing=elsewhere)) is None


async def test_what_was_paid_beside_a_signature_that_never_landed_pays_in_its_stead(scene: Scene) -> None:
    payment = await scene.payment()
    signed, sent = await scene.quote(payment), await scene.quote(payment, SOL, BUYER_2, "opt_2")
    payment = await scene.commit(payment, signed, sign(signed))
    await scene.local.send_raw(signed_by(transaction_of(sent), keypair(BUYER_2)))
    await scene.watch(150 + 5)
    found = await scene.look(payment)
    assert found is not None
    assert isinstance(found.trigger, WindowClosed)

    assert await scene.db.write(pay_in_stead, payment.id)
    payment = await scene.follow(payment)

    assert payment.success is not None
    assert payment.processing is not None
    assert (payment.processing.option_amount.unit, payment.processing.buyer) == (
        f"caip19/{SOL}",
        account_id(BUYER_2),
    )
