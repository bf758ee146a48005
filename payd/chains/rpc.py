"""JSON-RPC to a chain's nodes: the first healthy one for reads, several for a quorum, all of them to send.

A node is never trusted for more than it is asked; who needs certainty asks several and compares.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import trio

from payd.chains.dialect import Dialect
from payd.chains.rpc_errors import NodesDown as NodesDown
from payd.chains.rpc_errors import RpcError as RpcError
from payd.chains.rpc_errors import Verdict as Verdict
from payd.chains.rpc_node import DEADLINE_S, down, names_of
from payd.chains.rpc_node import Node as Node
from payd.chains.rpc_wire import Call as Call
from payd.chains.rpc_wire import Fault, Results
from payd.net.http import Client

# When one node has a transaction, the others get this long to say what they think of it.
BROADCAST_GRACE_S: Final = 2.0
# A node that is so many blocks behind is asked after the others; a few are the way of the network.
LAG_MAX: Final = 30
# Heads that were named further apart say nothing of each other: some chains have three blocks a second.
HEADS_APART_S: Final = 5.0


class Sent(msgspec.Struct, frozen=True):
    """What a node said to a signed transaction; `message` are its words, or why there are none."""

    node: Node
    verdict: Verdict
    message: str = ""


class Rpc:
    """A chain's nodes. Close it with `aclose`.

    Args:
        urls: Of the nodes, the preferred one first.
        dialect: Of the chain that all of them must name; one that names another is put aside.
        client: Sends the requests, and stays open; None: one of its own, which `aclose` closes.
        deadline_s: Seconds for one request, up to its answer's status line.

    Attributes:
        nodes: As the URLs came.
        dialect: How they are asked.
        calls: How many calls of each method were sent, those of batches and retries each for itself.

    Raises:
        InvalidParams: A URL cannot be called.
        ValueError: There is no URL.
    """

    def __init__(
        self,
        urls: Sequence[str],
        dialect: Dialect,
        *,
        client: Client | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        if not urls:
            raise ValueError("a chain needs a node")
        # The operator wrote the addresses down: a node in the next room is as good as a public one.
        self._own_client = Client(may_call=lambda _: True) if client is None else None
        sender = client or self._own_client
        assert sender is not None, "one of the two"
        self.dialect = dialect
        self.calls: Counter[str] = Counter()
        self.nodes: tuple[Node, ...] = tuple(
            Node(url, dialect, client=sender, calls=self.calls, name=name, deadline_s=deadline_s)
            for url, name in zip(urls, names_of(urls), strict=True)
        )

    @property
    def posts(self) -> int:
        """How many requests went out."""
        return sum(node.posts for node in self.nodes)

    async def aclose(self) -> None:
        """Close idle connections, if they are its own."""
        if self._own_client is not None:
            await self._own_client.aclose()

    async def call(self, method: str, *params: Any, node: Node | None = None) -> Any:
        """The result of one call, as `batch` asks for it.

        Raises:
            RpcError: A node answered so; its kind is "cannot" only if no other could either.
            NodesDown: No node gave an answer.
        """
        [result] = await self.batch([(method, *params)], node=node)
        if isinstance(result, RpcError):
            raise result
        return result

    async def batch(self, calls: Sequence[Call], node: Node | None = None) -> Results:
        """The results of calls that one node answered, in order; a `RpcError` where it answered so.

        A node that fails, or cannot answer one of them, hands all of them to the next. Where none can answer
        all, the results are those of the node that could answer most.

        Args:
            calls: Of one series of reads, which belong together.
            node: Ask only this one.

        Raises:
            NodesDown: No node gave an answer.
        """
        if not calls:
            return []
        best: Results | None = None
        faults: list[tuple[Node, str]] = []
        order = self._order() if node is None else [node]
        for place, one in enumerate(order):
            # Who has another healthy node to ask does not wait for one that answers too few calls a second.
            waits = not any(other.is_healthy for other in order[place + 1 :])
            try:
                results = await one.ask(calls, waits=waits)
            except Fault as fault:
                faults.append((one, fault.words))
                continue
            if _lacking(results) == 0:
                return results
            if best is None or _lacking(results) < _lacking(best):
                best = results
        if best is None:
            raise down(faults or [(one, one.last_error) for one in self.nodes])
        return best

    async def ask_all(
        self, calls: Sequence[Call], *, at_most: int | None = None
    ) -> list[tuple[Node, Results]]:
        """The same calls to every healthy node at once; who gave no answer is left out.

        Args:
            calls: As for `batch`.
            at_most: So many answers are enough; where one fails, the next node is asked instead.
        """
        answers: dict[Node, Results] = {}
        left = [node for node in self._order() if node.is_healthy]
        while left and (at_most is None or len(answers) < at_most):
            wanted = len(left) if at_most is None else at_most - len(answers)
            now, left = left[:wanted], left[wanted:]
            async with trio.open_nursery() as nursery:
                for node in now:
                    nursery.start_soon(_ask_into, answers, node, calls)
        return [(node, answers[node]) for node in self.nodes if node in answers]

    async def broadcast(self, raw: bytes) -> list[Sent]:
        """Send a signed transaction to every node at once, healthy or not: one that fails or censors stops
        nothing. Once one has it, the others have `BROADCAST_GRACE_S` left.
        """
        sent: dict[Node, Sent] = {}
        call = self.dialect.send_call(raw)
        with trio.CancelScope() as patience:
            async with trio.open_nursery() as nursery:
                for node in self.nodes:
                    nursery.start_soon(self._send_into, sent, node, call, patience)
        return [sent.get(node) or Sent(node, "down", "no answer in time") for node in self.nodes]

    async def heads(self) -> list[tuple[Node, int]]:
        """The newest block's number by each healthy node; laggards are then asked after the others."""
        answers = await self.ask_all([self.dialect.head_call])
        read = [(node, self.dialect.head_in(self.dialect.head_call, result)) for node, [result] in answers]
        return [(node, number) for node, number in read if number is not None]

    def lag(self, node: Node) -> int:
        """How many blocks the node was behind the others, of those that were named at about the same time."""
        if node.head is None or node.head_at_s is None:
            return 0
        heads = sorted(
            one.head
            for one in self.nodes
            if one.head is not None
            and one.head_at_s is not None
            and abs(one.head_at_s - node.head_at_s) <= HEADS_APART_S
        )
        # Of two the higher, of three the middle one: a node alone cannot make the others laggards.
        return max(0, heads[len(heads) // 2] - node.head)

    def is_laggard(self, node: Node) -> bool:
        """Whether it was so far behind the others that it is asked after them."""
        return self.lag(node) > LAG_MAX

    def pick(self) -> Node:
        """The node that is asked first now, for a series of reads from one and the same.

        Raises:
            NodesDown: None may be asked.
        """
        order = self._order()
        if not order:
            raise down([(node, node.last_error) for node in self.nodes])
        return order[0]

    async def _send_into(
        self, sent: dict[Node, Sent], node: Node, call: Call, patience: trio.CancelScope
    ) -> None:
        try:
            [result] = await node.ask([call])
        except Fault as fault:
            sent[node] = Sent(node, "down", fault.words)
            return
        if isinstance(result, RpcError):
            sent[node] = Sent(node, self.dialect.verdict_of(result), result.message)
        else:
            sent[node] = Sent(node, "ok")
        if sent[node].verdict in ("ok", "known"):
            patience.deadline = min(patience.deadline, trio.current_time() + BROADCAST_GRACE_S)

    def _order(self) -> list[Node]:
        """Who may be asked: healthy ones as configured, laggards after them, then who comes back soonest."""
        usable = [node for node in self.nodes if node.is_usable]
        return sorted(usable, key=lambda node: (node.aside_s, node.is_on_trial, self.is_laggard(node)))


def _lacking(results: Results) -> int:
    return sum(isinstance(result, RpcError) and result.kind == "cannot" for result in results)


async def _ask_into(answers: dict[Node, Results], node: Node, calls: Sequence[Call]) -> None:
    try:
        answers[node] = await node.ask(calls)
    except Fault:
        return
