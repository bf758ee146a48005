"""What to look at: each state of a thing says what it needs, and what needs nothing says nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from payd.core.attention import (
    BEHIND_MAX,
    GIB,
    SPACE_LOW,
    SPACE_NONE,
    ChainState,
    Matter,
    of_chain,
    of_clock,
    of_endpoint,
    of_prices,
    of_space,
    worst_first,
)
from payd.core.endpoint import (
    ALL,
    DISABLE_AFTER_MS,
    Endpoint,
    EndpointState,
    after_attempt,
    disable,
    pause,
)

WELL = ChainState("eip155:8453", "", 0, (), 2, ())
ENDPOINT = Endpoint("ep_1", "acct_1", "https://a.test", ALL, EndpointState.ENABLED, None, None, None, 0)


def said(matters: list[Matter]) -> list[tuple[str, str]]:
    return [(one.level, one.topic) for one in matters]


@pytest.mark.parametrize(
    ("state", "matters"),
    [
        ({}, []),
        ({"behind": BEHIND_MAX}, []),
        ({"behind": BEHIND_MAX + 1}, [("warning", "chain")]),
        ({"trouble": "no node answers", "behind": 99}, [("error", "chain")]),
        ({"down": ("a",), "nodes": 3}, [("notice", "node")]),
        ({"down": ("a",), "nodes": 2}, [("warning", "node")]),
        ({"down": ("a",), "nodes": 1}, [("warning", "node")]),
        ({"alarms": ("low", "old")}, [("warning", "relayer"), ("warning", "relayer")]),
    ],
)
def test_a_chain_says_what_it_needs(state: dict[str, Any], matters: list[tuple[str, str]]) -> None:
    found = of_chain(msgspec.structs.replace(WELL, **state))

    assert said(found) == matters
    assert all(one.subject == WELL.name for one in found)


def test_an_endpoint_says_since_when_it_fails_and_when_it_ends() -> None:
    assert of_endpoint(ENDPOINT, 9) == []
    (failing,) = of_endpoint(msgspec.structs.replace(ENDPOINT, failing_since_ms=5, last_failure_at_ms=9), 9)
    assert (failing.topic, failing.since_ms, failing.until_ms) == (
        "endpoint_failing",
        5,
        5 + DISABLE_AFTER_MS,
    )
    off = msgspec.structs.replace(ENDPOINT, failing_since_ms=5, off_since_ms=9, state=EndpointState.DISABLED)
    (disabled,) = of_endpoint(off, 9)
    assert (disabled.level, disabled.topic, disabled.since_ms) == ("error", "endpoint_disabled", 9)
    assert "failed for five days" not in disabled.words, "somebody disabled it"
    ill = msgspec.structs.replace(ENDPOINT, failing_since_ms=5, last_failure_at_ms=DISABLE_AFTER_MS)
    given_up = after_attempt(ill, ok=False, now_ms=5 + DISABLE_AFTER_MS)
    assert given_up.state is EndpointState.DISABLED
    assert "failed for five days" in of_endpoint(given_up, 9)[0].words
    held = disable(pause(ill, DISABLE_AFTER_MS + 1), 9 + DISABLE_AFTER_MS)
    assert "failed for five days" not in of_endpoint(held, 9)[0].words, (
        "it was paused, and somebody disabled it"
    )
    failing_on = after_attempt(disable(ill, 9), ok=False, now_ms=10)
    assert "failed for five days" not in of_endpoint(failing_on, 9)[0].words, "an attempt was under way then"
    by_hand = msgspec.structs.replace(off, failing_since_ms=None, last_failure_at_ms=3)
    assert "failed for five days" not in of_endpoint(by_hand, 9)[0].words
    (paused,) = of_endpoint(msgspec.structs.replace(off, state=EndpointState.PAUSED), 9)
    assert (paused.level, paused.topic) == ("notice", "endpoint_paused")


@pytest.mark.parametrize(
    ("sources", "failing", "levels"),
    [
        (0, (), []),
        (3, (), []),
        (3, ("a",), ["notice"]),
        (3, ("a", "b"), ["warning"]),
        (2, ("a",), ["warning"]),
    ],
)
def test_prices_matter_when_too_few_are_left(
    sources: int, failing: tuple[str, ...], levels: list[str]
) -> None:
    assert [one.level for one in of_prices(sources, failing)] == levels


@pytest.mark.parametrize(
    ("free", "levels"),
    [
        (SPACE_LOW, []),
        (SPACE_LOW - 1, ["warning"]),
        (SPACE_NONE, ["warning"]),
        (SPACE_NONE - 1, ["error"]),
        (100 * GIB, []),
    ],
)
def test_little_room_is_a_warning_and_none_an_error(free: int, levels: list[str]) -> None:
    assert [one.level for one in of_space(free)] == levels


@pytest.mark.parametrize(("skew_s", "level"), [(30.0, "warning"), (-119.0, "warning"), (120.0, "error")])
def test_a_clock_that_is_off_is_an_error_from_where_quotes_miss_payments(skew_s: float, level: str) -> None:
    matter = of_clock(skew_s)
    assert (matter.level, matter.topic) == (level, "clock")
    assert f"{abs(skew_s):.0f} s {'ahead' if skew_s > 0 else 'behind'}" in matter.words


def test_the_worst_comes_first_and_the_rest_stays_in_order() -> None:
    matters = [
        Matter("notice", "node", "1"),
        Matter("error", "chain", "2"),
        Matter("warning", "space", "3"),
        Matter("error", "store", "4"),
    ]
    assert [one.words for one in worst_first(matters)] == ["2", "4", "3", "1"]
