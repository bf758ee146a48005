"""A call that the relayer owes a payment: what a buyer signed, ready to be brought to its chain.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import msgspec


class RelayJob(msgspec.Struct, frozen=True):
    """One call of a contract, which costs the relayer gas and moves nothing of its own.

    Attributes:
        chain: CAIP-2.
        buyer: CAIP-10, canonical; budgets are counted by it.
        target: The contract that is called, as a checksummed address.
        data: Its calldata.
        valid_until_s: In the chain's own time; from then on the chain refuses the call.
    """

    chain: str
    buyer: str
    target: str
    data: bytes
    valid_until_s: int
