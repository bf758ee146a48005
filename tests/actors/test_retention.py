"""Every table has a rule: a chore that forgets what is old in it, or a reason why it stays.

A table that somebody adds is red here until it has one. The rows are those of the stored databases, which
have some in every table; the chores run in a far future.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final

import pytest

from payd.actors.maintenance import Maintenance
from payd.actors.office import OfficeChores
from payd.clock import Clock
from payd.store.db import Database, Tx, open_database
from payd.store.migrate import Schema
from payd.store.self_check import row_counts
from tests.stored.fill import stored, unpack

YEAR_MS: Final = 365 * 86_400_000
FAR_MS: Final = 1_790_000_000_000 + 20 * YEAR_MS
"""Later than anything is kept for."""

PRUNED: Final[dict[Schema, dict[str, str]]] = {
    "realm": {
        "events": "webhooks.keep_days; the newest stays, as the next one is numbered after it",
        "deliveries": "webhooks.keep_days, once nothing is to be sent any more",
        "attempts": "with their delivery",
        "webhook_jobs": "webhooks.keep_days",
        "webhook_job_deliveries": "with their job",
        "endpoint_secrets": "webhooks.keep_days after they ran out, or with a deleted endpoint",
        "endpoints": "webhooks.keep_days after they were deleted; one that is not stays",
        "idempotency": "30 days, as SPEC.md has it",
        "audit": "audit.keep_days",
        "api_keys": "audit.keep_days after they were revoked; one that is not stays",
        "apps": "audit.keep_days after they were revoked; one that is not stays",
        "api_log": "14 days",
        "watches": "30 days after their window",
        "relay_jobs": "90 days or webhooks.keep_days after their payment was over",
        "relay_transactions": "with their job; the one with the newest nonce stays",
        "relay_attempts": "with their transaction",
        "submissions": "as relay_jobs",
        "builds": "a day, or as relay_jobs where we paid",
        "collected": "payments.collected_days",
        "vacancies": "audit.keep_days after their end; as long, a new destination of the merchant is told",
        "faults": "with their endpoint; of one that is not deleted, 120 at most (store/faults.py)",
        "fault_uses": "with their fault or their delivery",
    },
    "office": {
        "sessions": "their lifetime",
        "links": "their end",
        "sign_ins": "as long as store/sign_ins.py says",
        "tries": "as long as core/tries.py says",
        "challenges": "their end",
        "audit": "audit.keep_days",
    },
}
"""What a chore forgets, and after how long."""

KEPT: Final[dict[Schema, dict[str, str]]] = {
    "realm": {
        "clock": "one row",
        "payments": "a merchant's books; they stay",
        "transfers": "proof of payments, and of money that pays for none",
        "refunds": "one of a payment",
        "refunds_out": "one of a payment, until it cannot land any more",
        "routes": "where a payment's money was to go; with the payment",
        "options": "what was offered for a payment; with the payment",
        "quotes": "at what price; with the payment, and as many as rate limits let buyers ask for",
        "hints": "what buyers said that they sent, while the payment was open",
        "merchants": "payments show them, deleted ones too",
        "settlements": "what a merchant registered, and deletes",
        "settlement_changes": "one of a destination, until it is due or taken back",
        "checkout_origins": "what a merchant lists, and takes off the list",
        "logos": "one of a merchant that was not deleted",
        "chain_cursors": "two of a chain",
        "chain_blocks": "the watcher keeps as many as a reorg can take (store/chain_cursors.py)",
        "chain_accounts": "two of an address that is read",
        "tallies": "a few for each quarter of an hour with a payment; charts go back to the first one",
    },
    "office": {
        "accounts": "whose everything is",
        "users": "people, until they are removed from their last account",
        "memberships": "until somebody is removed",
        "passkeys": "at most twenty of a person",
        "recovery_codes": "ten of a person; new ones replace them",
    },
}
"""What stays, and why that does not grow without end, or may."""

LEFT: Final[dict[str, int]] = {"events": 1, "relay_transactions": 1, "relay_attempts": 1}
"""Rows that stay in a pruned table, where those that live do not count."""

FILES: Final[dict[Schema, str]] = {"realm": "test.db", "office": "office.db"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The newest stored databases, with every key and app revoked, and no endpoint but deleted ones."""
    unpack(stored()[max(stored())], tmp_path)
    with closing(sqlite3.connect(tmp_path / "test.db")) as tx, tx:
        for table in ("api_keys", "apps"):
            tx.execute(f"UPDATE {table} SET revoked_at_ms = created_at_ms")
        tx.execute("UPDATE endpoints SET state = 'deleted'")
        tx.execute("UPDATE deliveries SET state = 'cancelled', next_at_ms = NULL WHERE state = 'pending'")
    return tmp_path


