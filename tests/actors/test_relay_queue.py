"""What the relayer owes: tried before it costs gas, tried again as long as it can land, given up in words."""

from __future__ import annotations

import pytest

from payd.actors.relay_queue import MERCHANT_FIRST, PAID_OTHERWISE, TOO_DEAR
from payd.chains.evm.legs import legs_of
from payd.core.relay import COST_MAX, SEND_MARGIN_S
from payd.store.db import Database, Tx
from payd.store.relays import insert_job
from payd.store.sightings import record
from tests.actors.relay_bench import COIN, UNTIL_S, buyer_address, open_bench, with_fee
from tests.actors.relay_chain import GWEI, START_S, PoolNode
from tests.store.shown import seen
from tests.till import EURC, PRICE, Till

SOON_S = 30.0


async def test_what_the_chain_refuses_is_not_sent_and_tried_again_later_and_later(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        bench.chain.refused[buyer_address(0)] = "paused"
        await bench.tick()
        assert bench.nodes[0].sent == []
        found = bench.job()
        assert (found.state, found.tries, found.left_us) == ("queued", 1, False)
        assert found.reason == "execution reverted: paused"

        bench.nodes[0].calls.clear()
        await bench.tick(SOON_S - 1)
        assert bench.nodes[0].calls["eth_estimateGas"] == 0
        await bench.tick(1)
        assert bench.job().tries == 2
        await bench.tick(SOON_S)
        assert bench.job().tries == 2

        bench.chain.refused.clear()
        await bench.tick(SOON_S)
        assert bench.state() == "sent"


async def test_what_never_left_and_is_refused_for_minutes_is_given_up_and_its_payment_told(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        bench.chain.refused[buyer_address(0)] = "transfer amount exceeds balance"
        waited_s = 0
        while bench.state() == "queued":
            await bench.tick(10)
            waited_s += 10
        found = bench.job()
        assert waited_s > 120
        assert (found.state, found.left_us, found.tries) == ("dead", False, 3)
        assert found.reason == "execution reverted: transfer amount exceeds balance"
        assert bench.nodes[0].sent == []


async def test_a_single_node_that_refuses_gives_nothing_up(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        await bench.owe()
        refuse_on(bench.nodes[0])
        for _ in range(60):
            await bench.tick(10)
        assert bench.state() == "queued"
        assert bench.job().tries >= 4


def refuse_on(node: PoolNode) -> None:
    """Have one node say that every call reverts."""
    honest = node.result

    def result(method: str, *params: object) -> object:
        if method == "eth_estimateGas" or (method == "eth_call" and len(params[0]["data"]) > 200):  # type: ignore[index]
            node.chain.refused = {buyer_address(0): "no"}
        try:
            return honest(method, *params)
        finally:
            node.chain.refused = {}

    node.result = result  # type: ignore[method-assign]


async def test_what_was_sent_once_is_never_given_up_while_it_can_land(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = await bench.owe()
        await bench.tick()
        bench.chain.refused[buyer_address(0)] = "paused"
        bench.mine()
        for _ in range(40):
            await bench.tick(60)
        found = bench.job()
        assert (found.state, found.left_us) == ("queued", True)
        assert found.tries > 4
        bench.chain.refused.clear()
        await bench.tick(480)
        bench.mine()
        await bench.tick()
        assert bench.landed(owed)
        assert bench.state() == "landed"


@pytest.mark.parametrize("left_us", [False, True])
async def test_what_the_chain_refuses_by_its_time_is_given_up(realm_db: Database, left_us: bool) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        if left_us:
            await bench.tick()
        bench.chain.refused[buyer_address(0)] = "paused"
        bench.mine()
        await bench.tick()
        bench.chain.mine(time_s=UNTIL_S - SEND_MARGIN_S - 1)
        await bench.tick(61)
        assert bench.state() == "queued"
        bench.chain.mine(time_s=UNTIL_S - SEND_MARGIN_S)
        await bench.tick(61)
        found = bench.job()
        assert (found.state, found.left_us) == ("dead", left_us)
        assert "time" in (found.reason or "")


async def test_a_node_that_runs_ahead_ends_no_job(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        bench.spend(max_fee=GWEI)
        await bench.owe()
        bench.nodes[0].lag = 1
        bench.chain.mine(time_s=UNTIL_S)
        await bench.tick()
        assert bench.state() == "queued"
        bench.nodes[0].lag = 0
        await bench.tick(6)
        assert bench.state() == "dead"


async def test_a_node_that_runs_ahead_while_the_other_is_away_ends_no_job(realm_db: Database) -> None:
    """What is given up is never tried again: the buyer has signed, and the payment would expire."""
    async with open_bench(realm_db, nodes=2) as bench:
        owed = await bench.owe()
        bench.nodes[0].status = 503
        honest = bench.nodes[1].result

        def result(method: str, *params: object) -> object:
            said = honest(method, *params)
            return said | {"timestamp": hex(UNTIL_S)} if method == "eth_getBlockByNumber" else said

        bench.nodes[1].result = result  # type: ignore[method-assign]
        await bench.tick()
        assert bench.state() != "dead"
        bench.nodes[0].status, bench.nodes[1].result = None, honest  # type: ignore[method-assign]
        await bench.tick(61)
        bench.mine()
        await bench.tick(6)
        assert bench.landed(owed)


async def test_what_somebody_else_brought_is_not_sent(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = await bench.owe()
        bench.chain.use(owed.data, owed.target)
        await bench.tick()
        found = bench.job()
        assert (found.state, found.left_us) == ("landed", False)
        assert bench.nodes[0].sent == []
        assert bench.woken == 1


async def test_one_node_alone_can_not_say_that_somebody_else_brought_it(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        owed = await bench.owe()
        bench.chain.use(owed.data, owed.target)
        bench.nodes[1].lag = 1
        await bench.tick()
        assert bench.state() == "queued"
        assert bench.job().tries == 0
        bench.nodes[1].lag = 0
        await bench.tick(SOON_S)
        assert bench.state() == "landed"


async def test_of_two_authorizations_the_one_that_is_left_is_sent_alone(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = with_fee("pay_1")
        await realm_db.write(insert_job, "pay_1", owed, 0)
        main, fee = legs_of(owed.target, owed.data)
        bench.chain.use(main.data, main.token)
        await bench.tick()
        assert bench.pool == [], "the buyer may have taken it back"
        assert bench.job().reason == MERCHANT_FIRST

        await realm_db.write(show_paid, "pay_1")
        await bench.tick(SOON_S)
        [sent] = bench.pool
        assert (sent.to, sent.data) == (fee.token, fee.data)

        await bench.tick(61)
        assert [tx.data for tx in bench.pool] == [fee.data]
        bench.mine()
        await bench.tick()
        assert bench.landed(owed)
        assert bench.state() == "landed"


async def test_where_the_merchants_is_left_it_waits_for_nothing(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = with_fee("pay_1")
        await realm_db.write(insert_job, "pay_1", owed, 0)
        main, fee = legs_of(owed.target, owed.data)
        bench.chain.use(fee.data, fee.token)
        await bench.tick()
        assert [(tx.to, tx.data) for tx in bench.pool] == [(main.token, main.data)]


def show_paid(tx: Tx, payment_id: str) -> None:
    """The chain shows that the merchant was paid."""
    tx.execute(
        "INSERT INTO transfers (account_id, payment_id, chain, tx_id, log_index, asset, value, sender,"
        " recipient, kind, seen_at_ms, block_number, block_hash, block_time_s)"
        " VALUES ('acct_1', ?, 'eip155:8453', '0x01', 0, 'a', '1', 's', 'r', 'matched', 1, 5, '0xb5', 1)",
        (payment_id,),
    )


async def test_two_authorizations_are_sent_as_one_call(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = with_fee("pay_1")
        await realm_db.write(insert_job, "pay_1", owed, 0)
        await bench.tick()
        assert [(tx.to, tx.data) for tx in bench.pool] == [(owed.target, owed.data)]
        bench.mine()
        await bench.tick()
        assert bench.landed(owed)


async def test_the_gas_is_what_a_node_estimates_and_a_quarter_more(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.chain.estimate = 80_000
        await bench.owe()
        await bench.tick()
        assert bench.pool[0].gas == 105_000


async def test_gas_with_which_no_node_takes_a_transaction_is_no_estimate(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.chain.estimate = 0
        await bench.owe()
        await bench.tick()
        assert bench.nodes[0].sent == []
        assert (bench.state(), bench.job().tries) == ("queued", 0)
        bench.chain.estimate = 80_000
        await bench.tick(SOON_S)
        assert bench.state() == "sent"


async def test_a_call_that_would_burn_any_amount_of_gas_is_not_sent(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.chain.estimate = 20_000_000
        await bench.owe()
        await bench.tick()
        assert bench.nodes[0].sent == []
        assert "gas" in (bench.job().reason or "")


async def test_a_call_that_nodes_would_not_take_for_its_cost_holds_up_no_other(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.spend(max_fee=1000 * GWEI)
        bench.chain.base_fee = 300 * GWEI
        bench.chain.estimate = 1_500_000
        await bench.owe("pay_0", 0)
        await bench.tick()
        assert bench.nodes[0].sent == []
        assert bench.job("pay_0").reason == TOO_DEAR

        bench.chain.estimate = 100_000
        await bench.owe("pay_1", 1)
        await bench.tick()
        assert [bench.state(f"pay_{number}") for number in range(2)] == ["queued", "sent"]
        assert bench.pool[0].gas * bench.pool[0].max_fee <= COST_MAX


async def test_what_another_transfer_has_paid_is_not_brought_while_the_chain_shows_that(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        await realm_db.write(show_paid, "pay_1")
        await bench.tick()
        await bench.tick(SOON_S)
        assert bench.nodes[0].sent == []
        assert (bench.state(), bench.job().reason) == ("queued", PAID_OTHERWISE)

        await realm_db.write(lambda tx: tx.execute("UPDATE transfers SET block_hash = NULL"))
        await bench.tick(SOON_S)
        assert bench.state() == "sent"


async def committed(realm_db: Database) -> tuple[Till, str]:
    """A till, and a payment for which its buyer has signed, who can pay it by hand as well."""
    till = await Till(realm_db).open()
    payment = await till.sell()
    await till.offer(payment, asset=EURC)
    await till.commit(payment)
    return till, payment


@pytest.mark.parametrize(
    ("value", "after_ms", "state"),
    [(PRICE, 1, "queued"), (PRICE + 1, 1, "sent"), (PRICE, 0, "sent")],
    ids=["exact", "too much", "seen before"],
)
async def test_a_buyer_who_has_paid_in_another_way_since_is_not_charged_for_a_signature_that_never_left(
    realm_db: Database, value: int, after_ms: int, state: str
) -> None:
    till, payment = await committed(realm_db)
    async with open_bench(realm_db) as bench:
        signed_ms = bench.clock.now_ms()
        await bench.owe(payment)
        await realm_db.write(record, [seen(payment, asset=EURC, value=value)], signed_ms + after_ms)
        assert till.kinds("0x01") == ["surplus"]
        await bench.tick()

        assert bench.state(payment) == state
        assert till.kinds("0x01") == ["matched" if state == "queued" else "surplus"]
        assert bool(bench.nodes[0].sent) == (state == "sent")


async def test_what_a_node_has_is_not_given_up_for_what_is_paid_beside_it(realm_db: Database) -> None:
    till, payment = await committed(realm_db)
    async with open_bench(realm_db) as bench:
        await bench.owe(payment)
        await bench.tick()
        await realm_db.write(record, [seen(payment, asset=EURC)], bench.clock.now_ms() + 1)
        bench.mine()
        await bench.tick()

        assert till.kinds("0x01") == ["surplus"]


async def test_nor_is_what_a_node_had_and_is_to_be_sent_again(realm_db: Database) -> None:
    till, payment = await committed(realm_db)
    async with open_bench(realm_db) as bench:
        await bench.owe(payment)
        await bench.tick()
        bench.chain.refused[buyer_address(0)] = "paused"
        bench.mine()
        await bench.tick()
        assert (bench.state(payment), bench.job(payment).left_us) == ("queued", True)
        bench.chain.refused.clear()
        await realm_db.write(record, [seen(payment, asset=EURC)], bench.clock.now_ms() + 1)
        await bench.tick(480)

        assert till.kinds("0x01") == ["surplus"]
        assert bench.state(payment) == "sent"


async def test_a_budget_that_is_used_up_keeps_jobs_waiting_until_the_next_day(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe("pay_1", 1, valid_until_s=2 * UNTIL_S)
        await bench.tick()
        bench.mine()
        await bench.tick()
        spent = bench.relayer.stats().spent_today
        bench.spend(gas_per_day=spent + 100_000 * GWEI)
        await bench.owe("pay_2", 2, valid_until_s=2 * UNTIL_S)
        await bench.tick()
        assert bench.state("pay_2") == "queued"
        assert "budget" in bench.relayer.stats().alarms
        assert not bench.relayer.can_relay("anybody")

        bench.spend(gas_per_day=spent + 150_000 * 21 * GWEI)
        await bench.tick()
        assert bench.state("pay_2") == "sent"
        assert "budget" not in bench.relayer.stats().alarms
        bench.mine()
        await bench.tick()
        await bench.owe("pay_3", 3, valid_until_s=2 * UNTIL_S)
        await bench.tick(6)
        assert bench.state("pay_3") == "queued"
        await bench.tick(86_400)
        assert bench.state("pay_3") == "sent"


async def test_no_more_is_sent_than_the_account_can_pay_for(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.chain.fund(bench.signer.address, 2 * 150_000 * 21 * GWEI)
        for number in range(4):
            await bench.owe(f"pay_{number}", number)
        await bench.tick()
        assert len(bench.pool) == 2
        assert "balance_empty" in bench.relayer.stats().alarms
        assert all(not bench.job(f"pay_{number}").left_us for number in (2, 3))

        bench.chain.fund(bench.signer.address, COIN)
        await bench.tick(SOON_S)
        assert len(bench.pool) == 4
        assert bench.relayer.stats().alarms == frozenset()


async def test_gas_that_is_too_dear_keeps_jobs_waiting_without_trying_them(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.chain.base_fee = 600 * GWEI
        bench.chain.mine()
        await bench.owe()
        await bench.tick()
        assert bench.state() == "queued"
        assert bench.nodes[0].calls["eth_estimateGas"] == 0
        assert bench.relayer.stats().alarms >= {"fee_limit"}
        bench.chain.base_fee = 10 * GWEI
        await bench.tick(6)
        assert bench.state() == "sent"


async def test_a_node_that_knows_no_tips_is_asked_for_its_price(realm_db: Database) -> None:
    async with open_bench(realm_db, without=frozenset({"eth_maxPriorityFeePerGas"})) as bench:
        bench.chain.tip = 3 * GWEI
        await bench.owe()
        await bench.tick()
        assert bench.pool[0].tip == 3 * GWEI


async def test_a_node_that_can_not_tell_costs_no_try(realm_db: Database) -> None:
    async with open_bench(realm_db, without=frozenset({"eth_estimateGas"})) as bench:
        await bench.owe()
        for _ in range(20):
            await bench.tick(SOON_S)
        assert bench.state() == "queued"
        assert bench.job().tries == 0


async def test_jobs_wait_for_room_and_go_in_their_order(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.spend(in_flight_max=2)
        for number in range(3):
            await bench.owe(f"pay_{number}", number)
        await bench.tick()
        assert [bench.state(f"pay_{number}") for number in range(3)] == ["sent", "sent", "queued"]
        bench.mine()
        await bench.tick()
        assert [bench.state(f"pay_{number}") for number in range(3)] == ["landed", "landed", "sent"]


async def test_one_that_is_refused_does_not_hold_up_the_others(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.spend(in_flight_max=1)
        bench.chain.refused[buyer_address(1)] = "paused"
        await bench.owe("pay_1", 1)
        await bench.owe("pay_2", 2)
        await bench.tick()
        await bench.tick(6)
        assert [bench.state("pay_1"), bench.state("pay_2")] == ["queued", "sent"]


async def test_a_downtime_longer_than_the_window_ends_what_never_left(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        for number in range(3):
            await bench.owe(f"pay_{number}", number, valid_until_s=START_S + 60)
        bench.nodes[0].status = 503
        with pytest.raises(Exception, match="no node"):
            await bench.tick()
        bench.nodes[0].status = None
        bench.chain.mine(time_s=START_S + 7200)
        await bench.tick(7200)
        assert [bench.state(f"pay_{number}") for number in range(3)] == ["dead"] * 3
