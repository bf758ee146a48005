"""Long polls: hold a request until the payment's status differs, or the time is over.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import trio

from payd.actors.feed import Bell
from payd.core.payment import Payment
from payd.web.call import Call


async def wait_for_change(call: Call, payment: Payment, wait_ms: int) -> Payment:
    """The payment once its status differs from this one's; or as it is when the time is over.

    Answers at once when the payment is final, when too many polls are held, or when the server stops.
    """
    polls = call.house.limits.polls
    if payment.is_final or wait_ms <= 0 or not polls.try_take(payment.id):
        return payment
    status, bell = payment.status, Bell()
    # Registered before the status is read again: a change in between is not missed.
    call.realm.payment_feed.subscribe(payment.id, bell)
    call.house.held.add(bell)
    try:
        payment = call.realm.payments.find(payment.id)
        with trio.move_on_after(wait_ms / 1000):
            while payment.status is status and not call.house.stopping:
                await bell.wait()
                payment = call.realm.payments.find(payment.id)
        return payment
    finally:
        call.house.held.discard(bell)
        call.realm.payment_feed.unsubscribe(payment.id, bell)
        polls.release(payment.id)
