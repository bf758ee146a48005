"""What stands in payd.toml under a seed: operators change it from life to life, while payments are open."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from tests.simulation.door import urls

CHAIN_TABLE: Final = "[[chains]]"
# How often something is changed at a start, how often each thing then is, and how often a chain is left out.
CHANGES: Final = 0.8
CHANGES_ONE: Final = 0.4
CHANGES_NODES: Final = 0.6
LEFT_OUT: Final = 0.25
# How often changes of destinations are held back at all, for how long, and whom the operator has told of it.
HOLDS_BACK: Final = 0.5
NO_DELAY: Final = "0"
DELAYS_S: Final = (NO_DELAY, "5", "20", "60", "200")
NOTIFIED: Final = "203.0.113.7"

SETTINGS_CHANGES: Final = frozenset(
    {
        "chain is left out",
        "nodes are added or removed",
        "nodes are put in another order",
        "settings are changed",
    }
)
"""All that happens, by name."""


@dataclass(frozen=True)
class Settings:
    """What an operator has written for one life.

    Attributes:
        nodes: Whom the chain is asked of, by their places, in this order.
        values: By the name of what is set.
        is_served: Whether the chain stands there at all.
    """

    nodes: tuple[int, ...]
    values: Mapping[str, str]
    is_served: bool = True

    def text(self, template: str) -> str:
        """A payd.toml with all of it in its places: `@name`."""
        written = template if self.is_served else template.partition(CHAIN_TABLE)[0]
        every = urls(max(self.nodes) + 1)
        filled = dict(self.values) | {"rpc": json.dumps([every[place] for place in self.nodes])}
        for name, value in filled.items():
            written = written.replace(f"@{name}", value)
        return written

    def happened(self, before: Settings) -> list[str]:
        """What was changed since, by name."""
        found = [] if self.is_served else ["chain is left out"]
        if set(self.nodes) != set(before.nodes):
            found.append("nodes are added or removed")
        elif self.nodes != before.nodes:
            found.append("nodes are put in another order")
        return found if self.values == before.values else [*found, "settings are changed"]


def settings_of(rng: Random, lives: int, nodes: int, knobs: Mapping[str, Sequence[str]]) -> list[Settings]:
    """Those of so many lives and of the calm one after them, in which the chain is served.

    Args:
        rng: Chooses.
        lives: Before the last one.
        nodes: How many there are.
        knobs: What each thing may be set to.
    """
    values = {name: rng.choice(choices) for name, choices in knobs.items()}
    found = [Settings(tuple(range(nodes)), values)]
    for number in range(1, lives + 1):
        last = found[-1]
        values, order = dict(last.values), last.nodes
        if rng.random() < CHANGES:
            for name, choices in knobs.items():
                if rng.random() < CHANGES_ONE:
                    values[name] = rng.choice(choices)
            if rng.random() < CHANGES_NODES:
                order = tuple(rng.sample(range(nodes), rng.randrange(1, nodes + 1)))
        is_served = number == lives or rng.random() >= LEFT_OUT
        found.append(Settings(order, values, is_served))
    return found


def with_delays(settings: Sequence[Settings], rng: Random) -> list[Settings]:
    """In some houses changes of destinations are held back, in each life for as long as it says."""
    holds_back = rng.random() < HOLDS_BACK
    notify = f"http://{NOTIFIED}/" if holds_back else ""
    found = []
    for one in settings:
        delay = rng.choice(DELAYS_S) if holds_back else NO_DELAY
        found.append(replace(one, values={**one.values, "delay": delay, "notify": notify}))
    return found
