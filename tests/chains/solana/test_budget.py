"""What we pay for others: never more than was set, whoever asks at the same moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import trio
from solders.signature import Signature

from payd.chains.solana.budget import (
    DAY_MS,
    OUT_PER_OPENING_MAX,
    PAID_PER_PAYMENT_MAX,
    PURSE_EMPTY,
    SPENT,
    SPENT_ON_BUYER,
    SPENT_ON_OPENING,
    SPENT_ON_PAYMENT,
    Budget,
    Purse,
)
from payd.core.errors import InvalidState, PaydError, QuoteExpired, RateLimited
from payd.store.builds import (
    Build,
    end_builds,
    find_build,
    hash_message,
    insert_build,
    reserved_on_builds,
    spent_on_builds,
)
from payd.store.db import Database
from tests.chains.solana.desk import NOW_MS, PAYMENT_ID, TERMS, Pen
from tests.live.solana import BUYER, CHAIN, account_id

COST = 10_000
RICH = Purse(10**12, 890_880)


class Till:
    """A budget, and what it signed."""

    def __init__(self, db: Database, **terms: Any) -> None:
        self.db = db
        self.pen = Pen()
        self.budget = Budget(msgspec.structs.replace(TERMS, **terms), db, self.pen)

    async def sign(self, message: bytes, now_ms: int = NOW_MS, purse: Purse = RICH, **other: Any) -> bytes:
        build = Build(
            message_hash=hash_message(message),
            payment_id=PAYMENT_ID,
            chain=CHAIN,
            buyer=account_id(BUYER),
            valid_until_height=150,
            created_at_ms=now_ms,
            cost=COST,
        )
        build = msgspec.structs.replace(build, **other)
        return await self.budget.sign(build, message, purse, now_ms)

    async def expect_refusal(
        self, error: type[PaydError], words: str, message: bytes, **other: Any
    ) -> PaydError:
        """Nothing is signed or stored for it."""
        before = len(self.pen.signed)
        with pytest.raises(error) as caught:
            await self.sign(message, **other)
        assert caught.value.message == words
        assert len(self.pen.signed) == before
        assert self.build(message) is None
        return caught.value

    def build(self, message: bytes) -> Build | None:
        return self.db.point(find_build, hash_message(message))

    async def end(self, message: bytes, state: str, cost: int = 0) -> None:
        ended = [(hash_message(message), state, cost)]
        await self.db.write(end_builds, ended)  # type: ignore[arg-type]

    async def all_at_once(
        self, messages: Sequence[bytes], *, is_a_payment_each: bool = False, **other: Any
    ) -> list[bytes | PaydError]:
        results: dict[bytes, bytes | PaydError] = {}

        async def one(message: bytes) -> None:
            try:
                payment_id = f"pay_{message.hex()}" if is_a_payment_each else PAYMENT_ID
                results[message] = await self.sign(message, payment_id=payment_id, **other)
            except PaydError as error:
                results[message] = error

        async with trio.open_nursery() as nursery:
            for message in messages:
                nursery.start_soon(one, message)
        return [results[message] for message in messages]


async def test_what_is_signed_is_stored_with_its_id_and_its_cost(realm_db: Database) -> None:
    till = Till(realm_db)
    signature = await till.sign(b"message")
    build = till.build(b"message")

    assert Signature.from_bytes(signature).verify(till.budget.address, b"message")
    assert build is not None
    assert (build.tx_id, build.cost, build.state) == (str(Signature.from_bytes(signature)), COST, "out")
    assert realm_db.point(reserved_on_builds, CHAIN).cost == COST
    assert realm_db.point(spent_on_builds, CHAIN, NOW_MS).cost == COST


async def test_the_same_message_is_reserved_once_and_signed_alike(realm_db: Database) -> None:
    till = Till(realm_db, spend_per_day=COST, relays_per_buyer=1)
    first = await till.sign(b"message")

    assert await till.sign(b"message") == first
    assert realm_db.point(reserved_on_builds, CHAIN).count == 1


@pytest.mark.parametrize("state", ["landed", "void"])
async def test_what_has_ended_is_not_signed_again(realm_db: Database, state: str) -> None:
    till = Till(realm_db)
    await till.sign(b"message")
    await till.end(b"message", state)
    with pytest.raises(QuoteExpired):
        await till.sign(b"message")

    assert len(till.pen.signed) == 1


async def test_a_build_that_the_buyer_pays_for_is_never_signed_by_us(realm_db: Database) -> None:
    till = Till(realm_db)
    theirs = Build(hash_message(b"message"), PAYMENT_ID, CHAIN, account_id(BUYER), 150, NOW_MS)
    await realm_db.write(insert_build, theirs)
    with pytest.raises(QuoteExpired):
        await till.sign(b"message")

    assert till.pen.signed == []


# The day's budget.


async def test_a_day_has_its_budget_to_the_last_lamport(realm_db: Database) -> None:
    till = Till(realm_db, spend_per_day=2 * COST)
    await till.sign(b"1")
    await till.expect_refusal(RateLimited, SPENT, b"2", cost=COST + 1)
    await till.sign(b"3")
    refusal = await till.expect_refusal(RateLimited, SPENT, b"4", cost=1)

    assert refusal.details["retryAfterS"] > 0


async def test_the_account_of_a_merchant_is_reserved_with_each_that_would_open_it(
    realm_db: Database,
) -> None:
    """Its owner may close it between two of them, and has the rent: no day costs more than its budget."""
    rent = 50 * COST
    till = Till(realm_db, spend_per_day=3 * (COST + rent))
    new: dict[str, Any] = {"opens": "the merchant's account", "cost": COST + rent}
    for message in (b"1", b"2", b"3"):
        await till.sign(message, **new)

    assert realm_db.point(reserved_on_builds, CHAIN).cost == 3 * (COST + rent)
    await till.expect_refusal(RateLimited, SPENT, b"4", **new)
    for message in (b"1", b"2", b"3"):
        await till.end(message, "landed", COST + rent)
    assert realm_db.point(spent_on_builds, CHAIN, NOW_MS).cost == 3 * (COST + rent)


async def test_an_account_that_many_would_open_takes_no_budget_from_others(realm_db: Database) -> None:
    till = Till(realm_db)
    new: dict[str, Any] = {"opens": "the merchant's account", "cost": 51 * COST}
    for number in range(OUT_PER_OPENING_MAX):
        await till.sign(b"%d" % number, **new)
    await till.expect_refusal(RateLimited, SPENT_ON_OPENING, b"more", **new)

    await till.sign(b"other", **new | {"opens": "another merchant's account"})
    await till.end(b"0", "void")
    await till.sign(b"more", **new)


async def test_an_account_that_was_opened_is_spent_and_may_have_to_be_opened_again(
    realm_db: Database,
) -> None:
    rent = 50 * COST
    till = Till(realm_db, spend_per_day=3 * rent)
    new: dict[str, Any] = {"opens": "the merchant's account", "cost": COST + rent}
    await till.sign(b"1", **new)
    await till.sign(b"2", **new)
    await till.end(b"1", "landed", COST + rent)

    assert realm_db.point(spent_on_builds, CHAIN, NOW_MS).cost == 2 * (COST + rent)
    await till.end(b"2", "landed", COST)
    assert realm_db.point(spent_on_builds, CHAIN, NOW_MS).cost == 2 * COST + rent


async def test_the_purse_holds_what_an_account_costs_each_time(realm_db: Database) -> None:
    rent = 50 * COST
    till = Till(realm_db)
    new: dict[str, Any] = {"opens": "the merchant's account", "cost": COST + rent}
    purse = Purse(RICH.keep + 2 * (COST + rent), RICH.keep)
    await till.sign(b"1", purse=purse, **new)
    await till.sign(b"2", purse=purse, **new)

    await till.expect_refusal(InvalidState, PURSE_EMPTY, b"3", purse=purse, **new)


async def test_what_cannot_land_any_more_is_free_again_and_what_landed_is_spent(realm_db: Database) -> None:
    till = Till(realm_db, spend_per_day=COST)
    await till.sign(b"1")
    await till.expect_refusal(RateLimited, SPENT, b"2")
    await till.end(b"1", "void")
    await till.sign(b"2")
    await till.end(b"2", "landed", COST - 1)

    await till.expect_refusal(RateLimited, SPENT, b"3", cost=2)
    await till.sign(b"3", cost=1)


async def test_tomorrow_there_is_another(realm_db: Database) -> None:
    till = Till(realm_db, spend_per_day=COST)
    await till.sign(b"1")
    await till.end(b"1", "landed", COST)
    await till.expect_refusal(RateLimited, SPENT, b"2", now_ms=NOW_MS + DAY_MS)
    await till.sign(b"2", now_ms=NOW_MS + DAY_MS + 1)


async def test_of_many_at_once_no_more_are_signed_than_the_budget_has(realm_db: Database) -> None:
    till = Till(realm_db, spend_per_day=3 * COST)
    results = await till.all_at_once([bytes([n]) for n in range(10)])

    signed = [one for one in results if isinstance(one, bytes)]
    assert len(signed) == len(till.pen.signed) == 3
    assert realm_db.point(reserved_on_builds, CHAIN).cost == 3 * COST
    assert all(isinstance(one, RateLimited) for one in results if not isinstance(one, bytes))


async def test_chains_have_budgets_of_their_own(realm_db: Database) -> None:
    till = Till(realm_db, spend_per_day=COST)
    await till.sign(b"1", chain="solana:other")

    await till.sign(b"2")
    await till.expect_refusal(RateLimited, SPENT, b"3")


# A buyer's.


async def test_a_buyer_has_so_many_payments_a_day(realm_db: Database) -> None:
    till = Till(realm_db, relays_per_buyer=2)
    for n in range(2):
        await till.sign(bytes([n]), payment_id=f"pay_{n}")
    await till.expect_refusal(RateLimited, SPENT_ON_BUYER, b"no", payment_id="pay_2")

    # Another of the same payment is no other payment, and another buyer has a budget of its own.
    await till.sign(b"again", payment_id="pay_1")
    await till.sign(b"other", payment_id="pay_2", buyer=account_id(BUYER + 1))
    await till.sign(b"later", payment_id="pay_2", now_ms=NOW_MS + DAY_MS + 1)


async def test_a_buyer_that_asks_for_many_payments_at_once_has_no_more(realm_db: Database) -> None:
    till = Till(realm_db, relays_per_buyer=2)
    results = await till.all_at_once([bytes([n]) for n in range(6)], is_a_payment_each=True)

    assert len(till.pen.signed) == 2
    refused = [one for one in results if isinstance(one, PaydError)]
    assert [one.message for one in refused] == [SPENT_ON_BUYER] * 4


# A payment's.


async def test_who_has_a_link_cannot_take_the_budget_of_others_with_it(realm_db: Database) -> None:
    till = Till(realm_db)
    for n in range(PAID_PER_PAYMENT_MAX):
        await till.sign(bytes([n]), buyer=f"{CHAIN}:{n}")
    await till.expect_refusal(RateLimited, SPENT_ON_PAYMENT, b"no", buyer=f"{CHAIN}:x")

    await till.sign(b"other", payment_id="pay_other")
    await till.end(b"\0", "void")
    await till.sign(b"again", buyer=f"{CHAIN}:x")


async def test_who_makes_the_transactions_of_a_payment_fail_takes_no_more_of_the_budget(
    realm_db: Database,
) -> None:
    """They empty each account once it was prepared for, and send what we signed: it lands, paying nobody."""
    till = Till(realm_db)
    for n in range(PAID_PER_PAYMENT_MAX):
        await till.sign(bytes([n]), buyer=f"{CHAIN}:{n}")
        await till.end(bytes([n]), "landed", COST)
    await till.expect_refusal(RateLimited, SPENT_ON_PAYMENT, b"no", buyer=f"{CHAIN}:x")

    await till.sign(b"other", payment_id="pay_other")


# The purse.


async def test_more_is_never_out_than_the_fee_payer_has_besides_what_has_to_stay(realm_db: Database) -> None:
    till = Till(realm_db)
    purse = Purse(890_880 + 2 * COST, 890_880)
    assert purse.has(2 * COST)
    assert not purse.has(2 * COST + 1)
    results = await till.all_at_once([b"1", b"2", b"3"], purse=purse)

    assert len(till.pen.signed) == 2
    [refused] = [one for one in results if isinstance(one, PaydError)]
    assert isinstance(refused, InvalidState)
    assert refused.message == PURSE_EMPTY
    # What landed has left the purse already.
    await till.end(b"1", "landed", COST)
    await till.expect_refusal(InvalidState, PURSE_EMPTY, b"4", purse=Purse(890_880 + COST, 890_880))
