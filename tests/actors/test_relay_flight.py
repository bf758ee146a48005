"""What the relayer has sent: found again after every crash, paid better when it waits, never sent twice."""

from __future__ import annotations

import pytest
import trio

from payd.actors.relay_flight import DOUBT_MS, GAP_MS, STUCK_MS
from payd.core.relay import COST_MAX, REVERTS_MAX
from payd.store.db import Database
from payd.store.relays import reopen_above
from tests.actors.relay_bench import CHAIN, COIN, LIMITS, Bench, buyer, buyer_address, job, open_bench
from tests.actors.relay_chain import GWEI, SignedTx

RESEND_S = LIMITS.resend_ms / 1000
BUMP_S = LIMITS.bump_after_ms / 1000
DOUBT_S = DOUBT_MS / 1000
GAP_S = GAP_MS / 1000


def stranger(bench: Bench, nonce: int) -> SignedTx:
    """Another process that uses the relayer's key."""
    signed = bench.signer.sign(8453, nonce, buyer_address(9), b"", 100_000, 400 * GWEI, GWEI)
    return SignedTx.of(signed.raw)


async def killed_at(bench: Bench, count: int = 1) -> None:
    """A tick that ends as with SIGKILL in the moment when a node sees the transaction of that number."""
    seen = 0

    def hook(_: SignedTx) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            bench.nodes[0].drops = True
            scope.cancel()

    with trio.CancelScope() as scope:
        bench.nodes[0].hook = hook
        await bench.tick()
    assert scope.cancelled_caught
    bench.nodes[0].hook = lambda _: None
    bench.nodes[0].drops = False
    bench.restarted()


