"""Accounts have names that nobody else has, and the only one there is need not be named."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import payd
from payd.core.errors import ApiVersionDowngrade, InvalidParams, NotFound
from payd.core.version import DEFAULT
from payd.store import accounts
from payd.store.accounts import Account
from payd.store.audit import list_audit

OFFICE = Path(payd.__file__).parent / "store/migrations/office"


@pytest.fixture
def tx() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    for migration in sorted(OFFICE.glob("*.sql")):
        connection.executescript(migration.read_text())
    yield connection
    connection.close()


def make(tx: sqlite3.Connection, name: str, n: int = 1) -> Account:
    return accounts.insert_account(tx, Account(f"acct_{n}", name, DEFAULT, 1000 + n))


def test_an_account_is_found_by_its_id(tx: sqlite3.Connection) -> None:
    account = make(tx, "main")
    assert accounts.find_account(tx, "acct_1") == account == Account("acct_1", "main", DEFAULT, 1001)
    assert accounts.find_account(tx, "acct_2") is None


def test_a_name_belongs_to_one_account(tx: sqlite3.Connection) -> None:
    make(tx, "main")
    with pytest.raises(InvalidParams, match="an account named main"):
        make(tx, "main", 2)
    assert len(accounts.list_accounts(tx)) == 1


@pytest.mark.parametrize("name", ["", " ", " main", "main ", "two\nlines", "a\x00b", "n" * 101])
def test_a_name_that_cannot_be_shown_on_one_line_is_refused(tx: sqlite3.Connection, name: str) -> None:
    with pytest.raises(InvalidParams, match="1 to 100 printable characters"):
        make(tx, name)


@pytest.mark.parametrize("name", ["a", "Ünïcode & Söhne", "n" * 100])
def test_a_name_on_one_line_is_taken_as_it_is(tx: sqlite3.Connection, name: str) -> None:
    assert make(tx, name).name == name


def test_the_only_account_need_not_be_named(tx: sqlite3.Connection) -> None:
    account = make(tx, "main")
    assert accounts.choose_account(tx, None) == account


def test_one_of_several_must_be_named(tx: sqlite3.Connection) -> None:
    make(tx, "one", 1)
    two = make(tx, "two", 2)
    with pytest.raises(InvalidParams, match="--account NAME"):
        accounts.choose_account(tx, None)
    assert accounts.choose_account(tx, "two") == accounts.choose_account(tx, "acct_2") == two


def test_without_an_account_the_way_to_make_one_is_said(tx: sqlite3.Connection) -> None:
    with pytest.raises(NotFound, match="payd account create NAME"):
        accounts.choose_account(tx, None)


def test_an_unknown_account_is_not_found(tx: sqlite3.Connection) -> None:
    make(tx, "main")
    with pytest.raises(NotFound, match="no account other"):
        accounts.choose_account(tx, "other")


def test_accounts_are_listed_oldest_first(tx: sqlite3.Connection) -> None:
    names = ["c", "a", "b"]
    for n, name in enumerate(names):
        make(tx, name, n)
    assert [account.name for account in accounts.list_accounts(tx)] == names


def test_there_is_an_end_to_accounts(tx: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "ACCOUNTS_MAX", 1)
    make(tx, "one")
    with pytest.raises(InvalidParams, match="more cannot be made"):
        make(tx, "two", 2)


def audited(tx: sqlite3.Connection) -> list[tuple[str, str, dict[str, str]]]:
    return [(act.actor, act.act, act.details) for act in list_audit(tx, "acct_1", None, 9)]


def test_a_new_name_is_audited_and_refused_like_a_first_one(tx: sqlite3.Connection) -> None:
    make(tx, "main")
    make(tx, "other", 2)
    renamed = accounts.rename_account(tx, "acct_1", "Shop", actor="usr_1", now_ms=5)
    assert accounts.find_account(tx, "acct_1") == renamed == Account("acct_1", "Shop", DEFAULT, 1001)
    accounts.rename_account(tx, "acct_1", "Shop", actor="usr_1", now_ms=6)
    for name, words in (("other", "an account named other"), ("", "printable"), ("a\n", "printable")):
        with pytest.raises(InvalidParams, match=words):
            accounts.rename_account(tx, "acct_1", name, actor="usr_1", now_ms=7)
    with pytest.raises(NotFound):
        accounts.rename_account(tx, "acct_9", "x", actor="usr_1", now_ms=8)
    assert audited(tx) == [("usr_1", "account.rename", {"from": "main", "to": "Shop"})]


def test_a_newer_version_is_audited_and_an_older_one_refused(tx: sqlite3.Connection) -> None:
    make(tx, "main")
    versions = (DEFAULT, "2027-01-01")

    def move(version: str) -> Account:
        return accounts.move_account(tx, "acct_1", version, versions=versions, actor="usr_1", now_ms=5)

    accounts.insert_account(tx, Account("acct_9", "Another", DEFAULT, 0))
    assert move("2027-01-01").api_version == "2027-01-01"
    assert accounts.choose_account(tx, "acct_9").api_version == DEFAULT
    assert move("2027-01-01") == accounts.find_account(tx, "acct_1")
    with pytest.raises(ApiVersionDowngrade):
        move(DEFAULT)
    assert audited(tx) == [("usr_1", "account.version", {"from": DEFAULT, "to": "2027-01-01"})]
