"""Tallies in the store: they say what the payments say, for anybody's days, and cost no look at a payment."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from payd.core.payment import open_payment
from payd.core.period import DAY_MS, Days, day_of
from payd.core.tally import numbers_by_day, numbers_of
from payd.store.db import Database
from payd.store.migrate import bring_up_to_date, migrate, read_migrations
from payd.store.payments import TwoWriters
from payd.store.tallies import count_created, count_open, read_tallies
from tests.inserts import record_transition
from tests.ledger import START_MS, sell
from tests.store.test_payments import event

STATES = (
    "requires_action",
    "processing",
    "succeeded",
    "settled",
    "failed",
    "failed_after",
    "expired",
    "cancelled",
)
OLD_COLUMNS = (
    "id, account_id, merchant_id, reference_id, currency, value, status, version, asset, network,"
    " created_at_ms, body"
)
ENDED = {"settled": "succeeded", "failed_after": "failed"}
SALES = st.lists(
    st.fixed_dictionaries(
        {
            "state": st.sampled_from(STATES),
            "at_ms": st.integers(START_MS - 3 * DAY_MS, START_MS + 3 * DAY_MS),
            "took_ms": st.integers(0, 5_000_000),
            "currency": st.sampled_from(["USD", "EUR", "JPY"]),
            "value": st.integers(1, 10**18 - 1),
            "account_id": st.sampled_from(["acct_1", "acct_2"]),
            "reason": st.sampled_from(["taken back", "reverted"]),
        }
    ),
    max_size=20,
)


def build(folder: Path, sales: list[dict[str, Any]]) -> sqlite3.Connection:
    path = folder / "tallies.db"
    path.unlink(missing_ok=True)
    bring_up_to_date(path, "realm")
    tx = sqlite3.connect(path, isolation_level=None)
    tx.execute("BEGIN")
    for sale in sales:
        sell(tx, **sale)
    tx.execute("COMMIT")
    return tx


@given(SALES, st.sampled_from([0, 330, -210, 765]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_tallies_say_what_the_payments_say(
    tmp_path: Path, sales: list[dict[str, Any]], offset_min: int
) -> None:
    today = day_of(START_MS, offset_min)
    days = Days(today - timedelta(days=5), today + timedelta(days=5), offset_min)
    with closing(build(tmp_path, sales)) as tx:
        numbers = numbers_by_day(days, read_tallies(tx, "acct_1", days))
    for day in days:
        mine = [
            one
            for one in sales
            if one["account_id"] == "acct_1" and day_of(one["at_ms"] + one["took_ms"], offset_min) == day
        ]
        states = Counter(ENDED.get(one["state"], one["state"]) for one in mine)
        paid = [one for one in mine if one["state"] in ("succeeded", "settled")]
        found = numbers[day]
        assert (found.succeeded, found.failed) == (states["succeeded"], states["failed"])
        assert (found.expired, found.cancelled) == (states["expired"], states["cancelled"])
        volume: Counter[str] = Counter()
        for one in paid:
            volume[one["currency"]] += one["value"]
        assert found.volume == dict(volume)
        assert (found.median_s is None) == (not paid)


# Of every step in which seconds are counted, and around each of its ends.
TOOK = [{"state": "succeeded", "took_ms": seconds * 1000 + 999} for seconds in range(0, 4600, 3)]


@given(SALES)
@example(TOOK)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_what_was_sold_before_tallies_were_kept_is_counted_all_the_same(
    tmp_path: Path, sales: list[dict[str, Any]]
) -> None:
    """The migration counts stored payments as their transitions would have."""
    columns = "id, buyer_address, tx_id"
    with closing(build(tmp_path, sales)) as tx:
        kept = tx.execute("SELECT * FROM tallies").fetchall()
        found = tx.execute(f"SELECT {columns} FROM payments ORDER BY id").fetchall()
        rows = tx.execute(f"SELECT {OLD_COLUMNS} FROM payments").fetchall()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as old:
        migrations = read_migrations("realm")
        migrate(old, migrations[:8])
        old.executemany(
            f"INSERT INTO payments ({OLD_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        migrate(old, migrations)
        assert sorted(old.execute("SELECT * FROM tallies")) == sorted(kept)
        assert old.execute(f"SELECT {columns} FROM payments ORDER BY id").fetchall() == found


async def test_a_transition_that_is_not_stored_is_not_counted(realm_db: Database) -> None:
    sold = await realm_db.write(sell, "cancelled")
    moved = open_payment(sold.__class__(**{name: getattr(sold, name) for name in _DRAFT}))
    days = Days(day_of(START_MS, 0), day_of(START_MS, 0))
    before = numbers_of(one.tally for one in await realm_db.read(read_tallies, "acct_1", days))

    with pytest.raises(TwoWriters):
        await realm_db.write(record_transition, moved, event(moved), None)

    after = numbers_of(one.tally for one in await realm_db.read(read_tallies, "acct_1", days))
    assert before == after
    assert after.cancelled == 1


_DRAFT = (
    "id",
    "account_id",
    "merchant_id",
    "reference_id",
    "currency",
    "value",
    "created_at_ms",
    "expires_at_ms",
    "updated_at_ms",
)


async def test_open_and_new_payments_are_counted_up_to_a_limit(realm_db: Database) -> None:
    for state in ("requires_action", "processing", "succeeded", "expired"):
        await realm_db.write(sell, state)
    await realm_db.write(sell, account_id="acct_2")

    assert realm_db.point(count_open, "acct_1", 10) == 2
    assert realm_db.point(count_open, "acct_1", 1) == 1
    assert realm_db.point(count_created, "acct_1", START_MS, 10) == 4
    assert realm_db.point(count_created, "acct_1", START_MS + 1, 10) == 0


async def test_a_view_reads_no_payment(realm_db: Database) -> None:
    days = Days(day_of(START_MS, 0), day_of(START_MS, 0))
    plan: list[str] = []

    def explained(tx: sqlite3.Connection) -> None:
        seen: list[str] = []
        tx.set_trace_callback(seen.append)
        read_tallies(tx, "acct_1", days)
        tx.set_trace_callback(None)
        (query,) = (one for one in seen if "tallies" in one)
        plan.extend(row[3] for row in tx.execute(f"EXPLAIN QUERY PLAN {query}"))

    realm_db.point(explained)
    assert "SEARCH tallies USING PRIMARY KEY (account_id=? AND at_ms>? AND at_ms<?)" in plan
    assert not any("payments" in step for step in plan)
