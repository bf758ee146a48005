"""The simulation API's moves: a person plays buyer and chain for a test payment, each step a real one.

Source: DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec.structs import replace

from payd.actors.payments import Also, Keep, PaymentActor, Payments, Render, matched
from payd.chains.simulated import SimulatedChain
from payd.core.errors import InvalidState
from payd.core.failure import SIMULATED
from payd.core.payment import (
    CANCELLED_BY_MERCHANT,
    FundsCommitted,
    Payment,
    PaymentCancelled,
    PaymentFailed,
    SettlementCompleted,
    TransferConfirmed,
    Trigger,
    WindowClosed,
)
from payd.core.status import Status
from payd.core.transfer import Kind
from payd.store.db import Tx
from payd.store.idempotency import IdempotentRequest, Outcome
from payd.store.settlements import list_settlements
from payd.store.transfers import keep_unpaid

Target = Literal["processing", "succeeded", "failed", "expired", "cancelled", "settled"]

TARGETS: Final[tuple[Target, ...]] = ("processing", "succeeded", "failed", "expired", "cancelled", "settled")

# Which targets a person may choose, by status. To succeed from the start walks through processing.
ALLOWED: Final[dict[Status, tuple[Target, ...]]] = {
    Status.REQUIRES_ACTION: ("processing", "succeeded", "failed", "expired", "cancelled"),
    Status.PROCESSING: ("succeeded", "failed", "expired"),
    Status.SUCCEEDED: ("settled",),
}


def allowed_targets(payment: Payment) -> tuple[Target, ...]:
    """Where a person may move this payment now."""
    if payment.settled is not None:
        return ()
    return ALLOWED.get(payment.status, ())


async def simulate(payments: Payments, payment_id: str, to: Target, reason: str | None) -> Payment:
    """Move a test payment; every step on the way is a version and an event of its own.

    Raises:
        PaymentNotFound: There is no such payment.
        InvalidState: It cannot be moved there; `details.allowed` lists where it can.
    """
    payments.find(payment_id)
    return await payments.ask(payment_id, lambda actor: _simulate(payments, actor, to, reason))


async def simulate_once(
    payments: Payments,
    payment_id: str,
    to: Target,
    reason: str | None,
    request: IdempotentRequest | None,
    render: Render,
    *,
    also: Also | None = None,
) -> Outcome:
    """`simulate` on behalf of a request, once for each idempotency key; `also` is written with the last move.

    Raises as it does.
    """
    payments.find(payment_id)
    return await payments.once(
        payment_id,
        lambda actor, keep: _simulate(payments, actor, to, reason, keep, also),
        request,
        render,
    )


async def show_transfer(payments: Payments, payment_id: str, kind: Kind) -> None:
    """Have the chain show a transfer that pays for nothing, once for each payment and kind.

    Args:
        payments: Of the test realm.
        payment_id: For which it comes, though an unmatched one does not say so.
        kind: Any but `matched`; that it fits the payment's state is the caller's to see to.

    Raises:
        PaymentNotFound: There is no such payment.
        InvalidState: The merchant has no destination any more.
    """
    payment = payments.find(payment_id)
    processing = payment.processing or _commitment(payments, payment).processing
    [seen] = _chain(payments).transfers(replace(payment, processing=processing))
    transfer = replace(
        matched(payment, seen, payments.clock.now_ms()),
        payment_id=None if kind == "unmatched" else payment.id,
        tx_id=f"test:{kind}-{payment.id}",
        value=str(max(1, seen.value // 2) if kind == "partial" else seen.value),
        kind=kind,
    )
    await payments.db.write(keep_unpaid, transfer)


async def _simulate(
    payments: Payments,
    actor: PaymentActor,
    to: Target,
    reason: str | None,
    keep: Keep | None = None,
    also: Also | None = None,
) -> Payment:
    payment = actor.load()
    allowed = allowed_targets(payment)
    if to not in allowed:
        raise InvalidState(
            f"The payment is {payment.status.value}; it cannot be moved to {to}.",
            details={"status": payment.status.value, "allowed": list(allowed)},
        )
    if to == "succeeded" and payment.status is Status.REQUIRES_ACTION:
        payment = await actor.move(_commitment(payments, payment))
    if to == "succeeded":
        transfers = _chain(payments).transfers(payment)

        def with_transfers(tx: Tx) -> None:
            payments.keep_transfers(tx, [(payment, transfers)])
            if also is not None:
                also(tx)

        return await actor.move(TransferConfirmed(f"test:{payment.id}"), also=with_transfers, keep=keep)
    trigger = _one_trigger(payments, payment, to, reason)
    return await actor.move(trigger, also=also, keep=keep)


def _one_trigger(payments: Payments, payment: Payment, to: Target, reason: str | None) -> Trigger:
    match to:
        case "processing":
            return _commitment(payments, payment)
        case "failed":
            return PaymentFailed(reason or SIMULATED)
        case "expired":
            return WindowClosed()
        case "cancelled":
            return PaymentCancelled(reason or CANCELLED_BY_MERCHANT)
        case "settled":
            return SettlementCompleted(f"test:{payment.id}")
        case "succeeded":
            raise AssertionError("that takes two steps")


def _commitment(payments: Payments, payment: Payment) -> FundsCommitted:
    """A buyer's commitment that nobody signed, held until a person moves it on."""
    settlements = payments.db.point(list_settlements, payment.merchant_id)
    if not settlements:
        raise InvalidState("The merchant has no destination any more, so nothing can be paid.")
    first = settlements[0]
    chain = _chain(payments)
    processing = chain.simulated_processing(payment, first.asset, first.destination, payments.clock.now_ms())
    return FundsCommitted(chain.hold(payment, processing))


def _chain(payments: Payments) -> SimulatedChain:
    chain = payments.chains[0]
    assert isinstance(chain, SimulatedChain), "only the test realm is simulated"
    return chain
