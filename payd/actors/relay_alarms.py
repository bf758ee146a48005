"""What a person should look at about the relayer: one line in the log when it begins, one when it is over."""

from __future__ import annotations

from typing import Final, Literal

import structlog

log = structlog.get_logger("payd.relayer")

Alarm = Literal[
    "balance_low", "balance_empty", "budget", "fee_limit", "count_in_doubt", "queue_old", "stuck", "lost"
]

WORDS: Final[dict[Alarm, str]] = {
    "balance_low": "The relayer's account is running low: send it some of the chain's own coin.",
    "balance_empty": "The relayer's account cannot pay for a payment: send it some of the chain's own coin.",
    "budget": "The relayer has spent what it may spend on this chain in 24 hours: see gas_per_day.",
    "fee_limit": "Gas costs more than the relayer may offer: see max_fee_gwei.",
    "count_in_doubt": "One node counts transactions of the relayer that no other one does, or none answers"
    " beside it. Nothing is sent: take the wrong one out, add a third, or bring the others back.",
    "queue_old": "Payments have been waiting for the relayer for minutes.",
    "lost": "A fork took transactions by which payments had succeeded; they are sent again while they can.",
    "stuck": "A transaction of the relayer is not mined for minutes, or no node takes it: others wait.",
}


class Alarms:
    """The alarms of one relayer. Each tick notes what it finds, and settles at its end.

    Args:
        chain: CAIP-2.
    """

    def __init__(self, chain: str) -> None:
        self._chain = chain
        self._noted: dict[Alarm, dict[str, object]] = {}
        self._active: frozenset[Alarm] = frozenset()

    @property
    def active(self) -> frozenset[Alarm]:
        """Those of the last tick."""
        return self._active

    def note(self, alarm: Alarm, **facts: object) -> None:
        """It holds in this tick."""
        self._noted[alarm] = facts

    def forget(self) -> None:
        """A tick begins; what an earlier one noted without coming to its end does not count."""
        self._noted.clear()

    def keep(self) -> None:
        """A tick could not find out what holds now: what held before goes on."""
        self._noted = {alarm: {} for alarm in self._active}

    def settle(self) -> None:
        """A tick is over: what it did not note is over too."""
        for alarm, facts in self._noted.items():
            if alarm not in self._active:
                log.warning(f"relayer.{alarm}", chain=self._chain, what=WORDS[alarm], **facts)
        for alarm in self._active - self._noted.keys():
            log.info(f"relayer.{alarm}_over", chain=self._chain)
        self._active = frozenset(self._noted)
