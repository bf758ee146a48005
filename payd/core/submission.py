"""A signed transaction that is to be brought to its chain as it is.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import msgspec


class Submission(msgspec.Struct, frozen=True):
    """What a buyer signed, whole: nothing in it can be changed any more, and it lands once or never.

    Attributes:
        chain: CAIP-2.
        buyer: CAIP-10, canonical.
        tx_id: Known before anything is sent; of Solana the first signature, base58.
        raw: The bytes that a node takes.
        valid_until_height: The last block height at which the chain takes it.
    """

    chain: str
    buyer: str
    tx_id: str
    raw: bytes
    valid_until_height: int
