"""How many nodes must agree on a transfer, and whether they do, each by its own data.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeVar

import msgspec
import structlog

from payd.chains.asking import unavailable
from payd.chains.rpc import Call, Node, Rpc
from payd.chains.rpc_wire import Results
from payd.core.caip import ChainId

log = structlog.get_logger("payd.chains")

T = TypeVar("T")
R = TypeVar("R")

# Two that agree are not one that is wrong; more would only be slower.
WITNESSES: Final = 2

Proof = Literal["deep", "shallow", "none"]
"""deep: proven, and deep enough. shallow: proven, and not yet deep enough. none: not proven now."""


class View(msgspec.Struct, frozen=True):
    """What one node shows: the transfer, and whether it has it as deep as was asked."""

    shows: bool
    is_deep: bool


class Witnesses:
    """The nodes of one chain, as far as they must agree.

    Args:
        rpc: They.
        chain: Canonical.

    Attributes:
        disagreements: How often they did not show the same.
    """

    def __init__(self, rpc: Rpc, chain: ChainId) -> None:
        self._rpc = rpc
        self._chain = chain
        self.disagreements = 0

    @property
    def witnesses(self) -> int:
        """How many nodes must agree."""
        return needed(self._rpc)

    @property
    def nodes(self) -> int:
        """How many there are."""
        return len(self._rpc.nodes)

    async def ask(self, calls: Sequence[Call], *, everyone: bool = False) -> list[tuple[Node, Results]]:
        """What as many nodes as must agree say to the same calls; `everyone`: what all say that answer.

        Raises:
            ChainUnavailable: Fewer than must agree answer.
        """
        answers = await self._rpc.ask_all(calls, at_most=None if everyone else self.witnesses)
        if len(answers) < self.witnesses:
            raise unavailable(f"{len(answers)} of {self.witnesses} nodes answer")
        return answers

    async def weigh(self, tx_id: str, calls: Sequence[Call], view: Callable[[Results], View]) -> Proof:
        """Whether enough nodes show a transfer, and so deep.

        Where the nodes that are asked first do not agree, all are; then enough of them must.

        Args:
            tx_id: Of the transfer, for the log.
            calls: What each is asked.
            view: Reads what one answers.

        Raises:
            ChainUnavailable: Too few nodes answer.
        """
        answers = await self.ask(calls)
        views = [view(results) for _, results in answers]
        if not all(one.shows for one in views) and self.nodes > self.witnesses:
            answers = await self._rpc.ask_all(calls)
            views = [view(results) for _, results in answers]
        if sum(one.shows for one in views) < self.witnesses:
            names = [node.name for (node, _), one in zip(answers, views, strict=True) if not one.shows]
            self._disagree(tx_id, names)
            return "none"
        return "deep" if sum(one.shows and one.is_deep for one in views) >= self.witnesses else "shallow"

    async def shown(
        self,
        tx_id: str,
        calls: Sequence[Call],
        read: Callable[[Results], T | None],
        has_block: Callable[[Results], bool],
    ) -> T | None:
        """What the nodes show of a transaction, unless they contradict each other.

        Two that show the same are enough. One alone is, while no other has come as far as its block: those
        may be behind, or away, and whoever paid is not to wait for them.

        Args:
            tx_id: The transaction, for the log.
            calls: What each is asked.
            read: Reads what one answers; None where that shows nothing.
            has_block: Whether who answers so must know the transaction.

        Raises:
            ChainUnavailable: No node answers.
        """
        answers = await self._rpc.ask_all(calls, at_most=self.witnesses)
        shown = [read(results) for _, results in answers]
        if self.agreed(shown) is None and self.nodes > self.witnesses:
            answers = await self._rpc.ask_all(calls)
            shown = [read(results) for _, results in answers]
        if not answers:
            raise unavailable("no node answers")
        found, some = self.agreed(shown), [one for one in shown if one is not None]
        if found is None and some:
            said = zip(answers, shown, strict=True)
            denying = [node.name for (node, results), one in said if one is None and has_block(results)]
            if len(some) == 1 and not denying:
                return some[0]
            self._disagree(tx_id, denying)
        return found

    async def views(self, calls: Sequence[Call], read: Callable[[Results], T | None]) -> list[T | None]:
        """What nodes say to the same calls: of as many as must agree, or of all where those do not.

        Args:
            calls: What each is asked.
            read: Reads what one answers; None where that says nothing.

        Raises:
            ChainUnavailable: Fewer than must agree answer.
        """
        said = [read(results) for _, results in await self.ask(calls)]
        if self.agreed(said) is None and self.nodes > self.witnesses:
            said = [read(results) for _, results in await self.ask(calls, everyone=True)]
        return said

    async def decided(
        self, calls: Sequence[Call], read: Callable[[Results], T], decide: Callable[[Sequence[T]], R | None]
    ) -> R | None:
        """What comes of the words of as many nodes as must agree, or of all where that is nothing.

        Args:
            calls: What each is asked.
            read: Reads what one answers.
            decide: What comes of such words; None: nothing.

        Raises:
            ChainUnavailable: Fewer than must agree answer.
        """
        found = decide([read(results) for _, results in await self.ask(calls)])
        if found is None and self.nodes > self.witnesses:
            found = decide([read(results) for _, results in await self.ask(calls, everyone=True)])
        return found

    def agreed(self, shown: Sequence[T | None]) -> T | None:
        """What enough of them show, each the same; None where nothing is."""
        return next((one for one in shown if one is not None and shown.count(one) >= self.witnesses), None)

    def _disagree(self, tx_id: str, nodes: Sequence[str]) -> None:
        self.disagreements += 1
        log.debug("chain.not_proven", chain=str(self._chain), tx_id=tx_id, nodes=nodes)


async def heard(rpc: Rpc, calls: Sequence[Call], read: Callable[[Results], bool]) -> list[bool]:
    """What nodes say, yes or no: two of them, or all where those two contradict each other.

    Args:
        rpc: The nodes.
        calls: What each is asked.
        read: Reads what one answers.
    """
    said = [read(results) for _, results in await rpc.ask_all(calls, at_most=WITNESSES)]
    if len(set(said)) > 1 and len(rpc.nodes) > WITNESSES:
        said = [read(results) for _, results in await rpc.ask_all(calls)]
    return said


def needed(rpc: Rpc) -> int:
    """How many of a chain's nodes must agree: two, where there are two."""
    return min(WITNESSES, len(rpc.nodes))
