"""An audit that does not lead to where the money goes is found out, and so are notices of something else."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from tests.crash.destinations import SERVER, Act, Destinations, Stands

ONE, OLD, NEW, KEY = "crypto_1", "0x01", "0x02", "key_1"
DUE_MS: Final = 1000


def act(what: str, old: str | None, new: str | None, *, by: str = KEY, at_ms: int = 0) -> Act:
    """One; what waits is due in time."""
    due_ms = DUE_MS if "_" in what else None
    return Act(f"settlement.{what}", ONE, by, at_ms, old, new, due_ms)


CREATED: Final = act("create", None, OLD)
REQUESTED: Final = act("change_request", OLD, NEW)
CANCELLED: Final = act("change_cancel", OLD, NEW)
MADE: Final = act("change", OLD, NEW, by=SERVER, at_ms=DUE_MS)
GONE: Final = act("delete", OLD, None)


def astray(*acts: Act, **stands: Stands) -> list[Any]:
    """What does not follow."""
    return [*Destinations(list(acts), dict(stands), [], None).astray()]


def test_each_act_follows_from_the_one_before_and_leads_to_what_stands() -> None:
    assert astray(CREATED, crypto_1=Stands(OLD)) == []
    assert astray(CREATED, REQUESTED, crypto_1=Stands(OLD, NEW, DUE_MS)) == []
    assert astray(CREATED, REQUESTED, MADE, crypto_1=Stands(NEW)) == []
    assert astray(CREATED, REQUESTED, CANCELLED, crypto_1=Stands(OLD)) == []
    assert astray(CREATED, REQUESTED, act("change", OLD, NEW), crypto_1=Stands(NEW)) == []
    assert astray(CREATED, REQUESTED, CANCELLED, GONE) == []


@pytest.mark.parametrize(
    "acts",
    [
        (CREATED, MADE),
        (CREATED, REQUESTED, CANCELLED, MADE),
        (CREATED, REQUESTED, MADE, MADE),
        (CREATED, REQUESTED, MADE._replace(at_ms=DUE_MS - 1)),
        (CREATED, REQUESTED, GONE),
        (CREATED, CANCELLED),
        (CREATED, act("change", NEW, OLD)),
        (CREATED, REQUESTED, act("change_request", OLD, "0x03")),
        (CREATED, CREATED),
    ],
)
def test_an_act_that_cannot_follow_is_found(acts: tuple[Act, ...]) -> None:
    *before, _ = acts
    assert any(found[0] == acts[-1] for found in astray(*acts))
    assert not any(found[0] in before for found in astray(*before))


def test_a_destination_that_no_act_has_led_to_is_found() -> None:
    assert astray(CREATED, crypto_1=Stands(NEW))
    assert astray(CREATED, REQUESTED, crypto_1=Stands(OLD))


def notice(kind: str, old: str | None, new: str | None) -> bytes:
    """What the operator is sent."""
    return msgspec.json.encode(
        {"type": f"destination.{kind}", "data": {"settlement_id": ONE, "old": old, "new": new}}
    )


def untold(owed: list[bytes], heard: set[bytes] | None) -> list[Any]:
    """What the operator does not hear of a change that was asked for and made."""
    return [*Destinations([CREATED, REQUESTED, MADE], {}, owed, heard).untold()]


def test_the_operator_hears_once_of_each_act() -> None:
    asked, made = notice("change_requested", OLD, NEW), notice("changed", OLD, NEW)

    assert untold([asked, made], {asked, made}) == []
    assert untold([notice("added", None, OLD), asked, made], {notice("added", None, OLD), asked, made}) == []
    assert untold([asked, made], {asked})
    assert untold([asked], {asked})
    assert untold([asked, made, made], {asked, made})
    assert untold([asked, notice("changed", OLD, "0x03")], {asked, notice("changed", OLD, "0x03")})
    assert untold([], None) == []
