"""Tries to sign in, as rows."""

from __future__ import annotations

from payd.store.db import Database
from payd.store.sign_ins import EMAIL_MAX, SignIn, insert_sign_in, list_sign_ins, prune_sign_ins


def one(at_ms: int, user_id: str | None = "usr_1") -> SignIn:
    return SignIn(at_ms, user_id, "a@example.com", "password", "refused", "203.0.113.7", "a browser")


async def test_a_persons_tries_are_listed_newest_first_and_nobody_elses(office: Database) -> None:
    for sign_in in (one(1), one(2, "usr_2"), one(3, None), one(4)):
        await office.write(insert_sign_in, sign_in)
    assert office.point(list_sign_ins, "usr_1", 10) == [one(4), one(1)]
    assert office.point(list_sign_ins, "usr_1", 1) == [one(4)]


async def test_what_strangers_type_is_cut(office: Database) -> None:
    await office.write(insert_sign_in, one(1)._replace(email="x" * 5000, user_agent="y" * 5000))
    [stored] = office.point(list_sign_ins, "usr_1", 1)
    assert len(stored.email) == EMAIL_MAX
    assert len(stored.user_agent) == 300


async def test_old_ones_are_forgotten_a_few_at_a_time(office: Database) -> None:
    for at_ms in range(5):
        await office.write(insert_sign_in, one(at_ms))
    assert [await office.write(prune_sign_ins, 4, 3) for _ in range(3)] == [3, 1, 0]
