"""What a merchant should look at: findings from what is known anyway, the worst first.

A finding is a fact with its size and its place, not yet a sentence in a page; its words are for a person all
the same.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from payd.core.endpoint import REPLAY_REACH_MS, Endpoint, EndpointState, disables_at_ms, was_given_up
from payd.core.option import QUOTE_GRACE_MS
from payd.core.skew import side

Level = Literal["error", "warning", "notice"]
Topic = Literal[
    "store",
    "space",
    "clock",
    "webhooks",
    "chain",
    "node",
    "relayer",
    "prices",
    "endpoint_failing",
    "endpoint_disabled",
    "endpoint_paused",
    "deliveries_failed",
    "transfers_late",
    "transfers_partial",
    "transfers_surplus",
    "transfers_unmatched",
    "payment_parked",
    "merchant_without_destination",
]

LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "notice")

GIB: Final = 1 << 30
MIB: Final = 1 << 20
# A busy shop writes some 100 MiB a day; a disk that is full stops all payments.
SPACE_LOW: Final = 2 * GIB
SPACE_NONE: Final = 200 * MIB
# A clock that is off by less does no harm yet; from the second on, quotes miss what is paid at once, or last.
SKEW_LOW_S: Final = 30.0
SKEW_HIGH_S: Final = QUOTE_GRACE_MS / 1000
# More blocks than a chain has in the time that a few looks take.
BEHIND_MAX: Final = 50
# As far as webhooks can be sent again; what is older has been looked at, or never will be.
REACH_MS: Final = REPLAY_REACH_MS


class Matter(msgspec.Struct, frozen=True):
    """One thing to look at.

    Attributes:
        level: error: money or webhooks do not move. warning: they soon may not. notice: somebody waits.
        topic: What it is, and with `subject` where its page is.
        words: For people.
        subject: An id or a name; empty: the whole realm.
        count: How many; what is counted up to a limit has `is_more`.
        since_ms: Since when it is so; None: nobody knows.
        until_ms: When it will end by itself, and worse; None: it will not.
    """

    level: Level
    topic: Topic
    words: str
    subject: str = ""
    count: int = 1
    is_more: bool = False
    since_ms: int | None = None
    until_ms: int | None = None


class ChainState(msgspec.Struct, frozen=True):
    """What is known of a chain.

    Attributes:
        trouble: Why it could not be read the last time; empty: it could.
        behind: Blocks that are there and not read.
        down: Names of nodes that are put aside.
        nodes: How many there are.
        alarms: The relayer's, in words.
    """

    name: str
    trouble: str
    behind: int
    down: Sequence[str]
    nodes: int
    alarms: Sequence[str]


def of_endpoint(endpoint: Endpoint, now_ms: int) -> list[Matter]:
    """What an endpoint needs."""
    since_ms = endpoint.off_since_ms
    match endpoint.state:
        case EndpointState.DISABLED:
            why = (
                "the endpoint failed for five days" if was_given_up(endpoint) else "the endpoint is disabled"
            )
            words = f"Webhooks are off: {why}. Nothing is sent until it is enabled."
            return [Matter("error", "endpoint_disabled", words, endpoint.id, since_ms=since_ms)]
        case EndpointState.PAUSED:
            words = "Webhooks wait: the endpoint is paused. They are sent when it goes on."
            return [Matter("notice", "endpoint_paused", words, endpoint.id, since_ms=since_ms)]
    if endpoint.failing_since_ms is None:
        return []
    return [
        Matter(
            "warning",
            "endpoint_failing",
            "The webhook endpoint fails. It is disabled after five days without a success.",
            endpoint.id,
            since_ms=endpoint.failing_since_ms,
            until_ms=disables_at_ms(endpoint, now_ms),
        )
    ]


def of_chain(chain: ChainState) -> list[Matter]:
    """What a chain needs: one that cannot be read, nodes that do not answer, a relayer that runs out."""
    found = []
    if chain.trouble:
        words = (
            "The chain cannot be read. What buyers pay is found once it can be, and nothing expires before."
        )
        found.append(Matter("error", "chain", words, chain.name))
    elif chain.behind > BEHIND_MAX:
        words = "The reading of the chain is behind: payments are seen late."
        found.append(Matter("warning", "chain", words, chain.name, chain.behind))
    if chain.down:
        last = chain.nodes - len(chain.down) <= 1
        words = f"Nodes do not answer: {', '.join(chain.down)}."
        level: Level = "warning" if last else "notice"
        found.append(Matter(level, "node", words, chain.name, len(chain.down)))
    return found + [Matter("warning", "relayer", words, chain.name) for words in chain.alarms]


def of_prices(sources: int, failing: Sequence[str]) -> list[Matter]:
    """What the sources of prices need.

    Args:
        sources: How many there are; 0: the operator wrote the prices down.
        failing: Names of those that failed the last time.
    """
    if not failing:
        return []
    left = sources - len(failing)
    words = f"No price from {', '.join(failing)}."
    if left < 2:
        words += " With fewer than two sources, coins whose price moves are not offered."
    return [Matter("warning" if left < 2 else "notice", "prices", words, count=len(failing))]


def of_space(free: int) -> list[Matter]:
    """What the disk needs, by its free bytes."""
    if free >= SPACE_LOW:
        return []
    level: Level = "error" if free < SPACE_NONE else "warning"
    return [Matter(level, "space", f"{free // MIB} MiB are free on the disk. Make room: full, it stops all.")]


def of_clock(skew_s: float) -> Matter:
    """What a clock needs that is so many seconds ahead of the chains' nodes."""
    words = (
        f"By the clocks of the chains' nodes, this machine's is {abs(skew_s):.0f} s {side(skew_s)}. Run:"
        f" timedatectl set-ntp true. From {SKEW_HIGH_S:.0f} s on, payments are late or unmatched transfers."
    )
    return Matter("error" if abs(skew_s) >= SKEW_HIGH_S else "warning", "clock", words)


def worst_first(matters: Iterable[Matter]) -> list[Matter]:
    """Errors, then warnings, then notices; else as they came."""
    return sorted(matters, key=lambda one: LEVELS.index(one.level))
