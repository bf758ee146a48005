"""Which nodes of EVM chains are not read though they answer: for a while, as it may be all of them.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

import structlog

from payd.actors.patience import Patience
from payd.chains.evm.history import remembers
from payd.chains.rpc import Node, Rpc
from payd.chains.unread import Unread

log = structlog.get_logger("payd.watcher")

# What is read from block to block no node has pruned yet; after a stop of ours one may have.
GAP_BLOCKS: Final = 64


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
        self._trusted: Node | None = None  # in this gap

    async def check(self, node: Node, after: int, to: int) -> None:
        """Return where a node has the logs from one block to another, or nobody has for long.

        Raises:
            Unread: It has not.
            BadAnswer, NodesDown: Its answer is none.
        """
        if to - after <= GAP_BLOCKS:
            self._trusted = None
            self._patience.restore()
        elif self._trusted is not node:
            if await remembers(self._rpc, node, after + 1):
                self._patience.restore()
            elif self._patience.is_over():
                log.critical("chain.history_gone", chain=self._chain, after=after, node=node.name)
            else:
                raise Unread(f"{node.name} has no logs of block {after + 1} any more; {after} was read last")
            self._trusted = node
