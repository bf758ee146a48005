"""Submissions in the store: owed once, open until their end is known, and ended once."""

from __future__ import annotations

import sqlite3

import msgspec
import pytest

from payd.core.submission import Submission
from payd.store.db import Database
from payd.store.submissions import (
    StoredSubmission,
    count_open,
    end_submission,
    find_submission,
    insert_submission,
    latest_submissions,
    note_leaving,
    open_submissions,
    payment_bringing,
    untold_ends,
)
from tests.till import Till

CHAIN = "solana:local"
OWED = Submission(CHAIN, f"{CHAIN}:buyer", "5sig", b"\1raw", 300)


async def owe(db: Database, payment_id: str = "pay_1", tx_id: str = "5sig") -> StoredSubmission:
    """A stored submission."""
    await db.write(insert_submission, payment_id, msgspec.structs.replace(OWED, tx_id=tx_id), 1000)
    return stored(db, payment_id)


def stored(db: Database, payment_id: str = "pay_1") -> StoredSubmission:
    """The one of a payment."""
    found = db.point(find_submission, payment_id)
    assert found is not None
    return found


async def test_what_is_owed_is_kept_to_the_last_byte(realm_db: Database) -> None:
    owed = await owe(realm_db)

    assert (owed.raw, owed.tx_id, owed.valid_until_height) == (b"\1raw", "5sig", 300)
    assert (owed.state, owed.left_us, owed.sent_at_ms) == ("open", False, None)
    assert realm_db.point(find_submission, "pay_2") is None


async def test_a_payment_is_owed_one_alone_and_a_transaction_pays_one_alone(realm_db: Database) -> None:
    await owe(realm_db)

    with pytest.raises(sqlite3.IntegrityError):
        await owe(realm_db, tx_id="6sig")
    with pytest.raises(sqlite3.IntegrityError):
        await owe(realm_db, "pay_2")


async def test_it_is_noted_before_it_leaves(realm_db: Database) -> None:
    owed = await owe(realm_db)
    await realm_db.write(note_leaving, [owed.seq], 2000)

    assert (stored(realm_db).left_us, stored(realm_db).sent_at_ms) == (True, 2000)


async def test_the_open_ones_come_oldest_first_and_piece_by_piece(realm_db: Database) -> None:
    for number in range(3):
        await owe(realm_db, f"pay_{number}", f"sig{number}")

    first, second = realm_db.point(open_submissions, CHAIN, 0, 2)
    [third] = realm_db.point(open_submissions, CHAIN, second.seq, 2)

    assert [one.payment_id for one in (first, second, third)] == ["pay_0", "pay_1", "pay_2"]
    assert realm_db.point(open_submissions, "solana:other", 0, 2) == []


async def test_what_never_left_comes_before_the_newest(realm_db: Database) -> None:
    owed = [await owe(realm_db, f"pay_{number}", f"sig{number}") for number in range(5)]
    await realm_db.write(note_leaving, [one.seq for one in owed if one is not owed[1]], 2000)
    await realm_db.write(end_submission, owed[4].seq, "landed")
    found = realm_db.point(latest_submissions, CHAIN, 3)

    assert [one.payment_id for one in found] == ["pay_1", "pay_3", "pay_2"]
    assert realm_db.point(latest_submissions, "solana:other", 3) == []


async def test_one_ends_once(realm_db: Database) -> None:
    owed = await owe(realm_db)

    assert await realm_db.write(end_submission, owed.seq, "dead", "it expired")
    assert not await realm_db.write(end_submission, owed.seq, "landed")
    assert (stored(realm_db).state, stored(realm_db).reason) == ("dead", "it expired")
    assert realm_db.point(open_submissions, CHAIN, 0, 2) == []


async def test_the_open_ones_are_counted_by_whether_they_have_left(realm_db: Database) -> None:
    assert realm_db.point(count_open, CHAIN) == (0, 0)
    owed = [await owe(realm_db, f"pay_{number}", f"sig{number}") for number in range(4)]
    await realm_db.write(note_leaving, [one.seq for one in owed[:2]], 2000)
    await realm_db.write(end_submission, owed[0].seq, "landed")
    elsewhere = msgspec.structs.replace(OWED, chain="solana:other", tx_id="7sig")
    await realm_db.write(insert_submission, "pay_9", elsewhere, 1000)

    assert realm_db.point(count_open, CHAIN) == (1, 2)
    assert realm_db.point(count_open, "solana:other") == (0, 1)


async def test_the_dead_of_processing_payments_wait_for_somebody_to_be_told(realm_db: Database) -> None:
    till = await Till(realm_db).open()
    for name in "123":
        payment = await till.sell(name)
        owed = await owe(realm_db, payment, f"sig{name}")
        if name != "2":
            await till.commit(payment)
        if name != "3":
            await realm_db.write(end_submission, owed.seq, "dead", "it expired")

    assert realm_db.point(untold_ends, CHAIN, 10) == ["pay_l1"]
    assert realm_db.point(untold_ends, CHAIN, 0) == []
    assert realm_db.point(untold_ends, "solana:other", 10) == []


async def test_a_transaction_is_known_by_the_payment_that_it_was_given_for(realm_db: Database) -> None:
    owed = await owe(realm_db)

    assert realm_db.point(payment_bringing, CHAIN, owed.tx_id) == owed.payment_id
    assert realm_db.point(payment_bringing, CHAIN, "6sig") is None
    assert realm_db.point(payment_bringing, "solana:other", owed.tx_id) is None
