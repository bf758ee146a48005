"""The relayer of a chain: every job lands once, whatever nodes, crashes and strangers do meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from payd.actors.relayer import BUSY_S, DAY_MS, IDLE_S, PAUSE_S, QUEUE_OLD_MS, QUEUED_MAX, TROUBLE
from payd.chains.rpc import NodesDown
from payd.core.errors import StoreUnavailable
from payd.core.payment import transition
from payd.core.relay import RETRY_FIRST_MS
from payd.store.db import Database
from payd.store.relays import insert_job, kill_job
from tests.actors.relay_bench import COIN, buyer, buyer_address, job, open_bench
from tests.actors.relay_chain import GWEI
from tests.inserts import record_transition
from tests.store.test_payments import event, funds, payment, store


async def test_what_a_buyer_signed_is_brought_to_the_chain(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = await bench.owe()
        await bench.tick()
        [sent] = bench.pool
        assert (sent.to, sent.data, sent.nonce) == (owed.target, owed.data, 0)
        assert bench.job().state == "sent"
        assert bench.job().left_us

        bench.mine()
        await bench.tick()
        assert bench.landed(owed)
        assert bench.state() == "landed"
        assert bench.open() == []
        assert bench.woken == 1


async def test_sixty_jobs_all_land_once_with_sixteen_in_flight(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = [await bench.owe(f"pay_{number}", number) for number in range(60)]
        mined: list[str] = []
        for in_flight in (16, 16, 16, 12):
            await bench.tick()
            assert len(bench.pool) == len(bench.open()) == in_flight
            mined += bench.mine()
        await bench.tick()
        assert len(mined) == 60
        assert all(bench.landed(one) for one in owed)
        assert {bench.state(f"pay_{number}") for number in range(60)} == {"landed"}
        assert bench.chain.head.state.counts[bench.signer.address] == 60
        assert all(
            block.receipts[one]["status"] == "0x1" for block in bench.chain.blocks for one in block.receipts
        )


async def test_two_ticks_at_once_send_a_job_once(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(bench.relayer.run_once)
        assert len(bench.open()) == 1
        assert len({tx.hash for tx in bench.nodes[0].sent}) == 1


async def test_two_relayers_by_mistake_send_a_job_once(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe("pay_1", 1)
        await bench.owe("pay_2", 2)
        first = bench.relayer
        second = bench.restarted()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.run_once)
            nursery.start_soon(second.run_once)
        assert [one.nonce for one in bench.open()] == [0, 1]
        assert sorted(one.job_seq for one in bench.open()) == [1, 2]


async def test_one_node_of_two_is_enough_in_any_trouble(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        bad = bench.nodes[0]
        for number, trouble in enumerate(("status", "hangs", "drops", "lag")):
            setattr(bad, trouble, 503 if trouble == "status" else 3 if trouble == "lag" else True)
            owed = await bench.owe(f"pay_{number}", number)
            await bench.tick(61)
            assert len(bench.nodes[1].pool) == 1, trouble
            bench.nodes[1].mine()
            await bench.tick(61)
            assert bench.landed(owed)
            setattr(bad, trouble, None if trouble == "status" else 0 if trouble == "lag" else False)
            bad.tidy()
            await bench.tick(61)
            assert bench.state(f"pay_{number}") == "landed", trouble


async def test_nodes_that_are_all_down_for_a_while_cost_nothing_but_time(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        await bench.owe("pay_1", 1)
        await bench.tick()
        await bench.owe("pay_2", 2)
        for node in bench.nodes:
            node.status = 503
        for _ in range(5):
            with pytest.raises(NodesDown):
                await bench.tick(10)
        for node in bench.nodes:
            node.status = None
        await bench.tick(60)
        bench.mine()
        await bench.tick()
        assert [bench.state("pay_1"), bench.state("pay_2")] == ["landed", "landed"]
        assert bench.job("pay_2").tries == 0


async def test_the_task_sends_a_job_as_soon_as_it_is_woken(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.relayer.run)
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(1)
        before_s = trio.current_time()
        await bench.owe()
        bench.relayer.wake()
        while not bench.pool:
            await trio.sleep(0.01)
        assert trio.current_time() - before_s < 1
        bench.mine()
        bench.relayer.wake()
        while bench.state() != "landed":
            await trio.sleep(0.01)
        assert trio.current_time() - before_s < 2
        nursery.cancel_scope.cancel()


async def test_a_tick_that_fails_is_tried_again_later_and_later(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench, trio.open_nursery() as nursery:
        bench.nodes[0].status = 503
        await bench.owe()
        nursery.start_soon(bench.relayer.run)
        await trio.sleep(120)
        assert 8 <= bench.relayer._failures <= 12
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("failure", [None, "the disk is full"])
async def test_the_store_may_be_away_for_a_while(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch, failure: str | None
) -> None:
    """Also where nobody else has noticed yet, as when the disk fails a read."""

    def refuse(*_: object) -> Any:
        raise StoreUnavailable("The store cannot be read at the moment.")

    async with open_bench(realm_db) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.relayer.run)
        await trio.sleep(1)
        owed = await bench.owe()
        with monkeypatch.context() as patched:
            patched.setattr(realm_db, "point", refuse)
            patched.setattr(realm_db, "_failure", failure)
            bench.relayer.wake()
            await trio.sleep(60)
        await trio.sleep(TROUBLE.last_s + 1)
        bench.mine()
        assert bench.landed(owed)
        nursery.cancel_scope.cancel()


async def test_while_anything_is_open_the_chain_is_asked_every_few_seconds(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench, trio.open_nursery() as nursery:
        await bench.owe()
        nursery.start_soon(bench.relayer.run)
        await trio.sleep(1)
        bench.mine()
        await trio.sleep(BUSY_S + 1)
        assert bench.state() == "landed"
        nursery.cancel_scope.cancel()


async def test_however_often_it_is_woken_it_ticks_a_few_times_a_second(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench(realm_db) as bench, trio.open_nursery() as nursery:
        ticks_s: list[float] = []
        tick = bench.relayer._tick

        async def counted() -> None:
            ticks_s.append(trio.current_time())
            await tick()

        monkeypatch.setattr(bench.relayer, "_tick", counted)
        nursery.start_soon(bench.relayer.run)
        for _ in range(200):
            bench.relayer.wake()
            await trio.sleep(0.01)
        assert 6 <= len(ticks_s) <= 2 / PAUSE_S + 1
        nursery.cancel_scope.cancel()


async def test_what_the_chain_refused_is_tried_again_soon_after_its_time(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench, trio.open_nursery() as nursery:
        bench.chain.refused[buyer_address(0)] = "paused"
        await bench.owe()
        nursery.start_soon(bench.relayer.run)
        await trio.sleep(1)
        assert bench.job().tries == 1
        bench.chain.refused.clear()
        await trio.sleep(RETRY_FIRST_MS / 1000 + BUSY_S + 1)
        assert len(bench.pool) == 1
        nursery.cancel_scope.cancel()


async def test_the_task_goes_on_when_nodes_come_back(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench, trio.open_nursery() as nursery:
        bench.nodes[0].status = 503
        await bench.owe()
        nursery.start_soon(bench.relayer.run)
        await trio.sleep(600)
        bench.nodes[0].status = None
        await trio.sleep(75)
        assert len(bench.pool) == 1
        nursery.cancel_scope.cancel()


async def test_with_nothing_to_do_only_the_balance_is_read_once_a_minute(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.relayer.run)
        await trio.sleep(3)
        bench.nodes[0].calls.clear()
        for _ in range(600):
            bench.relayer.wake()
            await trio.sleep(1)
        assert 9 <= bench.nodes[0].calls["eth_getBalance"] <= 11
        assert bench.nodes[0].calls["eth_getTransactionReceipt"] == 0
        nursery.cancel_scope.cancel()


async def test_the_calls_of_a_tick_do_not_grow_with_what_is_done(realm_db: Database) -> None:
    async def calls_for_one(name: str) -> tuple[int, int]:
        before = bench.nodes[0].calls.total(), bench.nodes[0].posts
        await bench.owe(name)
        await bench.tick()
        bench.mine()
        await bench.tick()
        return bench.nodes[0].calls.total() - before[0], bench.nodes[0].posts - before[1]

    async with open_bench(realm_db) as bench:
        await calls_for_one("pay_first")
        once = await calls_for_one("pay_second")
        for number in range(40):
            await bench.owe(f"pay_{number}", number)
        while bench.open() or bench.relayer.stats().queued:
            await bench.tick()
            bench.mine()
        assert await calls_for_one("pay_last") == once


async def test_a_day_has_so_many_payments_of_one_buyer(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.spend(relays_per_buyer=2)
        await bench.tick()
        assert bench.relayer.can_relay(buyer(1))
        await bench.owe("pay_1", 1)
        await bench.owe("pay_2", 1)
        assert not bench.relayer.can_relay(buyer(1))
        assert bench.relayer.can_relay(buyer(2))
        await trio.sleep(DAY_MS / 1000 + 1)
        assert bench.relayer.can_relay(buyer(1))


async def test_nobody_is_offered_a_relay_before_the_balance_is_known(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        assert not bench.relayer.can_relay(buyer(1))
        await bench.tick()
        assert bench.relayer.can_relay(buyer(1))


async def test_nobody_is_offered_a_relay_while_too_many_wait(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.tick()
        for number in range(QUEUED_MAX):
            await realm_db.write(insert_job, f"pay_{number}", job(f"pay_{number}", number), 0)
            assert bench.relayer.can_relay(buyer(999)) == (number + 1 < QUEUED_MAX)


async def test_an_account_that_runs_low_is_an_alarm_long_before_it_is_empty(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        a_payment = 150_000 * 21 * GWEI
        bench.chain.fund(bench.signer.address, 19 * a_payment)
        await bench.tick()
        assert bench.relayer.stats().alarms == {"balance_low"}
        assert bench.relayer.can_relay(buyer(1))
        bench.chain.fund(bench.signer.address, a_payment - 1)
        await bench.tick(61)
        assert bench.relayer.stats().alarms == {"balance_low", "balance_empty"}
        assert not bench.relayer.can_relay(buyer(1))
        bench.chain.fund(bench.signer.address, COIN)
        await bench.tick(61)
        assert bench.relayer.stats().alarms == frozenset()


async def test_an_alarm_stays_while_no_node_answers(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench, trio.open_nursery() as nursery:
        bench.chain.fund(bench.signer.address, 19 * 150_000 * 21 * GWEI)
        nursery.start_soon(bench.relayer.run)
        await trio.sleep(1)
        assert bench.relayer.stats().alarms == {"balance_low"}
        bench.nodes[0].status = 503
        await bench.owe()
        bench.relayer.wake()
        await trio.sleep(60)
        assert bench.relayer.stats().alarms == {"balance_low"}
        nursery.cancel_scope.cancel()


async def test_an_account_that_was_emptied_meanwhile_loses_nothing(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = await bench.owe()
        await bench.tick()
        bench.nodes[0].pool.clear()
        bench.chain.fund(bench.signer.address, 0)
        await bench.tick(30)
        assert bench.pool == []
        assert "balance_empty" in bench.relayer.stats().alarms
        assert bench.state() == "sent"
        bench.chain.fund(bench.signer.address, COIN)
        await bench.tick(6)
        bench.mine()
        await bench.tick()
        assert bench.landed(owed)
        assert bench.state() == "landed"


async def test_jobs_that_wait_for_minutes_are_an_alarm(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.chain.refused[buyer_address(0)] = "paused"
        await bench.owe()
        await bench.tick(QUEUE_OLD_MS / 1000 - 1)
        assert "queue_old" not in bench.relayer.stats().alarms
        await bench.tick(31)
        assert "queue_old" in bench.relayer.stats().alarms


async def test_jobs_that_wait_for_nodes_are_an_alarm_and_nobody_is_offered_a_relay(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.relayer.run)
        await trio.sleep(1)
        assert bench.relayer.can_relay(buyer(1))
        bench.nodes[0].status = 503
        await bench.owe()
        bench.relayer.wake()
        await trio.sleep(QUEUE_OLD_MS / 1000 - 1)
        assert bench.relayer.stats().alarms == frozenset()
        assert not bench.relayer.can_relay(buyer(1))
        await trio.sleep(20)
        assert bench.relayer.stats().alarms == {"queue_old"}
        bench.nodes[0].status = None
        await trio.sleep(75)
        assert bench.relayer.stats().alarms == frozenset()
        assert bench.relayer.can_relay(buyer(1))
        nursery.cancel_scope.cancel()


async def processing(db: Database, number: int) -> str:
    """A payment that is processing, and its id."""
    draft = payment(number)
    await store(db, draft)
    moved = transition(draft, funds(), 2000)
    await db.write(record_transition, moved, event(moved), None)
    return draft.id


async def test_a_payment_whose_job_is_dead_is_told_until_it_has_heard(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        payment_id = await processing(realm_db, 1)
        await bench.owe(payment_id)
        await bench.owe("pay_elsewhere")
        for seq in (1, 2):
            await realm_db.write(kill_job, seq, "It was refused.")
        bench.restarted()
        await bench.tick()
        await bench.tick()
        assert bench.told == [payment_id, payment_id]
        await realm_db.write(lambda tx: tx.execute("UPDATE payments SET status = 'failed'"))
        await bench.tick()
        assert bench.told == [payment_id, payment_id]


async def test_a_payment_is_told_at_once_that_its_job_is_dead(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench, trio.open_nursery() as nursery:
        payment_id = await processing(realm_db, 1)
        nursery.start_soon(bench.relayer.run)
        await trio.sleep(59)
        bench.chain.mine(time_s=bench.job_until_s + 1)
        await bench.owe(payment_id)
        bench.relayer.wake()
        await trio.sleep(0.5)
        assert bench.told == [payment_id]
        nursery.cancel_scope.cancel()


async def test_a_store_that_cannot_be_read_for_a_moment_ends_no_telling(
    realm_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise StoreUnavailable("It is full.")

    async with open_bench(realm_db) as bench, trio.open_nursery() as nursery:
        payment_id = await processing(realm_db, 1)
        await bench.owe(payment_id)
        await realm_db.write(kill_job, 1, "It was refused.")
        monkeypatch.setattr(realm_db, "look", fails)
        nursery.start_soon(bench.relayer.run)
        await trio.sleep(1)
        monkeypatch.undo()
        await trio.sleep(IDLE_S)
        assert bench.told == [payment_id]
        nursery.cancel_scope.cancel()


async def test_a_payment_whose_job_has_left_is_not_told_that_nothing_comes_of_it(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db) as bench:
        payment_id = await processing(realm_db, 1)
        await bench.owe(payment_id)
        await bench.tick()
        bench.chain.refused[buyer_address(0)] = "paused"
        bench.mine()
        bench.chain.mine(time_s=bench.job_until_s)
        await bench.tick(6)
        await bench.tick(6)
        assert bench.state(payment_id) == "dead"
        assert bench.told == []


async def test_what_another_key_sent_is_brought_by_the_new_one(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = await bench.owe()
        await bench.tick()
        bench.nodes[0].pool.clear()
        bench.change_key()
        await bench.tick()
        [sent] = bench.pool
        assert sent.sender == bench.signer.address
        bench.mine()
        await bench.tick()
        assert bench.landed(owed)
        assert bench.state() == "landed"


async def test_the_numbers_for_operators(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.spend(in_flight_max=2)
        assert bench.relayer.stats().balance is None
        created_ms = bench.clock.now_ms()
        for number in range(5):
            await bench.owe(f"pay_{number}", number)
        await bench.tick()
        stats = bench.relayer.stats()
        assert (stats.balance, stats.in_flight, stats.queued) == (10 * COIN, 2, 3)
        assert (stats.oldest_queued_ms, stats.spent_today) == (created_ms, 0)
        assert (stats.bumps, stats.reverts, stats.lost) == (0, 0, 0)
