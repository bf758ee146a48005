"""How long a transaction can land: until a block height that no node may set too low.

When that height is over, a payment can be told to have expired and a reserved fee is free again. A node that
names an earlier one, or lags behind, would have that said of a transaction that still lands. One that takes
slots for heights names a height that comes in months, and would have nothing said until then.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from payd.chains.asking import answered, unavailable
from payd.chains.rpc import Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.answers import COUNT_MAX, Blockhash, decode_count
from payd.chains.solana.asking import height_call
from payd.chains.witnesses import WITNESSES

# For so many blocks a blockhash serves.
BLOCKHASH_BLOCKS: Final = 150
# In about a day. So far behind two of three nodes are not at once, nor is one ahead of its own height.
APART_MAX: Final = 216_000


async def last_valid_height(rpc: Rpc, newest: Blockhash) -> int:
    """The last block height at which a transaction with the newest blockhash can land, or a later one.

    Args:
        rpc: The chain's nodes; of one alone, nobody else can be asked.
        newest: The blockhash as one node gave it just now.
    """
    told = newest.last_valid_height
    if len(rpc.nodes) == 1 or (highest := await _highest(rpc)) == 0:
        return told
    last = highest + BLOCKHASH_BLOCKS
    return max(last, min(told, last + APART_MAX))


async def lands_until(rpc: Rpc) -> int:
    """The last block height at which a transaction that is in a block now can land again, or a later one.

    Args:
        rpc: The chain's nodes.

    Raises:
        ChainUnavailable: No node says how far the chain is.
    """
    highest = await _highest(rpc)
    if highest == 0:
        raise unavailable("no node says how far the chain is")
    return highest + BLOCKHASH_BLOCKS


async def _highest(rpc: Rpc) -> int:
    """How far the chain is by the further of two nodes; 0 where none says.

    Where they are far apart one makes it up, and of more nodes the one that none comes near is not heard. Of
    two that is not known: the other one is no further behind than that.
    """
    heights = await _heights(rpc, WITNESSES)
    if len(rpc.nodes) > WITNESSES and _is_apart(heights):
        heights = await _heights(rpc)
        if len(heights) > WITNESSES and _is_apart(heights):
            del heights[-1]
    if _is_apart(heights):
        return heights[-2] + APART_MAX
    return max(heights, default=0)


async def _heights(rpc: Rpc, at_most: int | None = None) -> list[int]:
    """What nodes say that do, the lowest first."""
    answers = await rpc.ask_all([height_call("confirmed")], at_most=at_most)
    return sorted(height for _, [result] in answers if (height := _height(result)) > 0)


def _is_apart(heights: Sequence[int]) -> bool:
    """Whether the highest is far from the next one."""
    return len(heights) > 1 and heights[-1] - heights[-2] > APART_MAX


def _height(result: object) -> int:
    """What a node says; nothing where it does not."""
    try:
        # What is added to it has to fit a column of the store.
        return min(decode_count(answered(result), "the block height"), COUNT_MAX - BLOCKHASH_BLOCKS)
    except BadAnswer:
        return 0
