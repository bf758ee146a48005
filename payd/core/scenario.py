"""Named scenarios of the test realm: what is done to a new payment, and what a receiver is then told.

Source: DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from payd.core.fault import FaultKind

Verb: TypeAlias = Literal["create", "quote", "confirm", "simulate", "cancel", "refund", "transfer", "fault"]


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One thing that is done, by the API's own handlers.

    Attributes:
        verb: What.
        what: The magic buyer account of a quote, by its number; where a simulation goes; the kind of a
            transfer that pays for nothing, or of a fault.
        refused: The code with which it is refused, as it should be; empty: it is not.
        events: The types that a fault is for, one delivery of each.
    """

    verb: Verb
    what: str = ""
    refused: str = ""
    events: tuple[str, ...] = ()


class Told(msgspec.Struct, frozen=True):
    """An event that comes of it, in the order of `payment_state_version`.

    Attributes:
        type: Of the event.
        version: Of the payment.
        requests: How many requests a receiver gets for it, if it accepts each that it should accept.
        note: What is odd about them; empty: nothing.
    """

    type: str
    version: int
    requests: int = 1
    note: str = ""


class Scenario(msgspec.Struct, frozen=True):
    """A payment's story.

    Attributes:
        name: As it is asked for.
        words: What happens, in a sentence.
        steps: What is done, in order.
        tells: What a receiver is told.
        needs_endpoint: Whether a webhook endpoint has to be there.
    """

    name: str
    words: str
    steps: tuple[Step, ...]
    tells: tuple[Told, ...]
    needs_endpoint: bool = False


def _told(*types: str) -> tuple[Told, ...]:
    return tuple(Told(f"payment.{one}", version) for version, one in enumerate(types))


def _pays(account: int) -> tuple[Step, Step]:
    return Step("quote", str(account)), Step("confirm")


def _with_fault(
    name: str, words: str, kind: FaultKind, note: str, requests: tuple[int, ...], events: tuple[str, ...]
) -> Scenario:
    """A payment that is paid, and some of whose deliveries are touched on purpose.

    It is paid after the fault is there. `payment.created` may be under way by then or not, so no fault is
    for it.
    """
    plain = _told("created", "processing", "succeeded", "settled")
    tells = tuple(
        Told(one.type, one.version, count, note if one.type in events else "")
        for one, count in zip(plain, requests, strict=True)
    )
    steps = (Step("create"), Step("fault", kind, events=events), *_pays(1))
    return Scenario(name, words, steps, tells, needs_endpoint=True)


_PAID: Final = _told("created", "processing", "succeeded", "settled")
_SUCCEEDED: Final = ("payment.succeeded",)
_CREATE: Final = Step("create")

SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario("created", "A payment is created, and nobody pays.", (_CREATE,), _told("created")),
    Scenario(
        "processing",
        "The buyer pays, and the chain takes its time: it stays processing until it is simulated on, and"
        " expires 15 minutes after its window.",
        (_CREATE, *_pays(4)),
        _told("created", "processing"),
    ),
    Scenario("happy-path", "The buyer pays; it succeeds and settles.", (_CREATE, *_pays(1)), _PAID),
    Scenario("slow-settle", "The buyer pays; it settles a minute late.", (_CREATE, *_pays(5)), _PAID),
    Scenario(
        "failed",
        "The buyer pays, and the transaction fails.",
        (_CREATE, *_pays(4), Step("simulate", "failed")),
        _told("created", "processing", "failed"),
    ),
    Scenario(
        "expired",
        "Nobody pays, and the window closes.",
        (_CREATE, Step("simulate", "expired")),
        _told("created", "expired"),
    ),
    Scenario(
        "expired-while-processing",
        "The buyer pays, and nothing ever arrives.",
        (_CREATE, *_pays(4), Step("simulate", "expired")),
        _told("created", "processing", "expired"),
    ),
    Scenario(
        "cancelled",
        "The merchant cancels before anybody pays.",
        (_CREATE, Step("cancel")),
        _told("created", "cancelled"),
    ),
    Scenario(
        "rejected-signature",
        "The wallet's signature is refused (422); the payment stays open.",
        (_CREATE, Step("quote", "2"), Step("confirm", refused="invalid_signature")),
        _told("created"),
    ),
    Scenario(
        "late-payment",
        "The buyer chose how to pay, and confirms after the window closed (410): nothing is charged.",
        (
            _CREATE,
            Step("quote", "1"),
            Step("simulate", "expired"),
            Step("confirm", refused="payment_expired"),
        ),
        _told("created", "expired"),
    ),
    Scenario(
        "refund",
        "It is paid, and the merchant records a refund, which tells nobody anything.",
        (_CREATE, Step("simulate", "succeeded"), Step("refund")),
        _PAID,
    ),
    Scenario(
        "partial-transfer",
        "Less than was asked for comes: it is shown as partial, and the payment stays open.",
        (_CREATE, Step("transfer", "partial")),
        _told("created"),
    ),
    Scenario(
        "late-transfer",
        "The money comes when the window has closed: it is shown as late, and changes nothing.",
        (_CREATE, Step("simulate", "expired"), Step("transfer", "late")),
        _told("created", "expired"),
    ),
    Scenario(
        "surplus-transfer",
        "It is paid, and the money comes a second time: that is shown as surplus.",
        (_CREATE, Step("simulate", "succeeded"), Step("transfer", "surplus")),
        _PAID,
    ),
    Scenario(
        "unmatched-transfer",
        "The money comes without what binds it to its payment: it is shown as unmatched, and the payment"
        " stays open.",
        (_CREATE, Step("transfer", "unmatched")),
        _told("created"),
    ),
    _with_fault(
        "duplicate-webhook",
        "It is paid, and each delivery after the first event comes twice.",
        "duplicate",
        "comes twice, with one webhook-id",
        (1, 2, 2, 2),
        ("payment.processing", "payment.succeeded", "payment.settled"),
    ),
    _with_fault(
        "out-of-order-webhooks",
        "It is paid, and `processing` comes after `succeeded`.",
        "reorder",
        "comes after payment.succeeded",
        (1, 1, 1, 1),
        ("payment.processing",),
    ),
    _with_fault(
        "lost-webhook",
        "It is paid; the first attempt at `succeeded` is lost, and the next follows 5 s later.",
        "drop",
        "comes 5 s late, by the second attempt",
        (1, 1, 1, 1),
        _SUCCEEDED,
    ),
    _with_fault(
        "forged-webhook",
        "It is paid, and somebody forges `succeeded` before the real one comes 5 s later.",
        "wrong_secret",
        "comes forged first, which your receiver should refuse with 400, and 5 s later rightly signed",
        (1, 1, 2, 1),
        _SUCCEEDED,
    ),
)

BY_EVENT: Final[Mapping[str, str]] = {
    "payment.created": "created",
    "payment.processing": "processing",
    "payment.succeeded": "happy-path",
    "payment.settled": "happy-path",
    "payment.failed": "failed",
    "payment.expired": "expired",
    "payment.cancelled": "cancelled",
}
"""The scenario that ends with an event of each type."""


def find_scenario(name: str) -> Scenario | None:
    """A scenario by its name, or by the type of the event that is wanted."""
    wanted = BY_EVENT.get(name, name)
    return next((one for one in SCENARIOS if one.name == wanted), None)
