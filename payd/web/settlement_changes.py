"""Changes of settlements over REST: sending the money elsewhere, taking that back, taking none any more.

In the live realm a change can be held back for a while, whichever door it comes by: a stolen key or session
must not move the money before its owner hears of it. A deletion takes effect at once, as it sends the money
to nobody; the asset can then be registered for another address only after the same while.

Source: SPEC.md, "PUT /v1/merchants/{merchantId}/settlements/crypto/{id}";
DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec
import structlog

from payd.core.endpoint import NOTIFY
from payd.core.errors import InvalidParams, NotFound
from payd.core.event import iso_ms
from payd.core.notice import (
    CHANGE_CANCELLED,
    CHANGE_REQUESTED,
    DESTINATION_CHANGED,
    DESTINATION_DELETED,
    Moved,
    MovedType,
)
from payd.core.settlement_change import SettlementChange, is_same_account, takes_effect_at_ms
from payd.entropy import new_id
from payd.store.db import Tx
from payd.store.merchants import find_merchant
from payd.store.settlement_changes import drop_change, find_change, put_change, record_moved, vacate
from payd.store.settlements import Settlement, delete_settlement, find_settlement, set_destination
from payd.web.call import Answer, Call
from payd.web.lookup import own_merchant
from payd.web.schema import Deleted, SettlementOut, settlement_out
from payd.web.settlements import check_destination, check_on_chain

log = structlog.get_logger("payd.settlements")


class PutSettlement(msgspec.Struct, rename="camel"):
    """The new destination; the asset stays. With `expected`, only if that was the last one asked for."""

    destination: str
    expected: str | None = None


class _Done(NamedTuple):
    """What is answered, and what happened, for the log."""

    out: SettlementOut | Deleted
    kinds: tuple[MovedType, ...]


async def put(call: Call) -> Answer:
    """PUT /v1/merchants/{merchantId}/settlements/crypto/{id}: change the destination, now or later."""
    own_merchant(call)
    body = call.json(PutSettlement)
    # A settlement's asset never changes, so that what is checked here holds in the step.
    asset = call.realm.db.point(_own_settlement, call).asset
    check_destination(asset, body.destination, "destination")
    await check_on_chain(call.realm, asset, body.destination, "destination")
    return await _write(call, partial(_change, call=call, body=body))


async def cancel(call: Call) -> Answer:
    """DELETE /v1/merchants/{merchantId}/settlements/crypto/{id}/pending: the money goes where it goes."""
    own_merchant(call)
    return await _write(call, partial(_cancel, call=call))


async def delete(call: Call) -> Answer:
    """DELETE /v1/merchants/{merchantId}/settlements/crypto/{id}: at once."""
    own_merchant(call)
    return await _write(call, partial(_delete, call=call))


async def _write(call: Call, step: Callable[[Tx], _Done]) -> Answer:
    """Write, then tell the operator's endpoint and the chore, also when the client leaves in between."""

    def tell(done: _Done) -> None:
        call.realm.deliveries.wake(NOTIFY)
        call.realm.settlement_changes.wake()
        named = {"id": done.out.id, "merchant": call.params["merchantId"], "actor": call.actor}
        for kind in done.kinds:
            log.warning(f"settlement.{kind.removeprefix('destination.')}", live=call.realm.live, **named)

    done = await call.realm.db.write_and_tell(tell, step)
    return Answer.json(done.out)


def _change(tx: Tx, *, call: Call, body: PutSettlement) -> _Done:
    settlement, now_ms = _own_settlement(tx, call), call.realm.clock.now_ms()
    pending = find_change(tx, settlement.id)
    last = settlement.destination if pending is None else pending.destination
    if body.expected not in (None, last):
        raise InvalidParams(
            f"The destination was changed meanwhile: it is {last} now, or will be. Look again.",
            details={"field": "expected"},
        )
    due_ms = takes_effect_at_ms(
        settlement.destination,
        pending,
        body.destination,
        now_ms=now_ms,
        delay_ms=call.realm.settlement_changes.delay_ms,
    )
    if due_ms > now_ms:
        return _hold(tx, call, settlement, pending, body.destination, due_ms)
    kinds = _take_back(tx, call, settlement, unless=body.destination)
    if body.destination != settlement.destination:
        set_destination(tx, settlement.id, body.destination, now_ms)
        kinds += _record(tx, call, DESTINATION_CHANGED, settlement, body.destination)
    return _Done(settlement_out(msgspec.structs.replace(settlement, destination=body.destination)), kinds)


def _hold(
    tx: Tx,
    call: Call,
    settlement: Settlement,
    pending: SettlementChange | None,
    wanted: str,
    due_ms: int,
) -> _Done:
    if pending is not None and (pending.destination, pending.due_at_ms) == (wanted, due_ms):
        return _Done(settlement_out(settlement, pending), ())  # asked for again: nothing happens anew
    kinds = _take_back(tx, call, settlement, unless=wanted)
    now_ms = call.realm.clock.now_ms()
    change = SettlementChange(
        settlement.id, settlement.merchant_id, call.account_id, wanted, call.actor, now_ms, due_ms
    )
    put_change(tx, change)
    kinds += _record(tx, call, CHANGE_REQUESTED, settlement, wanted, due_ms)
    return _Done(settlement_out(settlement, change), kinds)


def _cancel(tx: Tx, *, call: Call) -> _Done:
    settlement = _own_settlement(tx, call)
    kinds = _take_back(tx, call, settlement)
    if not kinds:
        raise NotFound(
            f"No change of this destination waits: the money goes to {settlement.destination}."
            " If one took effect meanwhile, change the destination back."
        )
    return _Done(settlement_out(settlement), kinds)


def _delete(tx: Tx, *, call: Call) -> _Done:
    settlement, delay_ms = _own_settlement(tx, call), call.realm.settlement_changes.delay_ms
    kinds = _take_back(tx, call, settlement)
    delete_settlement(tx, settlement.id)
    # Also where nothing is held back: who registers something else then tells the operator of it.
    vacate(tx, settlement, call.realm.clock.now_ms() + delay_ms)
    kinds += _record(tx, call, DESTINATION_DELETED, settlement, None)
    return _Done(Deleted(settlement.id), kinds)


def _take_back(tx: Tx, call: Call, settlement: Settlement, unless: str = "") -> tuple[MovedType, ...]:
    """Drop the change that waits, and say so, unless it is taken over: it leads to that account."""
    pending = drop_change(tx, settlement.id)
    if pending is None or (unless and is_same_account(pending.destination, unless)):
        return ()
    return _record(tx, call, CHANGE_CANCELLED, settlement, pending.destination, pending.due_at_ms)


def _record(
    tx: Tx,
    call: Call,
    kind: MovedType,
    settlement: Settlement,
    new: str | None,
    due_ms: int | None = None,
) -> tuple[MovedType, ...]:
    """Write it into the audit, and tell the operator where it is about live money."""
    moved = Moved(
        settlement.id,
        settlement.merchant_id,
        call.account_id,
        settlement.asset,
        settlement.destination,
        new,
        call.actor,
        None if due_ms is None else iso_ms(due_ms),
    )
    fresh_id = partial(new_id, entropy=call.house.entropy) if call.realm.live else None
    record_moved(tx, kind, moved, call.realm.clock.now_ms(), actor=call.actor, fresh_id=fresh_id)
    return (kind,)


def _own_settlement(tx: Tx, call: Call) -> Settlement:
    settlement = find_settlement(tx, call.params["merchantId"], call.params["id"])
    if settlement is None or find_merchant(tx, settlement.merchant_id) is None:
        raise NotFound("There is no such settlement.")
    return settlement
