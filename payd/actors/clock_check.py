"""Whether the machine's clock is right, as the nodes of the live chains see it.

Quotes begin and end by our clock, and transfers are held against them by their blocks' time: where the two
differ, what buyers pay counts as late, or matches nothing. Nodes tell the time in the `Date` of each answer,
and their newest block shows which of them to believe.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import structlog
import trio

from payd.clock import Clock
from payd.core.attention import SKEW_LOW_S
from payd.core.skew import agreed_skew_s, side, skew_to_node_s

if TYPE_CHECKING:
    from payd.chains.rpc import Rpc

log = structlog.get_logger("payd.clock")

# A call to each node: beside what is asked anyway, next to nothing.
EVERY_S: Final = 300.0
# While the clock seems off, and until it is right again.
AGAIN_S: Final = 30.0
# A machine that slept between question and answer is off for one look.
LOOKS_MIN: Final = 2


class ClockCheck:
    """Of one realm.

    Args:
        clock: Whose wall is held against the nodes' clocks.
        chains: Their nodes.

    Attributes:
        skew_s: Seconds that our clock is ahead, by the last look that said anything; None before the first.
    """

    def __init__(self, clock: Clock, chains: Sequence[Rpc]) -> None:
        self._clock = clock
        self._chains = chains
        self._looks_off = 0
        self.skew_s: float | None = None

    @property
    def off_s(self) -> float | None:
        """Seconds that our clock is ahead, by `LOOKS_MIN` looks in a row; None while it is right enough."""
        return self.skew_s if self._looks_off >= LOOKS_MIN else None

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.run_once()
            await trio.sleep(AGAIN_S if self._looks_off else EVERY_S)

    async def run_once(self) -> None:
        """One look. Where no node has a say, what was known goes on."""
        skews: dict[str, float] = {}
        async with trio.open_nursery() as nursery:
            for rpc in self._chains:
                nursery.start_soon(self._ask, rpc, skews)
        skew_s = agreed_skew_s(skews.values())
        if skew_s is not None:
            self._settle(skew_s)

    async def _ask(self, rpc: Rpc, skews: dict[str, float]) -> None:
        """What the healthy nodes of a chain say. One host has one vote, whatever its URLs and chains."""
        dialect = rpc.dialect
        answers = await rpc.ask_all([dialect.time_call])
        now_s, trio_s = self._clock.real_ms() / 1000, trio.current_time()
        for node, [result] in answers:
            made_s, ahead_s = dialect.time_in(result), node.clock_ahead_s
            if made_s is None:
                continue
            skew_s = skew_to_node_s(now_s, None if ahead_s is None else trio_s + ahead_s, made_s)
            if skew_s is not None:
                skews[node.name.partition("#")[0]] = skew_s

    def _settle(self, skew_s: float) -> None:
        was_s, self.skew_s = self.off_s, skew_s
        self._looks_off = self._looks_off + 1 if abs(skew_s) >= SKEW_LOW_S else 0
        if was_s is None and self.off_s is not None:
            log.warning("clock.off", seconds=round(abs(skew_s)), side=side(skew_s))
        elif was_s is not None and self.off_s is None:
            log.info("clock.right_again")
