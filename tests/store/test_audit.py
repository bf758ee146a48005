"""The audit shares the transaction of the act."""

from __future__ import annotations

from pathlib import Path

import pytest

from payd.store.audit import insert_audit, list_audit
from payd.store.db import Database, Tx, open_database
from payd.store.migrate import Schema
from tests.store.test_events import plan_of


def record(tx: Tx) -> None:
    insert_audit(
        tx,
        at_ms=5,
        account_id="acct_1",
        actor="key_1",
        act="endpoint.url",
        subject="ep_1",
        details={"b": 1, "a": "é"},
    )


def rows(tx: Tx) -> list[tuple[object, ...]]:
    return list(tx.execute("SELECT at_ms, account_id, actor, act, subject, details FROM audit"))


async def test_an_act_is_recorded_with_its_details(realm_db: Database) -> None:
    await realm_db.write(record)

    assert realm_db.point(rows) == [
        (5, "acct_1", "key_1", "endpoint.url", "ep_1", '{"a": "\\u00e9", "b": 1}')
    ]


async def test_an_act_that_fails_leaves_no_record(realm_db: Database) -> None:
    def act(tx: Tx) -> None:
        record(tx)
        raise RuntimeError("refused")

    with pytest.raises(RuntimeError):
        await realm_db.write(act)

    assert realm_db.point(rows) == []


@pytest.mark.parametrize("schema", ["realm", "office"])
async def test_an_accounts_acts_are_read_from_an_index_in_their_order(tmp_path: Path, schema: Schema) -> None:
    async with open_database(tmp_path / "any.db", schema, inline=True) as db:
        for before in (None, 5):
            plan = plan_of(db, lambda tx, before=before: list_audit(tx, "acct_1", before, 50))  # type: ignore[misc]
            assert plan == "SEARCH audit USING INDEX audit_of_account (account_id=? AND seq<?)"
