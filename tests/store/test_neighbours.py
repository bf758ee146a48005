"""What is done to one person or account leaves every row of the others as it was, and shows none of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path

import pytest

from payd.core.collect import Field
from payd.core.errors import NotFound
from payd.core.ids import make_api_key
from payd.core.roles import Role
from payd.store.accounts import Account, insert_account, rename_account
from payd.store.apps import insert_app, revoke_app
from payd.store.db import Database, Tx, open_database
from payd.store.deliveries import bring_back, pending_heads, postpone, requeue
from payd.store.endpoints import delete_endpoint, rotate_secret, switch_endpoint
from payd.store.keys import insert_key, revoke_key
from payd.store.links import Link, drop_resets, insert_link, list_invitations, take_back_of, use_link
from payd.store.logos import delete_logo, put_picture, wish_copy
from payd.store.merchants import Merchant, delete_merchant, fields_asked, insert_merchant, update_merchant
from payd.store.origins import replace_origins
from payd.store.second_factors import (
    Passkey,
    drop_factors,
    factors_of,
    insert_passkey,
    list_passkeys,
    put_recovery_codes,
    remove_passkey,
    set_app,
    use_app,
    use_passkey,
    use_recovery_code,
    users_with_factor,
)
from payd.store.self_check import row_counts
from payd.store.sessions import (
    SESSIONS_MAX,
    Session,
    end_session,
    end_sessions,
    find_session,
    insert_session,
    renew_session,
    show_account,
    touch_session,
)
from payd.store.users import User, insert_user, put_membership, remove_membership, set_password
from payd.store.webhook_jobs import advance_job, cancel_job, find_job, list_jobs, start_job
from tests.store.test_deliveries import happen, register

# Of everything there are two: one that all is done to, and the other's, which has this in its name.
OTHERS = "_2"


def others(db: Database) -> dict[str, list[tuple[object, ...]]]:
    """Every row that names something of the other's."""

    def read(tx: Tx) -> dict[str, list[tuple[object, ...]]]:
        return {
            table: [
                row
                for row in tx.execute(f"SELECT * FROM {table}").fetchall()
                if any(isinstance(value, str) and value.endswith(OTHERS) for value in row)
            ]
            for table in row_counts(tx)
        }

    return db.point(read)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(tmp_path / "office.db", "office", inline=True) as db:
        for number in (1, 2):
            await db.write(settle_in, number)
        yield db


def settle_in(tx: Tx, number: int) -> None:
    account, user, mark = f"acct_{number}", f"usr_{number}", bytes([number])
    insert_account(tx, Account(account, f"Shop {number}", "2026-02-18", 0))
    insert_user(tx, User(user, f"u{number}@example.com", "-", 0, None, 0))
    put_membership(tx, account_id=account, user_id=user, role=Role.OWNER, actor="cli", now_ms=0)
    # The other's is the older: what makes room for one's own could take it.
    insert_session(tx, Session(f"ses_{number}", user, account, "test", 9, 9 - number, 9, "", ""), mark)
    insert_passkey(tx, Passkey(f"pk_{number}", user, mark, b"", 0, "key", 0))
    put_recovery_codes(tx, user, [mark])
    set_app(tx, user, b"sealed", 5)
    insert_link(tx, invitation(number), mark)
    insert_link(tx, Link(f"res_{number}", "reset", None, user, None, None, user, 0, 99), b"r" + mark)


def invitation(number: int) -> Link:
    account, user = f"acct_{number}", f"usr_{number}"
    return Link(f"inv_{number}", "invite", account, None, Role.VIEWER, None, user, 0, 99)


