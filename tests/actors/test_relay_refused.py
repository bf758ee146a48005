"""What no node takes, or what came too late: its nonce is used for nothing, so that it holds up no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from payd.actors.relay_flight import GAP_MS, REFUSED_MS, REFUSED_STUCK_MS, UNTAKEN
from payd.actors.relay_purse import PAYMENT_GAS
from payd.core.relay import SEND_MARGIN_S
from payd.store.db import Database
from payd.store.relays import reopen_above
from tests.actors.relay_bench import CHAIN, LIMITS, UNTIL_S, Bench, buyer, buyer_address, open_bench
from tests.actors.relay_chain import GWEI, Refusal, SignedTx

# How soon what no node took is sent again, and a little more.
AGAIN_S = 6
REFUSED_S = REFUSED_MS // 1000
LISTED = 5


def refuse(bench: Bench, is_refused: Callable[[SignedTx], bool], words: str = "rejected by policy") -> None:
    """Have every node refuse such transactions."""

    def hook(tx: SignedTx) -> None:
        if is_refused(tx):
            raise Refusal(-32000, words)

    for node in bench.nodes:
        node.hook = hook


def take_all(bench: Bench) -> None:
    """Have every node take what is sent."""
    refuse(bench, lambda _: False)


def is_listed(tx: SignedTx) -> bool:
    """Whether it moves what a buyer has whom nodes do not like."""
    return bytes.fromhex(buyer_address(LISTED)[2:]) in tx.data


async def tick_for(bench: Bench, seconds: int) -> None:
    """Ticks as they come while something is open."""
    for _ in range(0, seconds, AGAIN_S):
        await bench.tick(AGAIN_S)


async def owe_listed(bench: Bench, behind: int = 0) -> None:
    """A job that no node takes, and others that were signed with it, all sent once."""
    refuse(bench, is_listed)
    await bench.owe("listed", LISTED)
    for number in range(behind):
        await bench.owe(f"pay_{number}", 10 + number)
    await bench.tick()


async def test_what_every_node_refuses_for_minutes_makes_room_for_those_behind_it(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        await owe_listed(bench, behind=2)
        await bench.owe("later", 20)
        await tick_for(bench, REFUSED_S - AGAIN_S)
        assert bench.mine() == []
        assert len(bench.open()[0].attempts) == 1
        await tick_for(bench, 2 * AGAIN_S)
        empty = bench.pool[0]
        assert (empty.nonce, empty.to, empty.data) == (0, bench.signer.address, b"")

        assert len(bench.mine()) == 4
        await bench.tick(AGAIN_S)
        assert [bench.state(one) for one in ("pay_0", "pay_1", "later")] == ["landed"] * 3
        assert bench.open() == []
        stats = bench.relayer.stats()
        assert (stats.fillers, stats.reverts) == (1, 0)


async def test_what_no_node_took_is_not_tried_again_and_ends_with_its_time(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await owe_listed(bench)
        await tick_for(bench, REFUSED_S + AGAIN_S)
        bench.mine()
        await bench.tick(AGAIN_S)
        found = bench.job("listed")
        assert (found.state, found.left_us, found.reason) == ("queued", True, UNTAKEN)
        take_all(bench)
        await tick_for(bench, 600)
        assert bench.open() == [], "it jams once, and no second time"

        bench.chain.mine(time_s=UNTIL_S - SEND_MARGIN_S)
        await bench.tick(61)
        assert bench.state("listed") == "dead"
        assert bench.told == [], "nodes that refused it have seen it: the watcher knows what became of it"


async def test_buyers_are_not_asked_to_sign_while_nodes_refuse_the_first(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await owe_listed(bench)
        await bench.tick(AGAIN_S)
        await bench.tick(REFUSED_STUCK_MS / 1000 - 1)
        assert bench.relayer.can_relay(buyer(7))
        await bench.tick(1)
        assert "stuck" in bench.relayer.stats().alarms
        assert not bench.relayer.can_relay(buyer(7))
        await bench.tick(1)
        assert "stuck" in bench.relayer.stats().alarms, "also while it is not sent again yet"

        take_all(bench)
        await bench.tick(AGAIN_S)
        assert "stuck" not in bench.relayer.stats().alarms
        assert bench.relayer.can_relay(buyer(7))


async def test_gas_that_nodes_do_not_like_is_not_that_of_the_empty_form(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        refuse(bench, lambda tx: tx.gas > 500_000, "exceeds block gas limit")
        bench.chain.estimate = 1_000_000
        await bench.owe()
        await bench.tick()
        await tick_for(bench, REFUSED_S + AGAIN_S)
        assert [tx.gas for tx in bench.pool] == [PAYMENT_GAS]
        [waiting] = bench.open()
        assert waiting.reserved == PAYMENT_GAS * waiting.newest.fees.max_fee


async def test_a_node_that_takes_it_in_time_is_enough(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        await owe_listed(bench)
        await tick_for(bench, REFUSED_S - 2 * AGAIN_S)
        bench.nodes[1].hook = lambda _: None
        await bench.tick(AGAIN_S)
        refuse(bench, is_listed)
        await tick_for(bench, 2 * REFUSED_S)
        assert all(tx.data for tx in bench.nodes[1].sent), "what a node has taken may be mined"
        bench.mine()
        await bench.tick(AGAIN_S)
        assert bench.state("listed") == "landed"


@pytest.mark.parametrize("words", ["insufficient funds for gas", "replacement transaction underpriced"])
async def test_what_money_mends_is_no_reason(realm_db: Database, words: str) -> None:
    async with open_bench(realm_db) as bench:
        refuse(bench, lambda tx: tx.data != b"", words)
        await bench.owe()
        await tick_for(bench, 2 * REFUSED_S)
        assert bench.pool == []
        assert bench.relayer.stats().fillers == 0


@pytest.mark.parametrize(
    "words", ["sequencer temporarily not available", "503 Service Unavailable: upstream", "txpool is full"]
)
async def test_the_nodes_own_trouble_is_no_reason(realm_db: Database, words: str) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        refuse(bench, lambda _: True, words)
        owed = await bench.owe()
        await tick_for(bench, 4 * REFUSED_S)
        assert bench.relayer.stats().fillers == 0
        assert not bench.relayer.can_relay(buyer(7)), "nobody else is asked to sign meanwhile"
        take_all(bench)
        await bench.tick(AGAIN_S)
        bench.mine()
        assert bench.landed(owed)


async def test_another_word_in_between_begins_the_time_anew(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await owe_listed(bench)
        await tick_for(bench, REFUSED_S - AGAIN_S)
        refuse(bench, is_listed, "insufficient funds for gas")
        await bench.tick(AGAIN_S)
        refuse(bench, is_listed)
        await tick_for(bench, REFUSED_S - AGAIN_S)
        assert bench.pool == []
        await tick_for(bench, 3 * AGAIN_S)
        assert [tx.data for tx in bench.pool] == [b""]


@pytest.mark.parametrize("ticks", [2, 3, 4])
async def test_what_the_one_before_was_refused_for_is_nothing_against_the_next(
    realm_db: Database, ticks: int
) -> None:
    """A stranger brought that one, so that no node ever took it from us."""
    async with open_bench(realm_db) as bench:
        await owe_listed(bench, behind=1)
        await tick_for(bench, REFUSED_S - ticks * AGAIN_S)
        bench.chain.mine([SignedTx.of(bench.open()[0].newest.raw)])
        await tick_for(bench, 2 * ticks * AGAIN_S)
        assert bench.state("listed") == "landed"
        assert [one.nonce for one in bench.open()] == [1]
        assert bench.relayer.stats().fillers == 0


async def test_while_nodes_were_away_nothing_was_refused(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench, trio.open_nursery() as nursery:
        refuse(bench, is_listed)
        await bench.owe("listed", LISTED)
        nursery.start_soon(bench.relayer.run)
        await trio.sleep(60)
        bench.nodes[0].status = 503
        await trio.sleep(REFUSED_S)
        bench.nodes[0].status = None
        await trio.sleep(60)
        assert bench.pool == []
        await trio.sleep(REFUSED_S)
        assert [tx.data for tx in bench.pool] == [b""]
        nursery.cancel_scope.cancel()


async def test_where_nodes_refuse_whatever_comes_one_empty_form_is_enough(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        refuse(bench, lambda _: True)
        await bench.owe()
        await tick_for(bench, 3 * REFUSED_S)
        assert [len(one.attempts) for one in bench.open()] == [2]
        assert "stuck" in bench.relayer.stats().alarms
        take_all(bench)
        await bench.tick(AGAIN_S)
        assert [tx.data for tx in bench.pool] == [b""]
        assert "stuck" in bench.relayer.stats().alarms, "until it is mined"


async def test_the_budget_of_the_day_pays_for_an_empty_form_what_it_costs_more(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await owe_listed(bench)
        bench.spend(gas_per_day=PAYMENT_GAS * 23 * GWEI)
        await tick_for(bench, REFUSED_S + 2 * AGAIN_S)
        assert bench.pool == []
        assert "budget" in bench.relayer.stats().alarms
        bench.spend(gas_per_day=PAYMENT_GAS * 24 * GWEI)
        await tick_for(bench, REFUSED_S + 2 * AGAIN_S)
        assert [tx.data for tx in bench.pool] == [b""]


async def test_only_the_first_that_waits_is_emptied(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe("first", 1)
        await owe_listed(bench)
        await tick_for(bench, 2 * REFUSED_S)
        assert [len(tx.data) > 0 for tx in bench.nodes[0].sent] == [True] * len(bench.nodes[0].sent)
        bench.mine()
        await bench.tick(AGAIN_S)
        assert bench.state("first") == "landed"
        await tick_for(bench, REFUSED_S + AGAIN_S)
        assert [tx.data for tx in bench.pool] == [b""]


async def test_a_crash_before_the_empty_form_is_sent_sends_it_later(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await owe_listed(bench)
        await tick_for(bench, REFUSED_S - AGAIN_S)

        def die(tx: SignedTx) -> None:
            if tx.data:
                raise Refusal(-32000, "rejected by policy")
            bench.nodes[0].drops = True
            scope.cancel()

        bench.nodes[0].hook = die
        with trio.CancelScope() as scope:
            await tick_for(bench, REFUSED_S)
        assert scope.cancelled_caught
        bench.nodes[0].drops = False
        refuse(bench, is_listed)
        bench.restarted()
        await bench.tick()
        assert [tx.data for tx in bench.pool] == [b""]
        bench.mine()
        await bench.tick()
        assert (bench.state("listed"), bench.job("listed").reason) == ("queued", UNTAKEN)


async def test_where_the_call_is_mined_after_all_it_has_landed(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        refused: list[SignedTx] = []

        def hook(tx: SignedTx) -> None:
            if is_listed(tx):
                refused.append(tx)
                raise Refusal(-32000, "rejected by policy")

        bench.nodes[0].hook = hook
        owed = await bench.owe("listed", LISTED)
        await tick_for(bench, REFUSED_S + 2 * AGAIN_S)
        assert [tx.data for tx in bench.pool] == [b""]
        bench.chain.mine(refused[:1])
        await bench.tick(AGAIN_S)
        assert bench.landed(owed)
        assert (bench.state("listed"), bench.job("listed").reason) == ("landed", None)


async def test_where_a_stranger_brought_the_call_it_has_landed(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        refuse(bench, is_listed)
        owed = await bench.owe("listed", LISTED)
        await tick_for(bench, REFUSED_S + 2 * AGAIN_S)
        bench.chain.use(owed.data, owed.target)
        bench.mine()
        await bench.tick(AGAIN_S)
        assert bench.state("listed") == "landed"


async def test_an_empty_form_that_a_reorg_took_back_is_sent_again_and_carries_nothing_out(
    realm_db: Database,
) -> None:
    async with open_bench(realm_db) as bench:
        await owe_listed(bench, behind=1)
        await tick_for(bench, REFUSED_S + AGAIN_S)
        number = bench.chain.head.number
        bench.mine()
        await bench.tick(AGAIN_S)
        bench.chain.reorg(1)
        await bench.db.write(reopen_above, CHAIN, number)
        assert [bench.state("listed"), bench.state("pay_0")] == ["sent", "sent"]
        await bench.tick(AGAIN_S)
        assert [tx.data == b"" for tx in bench.pool] == [True, False]
        bench.mine()
        await bench.tick(AGAIN_S)
        assert [bench.state("listed"), bench.state("pay_0")] == ["queued", "landed"]


async def test_the_empty_form_costs_no_more_than_the_limit(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        bench.spend(max_fee=21 * GWEI)
        await owe_listed(bench)
        assert bench.open()[0].newest.fees.max_fee == 21 * GWEI
        await tick_for(bench, REFUSED_S + AGAIN_S)
        assert [(tx.data, tx.max_fee) for tx in bench.pool] == [(b"", 21 * GWEI)]
        bench.mine()
        await bench.tick(AGAIN_S)
        assert bench.job("listed").reason == UNTAKEN


async def test_the_empty_form_is_paid_better_when_it_waits(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await owe_listed(bench)
        await tick_for(bench, REFUSED_S + AGAIN_S)
        [first] = bench.pool
        await tick_for(bench, LIMITS.bump_after_ms // 1000 + AGAIN_S)
        [second] = bench.pool
        assert (second.data, second.gas) == (b"", first.gas)
        assert second.max_fee * 8 >= first.max_fee * 9
        bench.mine()
        await bench.tick(AGAIN_S)
        assert bench.job("listed").reason == UNTAKEN


async def test_a_call_whose_time_is_over_is_not_waited_for(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await bench.owe("late", 1)
        await bench.tick()
        await bench.owe("next", 2, valid_until_s=2 * UNTIL_S)
        await bench.tick(AGAIN_S)
        bench.chain.base_fee = 15 * GWEI
        bench.chain.mine(time_s=UNTIL_S - 1)
        await bench.tick(AGAIN_S)
        assert all(tx.data for tx in bench.pool)
        bench.chain.mine(time_s=UNTIL_S)
        await bench.tick(AGAIN_S)
        assert [tx.data == b"" for tx in bench.pool] == [True, False]
        await bench.tick(AGAIN_S)
        assert bench.relayer.stats().fillers == 1
        bench.mine()
        await bench.tick(AGAIN_S)
        assert [bench.state("late"), bench.state("next")] == ["dead", "landed"]
        assert bench.told == []


async def test_no_more_is_paid_for_a_call_whose_time_is_over(realm_db: Database) -> None:
    """It waited long enough to be paid better, in the same moment."""
    async with open_bench(realm_db) as bench:
        await bench.owe()
        await bench.tick()
        bench.chain.mine(time_s=UNTIL_S)
        await bench.tick(LIMITS.bump_after_ms / 1000 + 1)
        assert [tx.data for tx in bench.pool] == [b""]
        stats = bench.relayer.stats()
        assert (stats.fillers, stats.bumps) == (1, 0)


async def test_what_fills_a_gap_and_is_refused_is_not_emptied_once_more(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        signed = bench.signer.sign(8453, 0, buyer_address(9), b"", 100_000, 400 * GWEI, GWEI)
        bench.chain.mine([SignedTx.of(signed.raw)])
        await bench.owe()
        await bench.tick()
        bench.chain.reorg(1)
        refuse(bench, lambda tx: tx.data == b"")
        await tick_for(bench, GAP_MS // 1000 + 2 * REFUSED_S)
        filler = bench.open()[0]
        assert (filler.nonce, len(filler.attempts)) == (0, 1)
        take_all(bench)
        await bench.tick(AGAIN_S)
        assert len(bench.mine()) == 2
        await bench.tick(AGAIN_S)
        assert bench.state() == "landed"
