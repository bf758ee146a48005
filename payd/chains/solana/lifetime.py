"""How long a transaction can land: until a block height that no node may set too low.

When that height is over, a payment can be told to have expired and a reserved fee is free again. A node that
names an earlier one, or lags behind, would have that said of a transaction that still lands. One that takes
slots for heights names a height that comes in months, and would have nothing said until then.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from payd.chains.asking import answered, unavailable
from payd.chains.rpc import Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.chains.solana.answers import COUNT_MAX, Blockhash, decode_count
from payd.chains.solana.asking import height_call, slot_call
from payd.chains.witnesses import WITNESSES

# For so many blocks a blockhash serves.
BLOCKHASH_BLOCKS: Final = 150
# In about a day. So far behind two of three nodes are not at once, nor is one ahead of its own height.
APART_MAX: Final = 216_000


class _Heights(NamedTuple):
    """How far a node is: in blocks, and in slots, of which millions have none on a chain of some years."""

    height: int
    slot: int


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
    two that is not known, but for one whose heights are its slots: the lower one may stand still, or lie.
    """
    said = await _heights(rpc, WITNESSES)
    if len(rpc.nodes) > WITNESSES and _is_apart(said):
        said = await _heights(rpc)
        if len(said) > WITNESSES and _is_apart(said):
            del said[-1]
    if _is_apart(said) and said[-1].slot - said[-1].height <= APART_MAX:
        del said[-1]
    return said[-1].height if said else 0


async def _heights(rpc: Rpc, at_most: int | None = None) -> list[_Heights]:
    """What nodes say that do, the lowest first."""
    # Its final slot is near enough, and says nothing of who lags by some slots.
    answers = await rpc.ask_all([height_call("confirmed"), slot_call("finalized")], at_most=at_most)
    return sorted(said for _, results in answers if (said := _said(results)).height > 0)


def _is_apart(said: Sequence[_Heights]) -> bool:
    """Whether the highest is far from the next one."""
    return len(said) > 1 and said[-1].height - said[-2].height > APART_MAX


def _said(results: Results) -> _Heights:
    """What a node says; nothing where it does not."""
    try:
        height, slot = (decode_count(answered(result), "the block height") for result in results)
    except BadAnswer:
        return _Heights(0, 0)
    # What is added to it has to fit a column of the store.
    return _Heights(min(height, COUNT_MAX - BLOCKHASH_BLOCKS), slot)