def live_a_life(tx: Tx) -> None:
    """All that is ever done to a person, and by them."""
    assert use_passkey(tx, "pk_1", 7, b"challenge", 99, 10)
    assert use_app(tx, "usr_1", 6)
    assert use_recovery_code(tx, "usr_1", b"\1", 10)
    assert not use_recovery_code(tx, "usr_1", b"\2", 10)
    assert not remove_passkey(tx, "usr_1", "pk_2")
    assert remove_passkey(tx, "usr_1", "pk_1")
    put_recovery_codes(tx, "usr_1", [b"new"])
    set_app(tx, "usr_1", b"another", 7)
    touch_session(tx, "ses_1", 10, mode="live")
    show_account(tx, "ses_1", "acct_1")
    assert renew_session(tx, "ses_1", b"renewed", 10)
    assert not end_session(tx, "usr_1", "ses_2")
    for number in range(SESSIONS_MAX):
        token = f"token {number}".encode()
        insert_session(tx, Session(f"ses_{number}m", "usr_1", "acct_1", "test", 9, 9, 9, "", ""), token)
    assert end_session(tx, "usr_1", "ses_3m")
    end_sessions(tx, "usr_1")
    insert_link(tx, Link("set_1", "setup", None, None, None, None, "cli", 0, 99), b"setup")
    insert_link(tx, Link("res_1b", "reset", None, "usr_1", None, None, "cli", 0, 99), b"reset")
    use_link(tx, "invite", b"\1", 10)
    take_back_of(tx, "acct_1", "usr_1")
    drop_resets(tx, "usr_1")
    set_password(tx, "usr_1", "hash", 10)
    drop_factors(tx, "usr_1")
    rename_account(tx, "acct_1", "Another", actor="cli", now_ms=10)


async def test_what_a_person_does_and_leaves_is_their_own(office: Database) -> None:
    before = others(office)
    await office.write(live_a_life)
    await office.write(insert_user, User("usr_3", "u3@example.com", "-", 0, None, 0))
    await office.write(insert_session, Session("ses_3", "usr_3", "acct_1", "test", 9, 9, 9, "", ""), b"\3")
    for user, role in (("usr_3", Role.OWNER), ("usr_1", Role.VIEWER)):
        await office.write(
            put_membership, account_id="acct_1", user_id=user, role=role, actor="cli", now_ms=10
        )
    await office.write(remove_membership, account_id="acct_1", user_id="usr_1", actor="cli", now_ms=10)
    assert others(office) == before
    colleague = office.point(find_session, b"\3", 9)
    assert colleague is not None
    assert (colleague.user.id, colleague.role) == ("usr_3", Role.OWNER)
    assert all(rows or table not in ("sessions", "links", "passkeys") for table, rows in before.items())


async def test_a_person_is_shown_what_is_their_own(office: Database) -> None:
    [first, second] = [office.point(find_session, bytes([number]), 9) for number in (1, 2)]
    assert first is not None
    assert second is not None
    assert (first.user.id, second.user.id) == ("usr_1", "usr_2")
    assert [one.id for one in office.point(list_passkeys, "usr_1")] == ["pk_1"]
    assert [one.id for one in office.point(list_invitations, "acct_1", 9)] == ["inv_1"]
    await office.write(drop_factors, "usr_1")
    assert office.point(factors_of, "usr_1") == (False, 0, 0)
    assert office.point(factors_of, "usr_2") == (True, 1, 1)
    assert [office.point(users_with_factor, f"acct_{number}") for number in (1, 2)] == [set(), {"usr_2"}]


async def test_a_session_shows_no_account_that_its_person_has_no_part_in(office: Database) -> None:
    await office.write(show_account, "ses_1", "acct_2")
    assert office.point(find_session, b"\1", 9) is None


@pytest.fixture
async def realm(realm_db: Database) -> Database:
    for number in (1, 2):
        await register(realm_db, f"acct_{number}", f"ep_{number}")
        for event, state in ((10 * number, "pending"), (10 * number + 1, "failed")):
            await happen(realm_db, event, account_id=f"acct_{number}")
            await realm_db.write(name_delivery, event, f"dlv_{state}_{number}", state)
        await realm_db.write(open_shop, number)
    return realm_db


def name_delivery(tx: Tx, event: int, delivery_id: str, state: str) -> None:
    tx.execute(
        "UPDATE deliveries SET id = ?, state = ?, next_at_ms = iif(? = 'pending', next_at_ms, NULL)"
        " WHERE id = ?",
        (delivery_id, state, state, f"dlv_{event}"),
    )


