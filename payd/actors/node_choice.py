"""Which of a chain's nodes is read next: the preferred one, but for those that were in trouble just now.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec
import structlog
import trio

from payd.chains.rpc import Node, NodesDown, Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.unread import Contradicted, Unread

log = structlog.get_logger("payd.watcher")

T = TypeVar("T")

# A node that lags, or contradicts itself, is asked after the others for so long.
REST_S: Final = 30.0
# Chains have a block more often than that.
STANDS_S: Final = 15.0
# The second reading waits so long for a second node to come back, or to give what it refuses, also where the
# server was off for longer.
# So long, too, it is waited for a node that may be able to tell of a transaction.
SECOND_WAIT_S: Final = 3600
# A transaction that is told of and cannot be read holds up its chain this long, and by so many tries; then it
# is read past, because everybody else's payments are behind it.
UNREADABLE_S: Final = 120.0
UNREADABLE_TRIES: Final = 6
SKIPPED_MAX: Final = 1000


class _Stuck(msgspec.Struct):
    """A transaction that stands in the way: since when, how often it was tried, and with which nodes."""

    since_s: float
    tries: int = 0
    nodes: set[Node] = msgspec.field(default_factory=set)


class NodeChoice:
    """Chooses for one chain.

    Args:
        rpc: Its nodes.
        skipped: Where transactions are put that the first reading is to read past.
    """

    def __init__(self, rpc: Rpc, skipped: set[str]) -> None:
        self._rpc = rpc
        self._skipped = skipped
        self._rests: dict[Node, float] = {}
        self._unread: set[Node] = set()  # by the second reading, when it tried them last
        self._stuck: dict[str, _Stuck] = {}
        self._waits_since_s: float | None = None
        self._is_alone = False
        self._head = -1
        self._stands_since_s = 0.0

    async def try_each(self, work: Callable[[Node], Awaitable[T]]) -> tuple[T, Node]:
        """The result of the first node that the work succeeds with, and that node.

        Raises:
            NodesDown, Unread, BadAnswer: With none; what the last one was in trouble with.
        """
        tried: set[Node] = set()
        node = self._rpc.pick()
        while True:
            node = self._next(tried) or node
            try:
                return await work(node), node
            except (NodesDown, Unread, BadAnswer) as trouble:
                self.rest(node, trouble)
                tried.add(node)
                if self._next(tried) is None:
                    raise

    async def compare(self, head: int) -> None:
        """Ask all nodes how far they are, where the newest block is the same one for long: the node that is
        read may stand still, while the chain goes on.

        Args:
            head: Its number, by the node that was read last.
        """
        now_s = trio.current_time()
        if head != self._head:
            self._head, self._stands_since_s = head, now_s
        elif now_s - self._stands_since_s >= STANDS_S and len(self._rpc.nodes) > 1:
            self._stands_since_s = now_s
            await self._rpc.heads()

    def another(self, node: Node) -> Node | None:
        """A node for the second reading: not this one, if there are others. `compared` says what came of it.

        This one where the others cannot tell of a transaction, once: it may. None while they are away, unless
        the second reading has waited for long; then this one, too, while they rest of not having been read.
        """
        now_s = trio.current_time()
        if self._waits_since_s is None:
            self._waits_since_s = now_s
        alone, self._is_alone = self._is_alone, False
        late = now_s - self._waits_since_s > SECOND_WAIT_S
        well = [one for one in self._by_rest() if one is not node and not (late and self._is_unread(one))]
        if well and not alone:
            return well[0]
        return node if len(self._rpc.nodes) == 1 or alone or late else None

    def compared(self, node: Node, other: Node, *, anew: bool) -> bool:
        """The second reading was of these, as `another` said, and is in no trouble: it waits for neither.

        Args:
            node: That reads.
            other: The one that was chosen.
            anew: Something was read. Else there was nothing to be, and who could not be read may not be.

        Returns:
            Whether it was as it is to be: of two nodes, where there are two.
        """
        if anew:
            self._unread.discard(other)
        is_well = other not in self._unread and (other is not node or len(self._rpc.nodes) == 1)
        if is_well:
            self._waits_since_s = None
        return is_well

    def rest(self, node: Node, trouble: Exception, skipped: set[str] | None = None) -> None:
        """Have others asked before it for a while.

        Args:
            node: It.
            trouble: What it was in trouble with.
            skipped: Where a transaction is put that another reading than the first is to read past.
        """
        now_s = trio.current_time()
        if self._rests.get(node, now_s) <= now_s and not isinstance(trouble, NodesDown):
            log.info("chain.node_rests", node=node.name, why=str(trouble))
        self._rests[node] = now_s + REST_S
        tx_id = trouble.tx_id if isinstance(trouble, Unread) else None
        if skipped is not None:
            self._unread.discard(node)
            if not isinstance(trouble, Contradicted) and tx_id is None:
                self._unread.add(node)
        if tx_id is not None:
            self._count(node, tx_id, str(trouble), self._skipped if skipped is None else skipped)

    def _is_unread(self, node: Node) -> bool:
        """Whether the second reading tried a node just now in vain. One that contradicts another was read."""
        return node in self._unread and self._rests[node] > trio.current_time()

    def _next(self, tried: set[Node]) -> Node | None:
        return next((node for node in self._by_rest() if node not in tried), None)

    def _by_rest(self) -> list[Node]:
        now_s = trio.current_time()
        well = [node for node in self._rpc.nodes if node.is_healthy]
        return sorted(
            well, key=lambda node: (self._rests.get(node, now_s) > now_s, self._rpc.is_laggard(node))
        )

    def _count(self, node: Node, tx_id: str, words: str, skipped: set[str]) -> None:
        """Give a transaction up that every node was tried with; one that is away is waited for a while.

        The second reading is of certain nodes. What they cannot tell of, the one that reads for the first
        time is asked for alone: after that while, or at once where no node could tell of it before.
        """
        now_s = trio.current_time()
        if len(self._stuck) > SKIPPED_MAX:
            self._stuck.clear()
        stuck = self._stuck.setdefault(tx_id, _Stuck(now_s))
        stuck.tries += 1
        stuck.nodes.add(node)
        stuck_s = now_s - stuck.since_s
        if stuck.tries < UNREADABLE_TRIES or stuck_s < UNREADABLE_S:
            return
        left = [one for one in self._rpc.nodes if one not in stuck.nodes]
        if left:
            is_second = skipped is not self._skipped
            self._is_alone = is_second and (tx_id in self._skipped or stuck_s >= SECOND_WAIT_S)
            if stuck_s < SECOND_WAIT_S or any(one.is_healthy for one in left):
                return
        self._stuck.clear()
        if len(skipped) >= SKIPPED_MAX:
            # Whichever: should it still be in the way, it is read past again, and this one is in it now.
            skipped.remove(min(skipped))
        log.error("chain.transaction_skipped", tx_id=tx_id, why=words)
        skipped.add(tx_id)
