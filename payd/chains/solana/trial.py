"""Whether a transaction would do what it says: a node tries it before anybody is asked to sign it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from solders.message import Message

from payd.chains.asking import read_one, unavailable
from payd.chains.rpc import Rpc
from payd.chains.solana.answers import decode_simulation
from payd.chains.solana.asking import simulate_call
from payd.chains.solana.build import split
from payd.chains.solana.failures import BLOCKHASH_NOT_FOUND, error_name, reason_of


async def refusal_of(rpc: Rpc, raw: bytes, slot: int) -> str | None:
    """Why the chain would refuse a transaction now, in words as `reason_of` has them; None if it would not.

    Args:
        rpc: The chain's nodes.
        raw: As for the wire, a legacy one; its signatures may be still to come.
        slot: Of its blockhash: a node that is not there yet is not asked.

    Raises:
        ChainUnavailable: No node that has come to the slot answers.
    """
    tried = await read_one(rpc, simulate_call(raw, sig_verify=False, min_slot=slot), decode_simulation)
    if error_name(tried.err) == BLOCKHASH_NOT_FOUND:
        raise unavailable("the node does not know the blockhash of another")
    return None if tried.err is None else reason_of(tried.err, Message.from_bytes(split(raw)[1]))
