"""Which nodes of EVM chains are not read though they answer: for a while, as it may be all of them.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog

from payd.actors.patience import Patience
from payd.actors.walk import Troubled, by
from payd.chains.evm.history import remembers
from payd.chains.rpc import Node, Rpc
from payd.chains.unread import Unread

log = structlog.get_logger("payd.watcher")

# What is read from block to block no node has pruned yet; after a stop of ours one may have.
GAP_BLOCKS: Final = 64

Gives = Callable[[int], Awaitable[bool]]
"""Whether a node gives the logs of a block, by its number, be it that there are none."""


class BlockHistory:
    """Refuses a node that has pruned some of what is to be read: windows would close over it.

    Args:
        rpc: The chain's nodes.
        chain: Its name, for the log.
    """

    def __init__(self, rpc: Rpc, chain: str) -> None:
        self._rpc = rpc
        self._chain = chain
        self._patience = Patience()
        self._trusted: set[Node] = set()  # in this gap

    async def check(self, node: Node, gives: Gives, after: int, to: int) -> int:
        """The block to go on behind: the one before, where a node has the logs from there to another, or
        nobody has for long. Where it refuses to give what is old, the last of what it refuses.

        Raises:
            Unread: It has not.
            BadAnswer, NodesDown: Its answer is none.
        """
        if to - after <= GAP_BLOCKS:
            self._trusted.clear()
            self._patience.restore()
        elif node not in self._trusted:
            lack = await self._lack(node, gives, after + 1)
            if lack is None:
                self._patience.restore()
            elif not self._patience.is_over():
                raise lack
            else:
                last = after if await gives(after + 1) else await _last_refused(gives, after + 1, to, lack)
                log.critical("chain.history_gone", chain=self._chain, after=after, read=last, node=node.name)
                if last > after:
                    return last
            self._trusted.add(node)
        return after

    async def who_has(self, given: Mapping[Node, Gives], after: int, to: int) -> tuple[Sequence[Node], int]:
        """Those of several nodes that are to be read together, and the block to go on behind; as `check`.

        One that has the logs is enough: of what another has none of, it denies nothing.

        Raises:
            Troubled: None has them, or one does not answer.
        """
        found: list[Node] = []
        lacking: Troubled | None = None
        for node, gives in given.items():
            try:
                last = await by(node, self.check(node, gives, after, to))
            except Troubled as troubled:
                if not isinstance(troubled.trouble, Unread):
                    raise
                lacking = troubled
                continue
            if last > after:
                return [node], last
            found.append(node)
        if lacking is not None and not found:
            raise lacking
        return found, after

    async def _lack(self, node: Node, gives: Gives, number: int) -> Unread | None:
        """Why a node is not read from a block on: it has pruned it, or refuses it; None where it has it."""
        try:
            if await remembers(self._rpc, node, number) and await gives(number):
                return None
        except Unread as refused:
            return refused
        return Unread(f"{node.name} has no logs of block {number} any more, which is read next")


async def _last_refused(gives: Gives, last: int, first: int, refused: Unread) -> int:
    """The newest block of which a node gives no logs, from one of which it does not to one of which it does.

    Raises:
        Unread: It gives none at all, or now these and now those.
    """
    while first - last > 1:
        middle = (last + first) // 2
        if await gives(middle):
            first = middle
        else:
            last = middle
    # Of all those answers, one may have been a mood.
    if await gives(last) or not await gives(first):
        raise refused
    return last