async def test_a_crash_between_store_and_broadcast_sends_what_was_stored(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = await bench.owe()
        await killed_at(bench)
        assert bench.pool == []
        [stored] = bench.open()
        assert bench.job().left_us

        await bench.tick()
        assert [tx.hash for tx in bench.pool] == [stored.newest.hash]
        bench.mine()
        await bench.tick()
        assert bench.landed(owed)
        assert bench.state() == "landed"


async def test_what_was_stored_and_not_sent_goes_before_what_comes_later(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        for number in range(3):
            await bench.owe(f"pay_{number}", number)
        await killed_at(bench, 2)
        await bench.owe("pay_3", 3)
        bench.nodes[0].sent.clear()
        await bench.tick()
        assert [tx.nonce for tx in bench.nodes[0].sent] == [0, 1, 2, 3]
        assert len(bench.mine()) == 4


async def test_no_nonce_is_taken_while_an_earlier_one_is_not_out(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.nodes[0].refuses = "this node does not like the recipient"
        await bench.owe("pay_1", 1)
        await bench.tick()
        await bench.owe("pay_2", 2)
        await bench.tick(6)
        assert [one.nonce for one in bench.open()] == [0]

        bench.nodes[0].refuses = None
        await bench.tick(6)
        assert [tx.nonce for tx in bench.pool] == [0, 1]


async def test_a_crash_between_broadcast_and_receipt_signs_nothing_again(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        await bench.tick()
        [sent] = bench.pool
        bench.restarted()
        await bench.tick()
        assert bench.pool == [sent]
        assert [one.newest.hash for one in bench.open()] == [sent.hash]

        bench.mine()
        bench.restarted()
        await bench.tick()
        assert bench.state() == "landed"


@pytest.mark.parametrize("texts", ["geth", "anvil"])
async def test_a_second_sending_is_known_and_no_trouble(realm_db: Database, texts: str) -> None:
    async with open_bench(realm_db, texts=texts) as bench:
        await bench.owe()
        await bench.tick()
        await bench.tick(RESEND_S)
        assert len(bench.nodes[0].sent) == 2
        assert bench.mine() != []
        await bench.tick()
        assert bench.state() == "landed"


async def test_what_a_node_forgets_is_sent_again_after_a_while(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        await bench.tick()
        bench.nodes[0].pool.clear()
        await bench.tick(RESEND_S - 1)
        assert bench.pool == []
        await bench.tick(1)
        assert len(bench.pool) == 1


async def test_what_waits_for_long_is_paid_an_eighth_better_under_its_nonce(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = await bench.owe()
        await bench.tick()
        [first] = bench.pool
        await bench.tick(BUMP_S - 1)
        assert bench.pool == [first]
        await bench.tick(1)
        [second] = bench.pool
        assert (second.nonce, second.to, second.data, second.gas) == (0, first.to, first.data, first.gas)
        assert second.max_fee * 8 >= first.max_fee * 9
        assert second.tip * 8 >= first.tip * 9

        assert bench.mine() == [second.hash]
        await bench.tick()
        assert bench.landed(owed)
        assert bench.state() == "landed"
        assert bench.relayer.stats().bumps == 1


async def test_any_form_of_a_transaction_may_be_the_one_that_is_mined(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        await bench.tick()
        [first] = bench.pool
        await bench.tick(BUMP_S)
        await bench.tick(BUMP_S)
        assert len(bench.open()[0].attempts) == 3
        bench.chain.mine([first])
        await bench.tick()
        assert bench.state() == "landed"


async def test_a_base_fee_that_rose_is_followed(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        await bench.tick()
        bench.chain.base_fee = 100 * GWEI
        assert bench.mine() == []
        await bench.tick(BUMP_S)
        [tx] = bench.pool
        assert tx.max_fee == 2 * 100 * GWEI + bench.chain.tip
        assert len(bench.mine()) == 1


async def test_those_behind_the_first_are_paid_better_only_where_their_own_fee_is_too_low(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe("pay_0", 0)
        await bench.owe("pay_1", 1)
        await bench.tick()
        await bench.tick(BUMP_S)
        assert [len(one.attempts) for one in bench.open()] == [2, 1]
        bench.chain.base_fee = 100 * GWEI
        bench.mine()
        await bench.tick(BUMP_S)
        assert [len(one.attempts) for one in bench.open()] == [3, 2]


async def test_a_pool_that_wants_more_is_paid_more_and_the_nonce_is_kept(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        await bench.tick()
        [mine] = bench.pool
        theirs = stranger(bench, 0)
        bench.nodes[0].pool[0] = theirs
        for _ in range(40):
            await bench.tick(6)
            if bench.pool != [theirs]:
                break
        [tx] = bench.pool
        assert tx.data == mine.data
        assert tx.max_fee * 10 >= theirs.max_fee * 11
        assert [one.nonce for one in bench.open()] == [0]


async def test_at_the_limit_it_waits_and_says_so(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.spend(max_fee=30 * GWEI)
        await bench.owe()
        await bench.tick()
        bench.chain.base_fee = 40 * GWEI
        bench.mine()
        for _ in range(5):
            await bench.tick(BUMP_S)
        assert max(tx.max_fee for tx in bench.nodes[0].sent) <= 30 * GWEI
        assert "fee_limit" in bench.relayer.stats().alarms
        assert not bench.relayer.can_relay(job("x").buyer)

        bench.chain.base_fee = 10 * GWEI
        await bench.tick(BUMP_S)
        assert len(bench.mine()) == 1
        await bench.tick()
        assert "fee_limit" not in bench.relayer.stats().alarms
        assert bench.state() == "landed"


async def test_a_fee_is_not_raised_beyond_the_budget_of_the_day(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        await bench.tick()
        [open_one] = bench.open()
        bench.spend(gas_per_day=open_one.reserved + open_one.gas * GWEI)
        await bench.tick(BUMP_S)
        assert len(bench.open()[0].attempts) == 1
        assert "budget" in bench.relayer.stats().alarms


async def test_a_nonce_that_something_else_used_is_given_up_and_the_job_takes_another(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db) as bench:
        owed = await bench.owe()
        await bench.tick()
        bench.nodes[0].pool.clear()
        bench.chain.mine([stranger(bench, 0)])
        await bench.tick()
        assert [one.nonce for one in bench.open()] == [0]
        await bench.tick(DOUBT_S)
        assert [one.nonce for one in bench.open()] == [1]
        assert bench.relayer.stats().lost == 1
        assert len(bench.mine()) == 1
        await bench.tick()
        assert bench.landed(owed)
        assert bench.state() == "landed"


async def test_a_nonce_is_not_given_up_while_any_node_shows_the_receipt(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=3) as bench:
        await bench.owe()
        await bench.tick()
        bench.nodes[0].hides = bench.nodes[1].hides = True
        bench.mine()
        await bench.tick()
        assert bench.state() == "sent"
        await bench.tick(DOUBT_S)
        assert bench.state() == "landed"
        assert bench.relayer.stats().lost == 0


async def test_of_two_nodes_that_disagree_the_receipt_is_believed_only_after_a_while(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        await bench.owe()
        await bench.tick()
        bench.nodes[1].hides = True
        bench.mine()
        await bench.tick()
        assert bench.state() == "sent"
        await bench.tick(DOUBT_S)
        assert bench.state() == "landed"


async def test_a_node_that_lags_holds_up_nothing(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        bench.nodes[1].lag = 5
        await bench.owe()
        await bench.tick()
        bench.mine()
        await bench.tick()
        assert bench.state() == "landed"


async def test_a_node_that_finds_a_nonce_too_high_is_given_the_lower_ones_first(realm_db: Database) -> None:
    async with open_bench(realm_db, gapless=True) as bench:
        for number in range(3):
            await bench.owe(f"pay_{number}", number)
        await bench.tick()
        await bench.owe("pay_3", 3)
        bench.nodes[0].pool.clear()
        await bench.tick(6)
        assert [one.is_out for one in bench.open()] == [True, True, True, False]
        await bench.tick(6)
        assert [tx.nonce for tx in bench.pool] == [0, 1, 2, 3]


async def test_what_reverts_is_tried_again_later_and_later_with_another_nonce(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = await bench.owe()
        await bench.tick()
        for tries, wait_s in ((1, 30), (2, 60)):
            bench.chain.refused[buyer_address(0)] = "transfer amount exceeds balance"
            bench.mine()
            bench.chain.refused.clear()
            await bench.tick()
            found = bench.job()
            assert (found.state, found.tries, found.left_us) == ("queued", tries, True)
            assert bench.relayer.stats().reverts == tries
            await bench.tick(wait_s - 1)
            assert bench.open() == []
            await bench.tick(1)
            assert [one.nonce for one in bench.open()] == [tries]
        bench.mine()
        await bench.tick()
        assert bench.landed(owed)
        assert bench.state() == "landed"


async def test_what_reverts_again_and_again_costs_no_more_gas_and_may_yet_be_brought(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db) as bench:
        owed = await bench.owe()
        for _ in range(100):
            await bench.tick(30)
            bench.chain.refused[buyer_address(0)] = "transfer amount exceeds balance"
            bench.mine()
            bench.chain.refused.clear()
        assert bench.relayer.stats().reverts == REVERTS_MAX
        assert (bench.state(), bench.told) == ("queued", [])

        bench.chain.mine(time_s=owed.valid_until_s)
        await bench.tick(600)
        assert (bench.state(), bench.job().left_us) == ("dead", True)
        assert bench.told == [], "it may have been brought in the last moment: the watcher knows"


async def test_no_form_may_cost_more_than_nodes_take(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.spend(max_fee=1000 * GWEI)
        bench.chain.base_fee = 240 * GWEI
        bench.chain.estimate = 1_500_000
        await bench.owe()
        await bench.tick()
        bench.chain.base_fee = 450 * GWEI
        for _ in range(4):
            await bench.tick(BUMP_S)
        [waiting] = bench.open()
        assert all(waiting.gas * form.fees.max_fee <= COST_MAX for form in waiting.attempts)
        assert bench.relayer.stats().alarms == {"fee_limit"}
        assert not bench.relayer.can_relay(buyer(7)), "it would wait behind that one"


async def test_what_reverts_because_a_stranger_brought_it_first_has_landed(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        owed = await bench.owe()
        await bench.tick()
        bench.chain.use(owed.data, owed.target)
        bench.mine()
        await bench.tick()
        assert bench.state() == "landed"
        assert "else" in (bench.job().reason or "")
        assert bench.open() == []
        await bench.tick(3600)
        assert bench.open() == []


@pytest.mark.parametrize("is_told", [True, False])
async def test_gas_that_was_spent_counts_for_the_day_also_where_it_was_for_nothing(
    realm_db: Database, is_told: bool
) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        await bench.tick()
        bench.chain.refused[buyer_address(0)] = "paused"
        [mined] = bench.mine()
        if not is_told:
            del bench.chain.head.receipts[mined]["effectiveGasPrice"]
            bench.chain.head.receipts[mined]["l1Fee"] = "0x1"  # a rollup's, beside the gas
        await bench.tick()
        spent = COIN * 10 - bench.chain.head.state.balances[bench.signer.address]
        counted = bench.relayer.stats().spent_today
        assert spent <= counted <= spent + GWEI if is_told else spent < counted


async def test_a_reorg_that_the_watcher_saw_sends_the_stored_bytes_again(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = await bench.owe()
        await bench.tick()
        [sent] = bench.pool
        number = bench.chain.head.number
        bench.mine()
        await bench.tick()
        bench.chain.reorg(1)
        assert await bench.db.write(reopen_above, CHAIN, number) == 1
        assert bench.state() == "sent"
        await bench.tick()
        assert bench.pool == [sent]
        bench.mine()
        await bench.tick()
        assert bench.landed(owed)
        assert bench.state() == "landed"


async def test_a_reorg_that_nobody_tells_of_shows_in_the_count_of_the_chain(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        owed = await bench.owe()
        await bench.tick()
        bench.mine()
        await bench.tick()
        bench.chain.reorg(1)
        await bench.tick(61)
        assert bench.state() == "sent"
        assert bench.mine() != []
        await bench.tick()
        assert bench.landed(owed)
        assert bench.state() == "landed"


async def test_a_reorg_that_takes_a_strangers_transaction_leaves_no_gap(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        first, second = await bench.owe("pay_1", 1), None
        await bench.tick()
        bench.nodes[0].pool.clear()
        bench.chain.mine([stranger(bench, 0)])
        await bench.tick()
        await bench.tick(DOUBT_S)
        assert [one.nonce for one in bench.open()] == [1]
        bench.chain.reorg(1)
        second = await bench.owe("pay_2", 2)
        await bench.tick()
        assert [one.nonce for one in bench.open()] == [0, 1, 2]
        assert len(bench.mine()) == 3
        await bench.tick()
        assert bench.landed(first)
        assert bench.landed(second)
        assert [bench.state("pay_1"), bench.state("pay_2")] == ["landed", "landed"]


async def test_a_nonce_of_nobody_that_holds_up_all_is_used_for_nothing(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        for nonce in range(2):
            bench.chain.mine([stranger(bench, nonce)])
        owed = await bench.owe()
        await bench.tick()
        assert [tx.nonce for tx in bench.pool] == [2]
        bench.chain.reorg(2)
        await bench.tick(5)
        await bench.tick(GAP_S - 1)
        assert [one.nonce for one in bench.open()] == [2]
        await bench.tick(1)
        assert [tx.nonce for tx in bench.pool] == [0, 2]
        filler = bench.pool[0]
        assert (filler.to, filler.data) == (bench.signer.address, b"")

        bench.mine()
        await bench.tick(5)
        await bench.tick(GAP_S)
        bench.mine()
        await bench.tick(5)
        assert bench.landed(owed)
        assert bench.state() == "landed"
        assert bench.relayer.stats().fillers == 2


async def test_what_is_not_mined_for_minutes_is_an_alarm(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        await bench.tick()
        await bench.tick(STUCK_MS / 1000 - 1)
        assert "stuck" not in bench.relayer.stats().alarms
        assert bench.relayer.can_relay(buyer(7))
        await bench.tick(1)
        assert "stuck" in bench.relayer.stats().alarms
        assert not bench.relayer.can_relay(buyer(7)), "those after it would wait, too"


async def test_fees_are_never_above_the_limit_however_long_it_waits(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe()
        await bench.tick()
        for _ in range(60):
            await bench.tick(BUMP_S)
        forms = bench.open()[0].attempts
        assert all(form.fees.max_fee <= LIMITS.max_fee for form in forms)
        assert all(form.fees.tip <= form.fees.max_fee for form in forms)
        assert len(forms) < 60
