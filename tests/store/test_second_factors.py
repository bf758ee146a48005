"""Second factors as rows: each used once where it must be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from payd.core.errors import InvalidParams
from payd.core.roles import Role
from payd.store.db import Database, open_database
from payd.store.second_factors import (
    PASSKEYS_MAX,
    Factors,
    Passkey,
    app_step,
    drop_factors,
    factors_of,
    find_passkey,
    insert_passkey,
    list_passkeys,
    prune_challenges,
    put_recovery_codes,
    remove_passkey,
    set_app,
    use_app,
    use_passkey,
    use_recovery_code,
    users_with_factor,
)
from payd.store.users import User, insert_user, put_membership


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(tmp_path / "office.db", "office", inline=True) as db:
        for number in (1, 2):
            await db.write(insert_user, User(f"usr_{number}", f"u{number}@example.com", "-", 0, None, 0))
        yield db


def passkey(number: int, user: int = 1) -> Passkey:
    return Passkey(f"pky_{number}", f"usr_{user}", b"%d" % number, b"key", 0, f"Phone {number}", number)


async def test_a_code_of_an_app_is_used_once_and_none_before_it(office: Database) -> None:
    await office.write(set_app, "usr_1", b"sealed", 10)
    assert [await office.write(use_app, "usr_1", step) for step in (10, 11, 11, 9, 12)] == [
        False, True, False, False, True,
    ]  # fmt: skip
    assert office.point(app_step, "usr_1") == 12
    assert office.point(app_step, "usr_2") == 0


async def test_a_recovery_code_is_its_persons_and_used_once(office: Database) -> None:
    await office.write(put_recovery_codes, "usr_1", [b"a", b"b"])
    assert not await office.write(use_recovery_code, "usr_2", b"a", 5)
    assert await office.write(use_recovery_code, "usr_1", b"a", 5)
    assert not await office.write(use_recovery_code, "usr_1", b"a", 6)
    assert office.point(factors_of, "usr_1").recovery_codes == 1
    await office.write(put_recovery_codes, "usr_1", [b"c"])
    assert not await office.write(use_recovery_code, "usr_1", b"b", 7)


async def test_a_passkey_is_found_listed_and_removed_by_its_person_only(office: Database) -> None:
    made = [await office.write(insert_passkey, passkey(number)) for number in (1, 2)]
    assert office.point(find_passkey, b"1") == made[0]
    assert office.point(find_passkey, b"9") is None
    assert office.point(list_passkeys, "usr_1") == made
    assert not await office.write(remove_passkey, "usr_2", "pky_1")
    assert await office.write(remove_passkey, "usr_1", "pky_1")
    assert office.point(list_passkeys, "usr_1") == made[1:]


async def test_a_passkey_is_one_persons_and_there_are_so_many(office: Database) -> None:
    for number in range(PASSKEYS_MAX):
        await office.write(insert_passkey, passkey(number))
    with pytest.raises(InvalidParams, match="registered already"):
        await office.write(insert_passkey, passkey(1, user=2))
    with pytest.raises(InvalidParams, match="Remove one"):
        await office.write(insert_passkey, passkey(99))


async def test_a_challenge_is_answered_once(office: Database) -> None:
    await office.write(insert_passkey, passkey(1))
    assert await office.write(use_passkey, "pky_1", 7, b"challenge", 100, 50)
    assert not await office.write(use_passkey, "pky_1", 8, b"challenge", 100, 51)
    [stored] = office.point(list_passkeys, "usr_1")
    assert (stored.sign_count, stored.used_at_ms) == (7, 50)
    assert not await office.write(use_passkey, "pky_9", 1, b"other", 100, 52)
    assert await office.write(prune_challenges, 101, 10) == 2


async def test_all_of_it_can_be_taken_away(office: Database) -> None:
    await office.write(set_app, "usr_1", b"sealed", 10)
    await office.write(insert_passkey, passkey(1))
    await office.write(put_recovery_codes, "usr_1", [b"a"])
    assert office.point(factors_of, "usr_1") == Factors(True, 1, 1)
    await office.write(drop_factors, "usr_1")
    assert office.point(factors_of, "usr_1") == Factors(False, 0, 0)
    assert office.point(app_step, "usr_1") == 10
    assert office.point(factors_of, "usr_9") == Factors(False, 0, 0)


async def test_it_is_known_of_each_person_of_an_account_whether_there_is_one(office: Database) -> None:
    for number in (1, 2):
        await office.write(
            put_membership,
            account_id="acct_1",
            user_id=f"usr_{number}",
            role=Role.OWNER,
            actor="cli",
            now_ms=0,
        )
    assert office.point(users_with_factor, "acct_1") == set()
    await office.write(insert_passkey, passkey(1, user=2))
    assert office.point(users_with_factor, "acct_1") == {"usr_2"}
    await office.write(set_app, "usr_1", b"sealed", 0)
    assert office.point(users_with_factor, "acct_1") == {"usr_1", "usr_2"}
    assert office.point(users_with_factor, "acct_2") == set()


async def test_what_one_person_does_changes_nothing_of_anothers(office: Database) -> None:
    theirs = [passkey(number, user=2) for number in (8, 9)]
    for one in theirs:
        await office.write(insert_passkey, one)
    await office.write(set_app, "usr_2", b"sealed", 10)
    await office.write(put_recovery_codes, "usr_2", [b"a", b"b"])

    await office.write(set_app, "usr_1", b"mine", 20)
    assert await office.write(use_app, "usr_1", 21)
    await office.write(put_recovery_codes, "usr_1", [b"a"])
    assert await office.write(use_recovery_code, "usr_1", b"a", 5)
    for number in (1, 2):
        await office.write(insert_passkey, passkey(number))
    assert await office.write(use_passkey, "pky_1", 7, b"challenge", 100, 50)
    assert await office.write(remove_passkey, "usr_1", "pky_1")
    assert office.point(factors_of, "usr_1") == Factors(True, 1, 0)
    await office.write(drop_factors, "usr_1")

    assert office.point(factors_of, "usr_1") == Factors(False, 0, 0)
    assert office.point(factors_of, "usr_2") == Factors(True, 2, 2)
    assert office.point(list_passkeys, "usr_2") == theirs
    assert office.point(app_step, "usr_2") == 10
    assert await office.write(use_recovery_code, "usr_2", b"a", 6)


@pytest.mark.parametrize(
    ("factors", "is_any"),
    [
        (Factors(False, 0, 0), False),
        (Factors(False, 0, 10), False),
        (Factors(True, 0, 0), True),
        (Factors(False, 1, 0), True),
    ],
)
def test_an_app_or_one_passkey_is_a_second_factor_and_codes_alone_are_none(
    factors: Factors, is_any: bool
) -> None:
    assert factors.any == is_any
