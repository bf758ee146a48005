"""A realm's database with deliveries that are owed, written by the functions that payments use."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from payd.clock import Clock
from payd.core.endpoint import ALL
from payd.core.event import sample_event
from payd.core.signature import make_secret
from payd.entropy import new_id
from payd.store.db import Tx
from payd.store.endpoints import put_endpoint
from payd.store.migrate import bring_up_to_date
from payd.store.outbox import NewEvent, put_out
from payd.store.seal import Seal

EVENT_TYPE: Final = "payment.settled"
# A payment with every stage and a few items. What the sample lacks is spaces, which JSON allows at its end.
BODY_BYTES: Final = 1700
SECRET: Final = make_secret(b"bench" * 6 + b"ab")


class Owed(NamedTuple):
    """A pending delivery, as little as sending it takes."""

    url: str
    message_id: str
    body: bytes


def account_of(number: int) -> str:
    """An endpoint belongs to an account, and each account has one."""
    return f"acct_bench{number}"


def fill(path: Path, urls: Sequence[str], each: int, seal: Seal) -> None:
    """Make the database: an endpoint for each URL, and `each` deliveries owed to it, in turn."""
    bring_up_to_date(path, "realm")
    clock = Clock()
    now_ms = clock.now_ms()
    tx = sqlite3.connect(path, isolation_level=None)
    try:
        tx.execute("PRAGMA journal_mode = WAL")
        tx.execute("PRAGMA synchronous = OFF")
        tx.execute("BEGIN IMMEDIATE")
        for number, url in enumerate(urls):
            _register(tx, number, url, seal, now_ms)
        for _ in range(each):
            for number in range(len(urls)):
                happen(tx, account_of(number), clock.now_ms())
        tx.execute("COMMIT")
        tx.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        tx.close()


def happen(tx: Tx, account_id: str, now_ms: int) -> str | None:
    """An event of a payment of its own, stored and owed as a transition does it; whom to wake."""
    event_id, payment_id, merchant_id = (new_id(kind, now_ms) for kind in ("evt_", "pay_t", "mrch_"))
    body = sample_event(
        EVENT_TYPE, event_id=event_id, payment_id=payment_id, merchant_id=merchant_id, now_ms=now_ms
    )
    event = NewEvent(
        id=event_id,
        account_id=account_id,
        payment_id=payment_id,
        version=0,
        type=EVENT_TYPE,
        created_at_ms=now_ms,
        body=body.ljust(BODY_BYTES),
        delivery_id=new_id("dlv_", now_ms),
        message_id=new_id("msg_", now_ms),
    )
    return put_out(tx, [event])[0]


def read_owed(path: Path) -> list[Owed]:
    """Every pending delivery, oldest first."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        rows = db.execute(
            "SELECT p.url, d.message_id, e.body FROM deliveries d JOIN events e ON e.seq = d.event_seq"
            " JOIN endpoints p ON p.id = d.endpoint_id WHERE d.state = 'pending' ORDER BY d.seq"
        ).fetchall()
        return [Owed(*row) for row in rows]
    finally:
        db.close()


def count_logged(path: Path) -> tuple[int, int]:
    """How many successful attempts are in the log, and how many deliveries are settled by one."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        (logged,) = db.execute("SELECT count(*) FROM attempts WHERE error_class IS NULL").fetchone()
        (settled,) = db.execute("SELECT count(*) FROM deliveries WHERE state = 'succeeded'").fetchone()
        return logged, settled
    finally:
        db.close()


def created_s(path: Path) -> dict[str, float]:
    """When each message's event happened, Unix seconds to the millisecond below, by `webhook-id`."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        rows = db.execute(
            "SELECT d.message_id, e.created_at_ms FROM deliveries d JOIN events e ON e.seq = d.event_seq"
        )
        return {message_id: at_ms / 1000 for message_id, at_ms in rows}
    finally:
        db.close()


def _register(tx: Tx, number: int, url: str, seal: Seal, now_ms: int) -> None:
    endpoint_id = new_id("ep_", now_ms)
    put_endpoint(
        tx,
        account_id=account_of(number),
        url=url,
        events=ALL,
        fresh_id=endpoint_id,
        sealed=seal.seal(SECRET.encode(), endpoint_id),
        now_ms=now_ms,
        actor="bench",
    )
