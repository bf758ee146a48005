"""What the operator set for one Solana chain, as far as a payment notices it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from solders.pubkey import Pubkey

from payd.chains.defaults import DepthPolicy
from payd.chains.fee_terms import FeeTerms
from payd.core.caip import ChainId

Commitment = Literal["confirmed", "finalized"]
"""confirmed: two thirds of the stake have voted for its block. finalized: it cannot be undone."""

ETA_S: Final = {"confirmed": 2, "finalized": 15}


class Terms(msgspec.Struct, frozen=True):
    """One chain.

    Attributes:
        chain: Canonical; its reference is the beginning of the genesis hash.
        depth: When a payment has succeeded, by commitments.
        sponsor: Whether we pay the fee of who has no SOL for it.
        fee_payer: Our address; None: there is no key, and buyers pay.
        price_max: Micro-lamports that a compute unit may cost.
        spend_per_day: Lamports that we may pay for others in 24 hours.
        relays_per_buyer: Payments of one account that we pay for in 24 hours.
        fee: None: nothing is taken.
        block_ms: From slot to slot, about.
    """

    chain: ChainId
    depth: DepthPolicy
    sponsor: bool = False
    fee_payer: Pubkey | None = None
    price_max: int = 1_000_000
    spend_per_day: int = 100_000_000
    relays_per_buyer: int = 20
    fee: FeeTerms | None = None
    block_ms: int = 400

    @property
    def sponsor_key(self) -> Pubkey | None:
        """Who pays the fee of who has no SOL for it; None: nobody."""
        return self.fee_payer if self.sponsor else None
