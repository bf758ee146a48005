"""What the relayer did is forgotten long after its payments are over, but for what nonces follow on."""

from __future__ import annotations

from typing import Any

import pytest

from payd.actors.maintenance import DAY_MS, RELAYS_KEPT_MS, Maintenance
from payd.clock import Clock
from payd.core.gas import Fees
from payd.core.payment import PaymentFailed, SettlementCompleted
from payd.core.relay import RelayJob
from payd.store.relay_transactions import (
    Attempt,
    Mined,
    add_attempt,
    add_filler,
    add_transaction,
    next_nonce,
    note_lost,
    note_mined,
    open_transactions,
)
from payd.store.relays import find_job, insert_job, kill_job
from payd.store.retention import prune_fillers, prune_relays
from tests.chains.evm.json import BUYER, SHOP
from tests.ledger import run_sql
from tests.till import CHAIN, START_MS, Till, account

SENDER = "0x" + "11" * 20
LATER_MS = START_MS + DAY_MS


def attempt(name: str) -> Attempt:
    return Attempt(name, b"raw", Fees(100, 1), START_MS, START_MS)


async def relayed(till: Till, number: int, *, mined: bool = True) -> str:
    """A payment whose job was brought to the chain at the nonce of this number, with two forms."""
    payment = await till.sell(str(number))
    await till.commit(payment)
    owed = RelayJob(CHAIN, account(BUYER), SHOP, b"", START_MS // 1000 + 900)
    await till.db.write(insert_job, payment, owed, START_MS)
    job = till.db.point(find_job, payment)
    assert job is not None
    sent = await till.db.write(
        add_transaction, job, SENDER, number, 100_000, attempt(f"0x{number}a"), START_MS
    )
    assert sent is not None
    await till.db.write(add_attempt, sent.seq, attempt(f"0x{number}b"), 1000)
    if mined:
        await till.db.write(note_mined, sent, Mined(7, 1, 1000), landed=None, retry_at_ms=0)
    return payment


async def settled(till: Till, number: int) -> str:
    """As `relayed`, to the end."""
    payment = await relayed(till, number)
    await till.succeed(payment, f"0x{number}a")
    await till.move(payment, SettlementCompleted(f"0x{number}a"))
    return payment


def counts(till: Till) -> list[int]:
    return [till.count(f"relay_{name}") for name in ("jobs", "transactions", "attempts")]


async def prune(till: Till, before_ms: int = LATER_MS, limit: int = 100) -> int:
    return (await till.db.write(prune_relays, 0, before_ms, limit)).rows


async def test_what_was_settled_long_ago_goes_and_the_last_nonce_stays(till: Till) -> None:
    for number in range(3):
        await settled(till, number)

    assert await prune(till, START_MS) == 0
    assert counts(till) == [3, 3, 6]
    assert await prune(till) == 2
    assert counts(till) == [1, 1, 2]
    assert till.db.point(next_nonce, CHAIN, SENDER, 0) == 3


async def test_the_last_nonce_is_the_last_of_its_key_that_was_not_lost(till: Till) -> None:
    await settled(till, 0)
    lost = await till.db.write(add_filler, CHAIN, SENDER, 1, 21_000, attempt("0xf"), START_MS)
    assert lost is not None
    await till.db.write(note_lost, lost, START_MS)
    await till.db.write(add_filler, CHAIN, "0x" + "22" * 20, 7, 21_000, attempt("0xe"), START_MS)
    await till.db.write(add_filler, "eip155:9", SENDER, 7, 21_000, attempt("0xd"), START_MS)

    assert await prune(till) == 0
    assert till.db.point(next_nonce, CHAIN, SENDER, 0) == 1


@pytest.mark.parametrize("then", ["processing", "succeeded", "open"])
async def test_what_may_still_be_needed_stays(till: Till, then: str) -> None:
    payment = await relayed(till, 0, mined=then != "open")
    if then == "succeeded":
        await till.succeed(payment, "0x0a")
    if then == "open":
        await till.move(payment, PaymentFailed("x"))
    await settled(till, 1)

    assert await prune(till) == 0
    assert counts(till)[0] == 2


@pytest.mark.parametrize("state", ["queued", "sent"])
async def test_what_is_still_owed_stays_whatever_became_of_its_payment(till: Till, state: str) -> None:
    for number in range(2):
        await settled(till, number)
    await till.db.write(run_sql, "UPDATE relay_jobs SET state = ?", state)

    assert await prune(till) == 0


async def test_a_job_that_was_given_up_goes_with_its_payment(till: Till) -> None:
    payment = await till.sell()
    await till.commit(payment)
    await till.db.write(insert_job, payment, RelayJob(CHAIN, account(BUYER), SHOP, b"", 1), START_MS)
    job = till.db.point(find_job, payment)
    assert job is not None
    await till.db.write(kill_job, job.seq, "It is too late.")
    assert await prune(till) == 0
    await till.move(payment, PaymentFailed("x"))
    assert await prune(till) == 1
    assert counts(till) == [0, 0, 0]


async def test_a_prune_looks_at_no_more_jobs_than_it_may_and_says_where_to_go_on(till: Till) -> None:
    for number in range(5):
        await settled(till, number)
    await till.db.write(run_sql, "UPDATE relay_jobs SET state = 'queued' WHERE payment_id = 'pay_l0'")
    first = await till.db.write(prune_relays, 0, LATER_MS, 2)
    second = await till.db.write(prune_relays, first.after_seq or 0, LATER_MS, 2)
    third = await till.db.write(prune_relays, second.after_seq or 0, LATER_MS, 2)
    assert [page.rows for page in (first, second, third)] == [1, 2, 0]
    assert third.after_seq is None


async def test_fillers_go_too_once_their_nonce_is_not_the_last(till: Till) -> None:
    filler = await till.db.write(add_filler, CHAIN, SENDER, 0, 21_000, attempt("0xf"), START_MS)
    assert filler is not None
    assert await till.db.write(prune_fillers, LATER_MS, 9) == 0, "it is open"
    await till.db.write(note_mined, filler, Mined(7, 1, 1000), landed=None, retry_at_ms=0)
    assert await till.db.write(prune_fillers, LATER_MS, 9) == 0, "it is the last"
    await settled(till, 1)
    assert await till.db.write(prune_fillers, START_MS, 9) == 0, "it is young"
    await settled(till, 2)

    assert await till.db.write(prune_fillers, LATER_MS, 9) == 1
    assert till.db.point(open_transactions, CHAIN, SENDER, 9) == []
    assert counts(till) == [2, 2, 4], "what was sent for a job stays with it"


@pytest.mark.parametrize(("keep_days", "kept_ms"), [(30, RELAYS_KEPT_MS), (365, 365 * DAY_MS)])
async def test_relays_are_kept_for_a_quarter_at_least(till: Till, keep_days: int, kept_ms: int) -> None:
    await settled(till, 0)
    await settled(till, 1)

    async def pruned(after_ms: int) -> dict[str, Any]:
        clock = Clock(lambda: START_MS + after_ms)
        return await Maintenance(till.db, clock, keep_days, collected_days=90).run_once()

    assert (await pruned(kept_ms))["relays"] == 0
    assert (await pruned(kept_ms + 1))["relays"] == 1
