"""What an operator can do in test mode: move a payment and the clock, run a scenario, inject faults.

Each is one call of the API's own handler.

Source: DESIGN.md, "9. Test realm"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, unquote

import msgspec

from payd.core.errors import InvalidParams
from payd.web.call import Request, parse_query
from payd.web.command import Command, OfId, OfMode, ask, operator_of, realm_of
from payd.web.scenarios import AMOUNT

if TYPE_CHECKING:
    from payd.web.house import House

A = TypeVar("A", bound=OfMode)

FAULTS: Final = "/v1/test/webhooks/inject"


class _Simulate(OfId, frozen=True, kw_only=True):
    to: str
    reason: str | None = None


class _Advance(OfMode, frozen=True, kw_only=True):
    by: str


class _Scenario(OfMode, frozen=True, kw_only=True):
    name: str
    merchant: str | None = None
    payment: str | None = None
    reference: str | None = None
    unit: str | None = None
    value: str | None = None


class _Inject(OfMode, frozen=True, kw_only=True):
    fault: str
    deliveries: int | None = None
    lasts: str | None = None
    delay: str | None = None
    events: list[str] | None = None
    payment: str | None = None


class _End(OfMode, frozen=True, kw_only=True):
    id: str | None = None


class _Call(OfMode, frozen=True, kw_only=True):
    """A call of the API as one types it; no `body` is none, which null is not."""

    method: str
    path: str
    headers: dict[str, str] | None = None
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Samples(OfMode, frozen=True, kw_only=True):
    type: str | None = None


def _refuse_live(house: House, args: OfMode) -> None:
    if realm_of(house, args.mode).live:
        raise InvalidParams("This works in test mode only; leave --mode out.")


async def _ask(
    house: House, args: OfMode, method: str, path: str, body: Any = None, merchant: str | None = None
) -> Any:
    """As `ask`, in test mode alone.

    Raises:
        InvalidParams: The mode is live.
    """
    _refuse_live(house, args)
    return await ask(house, args, method, path, body, merchant_id=merchant)


def _anybodys(house: House, args: A) -> A:
    """As of the first account where none is named: the clock, scenarios and samples are one for all."""
    return msgspec.structs.replace(args, account=args.account or next(iter(house.accounts), None))


async def _simulate(house: House, args: _Simulate) -> Any:
    body = {"to": args.to, "reason": args.reason}
    return await _ask(house, args, "POST", f"/v1/test/payments/{quote(args.id, safe='')}/simulate", body)


async def _clock(house: House, args: OfMode) -> Any:
    return await _ask(house, _anybodys(house, args), "GET", "/v1/test/clock")


async def _advance(house: House, args: _Advance) -> Any:
    return await _ask(house, _anybodys(house, args), "POST", "/v1/test/clock", {"advance": args.by})


async def _scenarios(house: House, args: OfMode) -> Any:
    return (await _ask(house, _anybodys(house, args), "GET", "/v1/test/scenarios"))["data"]


async def _run(house: House, args: _Scenario) -> Any:
    amount = {"unit": args.unit or AMOUNT["unit"], "value": args.value or AMOUNT["value"]}
    body = {
        "paymentId": args.payment,
        "referenceId": args.reference,
        "amount": None if args.unit is None and args.value is None else amount,
    }
    path = f"/v1/test/scenarios/{quote(args.name, safe='')}"
    return await _ask(house, args, "POST", path, body, merchant=args.merchant)


async def _inject(house: House, args: _Inject) -> Any:
    body = {
        "fault": args.fault,
        "deliveries": args.deliveries,
        "for": args.lasts,
        "delay": args.delay,
        "events": args.events,
        "paymentId": args.payment,
    }
    return await _ask(house, args, "POST", FAULTS, body)


async def _faults(house: House, args: OfMode) -> Any:
    return (await _ask(house, args, "GET", FAULTS))["data"]


async def _end(house: House, args: _End) -> Any:
    path = FAULTS if args.id is None else f"{FAULTS}/{quote(args.id, safe='')}"
    return (await _ask(house, args, "DELETE", path))["data"]


async def _call(house: House, args: _Call) -> Any:
    """`{status, body}` of a call, also of one that is refused."""
    # It knows the dashboard, which asks these commands' own handlers.
    from payd.web.dispatch import answer_operator

    _refuse_live(house, args)
    path, _, query = args.path.partition("?")
    headers = {name.lower(): value for name, value in (args.headers or {}).items()}
    body = b"" if args.body is msgspec.UNSET else bytes(args.body)
    request = Request(args.method, unquote(path), parse_query(query), headers, body, query_string=query)
    found = await answer_operator(house, operator_of(house, args), request)
    return {"status": found.status, "body": msgspec.json.decode(found.body) if found.body else None}


async def _samples(house: House, args: _Samples) -> Any:
    args = _anybodys(house, args)
    if args.type is None:
        return (await _ask(house, args, "GET", "/v1/test/webhooks/samples"))["data"]
    return await _ask(house, args, "GET", f"/v1/test/webhooks/samples/{quote(args.type, safe='')}")


TESTING_COMMANDS: Final[dict[str, Command]] = {
    # What follows from it, the long-lived tasks do.
    "payment.simulate": Command(_Simulate, _simulate, needs_server=True),
    "clock.show": Command(OfMode, _clock, changes=False),
    # For who waits: without a server it never moves, and each look would hold the folder against a start.
    "clock.watch": Command(OfMode, _clock, needs_server=True, changes=False),
    "clock.advance": Command(_Advance, _advance, needs_server=True),
    "scenario.list": Command(OfMode, _scenarios, changes=False),
    "scenario.run": Command(_Scenario, _run, needs_server=True),
    "fault.inject": Command(_Inject, _inject),
    "fault.list": Command(OfMode, _faults, changes=False),
    "fault.end": Command(_End, _end),
    "fixture.call": Command(_Call, _call, needs_server=True),
    "sample.show": Command(_Samples, _samples, changes=False),
}
"""The commands of test mode."""
