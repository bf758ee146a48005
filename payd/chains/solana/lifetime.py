"""How long a transaction can land: until a block height that no node may set too low.

When that height is over, a payment can be told to have expired and a reserved fee is free again. A node that
names an earlier one, or lags behind, would have that said of a transaction that still lands.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

from payd.chains.asking import answered, unavailable
from payd.chains.rpc import Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.answers import COUNT_MAX, Blockhash, decode_count
from payd.chains.solana.asking import height_call
from payd.chains.witnesses import WITNESSES

# For so many blocks a blockhash serves.
BLOCKHASH_BLOCKS: Final = 150


async def last_valid_height(rpc: Rpc, newest: Blockhash) -> int:
    """The last block height at which a transaction with the newest blockhash can land, or a later one.

    Args:
        rpc: The chain's nodes; of one alone, nobody else can be asked.
        newest: The blockhash as one node gave it just now.
    """
    if len(rpc.nodes) == 1:
        return newest.last_valid_height
    return max(newest.last_valid_height, await _highest(rpc) + BLOCKHASH_BLOCKS)


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
    """How far the chain is by the further of two nodes; 0 where none says."""
    answers = await rpc.ask_all([height_call("confirmed")], at_most=WITNESSES)
    return max((_height(result) for _, [result] in answers), default=0)


def _height(result: object) -> int:
    """What a node says; nothing where it does not."""
    try:
        # What is added to it has to fit a column of the store.
        return min(decode_count(answered(result), "the block height"), COUNT_MAX - BLOCKHASH_BLOCKS)
    except BadAnswer:
        return 0
