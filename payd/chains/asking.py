"""Asking a chain's nodes for something that has to be answered.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import structlog

from payd.chains.rpc import Call, Node, NodesDown, Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.core.errors import ChainUnavailable

log = structlog.get_logger("payd.chains")

T = TypeVar("T")

UNAVAILABLE_WORDS: Final = (
    "No node of the blockchain gives an answer. Nothing was changed; try again in a moment."
)


async def read(rpc: Rpc, calls: Sequence[Call], node: Node | None = None) -> Results:
    """The results of one node, in order; a `RpcError` where it answered so and another would, too.

    Raises:
        ChainUnavailable: No node could answer all of them.
    """
    try:
        results = await rpc.batch(calls, node)
    except NodesDown as down:
        raise unavailable(down) from down
    for result in results:
        if isinstance(result, RpcError) and result.kind != "answer":
            raise unavailable(result)
    return results


async def read_one(rpc: Rpc, call: Call, decode: Callable[[object], T]) -> T:
    """What one node answers to a single call, once it is read.

    Raises:
        ChainUnavailable: No node could answer, or not so that it can be read.
    """
    [result] = await read(rpc, [call])
    try:
        return decode(answered(result))
    except BadAnswer as bad:
        raise unavailable(bad) from bad


def unavailable(why: object) -> ChainUnavailable:
    """The refusal for want of an answer. Why stands in the log: it is nobody's business outside."""
    log.debug("chain.unavailable", why=str(why))
    return ChainUnavailable(UNAVAILABLE_WORDS)


def answered(result: object) -> object:
    """A result that is no error.

    Raises:
        BadAnswer: It is one.
    """
    if isinstance(result, RpcError):
        raise BadAnswer(f"the node refused: {result}")
    return result
