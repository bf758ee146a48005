"""Answers in the store: sealed for their payment, replaced, bounded, and forgotten when nobody needs them."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.collect import Answered
from payd.core.errors import RateLimited, SealBroken
from payd.core.payment import PaymentCancelled
from payd.entropy import system_entropy
from payd.store.collected import (
    HOLDERS_MAX,
    Collected,
    buyers_answers,
    holders_of,
    prune_collected,
    put_collected,
    sealed_answers,
    sort_collected,
)
from payd.store.db import Database
from payd.store.seal import KEY_BYTES, Seal
from tests.chains.evm.json import BUYER, OTHER_SHOP
from tests.till import START_MS, Till

SEAL = Seal(system_entropy(KEY_BYTES))
ADA = [Answered("fullName", "Full name", "Ada Lovelace")]
BUYERS = f"eip155:{BUYER.lower()}"
STRANGERS = f"eip155:{OTHER_SHOP.lower()}"


def row(
    payment: str, holder: str = BUYERS, *, at_ms: int = START_MS, answers: list[Answered] = ADA
) -> Collected:
    return Collected(payment, holder, sealed_answers(SEAL, payment, holder, answers), at_ms)


def test_answers_open_for_their_own_payment_and_holder_alone() -> None:
    kept = row("pay_l1")
    assert kept.open(SEAL) == ADA
    assert b"Ada" not in kept.sealed
    for moved in ({"payment_id": "pay_l2"}, {"holder": STRANGERS}):
        with pytest.raises(SealBroken):
            msgspec.structs.replace(kept, **moved).open(SEAL)
    with pytest.raises(SealBroken):
        kept.open(Seal(system_entropy(KEY_BYTES)))


async def test_the_newest_answers_of_a_holder_take_the_place_of_the_earlier_ones(realm_db: Database) -> None:
    till = await Till(realm_db).open()
    payment = await till.sell()
    await realm_db.write(put_collected, row(payment))
    fresh = row(payment, at_ms=START_MS + 1, answers=[Answered("fullName", "Full name", "Grace")])
    await realm_db.write(put_collected, fresh)
    assert till.count("collected") == 1
    await till.commit(payment)
    assert realm_db.point(buyers_answers, till.payment(payment)) == fresh


async def test_a_payment_has_answers_of_so_many_holders_and_those_there_may_still_change(
    realm_db: Database,
) -> None:
    for number in range(HOLDERS_MAX):
        await realm_db.write(put_collected, row("pay_l1", f"eip155:0x{number:040x}"))
    with pytest.raises(RateLimited):
        await realm_db.write(put_collected, row("pay_l1"))
    await realm_db.write(put_collected, row("pay_l1", f"eip155:0x{7:040x}", at_ms=START_MS + 1))
    await realm_db.write(put_collected, row("pay_l2"))
    assert len(realm_db.point(holders_of, "pay_l1")) == HOLDERS_MAX


async def test_only_the_answers_of_who_paid_are_the_buyers(realm_db: Database) -> None:
    till = await Till(realm_db).open()
    payment = await till.sell()
    await realm_db.write(put_collected, row(payment, STRANGERS))
    await realm_db.write(put_collected, row(await till.sell("2")))
    assert realm_db.point(buyers_answers, till.payment(payment)) is None
    await till.commit(payment)
    assert realm_db.point(buyers_answers, till.payment(payment)) is None
    await realm_db.write(put_collected, row(payment))
    found = realm_db.point(buyers_answers, till.payment(payment))
    assert found is not None
    assert found.holder == BUYERS


async def test_answers_are_forgotten_with_age_a_few_at_a_time(realm_db: Database) -> None:
    for number in range(5):
        await realm_db.write(put_collected, row(f"pay_l{number}", at_ms=number))
    assert await realm_db.write(prune_collected, 3, 2) == 2
    assert await realm_db.write(prune_collected, 3, 2) == 1
    assert await realm_db.write(prune_collected, 3, 2) == 0
    assert Till(realm_db).count("collected") == 2


async def test_who_did_not_pay_is_forgotten_and_who_did_or_still_may_is_not(realm_db: Database) -> None:
    till = await Till(realm_db).open()
    opened, paid, cancelled = [await till.sell(name) for name in ("1", "2", "3")]
    for payment in (opened, paid, cancelled):
        for holder in (BUYERS, STRANGERS):
            await realm_db.write(put_collected, row(payment, holder))
    await till.commit(paid)
    await till.move(cancelled, PaymentCancelled("cancelled_by_user"))

    assert await realm_db.write(sort_collected, 0, START_MS, 100) == (0, None), "it has only just moved"
    first = await realm_db.write(sort_collected, 0, START_MS + 1, 3)
    assert first.rows == 0
    second = await realm_db.write(sort_collected, first.after_seq or 0, START_MS + 1, 3)
    assert second.rows == 3
    assert (await realm_db.write(sort_collected, second.after_seq or 0, START_MS + 1, 3)).after_seq is None

    assert realm_db.point(holders_of, opened) == {BUYERS, STRANGERS}
    assert realm_db.point(holders_of, paid) == {BUYERS}
    assert realm_db.point(holders_of, cancelled) == frozenset()
    assert till.count("collected WHERE of_buyer") == 1
