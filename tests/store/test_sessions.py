"""Sessions as rows: found by their token, over in time, ended one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from payd.core.roles import Role
from payd.store.accounts import Account, insert_account
from payd.store.db import Database, open_database
from payd.store.sessions import (
    IDLE_MS,
    LIFETIME_MS,
    SESSIONS_MAX,
    USER_AGENT_MAX,
    Session,
    end_session,
    end_sessions,
    find_session,
    has_session,
    insert_session,
    list_sessions,
    prune_sessions,
    renew_session,
    show_account,
    touch_session,
)
from payd.store.users import User, insert_user, put_membership

NOW = 1_780_000_000_000


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(tmp_path / "office.db", "office", inline=True) as db:
        await db.write(insert_account, Account("acct_1", "Shop", "2026-02-18", 0))
        for number in (1, 2):
            await db.write(insert_user, User(f"usr_{number}", f"u{number}@example.com", "-", 0, None, 0))
            await db.write(
                put_membership,
                account_id="acct_1",
                user_id=f"usr_{number}",
                role=Role.OWNER,
                actor="cli",
                now_ms=0,
            )
        yield db


def session(name: str, user: int = 1, at_ms: int = NOW, agent: str = "a browser") -> Session:
    return Session(f"ses_{name}", f"usr_{user}", "acct_1", "test", at_ms, at_ms, at_ms, "203.0.113.7", agent)


async def test_a_session_is_found_by_the_hash_of_its_token_alone(office: Database) -> None:
    made = await office.write(insert_session, session("1"), b"hash")
    found = office.point(find_session, b"hash", NOW)
    assert found is not None
    assert (found.session, found.user.id, found.role) == (made, "usr_1", Role.OWNER)
    assert office.point(find_session, b"ses_1", NOW) is None


async def test_it_is_over_after_hours_of_rest_and_after_days_whatever_happens(office: Database) -> None:
    await office.write(insert_session, session("1"), b"hash")
    assert office.point(find_session, b"hash", NOW + IDLE_MS - 1)
    assert office.point(find_session, b"hash", NOW + IDLE_MS) is None
    for step in range(1, LIFETIME_MS // IDLE_MS * 2):
        at_ms = NOW + step * IDLE_MS // 2
        await office.write(touch_session, "ses_1", at_ms, mode="live")
    assert office.point(find_session, b"hash", NOW + LIFETIME_MS - 1)
    assert office.point(find_session, b"hash", NOW + LIFETIME_MS) is None


async def test_another_token_takes_the_place_of_the_one_before(office: Database) -> None:
    await office.write(insert_session, session("1"), b"old")
    assert await office.write(renew_session, "ses_1", b"new", NOW + 5)
    assert office.point(find_session, b"old", NOW + 5) is None
    found = office.point(find_session, b"new", NOW + 5)
    assert found is not None
    assert found.session.proved_at_ms == NOW + 5
    assert not await office.write(renew_session, "ses_2", b"none", NOW)


async def test_each_is_listed_and_ended_by_its_own_person_only(office: Database) -> None:
    for name in ("1", "2", "3"):
        await office.write(insert_session, session(name, at_ms=NOW + int(name)), name.encode())
    await office.write(insert_session, session("4", user=2), b"4")
    assert [one.id for one in office.point(list_sessions, "usr_1", NOW)] == ["ses_3", "ses_2", "ses_1"]
    assert not await office.write(end_session, "usr_1", "ses_4")
    assert [office.point(has_session, f"ses_{name}") for name in ("4", "5")] == [True, False]
    assert await office.write(end_session, "usr_1", "ses_2")
    assert await office.write(end_sessions, "usr_1", but="ses_3") == 1
    assert [one.id for one in office.point(list_sessions, "usr_1", NOW)] == ["ses_3"]
    assert await office.write(end_sessions, "usr_1") == 1
    assert len(office.point(list_sessions, "usr_2", NOW)) == 1


async def test_one_person_has_so_many_at_most(office: Database) -> None:
    """The one that was used longest ago makes room."""
    await office.write(insert_session, session("old", at_ms=NOW - 1), b"old")
    await office.write(touch_session, "ses_old", NOW + 999, mode="live")
    for number in range(SESSIONS_MAX + 3):
        await office.write(insert_session, session(str(number), at_ms=NOW + number), b"%d" % number)
    kept = office.point(list_sessions, "usr_1", NOW)
    newest = [f"ses_{number}" for number in reversed(range(4, SESSIONS_MAX + 3))]
    assert [one.id for one in kept] == ["ses_old", *newest]
    assert (kept[0].mode, kept[1].mode) == ("live", "test")


async def test_what_is_done_to_one_changes_no_other(office: Database) -> None:
    for number in range(SESSIONS_MAX):
        await office.write(insert_session, session(f"theirs{number}", user=2), b"t%d" % number)
    for name in ("before", "it", "after"):
        await office.write(insert_session, session(name), name.encode())

    await office.write(touch_session, "ses_it", NOW + 5, mode="live")
    await office.write(show_account, "ses_it", "acct_2")
    assert await office.write(renew_session, "ses_it", b"new", NOW + 7)

    it, after, before = office.point(list_sessions, "usr_1", NOW)
    assert (it.id, it.mode, it.seen_at_ms, it.account_id) == ("ses_it", "live", NOW + 5, "acct_2")
    assert [after, before] == [session("before"), session("after")]
    theirs = office.point(list_sessions, "usr_2", NOW)
    assert set(theirs) == {session(f"theirs{number}", user=2) for number in range(SESSIONS_MAX)}


async def test_what_a_browser_says_of_itself_is_cut(office: Database) -> None:
    await office.write(insert_session, session("1", agent="x" * 5000), b"hash")
    assert len(office.point(list_sessions, "usr_1", NOW)[0].user_agent) == USER_AGENT_MAX


async def test_old_ones_are_forgotten_a_few_at_a_time(office: Database) -> None:
    for number in range(5):
        await office.write(insert_session, session(str(number), at_ms=NOW + number), b"%d" % number)
    assert await office.write(prune_sessions, NOW + 4, 3) == 3
    assert await office.write(prune_sessions, NOW + 4, 3) == 1
    assert await office.write(prune_sessions, NOW + 4, 3) == 0
