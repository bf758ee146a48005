"""What the operator set for one EVM chain, as far as a payment notices it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from payd.chains.defaults import Depth, DepthPolicy
from payd.chains.fee_terms import FeeTerms
from payd.core.caip import ChainId

# What a tag takes to reach a block, about: rollups wait for their batch on Ethereum, and that for 2 epochs.
TAG_ETA_S: Final = {"safe": 120, "finalized": 900}


class Terms(msgspec.Struct, frozen=True):
    """One chain.

    Attributes:
        chain: Canonical.
        block_ms: From block to block, about.
        depth: When a payment has succeeded.
        final: When it has settled: at the tag, or so many blocks deep where nodes do not have the tag.
        sponsor: Whether the relayer carries signed payments.
        relayer: Its address in lower case; None: there is none, and nothing is signed.
        fee: None: nothing is taken.
    """

    chain: ChainId
    block_ms: int
    depth: DepthPolicy
    final: int | Literal["finalized"] = "finalized"
    sponsor: bool = False
    relayer: str | None = None
    fee: FeeTerms | None = None


def eta_s(depth: Depth, block_ms: int) -> int:
    """How long a transfer takes to get so deep, about; at least a second."""
    if isinstance(depth, int):
        return max(1, -(-depth * block_ms // 1000))
    return TAG_ETA_S[depth]
