"""The audit shares the transaction of the act."""

from __future__ import annotations

import pytest

from payd.store.audit import insert_audit
from payd.store.db import Database, Tx


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
