"""What a buyer committed, and whether nothing else may pay.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

from payd.core.caip import canonical_asset, parse_asset
from payd.core.money import ASSET_PREFIX
from payd.core.payment import Payment
from payd.core.status import Status

Tx: TypeAlias = sqlite3.Connection


def is_held(tx: Tx, payment: Payment) -> bool:
    """Whether only what was committed pays; no payment is kept from ending by another one then.

    Of one that is processed: whether payd itself brings it to the chain. See `payd.core.transfer.Claim`.
    """
    if payment.status is not Status.PROCESSING:
        return True
    carried = tx.execute(
        "SELECT EXISTS (SELECT 1 FROM relay_jobs WHERE payment_id = ?)"
        " OR EXISTS (SELECT 1 FROM submissions WHERE payment_id = ?)",
        (payment.id, payment.id),
    ).fetchone()
    return bool(carried[0])


def committed(payment: Payment) -> tuple[str, int] | None:
    """What reaches the merchant, by what the buyer committed: a canonical asset and its smallest units."""
    if payment.processing is None:
        return None
    amount = payment.processing.settlement_amount
    asset = parse_asset(amount.unit.removeprefix(ASSET_PREFIX))
    return canonical_asset(asset), int(amount.value)
