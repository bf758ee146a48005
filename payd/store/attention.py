"""What an account's own rows say that a person should look at. Bounded looks at indexes, for every home page.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final, TypeAlias

from payd.core.attention import REACH_MS, Matter, Topic, of_endpoint
from payd.store.endpoints import find_endpoint

Tx: TypeAlias = sqlite3.Connection

# More than this is shown as "more than".
COUNT_MAX: Final = 100
# Things that are shown one by one.
NAMED_MAX: Final = 5

_ASTRAY: Final[tuple[tuple[str, Topic, str], ...]] = (
    ("late", "transfers_late", "Money came after its payment had ended. Send it back, or count it by hand."),
    ("partial", "transfers_partial", "Less than was asked for came. Ask for the rest, or send it back."),
    ("surplus", "transfers_surplus", "More came than was asked for. Send the rest back."),
    (
        "unmatched",
        "transfers_unmatched",
        "Money came that names no payment. If you know its payment, match it there.",
    ),
)


def account_matters(tx: Tx, account_id: str, now_ms: int) -> list[Matter]:
    """What to look at of this account; not in order."""
    endpoint = find_endpoint(tx, account_id)
    return [
        *(() if endpoint is None else of_endpoint(endpoint, now_ms)),
        *_deliveries(tx, account_id, now_ms),
        *_transfers(tx, account_id, now_ms),
        *_parked(tx, account_id),
        *_merchants(tx, account_id),
    ]


def _deliveries(tx: Tx, account_id: str, now_ms: int) -> Iterator[Matter]:
    # What the endpoint of before did not take may have been delivered to the present one.
    count, since_ms = tx.execute(
        "SELECT count(*), min(created_at_ms) FROM (SELECT event_seq AS event, created_at_ms FROM deliveries"
        " WHERE account_id = ? AND state = 'failed' AND kind = 'event' ORDER BY seq DESC LIMIT ?)"
        " WHERE created_at_ms >= ? AND NOT EXISTS"
        " (SELECT 1 FROM deliveries d WHERE d.event_seq = event AND d.state = 'succeeded')",
        (account_id, COUNT_MAX, now_ms - REACH_MS),
    ).fetchone()
    if count:
        words = "Webhooks were given up after their last try. Send them again once the endpoint works."
        yield _counted("deliveries_failed", words, count, since_ms)


def _transfers(tx: Tx, account_id: str, now_ms: int) -> Iterator[Matter]:
    for kind, topic, words in _ASTRAY:
        count, since_ms = tx.execute(
            "SELECT count(*), min(seen_at_ms) FROM (SELECT seen_at_ms FROM transfers"
            " WHERE account_id = ? AND kind = ? AND kind <> 'matched' ORDER BY seq DESC LIMIT ?)"
            " WHERE seen_at_ms >= ?",
            (account_id, kind, COUNT_MAX, now_ms - REACH_MS),
        ).fetchone()
        if count:
            yield _counted(topic, words, count, since_ms)


def _counted(topic: Topic, words: str, count: int, since_ms: int) -> Matter:
    return Matter("notice", topic, words, count=count, is_more=count == COUNT_MAX, since_ms=since_ms)


def _parked(tx: Tx, account_id: str) -> Iterator[Matter]:
    rows = tx.execute(
        "SELECT id, parked_at_ms FROM payments WHERE parked_at_ms IS NOT NULL AND +account_id = ?"
        " ORDER BY parked_at_ms LIMIT ?",
        (account_id, NAMED_MAX),
    )
    words = "A payment was given up after crashes. Start payd again; its log says why."
    return (
        Matter("error", "payment_parked", words, payment_id, since_ms=at_ms) for payment_id, at_ms in rows
    )


def _merchants(tx: Tx, account_id: str) -> Iterator[Matter]:
    rows = tx.execute(
        "SELECT id, name, created_at_ms FROM merchants m WHERE account_id = ? AND deleted_at_ms IS NULL"
        " AND status = 'active' AND NOT EXISTS (SELECT 1 FROM settlements s WHERE s.merchant_id = m.id)"
        " ORDER BY created_at_ms LIMIT ?",
        (account_id, NAMED_MAX),
    )
    return (
        Matter(
            "warning",
            "merchant_without_destination",
            f"{name} cannot be paid: it has no destination.",
            merchant_id,
            since_ms=created_at_ms,
        )
        for merchant_id, name, created_at_ms in rows
    )
