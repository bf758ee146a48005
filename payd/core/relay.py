"""A call that the relayer owes a payment: what a buyer signed, ready to be brought to its chain.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

import msgspec

# The chain refuses a call for good when it has refused it so often; between the first and the last lie 3.5
# minutes, so that a node that lags, a pause of the token, or a balance on its way does not kill a payment.
REFUSALS_MAX: Final = 4
# What reverted so often costs no more gas: it may yet be brought to the chain by somebody else.
REVERTS_MAX: Final = 3
# Smallest units of a chain's own coin: one coin. Nodes take nothing that may cost more, as shipped (geth,
# --rpc.txfeecap), and what no node takes would hold up all after it.
COST_MAX: Final = 10**18
RETRY_FIRST_MS: Final = 30_000
RETRY_LAST_MS: Final = 8 * 60_000
# What has less time left would be mined too late, and cost gas for nothing.
SEND_MARGIN_S: Final = 30


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


def retry_delay_ms(tries: int) -> int:
    """How long a call waits after the chain refused or reverted it that often, counted from 1."""
    return min(RETRY_FIRST_MS << min(tries - 1, 16), RETRY_LAST_MS)


class RelayLimits(msgspec.Struct, frozen=True):
    """What the relayer may spend on one chain, and its pace; a wei is the smallest unit of the native coin.

    Attributes:
        max_fee: Wei that a unit of gas may cost.
        gas_per_day: Wei that may be spent in 24 hours.
        relays_per_buyer: Calls for one account in 24 hours.
        in_flight_max: Transactions at once; nodes keep about so many of one account.
        bump_after_ms: How long a transaction waits until it is paid better.
        resend_ms: How long until nodes are told of it again: some forget, and some were not there.
        gas_max: A call that needs more gas is not carried: a smart wallet can burn any amount.
    """

    max_fee: int
    gas_per_day: int
    relays_per_buyer: int
    in_flight_max: int = 16
    bump_after_ms: int = 60_000
    resend_ms: int = 25_000
    gas_max: int = 2_000_000
