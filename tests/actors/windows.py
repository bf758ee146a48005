"""Payments that a chain is read for, and transfers that it shows of them, in the simulated realm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from payd.chains.simulated import SimulatedChain
from payd.core.option import Offer
from payd.core.payment import Processing
from payd.store.db import Tx
from payd.store.options import Route, hand_out
from payd.store.watches import Watch, insert_watches
from tests.shop import Shop

CHAIN: Final = "eip155:8453"
ASSET: Final = "eip155:8453/slip44:60"


async def watched(shop: Shop) -> str:
    """A payment that a chain is read for."""
    payment_id = await shop.pay()
    window_end_ms = shop.realm.payments.find(payment_id).expires_at_ms
    watch = Watch(
        payment_id.encode()[-32:], ASSET, payment_id, CHAIN, f"{CHAIN}:0x{'5e' * 20}", window_end_ms
    )
    await shop.realm.db.write(insert_watches, [watch])
    return payment_id


def processing_of(shop: Shop, payment_id: str) -> Processing:
    """What its buyer commits in the asset that it is looked for in."""
    [simulated, *_] = shop.realm.payments.chains
    assert isinstance(simulated, SimulatedChain)
    payment = shop.realm.payments.find(payment_id)
    return simulated.simulated_processing(payment, ASSET, f"{CHAIN}:0x{'5e' * 20}", payment.created_at_ms)


async def too_much(shop: Shop, payment_id: str) -> None:
    """A transfer of the payment that would pay it, had its buyer not signed something else."""
    payment, destination = shop.realm.payments.find(payment_id), f"{CHAIN}:0x{'5e' * 20}"
    offer = Offer(ASSET, f"{CHAIN}:0x{'ab' * 20}", 7, (), 10, payment.expires_at_ms)
    offers = [(Route(ASSET, ASSET, "crypto_1", destination), offer, "opt_other")]
    await shop.realm.db.write(hand_out, payment_id, offers, payment.created_at_ms, payment.expires_at_ms)
    await shop.realm.db.write(sighting(payment_id, "0xaa"))
    values = destination, payment.created_at_ms // 1000, payment.account_id
    await shop.realm.db.write(
        lambda tx: tx.execute(
            "UPDATE transfers SET kind = 'surplus', recipient = ?, block_time_s = ?, account_id = ?", values
        )
    )


def sighting(payment: str, block_hash: str | None) -> Callable[[Tx], None]:
    """A transfer that a watcher stored for the payment, in this block."""

    def store(tx: Tx) -> None:
        tx.execute(
            "INSERT INTO transfers (payment_id, chain, tx_id, log_index, asset, value, sender, recipient,"
            " kind, seen_at_ms, block_number, block_hash, awaits, look_at)"
            " VALUES (?, ?, '0x1', 0, ?, '7', 'a', 'b', 'matched', 1, 5, ?, 'depth', 5)",
            (payment, CHAIN, ASSET, block_hash),
        )

    return store