def open_shop(tx: Tx, number: int) -> None:
    account, merchant = f"acct_{number}", f"mrch_{number}"
    insert_merchant(tx, Merchant(merchant, account, "Shop", "a@b.example", None, "active", 0))
    put_picture(tx, merchant, bytes([number]))
    replace_origins(tx, merchant, ["https://shop.example"])
    insert_key(
        tx,
        key_id=f"key_{number}",
        account_id=account,
        api_key=make_api_key("test", bytes([number]) * 32),
        name="backend",
        scopes=None,
        merchants=None,
        actor="cli",
        now_ms=0,
    )
    insert_app(tx, app_id=f"app_{number}", account_id=account, name="wallet", actor="cli", now_ms=0)
    for kind in ("recover", "replay-missing"):
        start_job(
            tx,
            job_id=f"job_{kind[:3]}_{number}",
            account_id=account,
            kind=kind,
            since_ms=0,
            now_ms=10,
        )


def fresh_ids() -> Callable[[str], str]:
    numbers = count(1_000)
    return lambda prefix: f"{prefix}{next(numbers)}"


def run_a_shop(tx: Tx) -> None:
    """All that is ever done to an account, and by it."""
    shop = Merchant("mrch_1", "acct_1", "Another", "c@d.example", None, "inactive", 0)
    update_merchant(tx, shop)
    replace_origins(tx, "mrch_1", ["https://another.example"])
    wish_copy(tx, "mrch_1", "https://another.example/logo.png", 10)
    put_picture(tx, "mrch_1", b"picture")
    delete_logo(tx, "mrch_1")
    delete_merchant(tx, "acct_1", "mrch_1", 10)
    revoke_key(tx, account_id="acct_1", key_id="key_1", actor="cli", now_ms=10)
    revoke_app(tx, account_id="acct_1", app_id="app_1", actor="cli", now_ms=10)
    advance_job(tx, "job_rec_1", 10, fresh_ids())
    postpone(tx, "dlv_pending_1", 50)
    bring_back(tx, pending_heads(tx, "ep_1", 0, 9), 10)
    cancel_job(tx, "acct_1", "job_rec_1")
    while advance_job(tx, "job_rec_1", 10, fresh_ids()):
        pass
    requeue(tx, "dlv_failed_1", 10)
    rotate_secret(tx, endpoint_id="ep_1", account_id="acct_1", sealed=b"new", now_ms=10, actor="cli")
    for act_by_name in ("pause", "disable", "enable"):
        switch_endpoint(tx, account_id="acct_1", act=act_by_name, now_ms=10, actor="cli")
    delete_endpoint(tx, account_id="acct_1", now_ms=10, actor="cli")


async def test_what_an_account_does_and_deletes_is_its_own(realm: Database) -> None:
    before = others(realm)
    await realm.write(run_a_shop)
    assert others(realm) == before
    tables = {table for table, rows in before.items() if rows}
    assert tables >= {"deliveries", "endpoints", "endpoint_secrets", "logos", "merchants", "webhook_jobs"}


async def test_an_account_ends_nothing_of_anothers(realm: Database) -> None:
    before = others(realm)
    for refused in (
        lambda tx: revoke_key(tx, account_id="acct_1", key_id="key_2", actor="cli", now_ms=10),
        lambda tx: revoke_app(tx, account_id="acct_1", app_id="app_2", actor="cli", now_ms=10),
        lambda tx: cancel_job(tx, "acct_1", "job_rec_2"),
    ):
        with pytest.raises(NotFound):
            await realm.write(refused)
    assert others(realm) == before


async def test_an_account_is_shown_what_is_its_own(realm: Database) -> None:
    email = (Field("email", "text", "E-mail"),)
    await realm.write(
        update_merchant, Merchant("mrch_1", "acct_1", "Shop", "a@b.example", None, "active", 0, email)
    )
    assert [realm.point(fields_asked, f"mrch_{number}") for number in (1, 2)] == [email, ()]
    assert [job.id for job in realm.point(list_jobs, "acct_1")] == ["job_rep_1", "job_rec_1"]
    assert realm.point(find_job, "acct_1", "job_rec_2") is None
