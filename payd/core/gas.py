"""What the relayer offers for gas: enough to be mined soon, more when it waits, and never above its limit.

All fees are smallest units of the native coin for one unit of gas, as in EIP-1559.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

import msgspec

# The base fee doubles in six full blocks; an offer holds until then.
BASE_FEE_TIMES: Final = 2
# A node takes a replacement that offers a tenth more, of both fees; an eighth is safely above that.
BUMP_DIVISOR: Final = 8
# Above what a node estimates: state moves until the block, and some tokens refund at the end.
GAS_MARGIN: Final = 5_000


class Market(msgspec.Struct, frozen=True):
    """What the chain asks now: the newest block's base fee, and the tip that nodes suggest."""

    base_fee: int
    tip: int


class Fees(msgspec.Struct, frozen=True):
    """What a transaction offers. `tip` is part of `max_fee`."""

    max_fee: int
    tip: int


def first_fees(market: Market, max_fee_limit: int) -> Fees | None:
    """What to offer first; None while the base fee alone has reached the limit."""
    if market.base_fee >= max_fee_limit:
        return None
    max_fee = min(BASE_FEE_TIMES * market.base_fee + market.tip, max_fee_limit)
    return Fees(max_fee, min(market.tip, max_fee))


def raised_fees(last: Fees, market: Market, max_fee_limit: int, *, taken: bool = True) -> Fees | None:
    """What to offer instead of `last` under the same nonce: an eighth more, or what the market asks.

    Args:
        last: What was offered before.
        market: What the chain asks now.
        max_fee_limit: The most that may be offered.
        taken: Whether a node has taken a form of it. Where none has, the tip may be below the least that they
            take, which is many times what they suggest on some chains, and which none tells: it is doubled.

    Returns:
        None while that is above the limit, or would not help: then it is better to wait.
    """
    least = Fees(_eighth_more(last.max_fee), _eighth_more(last.tip) if taken else max(1, 2 * last.tip))
    asked = first_fees(market, max_fee_limit)
    if asked is None or least.max_fee > max_fee_limit:
        return None
    tip, max_fee = max(least.tip, asked.tip), max(least.max_fee, asked.max_fee)
    if not taken:
        max_fee = max(max_fee, min(BASE_FEE_TIMES * market.base_fee + tip, max_fee_limit))
    return Fees(max_fee, min(tip, max_fee))


def gas_limit(estimate: int) -> int:
    """The gas to allow for a call that a node estimates so."""
    return estimate * 5 // 4 + GAS_MARGIN


def _eighth_more(fee: int) -> int:
    return fee + fee // BUMP_DIVISOR + 1