@asynccontextmanager
async def opened(data: Path, schema: Schema) -> AsyncIterator[Database]:
    async with open_database(data / FILES[schema], schema, inline=True) as db:
        yield db


async def run_chores(db: Database, schema: Schema, at_ms: int) -> dict[str, int]:
    if schema == "office":
        return await OfficeChores(db, lambda: at_ms).run_once()
    return await Maintenance(db, Clock(lambda: at_ms), keep_days=30, collected_days=90).run_once()


@pytest.mark.parametrize("schema", FILES)
async def test_every_table_has_a_rule_and_the_rule_is_kept(data: Path, schema: Schema) -> None:
    async with opened(data, schema) as db:
        before = db.point(row_counts)
        pruned, kept = PRUNED[schema], KEPT[schema]
        assert before.keys() == pruned.keys() | kept.keys(), "a table without a rule: see this file"
        assert not pruned.keys() & kept.keys()

        await run_chores(db, schema, FAR_MS)

        after = db.point(row_counts)
        assert {table: after[table] for table in pruned} == {table: LEFT.get(table, 0) for table in pruned}
        assert {table: after[table] for table in kept} == {table: before[table] for table in kept}


@pytest.mark.parametrize("schema", FILES)
async def test_what_is_young_stays(data: Path, schema: Schema) -> None:
    async with opened(data, schema) as db:
        [(at_ms,)] = db.point(lambda tx: tx.execute("SELECT max(at_ms) FROM audit").fetchall())
        before = db.point(row_counts)
        await run_chores(db, schema, at_ms - 60_000)
        assert db.point(row_counts) == before


async def test_the_audit_is_kept_as_long_as_is_said(data: Path) -> None:
    for schema in FILES:
        async with opened(data, schema) as db:
            [(at_ms,)] = db.point(lambda tx: tx.execute("SELECT max(at_ms) FROM audit").fetchall())
            for days, left in ((99, True), (101, False)):
                now_ms = at_ms + days * 86_400_000
                if schema == "office":
                    await OfficeChores(db, lambda now_ms=now_ms: now_ms, 100).run_once()  # type: ignore[misc]
                else:
                    await Maintenance(db, Clock(lambda now_ms=now_ms: now_ms), 30, 90, 100).run_once()  # type: ignore[misc]
                assert bool(db.point(row_counts)["audit"]) == left


async def test_a_deleted_endpoint_waits_for_its_deliveries(data: Path) -> None:
    async with opened(data, "realm") as db:
        [(at_ms,)] = db.point(lambda tx: tx.execute("SELECT max(updated_at_ms) FROM endpoints").fetchall())
        await db.write(lambda tx: tx.execute("UPDATE deliveries SET created_at_ms = ?", (at_ms,)).rowcount)
        await db.write(lambda tx: tx.execute("UPDATE endpoints SET updated_at_ms = ?", (at_ms + 1,)).rowcount)
        await db.write(lambda tx: tx.execute("UPDATE deliveries SET state = 'pending'").rowcount)
        await run_chores(db, "realm", at_ms + YEAR_MS)
        assert db.point(row_counts)["endpoints"] > 0


