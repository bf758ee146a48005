"""The words for a transaction that was read by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from payd.actors.walk import UNCERTAIN, WORDS, MatchResult, told_by
from payd.chains.rpc import NodesDown
from payd.chains.unread import Unread
from payd.core.errors import ChainUnavailable
from payd.store.sightings import Sighting


def test_what_pays_nobody_here_is_not_ours() -> None:
    assert MatchResult.recorded([]) == MatchResult.of("not_ours")


def test_only_what_no_later_reading_changes_is_certain() -> None:
    assert WORDS.keys() - UNCERTAIN == {"recorded", "reverted", "not_ours"}


def test_what_is_recorded_says_what_it_is() -> None:
    late = Sighting("acct_1", None, "c", "t", 0, "a", 1, "s", "r", "late", 7, "h", 70)
    result = MatchResult.recorded([late, late])
    assert (result.outcome, result.sightings) == ("recorded", (late, late))
    assert result.words.endswith("It is late.")


async def test_where_no_node_tells_of_a_transaction_each_is_named_once() -> None:
    """One that is down is named by what it raises."""
    troubles = {"a.example": NodesDown("a.example: HTTP 401"), "b.example": Unread("no such block")}

    async def ask(node: Any) -> str:
        raise troubles[node.name]

    rpc: Any = SimpleNamespace(nodes=[SimpleNamespace(name=name, is_usable=True) for name in troubles])
    with capture_logs() as logs, pytest.raises(ChainUnavailable):
        await told_by(rpc, ask, lambda told: told)
    assert [line["why"] for line in logs] == ["a.example: HTTP 401; b.example: no such block"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (("yes", "yes", "asked in vain"), ["yes", "yes"]),
        (("", "yes", "yes"), ["yes", "yes"]),
        (("no", "yes", "yes"), ["yes", "yes"]),
        (("", "", "yes"), ["", "", "yes"]),
        (("", "", ""), ["", "", ""]),
        (("no", "yes", None), ["no", "yes"]),
        (("yes", None, "yes"), ["yes", "yes"]),
        (("yes",), ["yes"]),
    ],
)
async def test_two_nodes_that_bear_each_other_out_are_heard_whatever_the_others_say(
    said: tuple[str | None, ...], told: list[str]
) -> None:
    async def ask(node: Any) -> str:
        if node.says is None:
            raise NodesDown("HTTP 503")
        assert isinstance(node.says, str)
        return node.says

    nodes = [SimpleNamespace(name="a.example", is_usable=True, says=one) for one in said]
    rpc: Any = SimpleNamespace(nodes=[SimpleNamespace(is_usable=False), *nodes])

    assert await told_by(rpc, ask, lambda one: one or None) == told
