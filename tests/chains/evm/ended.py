"""What the tests of endings do to a signed payment, and how they read what a look found."""

from __future__ import annotations

from typing import Any

from payd.chains.base import Found
from payd.chains.evm.track import read_track
from payd.core.payment import Payment, Trigger
from tests.chains.evm.scene import Scene, sign


def end(found: Found | None) -> Trigger | None:
    """How a payment ended, if it did."""
    return None if found is None else found.trigger


async def signed(scene: Scene) -> Payment:
    """A payment whose signature was taken, and is not on its way yet."""
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    return await scene.commit(payment, quote, sign(quote.actions[0]))


async def pass_time(scene: Scene, until_s: int) -> None:
    """Have the chain come to this second, and be final there, as the watcher reads."""
    await scene.chain.rpc("anvil_setNextBlockTimestamp", hex(until_s))
    await scene.chain.mine(1)
    await scene.watch(3)


async def set_job(scene: Scene, payment: Payment, **columns: Any) -> None:
    names = ", ".join(f"{name} = ?" for name in columns)
    values = (*columns.values(), payment.id)
    await scene.db.write(lambda tx: tx.execute(f"UPDATE relay_jobs SET {names} WHERE payment_id = ?", values))


def ends_s(payment: Payment) -> int:
    """When its authorization ends, in chain time."""
    valid_until_s = read_track(payment).valid_until_s
    assert valid_until_s is not None
    return valid_until_s
