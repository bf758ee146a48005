"""A key is found by its hash until it is revoked, and opens what it was made for and nothing else."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from payd.core.errors import InvalidParams, NotFound
from payd.core.ids import KEY_ENTROPY_BYTES, hash_api_key, make_api_key
from payd.store import keys
from payd.store.keys import DEFAULT_SCOPES, SCOPES, Key
from payd.store.merchants import Merchant, delete_merchant, insert_merchant
from payd.store.migrate import migrate, read_migrations

TEST_KEY = make_api_key("test", b"t" * KEY_ENTROPY_BYTES)
LIVE_KEY = make_api_key("live", b"l" * KEY_ENTROPY_BYTES)


@pytest.fixture
def tx() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, read_migrations("realm"))
    for n, account in ((1, "acct_1"), (2, "acct_1"), (3, "acct_2")):
        merchant = Merchant(f"mrch_{n}", account, "Shop", "shop@example.com", None, "active", n)
        insert_merchant(connection, merchant)
    yield connection
    connection.close()


def make(
    tx: sqlite3.Connection,
    api_key: str = TEST_KEY,
    *,
    key_id: str = "key_1",
    account_id: str = "acct_1",
    name: str = "backend",
    scopes: Sequence[str] | None = None,
    merchants: Sequence[str] | None = None,
) -> Key:
    return keys.insert_key(
        tx,
        key_id=key_id,
        account_id=account_id,
        api_key=api_key,
        name=name,
        scopes=scopes,
        merchants=merchants,
        actor="cli",
        now_ms=1000,
    )


def audit(tx: sqlite3.Connection) -> list[tuple[str, str, str, str]]:
    return tx.execute("SELECT account_id, actor, act, subject FROM audit ORDER BY seq").fetchall()


def test_a_key_is_found_by_its_hash(tx: sqlite3.Connection) -> None:
    key = make(tx)
    assert keys.find_key(tx, hash_api_key(TEST_KEY)) == key
    assert keys.find_key(tx, hash_api_key(LIVE_KEY)) is None
    assert (key.id, key.account_id, key.prefix, key.last4) == ("key_1", "acct_1", "svc_test_", TEST_KEY[-4:])


def test_finding_a_key_reads_one_row_by_its_index(tx: sqlite3.Connection) -> None:
    plan = tx.execute("EXPLAIN QUERY PLAN SELECT * FROM api_keys WHERE hash = ?", (b"",)).fetchall()
    assert "USING INDEX" in plan[0][3]


def test_the_key_itself_is_nowhere_in_the_file(tx: sqlite3.Connection) -> None:
    make(tx)
    assert TEST_KEY[9:-4] not in "\n".join(tx.iterdump())


def test_a_test_key_may_do_everything_and_a_live_key_what_a_backend_needs(tx: sqlite3.Connection) -> None:
    assert make(tx, TEST_KEY, key_id="key_1").scopes == set(SCOPES)
    live = make(tx, LIVE_KEY, key_id="key_2")
    assert live.prefix == "svc_"
    assert live.scopes == {"merchants:read", "payments:read", "payments:write"} == set(DEFAULT_SCOPES["live"])


def test_a_key_has_the_scopes_it_was_made_with(tx: sqlite3.Connection) -> None:
    key = make(tx, scopes=["payments:read", "gateway", "gateway"])
    assert key.scopes == {"payments:read", "gateway"}
    assert keys.find_key(tx, hash_api_key(TEST_KEY)) == key


@pytest.mark.parametrize(
    ("scopes", "words"),
    [(["payments:read", "admin"], "no scope admin"), ([], "at least one"), ([""], "no scope")],
)
def test_an_unknown_scope_is_refused_and_nothing_is_stored(
    tx: sqlite3.Connection, scopes: list[str], words: str
) -> None:
    with pytest.raises(InvalidParams, match=words):
        make(tx, scopes=scopes)
    assert keys.list_keys(tx, "acct_1") == []
    assert audit(tx) == []


def test_a_key_can_be_limited_to_merchants_of_its_account(tx: sqlite3.Connection) -> None:
    make(tx, merchants=["mrch_2", "mrch_1"])
    found = keys.find_key(tx, hash_api_key(TEST_KEY))
    assert found is not None
    assert found.merchants == frozenset(["mrch_1", "mrch_2"])


def test_a_key_without_a_limit_opens_all_merchants(tx: sqlite3.Connection) -> None:
    make(tx)
    found = keys.find_key(tx, hash_api_key(TEST_KEY))
    assert found is not None
    assert found.merchants is None


@pytest.mark.parametrize("merchant_id", ["mrch_3", "mrch_9", "mrch_deleted", "mrch_1 mrch_3", ""])
def test_a_key_cannot_be_limited_to_a_merchant_that_is_not_the_accounts(
    tx: sqlite3.Connection, merchant_id: str
) -> None:
    insert_merchant(tx, Merchant("mrch_deleted", "acct_1", "Gone", "g@example.com", None, "active", 4))
    delete_merchant(tx, "acct_1", "mrch_deleted", 5)
    with pytest.raises(NotFound, match="no merchant"):
        make(tx, merchants=["mrch_1", merchant_id])
    assert keys.list_keys(tx, "acct_1") == []


@pytest.mark.parametrize("count", [0, keys.MERCHANTS_MAX + 1])
def test_a_limit_names_one_to_a_hundred_merchants(tx: sqlite3.Connection, count: int) -> None:
    with pytest.raises(InvalidParams, match="1 to 100 merchants"):
        make(tx, merchants=["mrch_1"] * count)


def test_a_revoked_key_is_found_no_more_and_still_listed(tx: sqlite3.Connection) -> None:
    before = make(tx, make_api_key("test", b"a" * KEY_ENTROPY_BYTES), key_id="key_0")
    key = make(tx)
    after = make(tx, make_api_key("test", b"z" * KEY_ENTROPY_BYTES), key_id="key_2")
    revoked = keys.revoke_key(tx, account_id="acct_1", key_id="key_1", actor="key_9", now_ms=2000)
    assert revoked == msgspec.structs.replace(key, revoked_at_ms=2000)
    assert keys.find_key(tx, hash_api_key(TEST_KEY)) is None
    assert keys.list_keys(tx, "acct_1", 2000) == [before, revoked, after]
    assert keys.list_keys(tx, "acct_1", 2001) == [before, after]


def test_revoking_twice_changes_nothing(tx: sqlite3.Connection) -> None:
    make(tx)
    first = keys.revoke_key(tx, account_id="acct_1", key_id="key_1", actor="cli", now_ms=2000)
    assert keys.revoke_key(tx, account_id="acct_1", key_id="key_1", actor="cli", now_ms=3000) == first
    assert [act for _, _, act, _ in audit(tx)] == ["key.create", "key.revoke"]


def test_nobody_revokes_another_accounts_key(tx: sqlite3.Connection) -> None:
    make(tx)
    with pytest.raises(NotFound, match="payd key list"):
        keys.revoke_key(tx, account_id="acct_2", key_id="key_1", actor="cli", now_ms=2000)
    assert keys.find_key(tx, hash_api_key(TEST_KEY)) is not None


def test_each_act_leaves_its_audit_row_without_the_key(tx: sqlite3.Connection) -> None:
    make(tx, scopes=["gateway"])
    keys.revoke_key(tx, account_id="acct_1", key_id="key_1", actor="key_9", now_ms=2000)
    assert audit(tx) == [
        ("acct_1", "cli", "key.create", "key_1"),
        ("acct_1", "key_9", "key.revoke", "key_1"),
    ]
    (details,) = tx.execute("SELECT details FROM audit WHERE act = 'key.create'").fetchone()
    assert json.loads(details) == {
        "name": "backend",
        "last4": TEST_KEY[-4:],
        "scopes": "gateway",
        "merchants": None,
    }


def test_keys_are_listed_for_one_account_oldest_first(tx: sqlite3.Connection) -> None:
    for n in (2, 1, 3):
        api_key = make_api_key("test", bytes([n]) * KEY_ENTROPY_BYTES)
        make(tx, api_key, key_id=f"key_{n}", account_id="acct_2" if n == 3 else "acct_1")
    assert [key.id for key in keys.list_keys(tx, "acct_1")] == ["key_1", "key_2"]


def test_there_is_an_end_to_active_keys(tx: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "KEYS_MAX", 1)
    make(tx, make_api_key("test", b"o" * KEY_ENTROPY_BYTES), key_id="key_3", account_id="acct_2")
    make(tx)
    with pytest.raises(InvalidParams, match="Revoke one"):
        make(tx, LIVE_KEY, key_id="key_2")
    keys.revoke_key(tx, account_id="acct_1", key_id="key_1", actor="cli", now_ms=2000)
    assert make(tx, LIVE_KEY, key_id="key_2").id == "key_2"


def test_a_key_needs_a_name_for_people(tx: sqlite3.Connection) -> None:
    with pytest.raises(InvalidParams, match="printable"):
        make(tx, name="")


def test_keys_of_listeners_are_found_in_every_account_and_no_other_has_their_name(
    tx: sqlite3.Connection,
) -> None:
    def listener(number: int, account_id: str = "acct_1", **more: Any) -> Key:
        return keys.insert_key(
            tx,
            key_id=f"key_{number}",
            account_id=account_id,
            api_key=make_api_key("test", bytes([number]) * KEY_ENTROPY_BYTES),
            name=keys.LISTENER,
            actor="cli",
            now_ms=9,
            is_listener=True,
            **{"scopes": keys.LISTENER_SCOPES, "merchants": None} | more,
        )

    with pytest.raises(InvalidParams, match="payd listen is the name of keys that it makes for itself"):
        make(tx, key_id="key_0", name=keys.LISTENER, scopes=keys.LISTENER_SCOPES)
    made = [listener(1), listener(2, "acct_2")]
    # As an earlier payd let people name them.
    listener(3, scopes=SCOPES)
    listener(4, merchants=["mrch_1"])
    make(tx, key_id="key_5", scopes=keys.LISTENER_SCOPES)
    assert keys.listener_keys(tx) == made
    keys.revoke_key(tx, account_id="acct_1", key_id="key_1", actor="cli", now_ms=9)
    assert keys.listener_keys(tx) == made[1:]
