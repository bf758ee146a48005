"""Hashes of passwords: what they cost, that they fit, and that many at once wait."""

from __future__ import annotations

import pytest
import trio

from payd.core.errors import RateLimited
from payd.entropy import system_entropy
from payd.web.passwords import AT_ONCE, WAITING_MAX, Passwords

PASSWORD = "correct mule battery"


async def test_a_hash_fits_its_password_alone_and_has_a_salt_of_its_own() -> None:
    passwords = Passwords(system_entropy, inline=True)
    one, other = await passwords.hash(PASSWORD), await passwords.hash(PASSWORD)
    assert one != other
    assert await passwords.verify(one, PASSWORD)
    for wrong in ("", PASSWORD + " ", PASSWORD.upper(), "\udce9"):
        assert not await passwords.verify(one, wrong)


async def test_what_is_no_hash_fits_nothing() -> None:
    passwords = Passwords(system_entropy, inline=True)
    for broken in ("", "-", "$argon2id$v=19$m=8,t=1,p=1$", "x" * 100):
        assert not await passwords.verify(broken, PASSWORD)
    assert not await passwords.verify(None, PASSWORD)


async def test_nobodys_password_is_compared_with_a_hash_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def fits(made: str, _password: str) -> bool:
        compared.append(made)
        return True

    monkeypatch.setattr("payd.web.passwords._verify", fits)
    passwords = Passwords(system_entropy, inline=True)
    assert not await passwords.verify(None, PASSWORD)
    assert not await passwords.verify(None, PASSWORD)
    assert compared[0] == compared[1]
    assert compared[0].startswith("$argon2id$v=19$m=8,t=1,p=1$")


@pytest.mark.real_time
async def test_it_costs_what_is_asked_for_at_least_and_as_much_for_nobody() -> None:
    passwords = Passwords(system_entropy)
    made = await passwords.hash(PASSWORD)
    assert made.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert await passwords.verify(made, PASSWORD)
    assert not await passwords.verify(None, PASSWORD)
    assert passwords._nobodys.startswith("$argon2id$v=19$m=19456,t=2,p=1$")


@pytest.mark.real_time
async def test_the_loop_goes_on_while_a_few_are_made_and_too_many_are_turned_away() -> None:
    passwords = Passwords(system_entropy)
    made: list[str] = []
    refused = 0
    ticks = 0

    async def one() -> None:
        nonlocal refused
        try:
            made.append(await passwords.hash(PASSWORD))
        except RateLimited:
            refused += 1

    async with trio.open_nursery() as nursery:
        for _ in range(WAITING_MAX + 3):
            nursery.start_soon(one)
        while len(made) < AT_ONCE:
            ticks += 1
            await trio.sleep(0.001)
        nursery.cancel_scope.cancel()
    assert refused == 3
    assert ticks > 1
