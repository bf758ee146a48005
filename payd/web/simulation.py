"""The simulation API and the test clock over REST: only for test keys.

Source: DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

import msgspec

from payd.actors.advance import Advance, AdvanceState
from payd.actors.simulation import TARGETS, simulate_once
from payd.core.errors import Issue, ParamsValidation
from payd.core.event import iso_ms
from payd.core.payment import Payment
from payd.store.db import Tx
from payd.store.transfers import transfers_of_payment
from payd.web.acts import act_of
from payd.web.call import Answer, Call
from payd.web.idempotent import idempotent, outcome_answer
from payd.web.lookup import own_payment

REASON_MAX: Final = 500
UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
# Longer than everything that a realm ever waits for.
ADVANCE_MAX_S: Final = 400 * 86_400

_DURATION: Final = re.compile(r"([0-9]{1,9})([smhd])")


class SimulateIn(msgspec.Struct):
    """Where to, and what the merchant is told as the reason."""

    to: str
    reason: str | None = None


class ClockIn(msgspec.Struct):
    """How far, such as `28h`."""

    advance: str


class ClockJob(msgspec.Struct):
    """How far the newest advance is."""

    id: str
    state: str
    events: int


class ClockOut(msgspec.Struct, rename="camel"):
    """The realm's time; `offsetS` is how far it is ahead of the real one."""

    now: str
    offset_s: int = msgspec.field(name="offsetS")
    job: ClockJob | None = None


async def simulate_payment(call: Call) -> Answer:
    """POST /v1/test/payments/{id}/simulate."""
    payment = own_payment(call)
    body = call.json(SimulateIn)
    to = next((one for one in TARGETS if one == body.to), None)
    if to is None:
        _refuse("to", f"One of {', '.join(TARGETS)}.")
    if body.reason is not None and not (1 <= len(body.reason) <= REASON_MAX and body.reason.isprintable()):
        _refuse("reason", f"1 to {REASON_MAX} printable characters.")
    request = idempotent(call, body)
    words = call.realm.words

    def render(tx: Tx, moved: Payment) -> bytes:
        return msgspec.json.encode(words.detail(moved, transfers_of_payment(tx, moved.id)))

    payments = call.realm.payments
    also = act_of(call, "payment.simulate", payment.id, to=to)
    return outcome_answer(
        await simulate_once(payments, payment.id, to, body.reason, request, render, also=also)
    )


async def read_clock(call: Call) -> Answer:
    """GET /v1/test/clock."""
    return Answer.json(_clock_out(call, _advance(call).state()))


async def advance_clock(call: Call) -> Answer:
    """POST /v1/test/clock → 202: due work runs in time order; the job says when it is done."""
    body = call.json(ClockIn)
    request = idempotent(call, body)
    advance_ms = parse_duration_s(body.advance) * 1000

    def render(state: AdvanceState) -> bytes:
        return msgspec.json.encode(_clock_out(call, state))

    return outcome_answer(await _advance(call).start(advance_ms, request, render))


def parse_duration_s(text: str, field: str = "advance") -> int:
    """Seconds in `300s`, `15m`, `28h`, `5d`; `field` is where it stands.

    Raises:
        ParamsValidation: It is none of these, or none at all.
    """
    match = _DURATION.fullmatch(text)
    seconds = int(match[1]) * UNITS_S[match[2]] if match else 0
    if not 0 < seconds <= ADVANCE_MAX_S:
        _refuse(field, "A duration such as 300s, 15m, 28h or 5d, at most 400d.")
    return seconds


def _advance(call: Call) -> Advance:
    assert call.realm.advance is not None, "the route is for test keys"
    return call.realm.advance


def _clock_out(call: Call, state: AdvanceState) -> ClockOut:
    job = None if state.job_id is None else ClockJob(state.job_id, state.state, state.events)
    clock = call.realm.clock
    return ClockOut(iso_ms(clock.now_ms()), clock.offset_ms // 1000, job)


def _refuse(field: str, words: str) -> NoReturn:
    raise ParamsValidation.of(Issue(field, words))
