"""People and their part in accounts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from payd.core.errors import InvalidParams
from payd.core.roles import Role
from payd.store import users
from payd.store.accounts import Account, insert_account
from payd.store.db import Database, Tx, open_database
from payd.store.links import Link, find_link, insert_link
from payd.store.sessions import Session, insert_session, list_sessions
from payd.store.users import (
    User,
    accounts_of,
    find_user,
    find_user_by_email,
    insert_user,
    is_anyone,
    list_members,
    put_membership,
    remove_membership,
    role_in,
    set_password,
)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(tmp_path / "office.db", "office", inline=True) as db:
        for number in (1, 2):
            await db.write(insert_account, Account(f"acct_{number}", f"Shop {number}", "2026-02-18", 0))
        yield db


def user(number: int) -> User:
    return User(f"usr_{number}", f"u{number}@example.com", "$argon2id$", number, None, number)


async def join(office: Database, number: int, role: Role, account: int = 1, at_ms: int = 5) -> None:
    await office.write(
        put_membership,
        account_id=f"acct_{account}",
        user_id=f"usr_{number}",
        role=role,
        actor="cli",
        now_ms=at_ms,
    )


def audit(tx: Tx) -> list[tuple[str, str, str]]:
    return [*tx.execute("SELECT act, subject, details FROM audit ORDER BY seq")]


async def test_a_person_is_found_by_id_and_by_email(office: Database) -> None:
    assert not office.point(is_anyone)
    made = await office.write(insert_user, user(1))
    assert office.point(find_user, "usr_1") == made
    assert office.point(find_user_by_email, "u1@example.com") == made
    assert office.point(find_user, "usr_2") is None
    assert office.point(is_anyone)


async def test_an_email_is_one_persons(office: Database) -> None:
    await office.write(insert_user, user(1))
    with pytest.raises(InvalidParams, match="u1@example"):
        await office.write(insert_user, User("usr_9", "u1@example.com", "-", 1, None, 1))


async def test_a_part_in_an_account_is_given_changed_and_audited(office: Database) -> None:
    for number in (1, 2):
        await office.write(insert_user, user(number))
    await join(office, 1, Role.OWNER)
    await join(office, 2, Role.VIEWER)
    await join(office, 2, Role.SUPPORT)
    assert office.point(role_in, "acct_1", "usr_2") is Role.SUPPORT
    assert office.point(role_in, "acct_2", "usr_2") is None
    assert [(one.user.id, one.role) for one in office.point(list_members, "acct_1")] == [
        ("usr_1", Role.OWNER),
        ("usr_2", Role.SUPPORT),
    ]
    assert office.point(audit)[-1] == ("user.role", "usr_2", '{"before": "viewer", "role": "support"}')


async def test_an_account_has_so_many_people_whatever_others_have(
    office: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "USERS_MAX", 2)
    for number in (1, 2, 3):
        await office.write(insert_user, user(number))
        await join(office, number, Role.OWNER, 1 if number == 3 else 2)
    await join(office, 2, Role.OWNER)
    with pytest.raises(InvalidParams, match="2 users at most"):
        await join(office, 1, Role.VIEWER)
    await join(office, 3, Role.VIEWER)


async def test_another_password_is_one_persons(office: Database) -> None:
    for number in (1, 2):
        await office.write(insert_user, user(number))
    await office.write(set_password, "usr_1", "another", 9)
    found = [office.point(find_user, f"usr_{number}") for number in (1, 2)]
    assert [(one.password_hash, one.password_set_at_ms) for one in found if one] == [
        ("another", 9),
        ("$argon2id$", 2),
    ]


async def test_the_last_owner_stays_one(office: Database) -> None:
    for number in (1, 2):
        await office.write(insert_user, user(number))
    await join(office, 1, Role.OWNER)
    await join(office, 2, Role.DEVELOPER)
    await join(office, 2, Role.OWNER, 2)
    with pytest.raises(InvalidParams, match="only owner"):
        await join(office, 1, Role.VIEWER)
    await join(office, 2, Role.OWNER)
    await join(office, 1, Role.VIEWER)
    assert office.point(role_in, "acct_1", "usr_1") is Role.VIEWER


async def test_a_person_has_a_part_in_several_accounts(office: Database) -> None:
    await office.write(insert_user, user(1))
    await join(office, 1, Role.OWNER, 2, at_ms=1)
    await join(office, 1, Role.VIEWER, 1, at_ms=2)
    assert office.point(accounts_of, "usr_1") == [("acct_2", "Shop 2"), ("acct_1", "Shop 1")]
    assert office.point(list_members, "acct_1")[0].since_ms == 2


async def test_who_is_removed_is_signed_out_there_and_in_the_end_forgotten(office: Database) -> None:
    for number in (1, 2):
        await office.write(insert_user, user(number))
    for account in (1, 2):
        await join(office, 1, Role.OWNER, account)
        await join(office, 2, Role.VIEWER, account)
        session = Session(f"ses_{account}", "usr_2", f"acct_{account}", "test", 0, 0, 0, "", "")
        await office.write(insert_session, session, bytes([account]))
    link = Link("lnk_1", "reset", None, "usr_2", None, None, "cli", 0, 9)
    await office.write(insert_link, link, b"token")

    async def remove(account: int) -> None:
        await office.write(
            remove_membership, account_id=f"acct_{account}", user_id="usr_2", actor="usr_1", now_ms=6
        )

    await remove(1)
    assert [one.id for one in office.point(list_sessions, "usr_2", 0)] == ["ses_2"]
    await remove(2)
    assert office.point(find_user, "usr_2") is None
    assert office.point(list_sessions, "usr_2", 0) == []
    assert office.point(find_link, "reset", b"token", 0) is None
