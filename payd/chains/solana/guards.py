"""Guards: what wallets add to a transaction so that it fails where it would not do what they showed.

They are assertions of the Lighthouse program, and these are the only instructions that we let a wallet add.
Lighthouse has others, which take lamports of an account, and one that calls a program: those are refused.

Source: DESIGN.md, "10. Live realm"; enum LighthouseInstruction of lighthouse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from solders.pubkey import Pubkey

# The accounts that each assertion reads, by the first byte of its data. Not here: 0 and 1 write and close
# memory at the cost of an account, and 16 has a merkle tree's program called.
ASSERTIONS: Final = {
    2: 1,  # account data
    3: 1,
    4: 2,  # what differs between two accounts
    5: 1,  # account info
    6: 1,
    7: 1,  # mint
    8: 1,
    9: 1,  # token account
    10: 1,
    11: 1,  # stake account
    12: 1,
    13: 1,  # upgradeable program
    14: 1,
    15: 0,  # clock
    17: 1,  # bubblegum tree
}


class GuardLimits(msgspec.Struct, frozen=True):
    """What a wallet may change beside what it was asked to sign.

    Attributes:
        count_max: Guards. Wallets were seen to add up to three.
        units_added_max: Compute units for them, where we pay for each.
        unit_price_max: Micro-lamports for a compute unit, where the buyer pays.
    """

    count_max: int = 6
    units_added_max: int = 100_000
    unit_price_max: int = 10_000_000


def guard_problem(data: bytes, accounts: Sequence[Pubkey], fee_payer: Pubkey | None) -> str | None:
    """Words why an added instruction of Lighthouse is not taken; None if it is.

    Args:
        data: Its data.
        accounts: The accounts that it names.
        fee_payer: Us, where we pay; a guard has nothing to look for there.
    """
    if not data or data[0] not in ASSERTIONS:
        return "a guard that was added is no assertion"
    if len(accounts) != ASSERTIONS[data[0]]:
        return "a guard that was added has other accounts than its assertion reads"
    if fee_payer is not None and fee_payer in accounts:
        return "a guard that was added names the fee payer"
    return None
