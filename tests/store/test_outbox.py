"""The outbox: an event and what is owed for it are one, and to the right endpoint."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from payd.store.db import Database, Tx
from payd.store.outbox import NewEvent, put_out
from tests.store.test_deliveries import register


def event(number: int, account_id: str = "acct_1", event_type: str = "payment.created") -> NewEvent:
    return NewEvent(
        id=f"evt_{number}",
        account_id=account_id,
        payment_id=f"pay_{number}",
        version=0,
        type=event_type,
        created_at_ms=1000 + number,
        body=b"{%d}" % number,
        delivery_id=f"dlv_{number}",
        message_id=f"msg_{number}",
    )


def owed(tx: Tx) -> list[tuple[Any, ...]]:
    """Each delivery beside the event that it is of."""
    return tx.execute(
        "SELECT d.id, d.message_id, d.account_id, d.endpoint_id, d.event_type, d.payment_id, d.kind, d.state,"
        " d.attempts, d.priority, d.next_at_ms, d.created_at_ms, e.id, e.body"
        " FROM deliveries d JOIN events e ON e.seq = d.event_seq ORDER BY d.seq"
    ).fetchall()


async def test_each_event_is_owed_to_its_accounts_endpoint_if_that_wants_it(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await register(realm_db, "acct_2", "ep_2", ("payment.settled",))
    await realm_db.write(put_out, [event(0)])

    told = await realm_db.write(
        put_out,
        [
            event(1),
            event(2, "acct_2"),
            event(3, "acct_2", "payment.settled"),
            event(4, "acct_3"),
            event(5),
        ],
    )

    assert told == ["ep_1", None, "ep_2", None, "ep_1"]
    assert await realm_db.read(owed) == [
        (
            f"dlv_{n}", f"msg_{n}", account, endpoint, event_type, f"pay_{n}", "event", "pending",
            0, 0, 1000 + n, 1000 + n, f"evt_{n}", b"{%d}" % n,
        )
        for n, account, endpoint, event_type in (
            (0, "acct_1", "ep_1", "payment.created"),
            (1, "acct_1", "ep_1", "payment.created"),
            (3, "acct_2", "ep_2", "payment.settled"),
            (5, "acct_1", "ep_1", "payment.created"),
        )
    ]  # fmt: skip


async def test_an_event_that_nobody_wants_is_stored_all_the_same(realm_db: Database) -> None:
    assert await realm_db.write(put_out, [event(1), event(2)]) == [None, None]
    assert await realm_db.read(lambda tx: tx.execute("SELECT id FROM events ORDER BY seq").fetchall()) == [
        ("evt_1",),
        ("evt_2",),
    ]


async def test_two_events_of_one_version_are_two_writers_and_nothing_is_stored(realm_db: Database) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        await realm_db.write(put_out, [event(1), event(2)._replace(payment_id="pay_1")])
    assert await realm_db.read(lambda tx: tx.execute("SELECT count(*) FROM events").fetchone()) == (0,)
