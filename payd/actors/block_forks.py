"""Which nodes are on the fork that was read, and which go on along another one. Of three, two are the chain.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from payd.actors.walk import LAG_S
from payd.chains.evm.answers import Block
from payd.chains.evm.reading import Reader, Tips
from payd.chains.rpc import Node, NodesDown, Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.unread import Unread
from payd.chains.witnesses import WITNESSES
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.store.chain_cursors import Cursor, blocks_below
from payd.store.db import Database


class Forks:
    """Of one chain.

    Args:
        db: The realm's store.
        clock: The realm's clock.
        rpc: The chain's nodes.
        chain: Its id.
        reader: Asks them.
    """

    def __init__(self, db: Database, clock: Clock, rpc: Rpc, chain: ChainId, reader: Reader) -> None:
        self._db = db
        self._clock = clock
        self._rpc = rpc
        self._name = str(chain)
        self._reader = reader

    async def is_left(self, node: Node, cursor: Cursor, head: Block) -> bool:
        """Whether a node that does not have the block which was read is not to be followed: another one that
        is at least as far has it, or two that go on. Not where two are on another fork, this one among them.

        Args:
            node: It.
            cursor: Up to where was read.
            head: The node's newest block.
        """
        same, elsewhere = await self._poll(node, cursor)
        if elsewhere + 1 >= WITNESSES and elsewhere + 1 > len(same):
            return False
        if any(block.number >= head.number for block in same):
            return True
        return len(same) >= WITNESSES and any(map(self._goes_on, same))

    async def is_contradicted(self, node: Node, read: Cursor) -> bool:
        """Whether another node goes on along another fork than what was read.

        Args:
            node: The one that was read.
            read: Up to where.

        Raises:
            Unread: Two do, and only this one is on that of what was read.
        """
        same, elsewhere = await self._poll(node, read)
        if elsewhere >= WITNESSES and elsewhere > len(same) + 1:
            raise Unread(f"{node.name} is on another fork than {elsewhere} others")
        return elsewhere > 0

    async def is_elsewhere(self, node: Node, head: Block) -> bool:
        """Whether a node, which is behind, has other blocks than those that were read; not if it fails."""
        kept = self._db.point(blocks_below, self._name, head.number + 1, 1)
        try:
            blocks = await self._reader.headers(node, [number for number, _ in kept])
        except (NodesDown, Unread, BadAnswer):
            return False
        return any(
            block is not None and block.hash != block_hash
            for (_, block_hash), block in zip(kept, blocks, strict=True)
        )

    async def _poll(self, node: Node, cursor: Cursor) -> tuple[list[Block], int]:
        """The newest blocks of other nodes that have the block which was read; and how many go on along
        another fork.
        """
        same: list[Block] = []
        elsewhere = 0
        for other in self._rpc.nodes:
            tips = None if other is node else await self._tips(other, cursor.number)
            if tips is None:
                continue
            if tips.at_cursor is not None and tips.at_cursor.hash == cursor.hash:
                same.append(tips.head)
            elif self._goes_on(tips.head):
                elsewhere += tips.at_cursor is not None or await self.is_elsewhere(other, tips.head)
        return same, elsewhere

    async def _tips(self, node: Node, cursor: int) -> Tips | None:
        """What a node says, if it is well and says anything that makes sense."""
        if not node.is_healthy:
            return None
        try:
            return await self._reader.tips(node, cursor, "latest")
        except (NodesDown, Unread, BadAnswer):
            return None

    def _goes_on(self, head: Block) -> bool:
        """Whether there was a block a moment ago, by our clock."""
        return head.time_s > self._clock.now_ms() // 1000 - LAG_S
