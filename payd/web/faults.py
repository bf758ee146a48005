"""Faults that a developer injects into deliveries, to try a receiver: only for test keys.

Source: DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.core.endpoint import EVENT_TYPES
from payd.core.errors import Issue, NotSandboxApiKey, ParamsValidation
from payd.core.event import iso_ms
from payd.core.fault import Fault, FaultKind, is_over
from payd.entropy import new_id
from payd.store.db import Tx
from payd.store.endpoints import get_endpoint
from payd.store.faults import add_fault, end_faults, list_faults
from payd.store.idempotency import Outcome, find_replay, once
from payd.web.acts import audit
from payd.web.call import Answer, Call
from payd.web.idempotent import idempotent, outcome_answer
from payd.web.lookup import own_payment
from payd.web.simulation import parse_duration_s

DELIVERIES_MAX: Final = 1000
# A week is longer than the endpoint that is given up, and than any afternoon of trying.
FOR_MAX_S: Final = 7 * 86_400
DELAY_MAX_S: Final = 86_400
DELAY_DEFAULT: Final = "30s"


class InjectIn(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A fault for the next `deliveries` (1 where both are left out), or for a time such as `10m` (`for`).

    `delay` is how long the fault `delay` holds back, `30s` unless it says otherwise; `events` and `paymentId`
    narrow down whom it touches.
    """

    fault: FaultKind
    deliveries: int | None = None
    lasts: str | None = msgspec.field(name="for", default=None)
    delay: str | None = None
    events: list[str] | None = None
    payment_id: str | None = None


class FaultOut(msgspec.Struct, frozen=True, rename="camel"):
    """A fault; `state` is active or over, `left` how many deliveries it still touches, null if by time.

    `injected` is how many attempts it touched, each of which names it in its log.
    """

    id: str
    fault: str
    state: str
    deliveries: int | None
    left: int | None
    until: str | None
    delay_s: int | None
    events: tuple[str, ...]
    payment_id: str | None
    injected: int
    created_at: str


class FaultList(msgspec.Struct, frozen=True):
    """Newest first."""

    data: list[FaultOut]


async def inject(call: Call) -> Answer:
    """POST /v1/test/webhooks/inject `{fault, deliveries?|for?, delay?, events?, paymentId?}` → 201."""
    refuse_live(call)
    body = call.json(InjectIn)
    _check(body)
    request = idempotent(call, body)
    # Before the endpoint is looked at: a repeated request gets its answer also when that is gone.
    if (replay := call.realm.db.point(find_replay, request)) is not None:
        return outcome_answer(replay)
    now_ms = call.realm.clock.now_ms()
    fault = _fault_of(call, body, now_ms)

    def work(tx: Tx) -> Outcome:
        added = add_fault(tx, fault)
        _audit(call, tx, "webhook.inject-fault", added)
        return Outcome(201, msgspec.json.encode(_fault_out(added, now_ms)))

    outcome = await call.realm.db.write_and_tell(lambda _: _tell(call), once, request, work)
    return outcome_answer(outcome)


async def list_all(call: Call) -> Answer:
    """GET /v1/test/webhooks/inject → `{data}`: the endpoint's faults, those that are over too."""
    refuse_live(call)
    endpoint = call.realm.db.point(get_endpoint, call.account_id)
    now_ms = call.realm.clock.now_ms()
    stored = call.realm.db.point(list_faults, endpoint.id)
    return Answer.json(FaultList([_fault_out(one, now_ms) for one in stored]))


async def end_one(call: Call) -> Answer:
    """DELETE /v1/test/webhooks/inject/{id} → `{data}`: the fault, which is over; what it held goes now."""
    return await _end(call, call.params["id"])


async def end_all(call: Call) -> Answer:
    """DELETE /v1/test/webhooks/inject → `{data}`: the faults that this ended."""
    return await _end(call, None)


