"""What operators write from life to life: all of it happens, and the last life has a chain."""

from __future__ import annotations

import tomllib
from itertools import pairwise
from random import Random
from typing import Final

from tests.simulation.settings import (
    DELAYS_S,
    NO_DELAY,
    SETTINGS_CHANGES,
    Settings,
    settings_of,
    with_delays,
)

KNOBS: Final = {"depth": ("1", "2", "4"), "id": ("eip155:1",)}
TEMPLATE: Final = """
[webhooks]
canary = false

[[chains]]
id = "@id"
rpc = @rpc
depth = @depth
"""


def test_all_happens_and_at_both_ends_the_chain_is_served() -> None:
    happened = set()
    for seed in range(50):
        found = settings_of(Random(seed), 4, 3, KNOBS)
        assert len(found) == 5
        assert found[0].is_served
        assert found[-1].is_served
        for before, one in pairwise(found):
            happened.update(one.happened(before))
            assert one.nodes
            assert len(set(one.nodes)) == len(one.nodes)

    assert happened == SETTINGS_CHANGES


def test_nodes_are_named_by_their_places_and_without_a_chain_the_rest_stays() -> None:
    values = {"depth": "2", "id": "eip155:1"}

    [chain] = tomllib.loads(Settings((2, 0), values).text(TEMPLATE))["chains"]
    assert [one.partition(".")[0] for one in chain["rpc"]] == ["http://node2", "http://node0"]
    assert (chain["id"], chain["depth"]) == ("eip155:1", 2)

    left_out = tomllib.loads(Settings((0,), values, is_served=False).text(TEMPLATE))
    assert left_out == {"webhooks": {"canary": False}}


def test_some_houses_hold_changes_back_and_for_another_time_in_another_life() -> None:
    values = {"depth": "2", "id": "eip155:1"}
    settings = [Settings((0,), values)] * 5
    found = [with_delays(settings, Random(seed)) for seed in range(50)]

    held = [some for some in found if any(one.values["delay"] != NO_DELAY for one in some)]
    assert 10 < len(held) < 40
    assert {one.values["delay"] for some in held for one in some} == set(DELAYS_S)
    for some in found:
        assert {bool(one.values["notify"]) for one in some} <= {some in held}
        assert all(one.values.items() >= values.items() for one in some)
