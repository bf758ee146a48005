"""What was built for wallets and brought to a chain is forgotten long after its payment is over."""

from __future__ import annotations

from itertools import count
from typing import Literal

import msgspec
import pytest

from payd.actors.maintenance import DAY_MS, OWN_BUILDS_KEPT_MS, RELAYS_KEPT_MS, Maintenance
from payd.clock import Clock
from payd.core.payment import PaymentFailed, SettlementCompleted
from payd.core.submission import Submission
from payd.store.builds import Build, end_builds, find_build, hash_message, insert_build, prune_own_builds
from payd.store.db import Tx
from payd.store.payments import find_payment
from payd.store.retention import prune_submissions
from payd.store.submissions import end_submission, find_submission, insert_submission
from tests.ledger import run_sql
from tests.till import START_MS, Till

CHAIN = "solana:local"
BUYER = f"{CHAIN}:buyer"
LATER_MS = START_MS + DAY_MS


async def built(till: Till, payment: str, message: bytes, *, chain: str = CHAIN, paid: bool = False) -> bytes:
    """A transaction that a wallet was handed; what it is known by."""
    made = Build(hash_message(message), payment, chain, BUYER, 300, START_MS)
    if paid:
        made = msgspec.structs.replace(made, tx_id=f"sig-{message!r}", cost=10_000)
    await till.db.write(insert_build, made)
    return made.message_hash


async def owed(till: Till, payment: str, state: Literal["open", "landed"] = "landed") -> str:
    """A payment with what was brought to the chain for it."""
    submission = Submission(CHAIN, BUYER, f"sig-{payment}", b"raw", 300)
    await till.db.write(insert_submission, payment, submission, START_MS)
    found = till.db.point(find_submission, payment)
    assert found is not None
    if state != "open":
        await till.db.write(end_submission, found.seq, state)
    return payment


async def over(till: Till, number: int = 1) -> str:
    """A payment that is settled."""
    payment = await till.sell(str(number))
    await till.succeed(payment, f"sig{number}")
    await till.move(payment, SettlementCompleted(f"sig{number}"))
    return payment


async def test_what_was_handed_to_a_wallet_goes_a_day_after_it_was_of_use(till: Till) -> None:
    gone = await built(till, await over(till), b"one")
    elsewhere = await built(till, await over(till, 2), b"two", chain="solana:other")
    stays = await built(till, await till.sell("3"), b"three", chain="solana:third")
    confirming = await till.sell("4")
    await till.commit(confirming)
    stays_too = await built(till, confirming, b"four")
    assert await till.db.write(prune_own_builds, START_MS, 9) == 0, "it is young"

    assert await till.db.write(prune_own_builds, LATER_MS, 1) == 1
    assert await till.db.write(prune_own_builds, LATER_MS, 9) == 1
    assert [till.db.point(find_build, one) for one in (gone, elsewhere)] == [None, None]
    assert till.db.point(find_build, stays) is not None, "its payment is open"
    assert till.db.point(find_build, stays_too) is not None, "its payment is processing"


async def test_what_we_paid_for_is_not_read_in_search_of_what_wallets_were_handed(till: Till) -> None:
    """The writer runs it each hour, and every payment waits meanwhile."""

    def steps(tx: Tx) -> int:
        taken = count()
        tx.set_progress_handler(lambda: next(taken) < 0, 1)
        assert prune_own_builds(tx, LATER_MS, 9) == 0
        tx.set_progress_handler(None, 0)
        return next(taken)

    payment, taken = await over(till), []
    for number in range(20):
        await built(till, payment, str(number).encode(), paid=True)
        taken.append(await till.db.write(steps))
    assert taken[-1] == taken[0]


async def test_what_was_settled_late_is_as_old_as_that(till: Till) -> None:
    """Who asks about a payment asks about the last that happened to it."""
    payment = await owed(till, await over(till))
    found = till.db.point(find_payment, payment)
    assert found is not None
    settled_ms = found.updated_at_ms
    await till.db.write(run_sql, "UPDATE submissions SET created_at_ms = ?", settled_ms - 9)

    pruned = [await till.db.write(prune_submissions, 0, settled_ms + late_ms, 9) for late_ms in (-8, 0, 1)]
    assert [each.rows for each in pruned] == [0, 0, 1]


@pytest.mark.parametrize("then", ["open", "processing", "succeeded"])
async def test_what_may_still_be_sent_or_asked_for_stays(till: Till, then: str) -> None:
    payment = await till.sell()
    await owed(till, payment, "open" if then == "open" else "landed")
    await (till.succeed(payment, "sig") if then == "succeeded" else till.commit(payment))
    if then == "open":
        await till.move(payment, PaymentFailed("x"))

    assert (await till.db.write(prune_submissions, 0, LATER_MS, 9)).rows == 0


async def test_a_prune_looks_at_no_more_submissions_than_it_may(till: Till) -> None:
    for number in range(3):
        await owed(till, await over(till, number), "landed" if number else "open")
    first = await till.db.write(prune_submissions, 0, LATER_MS, 2)
    second = await till.db.write(prune_submissions, first.after_seq or 0, LATER_MS, 2)
    assert [first.rows, second.rows, second.after_seq] == [1, 1, None]


async def test_what_we_paid_for_is_known_for_a_quarter_and_what_is_out_for_ever(till: Till) -> None:
    payment = await owed(till, await over(till))
    landed, out = [await built(till, payment, message, paid=True) for message in (b"one", b"two")]
    own = await built(till, payment, b"three")
    await till.db.write(end_builds, [(landed, "landed", 9_000)])
    clock = Clock(lambda: START_MS)
    chores = Maintenance(till.db, clock, keep_days=30, collected_days=90)

    async def pruned(after_ms: int) -> tuple[int, int]:
        clock.move_to_offset(after_ms)
        counts = await chores.run_once()
        return counts["own_builds"] + counts["paid_builds"], counts["submissions"]

    assert await pruned(OWN_BUILDS_KEPT_MS) == (0, 0)
    assert await pruned(OWN_BUILDS_KEPT_MS + 1) == (1, 0)
    assert await pruned(RELAYS_KEPT_MS) == (0, 0)
    assert await pruned(RELAYS_KEPT_MS + 1) == (1, 1)
    assert [till.db.point(find_build, one) is None for one in (own, landed, out)] == [True, True, False]
