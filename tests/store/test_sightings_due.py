"""Which transfers are looked at as their chain goes on, and which are let go of."""

from __future__ import annotations

from payd.core.payment import PaymentCancelled
from payd.core.relay import RelayJob
from payd.core.submission import Submission
from payd.store.relays import insert_job
from payd.store.sightings_due import due_sightings, give_up, is_busy
from payd.store.submissions import insert_submission
from payd.store.transfers import Follow, follow_transfer
from tests.chains.evm.json import BUYER, SHOP
from tests.ledger import run_sql
from tests.store.shown import due, seen, show
from tests.store.test_sightings_beside import OTHER, THERE
from tests.till import CHAIN, START_MS, WINDOW_MS, Till, account

START_S = START_MS // 1000


async def test_a_transfer_whose_payment_ended_meanwhile_is_let_go_of(till: Till) -> None:
    one, two = await till.sell("1"), await till.sell("2")
    await show(till, seen(one), seen(two, tx_id="0x02"), seen(one, tx_id="0x03", value=1))
    await till.move(one, PaymentCancelled("cancelled_by_user"))
    found = till.db.point(due_sightings, CHAIN, 99, None, 0, 9)
    assert [(each.payment_id, each.over) for each in found] == [(one, True)]
    assert await till.db.write(give_up, CHAIN) == 1
    assert [till.kinds(f"0x0{number}") for number in (1, 2, 3)] == [["late"], ["matched"], ["surplus"]]
    assert due(till) == [two]


async def test_a_transfer_is_due_once_its_block_is_final(till: Till) -> None:
    payment = await till.sell()
    await show(till, seen(payment))
    await till.db.write(follow_transfer, payment, Follow(CHAIN, "0x01", "0xa100", "final"))
    assert [due(till, 500, final) for final in (None, 99, 100)] == [[], [], [payment]]
    await till.db.write(follow_transfer, payment, Follow(CHAIN, "0x01", "0xa100", None))
    assert due(till, 500, 500) == []


async def test_more_than_fit_a_tick_come_in_turns(till: Till) -> None:
    payments = [await till.sell(str(number)) for number in range(3)]
    await show(till, *(seen(payment, tx_id=f"0x{payment}") for payment in payments))
    found = till.db.point(due_sightings, CHAIN, 100, None, 0, 2)
    assert [one.payment_id for one in found] == payments[:2]
    found = till.db.point(due_sightings, CHAIN, 100, None, found[-1].seq, 2)
    assert [one.payment_id for one in found] == payments[2:]


async def test_a_chain_is_busy_while_anything_may_happen_on_it(till: Till) -> None:
    assert not till.db.point(is_busy, CHAIN, START_MS)
    payment = await till.sell()
    over_ms = START_MS + WINDOW_MS
    assert till.db.point(is_busy, CHAIN, over_ms - 1)
    assert not till.db.point(is_busy, "eip155:1", START_MS)
    assert not till.db.point(is_busy, CHAIN, over_ms + 1)

    await show(till, seen(payment))
    assert till.db.point(is_busy, CHAIN, over_ms)
    await till.db.write(follow_transfer, payment, Follow(CHAIN, "0x01", "0xa100", None))
    assert not till.db.point(is_busy, CHAIN, over_ms + 1)

    await till.db.write(insert_job, payment, RelayJob(CHAIN, account(BUYER), SHOP, b"", START_S), START_MS)
    assert till.db.point(is_busy, CHAIN, over_ms)


async def test_a_chain_is_not_busy_with_what_is_over_or_waits_on_another(till: Till) -> None:
    over_ms = START_MS + WINDOW_MS + 1
    elsewhere = await till.sell("2", asset=THERE["asset"])
    await show(till, seen(elsewhere, **THERE))
    await till.db.write(insert_job, elsewhere, job_on(OTHER), START_MS)
    await till.db.write(insert_submission, elsewhere, Submission(OTHER, "b", "sig2", b"raw", 300), START_MS)
    payment = await till.sell()
    assert not till.db.point(is_busy, CHAIN, over_ms)
    assert till.db.point(is_busy, OTHER, over_ms)

    await till.db.write(insert_job, payment, job_on(CHAIN), START_MS)
    for state, is_owed in (("queued", True), ("sent", True), ("landed", False), ("dead", False)):
        await till.db.write(run_sql, "UPDATE relay_jobs SET state = ? WHERE chain = ?", state, CHAIN)
        assert till.db.point(is_busy, CHAIN, over_ms) is is_owed
    await till.db.write(insert_submission, payment, Submission(CHAIN, "b", "sig1", b"raw", 300), START_MS)
    assert till.db.point(is_busy, CHAIN, over_ms)
    await till.db.write(run_sql, "UPDATE submissions SET state = 'landed' WHERE chain = ?", CHAIN)
    assert not till.db.point(is_busy, CHAIN, over_ms)


def job_on(chain: str) -> RelayJob:
    return RelayJob(chain, account(BUYER, chain), SHOP, b"", START_S)


async def test_the_number_of_a_block_that_a_node_made_up_holds_until_another_one_shows_it(till: Till) -> None:
    """It would be looked at again when the chain has come so far, and is proven there by nobody."""
    payment = await till.sell()
    await show(till, seen(payment, block_number=10**9))
    assert due(till, 200) == []
    await show(till, seen(payment))
    [sighting] = till.shown("0x01")
    assert (sighting.block_number, sighting.block_hash, sighting.look_at) == (100, "0xa100", 100)
