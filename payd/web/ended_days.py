"""What payments came to on days that are over, kept in memory: a home page adds up today alone.

Payments end now and never in the past, so such a day's numbers stay. They are read again after a while all
the same, for a wall clock that was set back.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from payd.core.period import Days
from payd.core.tally import Counted, Numbers, Tally, added_up, numbers_by_day

# What is decided in a day's last instants is committed soon after it.
GRACE_MS: Final = 60_000
KEPT_MS: Final = 3_600_000
# Accounts, each by the clocks of who looks; some 20 kB each.
BLOCKS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class EndedBlock:
    """Days of an account that are over.

    Attributes:
        by_day: The numbers of each.
        tallies: What was counted on all of them together.
        read_at_ms: When.
    """

    days: Days
    by_day: Mapping[date, Numbers]
    tallies: tuple[Tally, ...]
    read_at_ms: int


class EndedDays:
    """The blocks of one realm; who was looked at longest ago makes room."""

    def __init__(self, blocks_max: int = BLOCKS_MAX) -> None:
        self._blocks: OrderedDict[tuple[str, int], EndedBlock] = OrderedDict()
        self._blocks_max = blocks_max

    def __len__(self) -> int:
        return len(self._blocks)

    def find(self, account_id: str, days: Days, now_ms: int) -> EndedBlock | None:
        """What is known of exactly these days; None: they have to be read."""
        found = self._blocks.get((account_id, days.offset_min))
        if found is None or found.days != days or not 0 <= now_ms - found.read_at_ms < KEPT_MS:
            return None
        return found

    def keep(self, account_id: str, block: EndedBlock) -> None:
        """Remember what was read."""
        key = (account_id, block.days.offset_min)
        self._blocks[key] = block
        self._blocks.move_to_end(key)
        if len(self._blocks) > self._blocks_max:
            self._blocks.popitem(last=False)


def block_of(days: Days, counted: Iterable[Counted], now_ms: int) -> EndedBlock:
    """What was read of days that are over."""
    found = list(counted)
    return EndedBlock(days, numbers_by_day(days, found), added_up(one.tally for one in found), now_ms)


def split(days: Days, now_ms: int) -> tuple[Days, Days]:
    """Those that are over, and the rest: today, and yesterday while it may still be written down."""
    last = days.last
    while Days(days.first, last, days.offset_min).end_ms + GRACE_MS > now_ms:
        last -= timedelta(days=1)
    return Days(days.first, last, days.offset_min), Days(last + timedelta(days=1), days.last, days.offset_min)
