"""What the operator set for one EVM chain, as far as a payment notices it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Literal

import msgspec

from payd.chains.evm.defaults import Depth, DepthPolicy
from payd.core.caip import ChainId
from payd.core.fee import FeeRule

# What a tag takes to reach a block, about: rollups wait for their batch on Ethereum, and that for 2 epochs.
TAG_ETA_S: Final = {"safe": 120, "finalized": 900}


class FeeTerms(msgspec.Struct, frozen=True):
    """What the operator takes of signed payments, which alone can carry it in one transaction.

    Attributes:
        share: Of the payment, from 0 to 1.
        base_usd: US dollars for each payment, besides the share.
        address: Where it goes, in lower case.
        mandatory: Offer nothing that cannot carry it; else that is offered without it.
    """

    share: Fraction
    base_usd: Fraction
    address: str
    mandatory: bool = False

    def rule(self, base_amount: int) -> FeeRule:
        """The fee in an asset in which the base is so many smallest units."""
        return FeeRule(base_amount, self.share.numerator, self.share.denominator)


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

    @property
    def number(self) -> int:
        """The chain id of EIP-155."""
        return int(self.chain.reference)


def eta_s(depth: Depth, block_ms: int) -> int:
    """How long a transfer takes to get so deep, about; at least a second."""
    if isinstance(depth, int):
        return max(1, -(-depth * block_ms // 1000))
    return TAG_ETA_S[depth]
