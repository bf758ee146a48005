"""What a unit of compute is paid with so that a transaction lands soon: what most paid lately, in steps.

Steps, so that a transaction that is asked for again some seconds later is the same one.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

import msgspec

from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.answers import U64_MAX

# Micro-lamports; nodes name the least that was paid in a block, and in most blocks that is nothing. For a
# payment it comes to some 800 lamports, a sixth of the fee for its signature.
PRICE_MIN: Final = 10_000


class _Paid(msgspec.Struct, rename="camel"):
    prioritization_fee: int


def price_of(answer: object) -> int:
    """Micro-lamports, from the result of `getRecentPrioritizationFees`: at three quarters of the blocks.

    Raises:
        BadAnswer: It is no such result.
    """
    try:
        fees = sorted(one.prioritization_fee for one in msgspec.convert(answer, list[_Paid]))
    except msgspec.ValidationError as error:
        raise BadAnswer(f"the prioritization fees: {error}") from error
    if not fees:
        return PRICE_MIN
    if not 0 <= fees[0] <= fees[-1] <= U64_MAX:
        raise BadAnswer("the prioritization fees are out of bounds")
    wanted, price = fees[len(fees) * 3 // 4], PRICE_MIN
    while price < wanted:
        price *= 2
    return price