def refuse_live(call: Call) -> None:
    """For what is done in test mode alone, also by people and commands.

    Raises:
        NotSandboxApiKey: The call is in live mode.
    """
    if call.realm.live:
        raise NotSandboxApiKey("This works in test mode only, with a test key (svc_test_…).")


async def _end(call: Call, fault_id: str | None) -> Answer:
    refuse_live(call)
    endpoint = call.realm.db.point(get_endpoint, call.account_id)
    now_ms = call.realm.clock.now_ms()

    def work(tx: Tx) -> list[Fault]:
        ended = end_faults(tx, endpoint.id, fault_id, now_ms)
        for fault in ended:
            _audit(call, tx, "webhook.end-fault", fault)
        wanted = [fault_id] if fault_id is not None else [one.id for one in ended]
        return [one for one in list_faults(tx, endpoint.id) if one.id in wanted]

    def tell(_: list[Fault]) -> None:
        _tell(call)
        call.realm.deliveries.wake(endpoint.id)

    shown = await call.realm.db.write_and_tell(tell, work)
    return Answer.json(FaultList([_fault_out(one, now_ms) for one in shown]))


def _tell(call: Call) -> None:
    if call.realm.deliveries.faults is not None:
        call.realm.deliveries.faults.forget()


def _check(body: InjectIn) -> None:
    """Refuse what contradicts itself.

    Raises:
        ParamsValidation: With an issue for each.
    """
    issues = []
    if body.deliveries is not None and body.lasts is not None:
        issues.append(Issue("for", "Give deliveries or for, not both."))
    if body.deliveries is not None and not 1 <= body.deliveries <= DELIVERIES_MAX:
        issues.append(Issue("deliveries", f"1 to {DELIVERIES_MAX}."))
    if body.delay is not None and body.fault != "delay":
        issues.append(Issue("delay", "Only the fault delay has one."))
    unknown = [one for one in body.events or () if one not in EVENT_TYPES]
    if unknown:
        issues.append(Issue("events", f"{unknown[0]!r} is no event type; there are {', '.join(EVENT_TYPES)}"))
    if issues:
        raise ParamsValidation.of(*issues)


def _fault_of(call: Call, body: InjectIn, now_ms: int) -> Fault:
    endpoint = call.realm.db.point(get_endpoint, call.account_id)
    if body.payment_id is not None:
        call.params["id"] = body.payment_id
        own_payment(call)
    deliveries = None if body.lasts is not None else body.deliveries or 1
    return Fault(
        id=new_id("flt_", now_ms, call.house.entropy),
        endpoint_id=endpoint.id,
        kind=body.fault,
        delay_ms=None
        if body.fault != "delay"
        else _seconds(body.delay or DELAY_DEFAULT, "delay", DELAY_MAX_S) * 1000,
        events=tuple(dict.fromkeys(body.events or ())),
        payment_id=body.payment_id,
        deliveries=deliveries,
        left=deliveries,
        until_ms=None if body.lasts is None else now_ms + _seconds(body.lasts, "for", FOR_MAX_S) * 1000,
        created_at_ms=now_ms,
    )


def _seconds(text: str, field: str, seconds_max: int) -> int:
    seconds = parse_duration_s(text, field)
    if seconds > seconds_max:
        raise ParamsValidation.of(Issue(field, f"At most {seconds_max // 86_400}d."))
    return seconds


def _audit(call: Call, tx: Tx, act: str, fault: Fault) -> None:
    audit(tx, call, act, fault.endpoint_id, {"fault": fault.kind, "id": fault.id})


def _fault_out(fault: Fault, now_ms: int) -> FaultOut:
    return FaultOut(
        id=fault.id,
        fault=fault.kind,
        state="over" if is_over(fault, now_ms) else "active",
        deliveries=fault.deliveries,
        left=fault.left,
        until=None if fault.until_ms is None else iso_ms(fault.until_ms),
        delay_s=None if fault.delay_ms is None else fault.delay_ms // 1000,
        events=fault.events,
        payment_id=fault.payment_id,
        injected=fault.injected,
        created_at=iso_ms(fault.created_at_ms),
    )
