"""What every chain of the live realm is built from, of whatever kind it is.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from fractions import Fraction
from typing import NamedTuple

from payd.chains.assets import AssetBook
from payd.chains.fee_terms import FeeTerms
from payd.chains.market.prices import Prices
from payd.clock import Clock
from payd.config import ChainConfig, Config
from payd.store.db import Database

News = Callable[[str, str], Awaitable[None]]
"""Told of a payment and the chain that has something on it."""


class Parts(NamedTuple):
    """What chains share.

    Attributes:
        db: The live realm's store.
        clock: Its clock.
        book: The assets that are known by name.
        prices: What things cost.
        news: Told of a payment and the chain that has something on it.
    """

    db: Database
    clock: Clock
    book: AssetBook
    prices: Prices
    news: News


def fee_terms_of(config: Config, chain: ChainConfig) -> FeeTerms | None:
    """What the operator takes on a chain; None: nothing, or it would go nowhere."""
    if not (chain.fee_address and config.fee.is_on):
        return None
    return FeeTerms(
        share=config.fee.share,
        base_usd=Fraction(config.fee.base_usd),
        address=chain.fee_address,
        mandatory=config.fee.mandatory,
    )
