"""How somebody stands who brings transactions to a chain and pays for them: the relayer, and the submitter.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import msgspec

from payd.actors.relay_alarms import Alarm


class RelayerStats(msgspec.Struct, frozen=True):
    """Of one chain. Amounts are in smallest units of its native coin.

    Attributes:
        address: Of its account, as the chain writes it; empty: buyers pay for themselves.
        balance: What it has; None is not known yet.
        spent_today: In the last 24 hours.
        per_day: What may be spent in 24 hours.
        in_flight: Transactions that were sent and have not landed yet.
        queued: What waits to be sent.
        oldest_queued_ms: Since when the one waits that waits longest; None: none does.
        bumps: Transactions that were sent again, on EVM chains with a higher fee.
        reverts: Those that landed and failed.
        lost: Nonces that something else used; on Solana, what was confirmed and then gone.
        fillers: Empty transactions, sent to use up a nonce.
        alarms: What a person should look at.
    """

    address: str
    balance: int | None
    spent_today: int
    per_day: int
    in_flight: int
    queued: int
    oldest_queued_ms: int | None
    bumps: int
    reverts: int
    lost: int
    fillers: int
    alarms: frozenset[Alarm]
