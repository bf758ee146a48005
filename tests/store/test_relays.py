"""Jobs of the relayer in the store: owed once, tried in order, ended once, and taken back by a reorg."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec
import pytest

from payd.core.gas import Fees
from payd.core.payment import transition
from payd.core.relay import RETRY_LAST_MS, RelayJob
from payd.store.chain_cursors import Cursor, move_cursor
from payd.store.db import Database
from payd.store.relay_transactions import (
    Attempt,
    Mined,
    OpenTransaction,
    add_filler,
    add_transaction,
    count_reverts,
    note_lost,
    note_mined,
    note_sent,
    open_transactions,
)
from payd.store.relays import (
    BROUGHT_LOOK_MAX,
    Job,
    abandon_others,
    count_of_buyer,
    count_queued,
    doubt_job,
    due_jobs,
    find_job,
    insert_job,
    is_over_from,
    job_of_seq,
    kill_job,
    land_job,
    late_jobs,
    oldest_queued_ms,
    others_are_open,
    put_off_job,
    reopen_above,
    reopen_from,
    unshown_jobs,
    untold_deaths,
)
from tests.actors.test_relay_queue import show_paid
from tests.inserts import record_transition
from tests.ledger import run_sql
from tests.store.test_payments import event, funds, payment, store

CHAIN = "eip155:8453"
ELSEWHERE = "eip155:1"
SENDER = "0x" + "0a" * 20
JOB = RelayJob(CHAIN, f"{CHAIN}:0xb", "0xToken", b"\x01\x02", 9_000)


async def owe(db: Database, payment_id: str = "pay_1", now_ms: int = 1000, **changes: Any) -> Job:
    """A stored job."""
    await db.write(insert_job, payment_id, msgspec.structs.replace(JOB, **changes), now_ms)
    return job(db, payment_id)


def job(db: Database, payment_id: str = "pay_1") -> Job:
    """The job of a payment."""
    found = db.point(find_job, payment_id)
    assert found is not None
    return found


async def send(db: Database, owed: Job, nonce: int, sender: str = SENDER) -> OpenTransaction:
    """A stored transaction for a job."""
    form = Attempt(f"0x{sender[-2:]}{nonce}", b"raw", Fees(100, 1), 1500)
    sent = await db.write(add_transaction, owed, sender, nonce, 1000, form, 1500)
    assert sent is not None
    return sent


async def mine(
    db: Database, sent: OpenTransaction, block: int, status: int = 1, landed: str | None = None
) -> None:
    """Its end in a block."""
    assert await db.write(note_mined, sent, Mined(block, status, 5), landed=landed, retry_at_ms=7000)


async def test_a_payment_is_owed_one_job(realm_db: Database) -> None:
    owed = await owe(realm_db)
    assert owed == Job(
        1, "pay_1", CHAIN, JOB.buyer, "0xToken", b"\x01\x02", 9_000, "queued", False, 0, None, 1000
    )
    assert realm_db.point(job_of_seq, owed.seq) == owed
    with pytest.raises(sqlite3.IntegrityError):
        await owe(realm_db)
    assert realm_db.point(find_job, "pay_2") is None
    assert realm_db.point(job_of_seq, 2) is None


async def test_jobs_are_due_in_their_order_once_their_time_has_come(realm_db: Database) -> None:
    owed = [await owe(realm_db, f"pay_{number}", 1000 + number) for number in range(4)]
    await owe(realm_db, "pay_other", chain="eip155:1")
    await realm_db.write(put_off_job, owed[0].seq, 5000, "paused", refused=True)
    await realm_db.write(put_off_job, owed[1].seq, 2000, "no node", refused=False)
    await send(realm_db, owed[2], 0)

    def due(now_ms: int, limit: int = 9) -> list[str]:
        return [one.payment_id for one in realm_db.point(due_jobs, CHAIN, now_ms, limit)]

    assert due(1999) == ["pay_3"]
    assert due(2000) == ["pay_1", "pay_3"]
    assert due(5000) == ["pay_0", "pay_1", "pay_3"]
    assert due(5000, 1) == ["pay_0"]
    assert (job(realm_db, "pay_0").tries, job(realm_db, "pay_1").tries) == (1, 0)
    assert job(realm_db, "pay_0").reason == "paused"
    assert realm_db.point(count_queued, CHAIN, 9) == 3
    assert realm_db.point(count_queued, CHAIN, 2) == 2
    assert realm_db.point(oldest_queued_ms, CHAIN) == 1000
    assert realm_db.point(oldest_queued_ms, "eip155:5") is None
    await realm_db.write(land_job, owed[0].seq, "Somebody else.")
    assert realm_db.point(oldest_queued_ms, CHAIN) == 1001


async def test_no_job_waits_for_the_time_that_a_wall_clock_showed_before_it_was_set_back(
    realm_db: Database,
) -> None:
    """Its authorization would run out meanwhile."""
    owed = await owe(realm_db)
    put_off_ms = 10_000_000 + RETRY_LAST_MS
    await realm_db.write(put_off_job, owed.seq, put_off_ms, "no node", refused=True)

    due = {now_ms: len(realm_db.point(due_jobs, CHAIN, now_ms, 9)) for now_ms in (9_999_999, 10_000_000)}
    assert due == {9_999_999: 1, 10_000_000: 0}


async def test_jobs_are_late_by_the_time_that_was_signed(realm_db: Database) -> None:
    await owe(realm_db, "pay_1", valid_until_s=100)
    await owe(realm_db, "pay_2", valid_until_s=200)
    sent = await owe(realm_db, "pay_3", valid_until_s=100)
    await send(realm_db, sent, 0)
    assert [one.payment_id for one in realm_db.point(late_jobs, CHAIN, 99, 9)] == []
    assert [one.payment_id for one in realm_db.point(late_jobs, CHAIN, 100, 9)] == ["pay_1"]
    assert [one.payment_id for one in realm_db.point(late_jobs, CHAIN, 200, 1)] == ["pay_1"]


async def test_only_a_queued_job_ends_without_a_transaction(realm_db: Database) -> None:
    first, second, third = [await owe(realm_db, f"pay_{number}") for number in range(3)]
    assert await realm_db.write(land_job, first.seq, "Somebody else.")
    assert not await realm_db.write(kill_job, first.seq, "Refused.")
    assert (job(realm_db, "pay_0").state, job(realm_db, "pay_0").reason) == ("landed", "Somebody else.")
    assert await realm_db.write(kill_job, second.seq, "Refused.")
    assert not await realm_db.write(land_job, second.seq, "Somebody else.")
    assert (job(realm_db, "pay_1").state, job(realm_db, "pay_1").reason) == ("dead", "Refused.")
    await send(realm_db, third, 0)
    assert not await realm_db.write(kill_job, third.seq, "Refused.")
    await realm_db.write(put_off_job, third.seq, 9000, "Refused.", refused=True)
    assert (job(realm_db, "pay_2").state, job(realm_db, "pay_2").tries) == ("sent", 0)


async def test_the_jobs_of_a_buyer_are_counted_by_chain_and_date(realm_db: Database) -> None:
    await owe(realm_db, "pay_1", 1000)
    await owe(realm_db, "pay_2", 2000)
    await owe(realm_db, "pay_3", 2000, buyer=f"{CHAIN}:0xc")
    await owe(realm_db, "pay_4", 2000, chain="eip155:1")
    assert realm_db.point(count_of_buyer, CHAIN, JOB.buyer, 1000) == 2
    assert realm_db.point(count_of_buyer, CHAIN, JOB.buyer, 1001) == 1


async def test_deaths_are_untold_while_their_payments_are_processing(realm_db: Database) -> None:
    for number in range(4):
        draft = payment(number)
        await store(realm_db, draft)
        owed = await owe(realm_db, draft.id)
        if number != 1:
            moved = transition(draft, funds(), 2000)
            await realm_db.write(record_transition, moved, event(moved), None)
        if number == 2:
            await mine(realm_db, await send(realm_db, owed, 0), 10, status=0)
        if number != 3:
            assert await realm_db.write(kill_job, owed.seq, "Refused.")
    assert realm_db.point(untold_deaths, CHAIN, 9) == ["pay_t0"]
    assert realm_db.point(untold_deaths, "eip155:1", 9) == []


async def test_a_reorg_reopens_what_was_mined_above_and_nothing_below(realm_db: Database) -> None:
    for number in range(4):
        sent = await send(realm_db, await owe(realm_db, f"pay_{number}"), number)
        await realm_db.write(note_sent, [sent.newest.hash], 1600)
        await mine(realm_db, sent, 100 + number, status=0 if number == 3 else 1)
    assert await realm_db.write(reopen_above, CHAIN, 101) == 2
    states = [job(realm_db, f"pay_{number}").state for number in range(4)]
    assert states == ["landed", "landed", "sent", "sent"]
    reopened = realm_db.point(open_transactions, CHAIN, SENDER, 9)
    assert [one.nonce for one in reopened] == [2, 3]
    assert not any(one.is_out for one in reopened)
    assert await realm_db.write(reopen_above, CHAIN, 101) == 0
    assert await realm_db.write(reopen_above, "eip155:1", 0) == 0


async def test_a_reorg_reopens_what_each_key_sent(realm_db: Database) -> None:
    other = "0x" + "0b" * 20
    for number, sender in enumerate((SENDER, other, other)):
        sent = await send(realm_db, await owe(realm_db, f"pay_{number}"), number, sender)
        await mine(realm_db, sent, 100 + number)
    assert await realm_db.write(reopen_above, CHAIN, 99) == 3


async def test_what_landed_is_unshown_while_the_chain_shows_no_transfer_that_pays(
    realm_db: Database,
) -> None:
    seqs: list[int] = []
    for number in range(5):
        draft = payment(number)
        await store(realm_db, draft)
        owed = await owe(realm_db, draft.id, valid_until_s=9_000 + number)
        seqs.append(owed.seq)
        if number != 0:
            moved = transition(draft, funds(), 2000)
            await realm_db.write(record_transition, moved, event(moved), None)
        if number == 1:
            await mine(realm_db, await send(realm_db, owed, 0), 10)
        else:
            await realm_db.write(land_job, owed.seq, "Somebody else.")
    assert realm_db.point(unshown_jobs, CHAIN, 0) == [seqs[4], seqs[3], seqs[2]]
    assert realm_db.point(unshown_jobs, CHAIN, 9_001) == [seqs[4], seqs[3], seqs[2]]
    assert realm_db.point(unshown_jobs, CHAIN, 9_002) == [seqs[4], seqs[3]]
    assert realm_db.point(unshown_jobs, "eip155:1", 0) == []
    read_up_to = [Cursor(number, "0xb1", 1) for number in (9, 10)]
    await realm_db.write(move_cursor, CHAIN, "head", None, read_up_to[0])
    assert seqs[1] not in realm_db.point(unshown_jobs, CHAIN, 0), "its block was not read"
    await realm_db.write(move_cursor, CHAIN, "head", *read_up_to)
    assert realm_db.point(unshown_jobs, CHAIN, 0) == [seqs[4], seqs[3], seqs[2], seqs[1]]

    await realm_db.write(show_paid, "pay_t3")
    assert realm_db.point(unshown_jobs, CHAIN, 9_002) == [seqs[4]]
    for otherwise in ("block_hash = NULL", "block_hash = '0xb5', kind = 'surplus'"):
        await realm_db.write(run_sql, f"UPDATE transfers SET {otherwise}")
        assert realm_db.point(unshown_jobs, CHAIN, 9_002) == [seqs[4], seqs[3]]


async def test_only_what_landed_is_doubted_and_while_nothing_is_open_for_it(
    realm_db: Database,
) -> None:
    brought, killed, own, open_one = [await owe(realm_db, f"pay_{number}") for number in range(4)]
    await realm_db.write(note_lost, await send(realm_db, brought, 9), 2000)
    await realm_db.write(put_off_job, brought.seq, 9000, "no node", refused=False)
    await realm_db.write(land_job, brought.seq, "Somebody else.")
    await realm_db.write(kill_job, killed.seq, "Refused.")
    await mine(realm_db, await send(realm_db, own, 10), 50)
    await send(realm_db, open_one, 11)
    await realm_db.write(
        lambda tx: tx.execute(
            "UPDATE relay_jobs SET state = 'landed', reason = 'Else.' WHERE seq = ?", (open_one.seq,)
        )
    )
    doubted = [await realm_db.write(doubt_job, one.seq) for one in (brought, killed, own, open_one)]
    assert doubted == [True, False, True, False]
    await realm_db.write(reopen_above, CHAIN, 50)
    assert [one.seq for one in realm_db.point(due_jobs, CHAIN, 0, 9)] == [brought.seq, own.seq]
    assert job(realm_db, "pay_0").reason == "Somebody else."


async def test_a_reorg_queues_again_what_others_had_brought(realm_db: Database) -> None:
    brought, killed, own = [await owe(realm_db, f"pay_{number}") for number in range(3)]
    await realm_db.write(note_lost, await send(realm_db, brought, 9), 2000)
    await realm_db.write(put_off_job, brought.seq, 9000, "no node", refused=False)
    await realm_db.write(land_job, brought.seq, "Somebody else.")
    await realm_db.write(kill_job, killed.seq, "Refused.")
    await mine(realm_db, await send(realm_db, own, 10), 50)
    await send(realm_db, await owe(realm_db, "pay_9"), 11)
    await realm_db.write(reopen_above, CHAIN, 99)
    assert [job(realm_db, f"pay_{number}").state for number in range(3)] == ["queued", "dead", "landed"]
    assert [one.seq for one in realm_db.point(due_jobs, CHAIN, 0, 9)] == [brought.seq]


async def test_a_reorg_reopens_what_reverted_because_others_were_first(realm_db: Database) -> None:
    sent = await send(realm_db, await owe(realm_db), 0)
    await mine(realm_db, sent, 100, status=0, landed="Somebody else.")
    assert (job(realm_db).state, job(realm_db).reason) == ("landed", "Somebody else.")
    await realm_db.write(reopen_above, CHAIN, 99)
    assert (job(realm_db).state, job(realm_db).reason) == ("sent", None)
    assert realm_db.point(count_queued, CHAIN, 9) == 0


async def test_a_reorg_looks_at_a_bounded_number_of_jobs(realm_db: Database) -> None:
    for number in range(BROUGHT_LOOK_MAX + 2):
        owed = await owe(realm_db, f"pay_{number}")
        await realm_db.write(land_job, owed.seq, "Somebody else.")
    await realm_db.write(reopen_above, CHAIN, 99)
    assert job(realm_db, "pay_1").state == "landed"
    assert job(realm_db, "pay_2").state == "queued"


async def test_what_is_over_at_a_nonce_that_the_chain_has_not_counted_is_reopened(
    realm_db: Database,
) -> None:
    sent = [await send(realm_db, await owe(realm_db, f"pay_{number}"), number) for number in range(4)]
    for one in sent[:2]:
        await mine(realm_db, one, 10)
    await realm_db.write(note_lost, sent[2], 2000)
    assert not realm_db.point(is_over_from, CHAIN, SENDER, 3)
    assert realm_db.point(is_over_from, CHAIN, SENDER, 2)
    assert await realm_db.write(reopen_from, CHAIN, SENDER, 1, 1) == 1
    assert [one.nonce for one in realm_db.point(open_transactions, CHAIN, SENDER, 9)] == [1, 3]
    assert await realm_db.write(reopen_from, CHAIN, SENDER, 1, 9) == 1
    assert [one.nonce for one in realm_db.point(open_transactions, CHAIN, SENDER, 9)] == [1, 2, 3]
    assert [job(realm_db, f"pay_{number}").state for number in range(4)] == ["landed", *["sent"] * 3]


async def test_what_is_reopened_takes_nothing_from_a_job_that_has_landed_otherwise(
    realm_db: Database,
) -> None:
    first = await send(realm_db, await owe(realm_db), 0)
    await realm_db.write(note_lost, first, 2000)
    assert (job(realm_db).state, job(realm_db).tries) == ("queued", 0)
    await mine(realm_db, await send(realm_db, job(realm_db), 1), 10)
    await realm_db.write(reopen_from, CHAIN, SENDER, 0, 1)
    assert job(realm_db).state == "landed"
    assert await realm_db.write(note_lost, first, 3000)
    assert job(realm_db).state == "landed"


async def test_what_another_key_has_open_is_given_up_and_its_job_queued(realm_db: Database) -> None:
    mined = await send(realm_db, await owe(realm_db, "pay_0"), 0)
    await mine(realm_db, mined, 10)
    await send(realm_db, await owe(realm_db, "pay_1"), 1)
    assert not realm_db.point(others_are_open, CHAIN, SENDER)
    assert realm_db.point(others_are_open, CHAIN, "0xnew")
    assert await realm_db.write(abandon_others, CHAIN, "0xnew") == 1
    assert [job(realm_db, f"pay_{number}").state for number in range(2)] == ["landed", "queued"]
    assert job(realm_db, "pay_1").left_us
    assert realm_db.point(open_transactions, CHAIN, SENDER, 9) == []


async def live(db: Database, name: str, nonce: int, chain: str = CHAIN, sender: str = SENDER) -> None:
    """A job each that is out, that was mined, whose nonce was lost, and that somebody else brought."""
    owed = [await owe(db, f"pay_{name}{number}", chain=chain) for number in range(4)]
    sent = [await send(db, one, nonce + number, sender) for number, one in enumerate(owed[:3])]
    await db.write(note_sent, [one.newest.hash for one in sent[:2]], 1600)
    await mine(db, sent[1], 500)
    await db.write(note_lost, sent[2], 2000)
    await db.write(land_job, owed[3].seq, "Somebody else.")


def rows(db: Database, name: str) -> list[tuple[Any, ...]]:
    """All that is stored of the jobs that are called so."""
    jobs = f"SELECT seq FROM relay_jobs WHERE payment_id LIKE 'pay_{name}%'"
    sent = f"SELECT seq FROM relay_transactions WHERE job_seq IN ({jobs})"
    queries = [
        f"SELECT * FROM relay_jobs WHERE seq IN ({jobs})",
        f"SELECT * FROM relay_transactions WHERE seq IN ({sent})",
        f"SELECT * FROM relay_attempts WHERE transaction_seq IN ({sent}) ORDER BY hash",
    ]
    return db.point(lambda tx: [row for query in queries for row in tx.execute(query)])


async def test_what_happens_on_one_chain_is_nothing_to_what_the_same_key_sent_on_another(
    realm_db: Database,
) -> None:
    await live(realm_db, "e", 50, ELSEWHERE)
    elsewhere = rows(realm_db, "e")
    assert realm_db.point(late_jobs, CHAIN, 99_999, 9) == []
    assert realm_db.point(oldest_queued_ms, CHAIN) is None
    assert not realm_db.point(is_over_from, CHAIN, SENDER, 0)
    assert not realm_db.point(others_are_open, CHAIN, "0xnew")

    await live(realm_db, "h", 10)
    [out] = realm_db.point(open_transactions, CHAIN, SENDER, 9)
    assert (out.nonce, len(out.attempts), out.is_out) == (10, 1, True)
    assert job(realm_db, "pay_h2").state == "queued"
    assert await realm_db.write(doubt_job, job(realm_db, "pay_h3").seq)
    assert await realm_db.write(reopen_from, CHAIN, SENDER, 0, 9) == 2
    assert rows(realm_db, "e") == elsewhere
    assert await realm_db.write(reopen_above, CHAIN, 0) == 0
    assert await realm_db.write(abandon_others, CHAIN, "0xnew") == 3
    assert rows(realm_db, "e") == elsewhere
    filler = Attempt("0xf", b"raw", Fees(100, 1), 1500)
    assert await realm_db.write(add_filler, CHAIN, SENDER, 50, 1000, filler, 1500) is not None


async def test_each_key_has_its_own_nonces(realm_db: Database) -> None:
    other = "0x" + "0b" * 20
    await live(realm_db, "o", 50, sender=other)
    others = rows(realm_db, "o")
    assert not realm_db.point(is_over_from, CHAIN, SENDER, 0)

    await live(realm_db, "h", 10)
    assert [one.nonce for one in realm_db.point(open_transactions, CHAIN, SENDER, 9)] == [10]
    assert await realm_db.write(reopen_from, CHAIN, SENDER, 0, 9) == 2
    assert rows(realm_db, "o") == others
    filler = Attempt("0xf", b"raw", Fees(100, 1), 1500)
    assert await realm_db.write(add_filler, CHAIN, SENDER, 50, 1000, filler, 1500) is not None
    assert await realm_db.write(abandon_others, CHAIN, SENDER) == 1
    assert [one.nonce for one in realm_db.point(open_transactions, CHAIN, SENDER, 9)] == [10, 11, 12, 50]
    assert not realm_db.point(others_are_open, CHAIN, SENDER)


async def test_a_reorg_takes_from_a_job_what_it_landed_by_and_wakes_no_dead_one(realm_db: Database) -> None:
    for number in range(2):
        reverted = await send(realm_db, await owe(realm_db, f"pay_{number}"), number)
        await mine(realm_db, reverted, 100, status=0)
    await mine(realm_db, await send(realm_db, job(realm_db, "pay_0"), 2), 102)
    assert await realm_db.write(kill_job, job(realm_db, "pay_1").seq, "Refused.")
    assert realm_db.point(count_reverts, job(realm_db, "pay_0").seq) == 1

    assert await realm_db.write(reopen_above, CHAIN, 101) == 1
    assert job(realm_db, "pay_0").state == "sent"
    assert await realm_db.write(reopen_above, CHAIN, 99) == 2
    assert job(realm_db, "pay_1").state == "dead"
