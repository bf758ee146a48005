"""The canary's deliveries: few are kept, so that proving it each minute fills no disk."""

from __future__ import annotations

import sqlite3
from typing import Final, TypeAlias

from payd.core.endpoint import CANARY
from payd.store.deliveries import owe_message

Tx: TypeAlias = sqlite3.Connection

# Where nothing is sent any more, more of them would prove no more.
WAITING_MAX: Final = 10


def send_canary(tx: Tx, *, delivery_id: str, message_id: str, body: bytes, now_ms: int) -> bool:
    """Owe a canary and forget those that have ended.

    Returns:
        Whether it is owed: not while the canary is off, or `WAITING_MAX` wait already.
    """
    ended = "SELECT id FROM deliveries WHERE account_id = ? AND state <> 'pending'"
    tx.execute(f"DELETE FROM attempts WHERE delivery_id IN ({ended})", (CANARY,))
    tx.execute(f"DELETE FROM deliveries WHERE id IN ({ended})", (CANARY,))
    (waiting,) = tx.execute("SELECT count(*) FROM deliveries WHERE account_id = ?", (CANARY,)).fetchone()
    return waiting < WAITING_MAX and owe_message(
        tx,
        endpoint_id=CANARY,
        kind="canary",
        event_type="canary",
        body=body,
        delivery_id=delivery_id,
        message_id=message_id,
        now_ms=now_ms,
    )
