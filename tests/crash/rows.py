"""A realm's file, read without payd."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# The canary goes the same way, and is nobody's event.
OF_EVENTS: Final = "kind = 'event'"


@dataclass(frozen=True)
class Rows:
    """All that these tests compare with what was told."""

    integrity: list[str]
    payments: dict[str, dict[str, Any]]
    events: list[dict[str, Any]]
    deliveries: list[dict[str, Any]]
    attempts: list[dict[str, Any]]
    chains: dict[str, list[tuple[int, str]]]
    endpoint_id: str | None
    """The account's endpoint, as long as it was not deleted."""
    tests: list[dict[str, Any]]
    """Deliveries of samples."""
    jobs: list[dict[str, Any]]
    merchants: frozenset[str]
    """By their ids; samples name others."""


def read_rows(path: Path) -> Rows:
    """All of a realm that these tests compare with what was told."""
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    try:
        events = [dict(row) for row in db.execute("SELECT * FROM events ORDER BY seq")]
        return Rows(
            integrity=[row[0] for row in db.execute("PRAGMA integrity_check")],
            payments={row["id"]: dict(row) for row in db.execute("SELECT * FROM payments")},
            events=events,
            deliveries=[dict(row) for row in db.execute(f"SELECT * FROM deliveries WHERE {OF_EVENTS}")],
            attempts=[
                dict(row)
                for row in db.execute(
                    "SELECT * FROM attempts WHERE delivery_id IN"
                    f" (SELECT id FROM deliveries WHERE {OF_EVENTS}) ORDER BY seq"
                )
            ],
            chains=chains_of(db),
            endpoint_id=next(
                (
                    row["id"]
                    for row in db.execute(
                        "SELECT id FROM endpoints WHERE state <> 'deleted' AND id <> account_id"
                    )
                ),
                None,
            ),
            tests=[dict(row) for row in db.execute("SELECT * FROM deliveries WHERE kind = 'test'")],
            jobs=[dict(row) for row in db.execute("SELECT * FROM webhook_jobs")],
            merchants=frozenset(row["id"] for row in db.execute("SELECT id FROM merchants")),
        )
    finally:
        db.close()


def chains_of(tx: sqlite3.Connection) -> dict[str, list[tuple[int, str]]]:
    """Of each payment, the (version, status) of its events in the order in which they were stored."""
    chains: dict[str, list[tuple[int, str]]] = {}
    for payment_id, version, status in tx.execute(
        "SELECT payment_id, version, json_extract(CAST(body AS TEXT), '$.data.status') FROM events"
        " ORDER BY seq"
    ):
        chains.setdefault(payment_id, []).append((version, status))
    return chains
