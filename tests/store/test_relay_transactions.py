"""Transactions of the relayer in the store: each nonce once, and every form of each kept."""

from __future__ import annotations

import msgspec

from payd.core.gas import Fees
from payd.store.db import Database
from payd.store.relay_transactions import (
    Attempt,
    Mined,
    add_attempt,
    add_filler,
    add_transaction,
    next_nonce,
    note_lost,
    note_mined,
    note_sent,
    open_transactions,
    spent_since,
)
from payd.store.relays import due_jobs, kill_job
from tests.store.test_relays import CHAIN, SENDER, job, mine, owe, send

GWEI = 10**9


def form(name: str, max_fee: int = 100) -> Attempt:
    """A signed form."""
    return Attempt(name, b"raw", Fees(max_fee, 1), 1500)


async def test_a_transaction_its_first_form_and_its_job_are_stored_together(realm_db: Database) -> None:
    owed = await owe(realm_db)
    sent = await realm_db.write(add_transaction, owed, SENDER, 7, 1000, form("0x1"), 1500)
    assert sent is not None
    assert realm_db.point(open_transactions, CHAIN, SENDER, 9) == [sent]
    assert (sent.nonce, sent.gas, sent.newest, sent.is_out) == (7, 1000, form("0x1"), False)
    assert (job(realm_db).state, job(realm_db).left_us) == ("sent", True)


async def test_a_job_is_sent_only_while_it_is_queued(realm_db: Database) -> None:
    owed = await owe(realm_db)
    await realm_db.write(kill_job, owed.seq, "Refused.")
    assert await realm_db.write(add_transaction, owed, SENDER, 0, 1000, form("0x1"), 1500) is None
    again = await owe(realm_db, "pay_2")
    await send(realm_db, again, 0)
    assert await realm_db.write(add_transaction, again, SENDER, 1, 1000, form("0x2"), 1500) is None
    assert len(realm_db.point(open_transactions, CHAIN, SENDER, 9)) == 1


async def test_a_nonce_that_may_still_be_used_is_not_given_to_another_job(realm_db: Database) -> None:
    await send(realm_db, await owe(realm_db, "pay_1"), 5)
    owed = await owe(realm_db, "pay_2")
    for nonce in (4, 5):
        assert await realm_db.write(add_transaction, owed, SENDER, nonce, 1, form("0x9"), 1) is None
    assert job(realm_db, "pay_2").state == "queued"
    assert await realm_db.write(add_transaction, owed, SENDER, 6, 1, form("0x9"), 1) is not None


async def test_the_next_nonce_is_above_the_chains_and_all_of_ours_that_are_not_lost(
    realm_db: Database,
) -> None:
    def after(count: int) -> int:
        return realm_db.point(next_nonce, CHAIN, SENDER, count)

    assert after(3) == 3
    first = await send(realm_db, await owe(realm_db, "pay_1"), 3)
    second = await send(realm_db, await owe(realm_db, "pay_2"), 4)
    assert (after(3), after(9)) == (5, 9)
    await mine(realm_db, first, 10)
    assert after(3) == 5
    await realm_db.write(note_lost, second, 2000)
    assert after(3) == 4
    assert realm_db.point(next_nonce, CHAIN, "0xother", 0) == 0
    assert realm_db.point(next_nonce, "eip155:1", SENDER, 0) == 0


async def test_all_forms_are_kept_and_the_dearest_is_the_newest(realm_db: Database) -> None:
    sent = await send(realm_db, await owe(realm_db), 0)
    other = await send(realm_db, await owe(realm_db, "pay_2"), 1)
    assert await realm_db.write(add_attempt, sent.seq, form("0xa", 10**20), 2000)
    assert await realm_db.write(add_attempt, sent.seq, form("0xb", 10**19), 2000)
    found, beside = realm_db.point(open_transactions, CHAIN, SENDER, 9)
    assert [one.fees.max_fee for one in found.attempts] == [100, 10**19, 10**20]
    assert found.newest.hash == "0xa"
    assert beside == other
    assert found.reserved == 2000 * 10**20


async def test_of_forms_that_offer_the_same_the_one_that_was_made_last_is_the_newest(
    realm_db: Database,
) -> None:
    sent = await send(realm_db, await owe(realm_db), 0)
    for name, made_at_ms in (("0xc", 1700), ("0xb", 1600)):
        later = msgspec.structs.replace(form(name), made_at_ms=made_at_ms)
        assert await realm_db.write(add_attempt, sent.seq, later, 1000)
    [found] = realm_db.point(open_transactions, CHAIN, SENDER, 9)
    assert found.newest.hash == "0xc"


async def test_nothing_is_added_to_what_is_over(realm_db: Database) -> None:
    sent = await send(realm_db, await owe(realm_db), 0)
    await mine(realm_db, sent, 10)
    assert not await realm_db.write(add_attempt, sent.seq, form("0xb"), 1000)
    assert not await realm_db.write(add_attempt, 99, form("0xb"), 1000)


