"""An app id is found until it is revoked; the checkout page has one of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import payd
from payd.core.errors import InvalidParams, NotFound
from payd.store import apps
from payd.store.apps import App

REALM = Path(payd.__file__).parent / "store/migrations/realm/0001_initial.sql"


@pytest.fixture
def tx() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(REALM.read_text())
    yield connection
    connection.close()


def make(
    tx: sqlite3.Connection, app_id: str = "app_t1", account_id: str = "acct_1", name: str = "Wallet"
) -> App:
    return apps.insert_app(tx, app_id=app_id, account_id=account_id, name=name, actor="cli", now_ms=1000)


def acts(tx: sqlite3.Connection) -> list[tuple[str | None, str, str, str]]:
    return tx.execute("SELECT account_id, actor, act, subject FROM audit ORDER BY seq").fetchall()


def test_an_app_is_found_by_its_id(tx: sqlite3.Connection) -> None:
    app = make(tx)
    assert apps.find_app(tx, "app_t1") == app == App("app_t1", "acct_1", "Wallet", 1000)
    assert apps.find_app(tx, "app_t2") is None


def test_a_revoked_app_is_found_no_more_and_still_listed(tx: sqlite3.Connection) -> None:
    before, app, after = (make(tx, app_id) for app_id in ("app_t0", "app_t1", "app_t2"))
    revoked = apps.revoke_app(tx, account_id="acct_1", app_id="app_t1", actor="cli", now_ms=2000)
    assert revoked == msgspec.structs.replace(app, revoked_at_ms=2000)
    assert apps.find_app(tx, "app_t1") is None
    assert apps.list_apps(tx, "acct_1") == [before, revoked, after]


def test_revoking_twice_changes_nothing(tx: sqlite3.Connection) -> None:
    make(tx)
    first = apps.revoke_app(tx, account_id="acct_1", app_id="app_t1", actor="cli", now_ms=2000)
    assert apps.revoke_app(tx, account_id="acct_1", app_id="app_t1", actor="cli", now_ms=3000) == first


def test_nobody_revokes_another_accounts_app(tx: sqlite3.Connection) -> None:
    make(tx)
    with pytest.raises(NotFound, match="payd app list"):
        apps.revoke_app(tx, account_id="acct_2", app_id="app_t1", actor="cli", now_ms=2000)
    assert apps.find_app(tx, "app_t1") is not None


def test_each_act_leaves_its_audit_row(tx: sqlite3.Connection) -> None:
    make(tx)
    apps.revoke_app(tx, account_id="acct_1", app_id="app_t1", actor="key_1", now_ms=2000)
    apps.revoke_app(tx, account_id="acct_1", app_id="app_t1", actor="key_1", now_ms=2001)
    assert acts(tx) == [
        ("acct_1", "cli", "app.create", "app_t1"),
        ("acct_1", "key_1", "app.revoke", "app_t1"),
    ]


def test_apps_are_listed_for_one_account(tx: sqlite3.Connection) -> None:
    make(tx, "app_t2")
    make(tx, "app_t1")
    make(tx, "app_t3", "acct_2")
    assert [app.id for app in apps.list_apps(tx, "acct_1")] == ["app_t1", "app_t2"]


def test_the_checkout_page_gets_one_app_id_and_keeps_it(tx: sqlite3.Connection) -> None:
    make(tx, "app_t0")
    assert apps.ensure_checkout_app(tx, app_id="app_t1", now_ms=1) == "app_t1"
    assert apps.ensure_checkout_app(tx, app_id="app_t2", now_ms=2) == "app_t1"
    found = apps.find_app(tx, "app_t1")
    assert found is not None
    assert found.account_id is None
    assert apps.find_app(tx, "app_t2") is None


def test_no_account_sees_or_revokes_the_checkout_pages_app(tx: sqlite3.Connection) -> None:
    apps.ensure_checkout_app(tx, app_id="app_t1", now_ms=1)
    assert apps.list_apps(tx, "acct_1") == []
    with pytest.raises(NotFound):
        apps.revoke_app(tx, account_id="acct_1", app_id="app_t1", actor="cli", now_ms=2)


def test_there_is_an_end_to_active_apps(tx: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "APPS_MAX", 1)
    make(tx)
    with pytest.raises(InvalidParams, match="Revoke one"):
        make(tx, "app_t2")
    assert make(tx, "app_t3", "acct_2").id == "app_t3"
    apps.revoke_app(tx, account_id="acct_1", app_id="app_t1", actor="cli", now_ms=2)
    assert make(tx, "app_t2").id == "app_t2"


def test_an_app_needs_a_name_for_people(tx: sqlite3.Connection) -> None:
    with pytest.raises(InvalidParams, match="printable"):
        make(tx, name="\n")
