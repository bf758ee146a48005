"""Which nodes of Solana are not read though they answer: for a while, as it may be all of them for a reason.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

import structlog

from payd.actors.account_reading import AccountReader, slot_max
from payd.actors.patience import Patience
from payd.chains.rpc import Node
from payd.chains.unread import Unread
from payd.clock import Clock
from payd.store.chain_cursors import Cursor

log = structlog.get_logger("payd.watcher")

# What is read from slot to slot no node has forgotten yet; after a stop of ours one may have.
GAP_SLOTS: Final = 300


class Pace:
    """Refuses a slot to which no chain can have come by now: all other nodes would be behind it for long.

    Args:
        clock: The realm's.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._patience = Patience()

    def check(self, node: Node, before: Cursor, head: Cursor) -> None:
        """Return where a node is at a slot that can be; where all are elsewhere, our own clock may be wrong.

        Raises:
            Unread: It is not.
        """
        if head.number <= slot_max(before, self._clock.now_ms()):
            self._patience.restore()
        elif not self._patience.is_over():
            raise Unread(f"{node.name} names slot {head.number}, to which no chain can have come by now")


class History:
    """Refuses a node that has forgotten some of what is to be read: windows would close over it.

    Args:
        chain: Its name, for the log.
    """

    def __init__(self, chain: str) -> None:
        self._chain = chain
        self._patience = Patience()
        self._told: int | None = None

    async def check(self, node: Node, reader: AccountReader, after: int, to: int) -> None:
        """Return where a node has all from one slot to another, or nobody has for long.

        Raises:
            Unread: It has not.
            BadAnswer, NodesDown: Its answer is none.
        """
        first = 0 if to - after <= GAP_SLOTS else await reader.first_slot(node)
        if first <= after + 1:
            self._patience.restore()
        elif not self._patience.is_over():
            raise Unread(f"{node.name} has nothing before slot {first} any more; {after} was read last")
        elif self._told != after:
            self._told = after
            log.critical("chain.history_gone", chain=self._chain, after=after, before=first)