async def test_a_form_was_sent_when_a_node_took_it_first(realm_db: Database) -> None:
    sent = await send(realm_db, await owe(realm_db), 0)
    await send(realm_db, await owe(realm_db, "pay_2"), 1)
    await realm_db.write(note_sent, [sent.newest.hash], 2000)
    await realm_db.write(note_sent, [sent.newest.hash], 3000)
    found, other = realm_db.point(open_transactions, CHAIN, SENDER, 9)
    assert found.newest.sent_at_ms == 2000
    assert found.is_out
    assert not other.is_out


async def test_open_transactions_come_by_nonce_and_bounded(realm_db: Database) -> None:
    for number in range(12):
        await send(realm_db, await owe(realm_db, f"pay_{number}"), number)
    assert [one.nonce for one in realm_db.point(open_transactions, CHAIN, SENDER, 11)] == [*range(11)]


async def test_what_is_mined_with_success_has_landed(realm_db: Database) -> None:
    sent = await send(realm_db, await owe(realm_db), 0)
    assert await realm_db.write(note_mined, sent, Mined(10, 1, 5), landed=None, retry_at_ms=0)
    assert not await realm_db.write(note_mined, sent, Mined(10, 0, 5), landed=None, retry_at_ms=0)
    assert (job(realm_db).state, job(realm_db).reason) == ("landed", None)


async def test_what_reverted_is_queued_for_later(realm_db: Database) -> None:
    sent = await send(realm_db, await owe(realm_db), 0)
    other = await owe(realm_db, "pay_2")
    assert await realm_db.write(note_mined, sent, Mined(10, 0, 5), landed=None, retry_at_ms=7000)
    found = job(realm_db)
    assert realm_db.point(due_jobs, CHAIN, 6999, 9) == [other]
    assert realm_db.point(due_jobs, CHAIN, 7000, 9) == [found, other]
    assert (found.state, found.tries, found.left_us) == ("queued", 1, True)
    assert "revert" in (found.reason or "")


async def test_what_was_not_carried_out_is_queued_with_the_reason_that_is_given(realm_db: Database) -> None:
    sent = await send(realm_db, await owe(realm_db), 0)
    mined = Mined(10, 0, 5)
    assert await realm_db.write(note_mined, sent, mined, landed=None, retry_at_ms=7000, reason="Not taken.")
    assert (job(realm_db).state, job(realm_db).reason) == ("queued", "Not taken.")


async def test_a_job_with_another_open_transaction_waits_for_that(realm_db: Database) -> None:
    first = await send(realm_db, await owe(realm_db), 0)
    await realm_db.write(note_lost, first, 0)
    second = await send(realm_db, job(realm_db), 1)
    await realm_db.write(lambda tx: tx.execute("UPDATE relay_transactions SET state = 'open'"))
    await mine(realm_db, second, 10, status=0)
    assert (job(realm_db).state, job(realm_db).tries) == ("sent", 0)
    await mine(realm_db, first, 11)
    assert job(realm_db).state == "landed"


async def test_a_dead_job_that_lands_after_all_has_landed(realm_db: Database) -> None:
    sent = await send(realm_db, await owe(realm_db), 0)
    await realm_db.write(lambda tx: tx.execute("UPDATE relay_jobs SET state = 'dead'"))
    await mine(realm_db, sent, 10)
    assert job(realm_db).state == "landed"


async def test_a_lost_nonce_queues_its_job_at_once_and_costs_no_try(realm_db: Database) -> None:
    sent = await send(realm_db, await owe(realm_db), 0)
    assert await realm_db.write(note_lost, sent, 2000)
    assert not await realm_db.write(note_lost, sent, 2000)
    assert (job(realm_db).state, job(realm_db).tries) == ("queued", 0)


async def test_a_filler_belongs_to_no_job_and_takes_a_free_nonce_only(realm_db: Database) -> None:
    await send(realm_db, await owe(realm_db), 3)
    filler = await realm_db.write(add_filler, CHAIN, SENDER, 2, 1000, form("0x2"), 1)
    assert filler is not None
    for nonce in (2, 3):
        assert await realm_db.write(add_filler, CHAIN, SENDER, nonce, 1, form("0x9"), 1) is None
    assert [one.nonce for one in realm_db.point(open_transactions, CHAIN, SENDER, 9)] == [2, 3]
    await mine(realm_db, filler, 10)
    assert job(realm_db).state == "sent"


async def test_what_was_spent_since_is_summed_however_large(realm_db: Database) -> None:
    coins = 8 * 10**18 + 1
    for number in range(3):
        sent = await send(realm_db, await owe(realm_db, f"pay_{number}"), number)
        await realm_db.write(note_mined, sent, Mined(10, 1, coins), landed=None, retry_at_ms=0)
    await send(realm_db, await owe(realm_db, "pay_9"), 9)
    assert 3 * coins <= realm_db.point(spent_since, CHAIN, 1500) <= 3 * (coins + GWEI)
    assert realm_db.point(spent_since, CHAIN, 1501) == 0
    assert realm_db.point(spent_since, "eip155:1", 0) == 0