# By days: tables and the column that says from when on.
AGES: Final[dict[int, dict[str, str]]] = {
    14: {"api_log": "at_ms"},
    30: {"endpoint_secrets": "expires_at_ms", "endpoints": "updated_at_ms", "webhook_jobs": "created_at_ms"},
    100: {"api_keys": "revoked_at_ms", "apps": "revoked_at_ms", "vacancies": "until_ms"},
}


def date(tx: Tx, table: str, column: str, at_ms: int) -> None:
    tx.execute(f"UPDATE {table} SET {column} = ?", (at_ms,))


async def test_what_is_kept_for_a_time_is_kept_so_long_and_no_longer(data: Path) -> None:
    async with opened(data, "realm") as db:
        [(at_ms,)] = db.point(lambda tx: tx.execute("SELECT max(at_ms) FROM audit").fetchall())
        for table, column in (pair for columns in AGES.values() for pair in columns.items()):
            await db.write(date, table, column, at_ms)
        for days, columns in AGES.items():
            for late_ms, left in ((-60_000, set(columns)), (60_000, set())):
                now_ms = at_ms + days * 86_400_000 + late_ms
                await Maintenance(db, Clock(lambda now_ms=now_ms: now_ms), 30, 90, 100).run_once()  # type: ignore[misc]
                after = db.point(row_counts)
                assert {table for table in columns if after[table]} == left, days


IN_USE: Final[dict[str, str]] = {
    "api_keys": "revoked_at_ms IS NULL",
    "apps": "revoked_at_ms IS NULL",
    "endpoints": "state <> 'deleted'",
    "endpoint_secrets": "endpoint_id <> 'ep_gone' AND expires_at_ms IS NULL",
    "faults": "endpoint_id <> 'ep_gone'",
    "fault_uses": "fault_id <> 'flt_gone'",
    "audit": f"at_ms = {FAR_MS}",
    "api_log": f"at_ms = {FAR_MS}",
    "vacancies": f"until_ms = {FAR_MS}",
}
"""Of tables in which a chore forgets some: those that are none of its business, however old."""


def make_old(tx: Tx) -> None:
    """Of each of these tables there is something that goes and something that stays."""
    tx.execute("UPDATE endpoints SET updated_at_ms = 0 WHERE id = 'ep_gone'")
    tx.execute("INSERT INTO fault_uses VALUES ('flt_gone', 'dlv_stored', 0)")
    tx.execute(
        "INSERT INTO faults (id, endpoint_id, kind, events, created_at_ms)"
        " SELECT 'flt_gone', 'ep_gone', kind, events, 0 FROM faults LIMIT 1"
    )
    tx.execute("UPDATE apps SET revoked_at_ms = 0 WHERE account_id IS NOT NULL")
    tx.execute("INSERT INTO vacancies VALUES ('mrch_1', 'a', 'eip155:1:0xa', ?)", (FAR_MS,))
    for table in ("audit", "api_log"):
        tx.execute(
            f"UPDATE {table} SET at_ms = ? WHERE seq = (SELECT max(seq) FROM {table})",
            (FAR_MS,),
        )


async def test_what_is_in_use_stays_however_old_beside_what_goes(tmp_path: Path) -> None:
    unpack(stored()[max(stored())], tmp_path)
    async with opened(tmp_path, "realm") as db:
        await db.write(make_old)

        def rows(table: str, which: str) -> list[str]:
            return db.point(
                lambda tx: sorted(map(repr, tx.execute(f"SELECT * FROM {table} WHERE {which}").fetchall()))
            )

        in_use = {table: rows(table, which) for table, which in IN_USE.items()}
        before = {table: rows(table, "TRUE") for table in IN_USE}
        assert all(0 < len(in_use[table]) < len(before[table]) for table in IN_USE)
        await run_chores(db, "realm", FAR_MS)
        assert {table: rows(table, "TRUE") for table in IN_USE} == in_use
