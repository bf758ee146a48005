"""Transactions go to all nodes, lowest nonce first, and one answer is made of what they say."""

from __future__ import annotations

from typing import get_args

import pytest
import trio

from payd.actors.relay_broadcast import LOUDEST, REFUSED_WAIT_MS, STAGGER_S, Broadcaster, loudest
from payd.chains.rpc import Rpc, Sent, Verdict
from payd.store.db import Database
from payd.store.relay_transactions import Mined, note_mined
from payd.store.relays import reopen_above
from tests.actors.relay_bench import CHAIN, LIMITS, Bench, open_bench
from tests.chains.rpc_node import FakeNode, open_rpc


@pytest.mark.parametrize(
    ("verdicts", "heard", "is_out"),
    [
        (["down", "ok"], "ok", True),
        (["nonce_low", "known"], "known", True),
        (["nonce_low", "underpriced"], "underpriced", False),
        (["other", "nonce_high"], "nonce_high", False),
        (["other", "nonce_low"], "nonce_low", False),
        (["down", "no_funds", "other"], "no_funds", False),
        (["down", "down"], "down", False),
    ],
)
async def test_what_matters_most_is_heard_first(
    verdicts: list[Verdict], heard: Verdict, is_out: bool
) -> None:
    async with open_rpc(FakeNode()) as rpc:
        answers = [Sent(rpc.nodes[0], verdict, f"words of {verdict}") for verdict in verdicts]
    one = loudest(answers)
    assert (one.verdict, one.words, one.is_out) == (heard, f"words of {heard}", is_out)
    assert loudest(answers[::-1]) == one


def test_every_verdict_has_a_rank() -> None:
    assert sorted(LOUDEST) == sorted(get_args(Verdict))


async def three_stored(bench: Bench) -> None:
    """Three transactions that no node has."""
    for node in bench.nodes:
        node.refuses = "no"
    for number in range(3):
        await bench.owe(f"pay_{number}", number)
    await bench.tick()
    for node in bench.nodes:
        node.refuses = None
    assert not any(one.is_out for one in bench.open())


def broadcaster(bench: Bench, rpc: Rpc | None = None) -> Broadcaster:
    """A fresh one."""
    return Broadcaster(bench.db, bench.clock, rpc or bench.rpc)


async def test_the_lowest_nonce_goes_first_and_it_is_noted_who_took_what(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await three_stored(bench)
        heard = await broadcaster(bench).send(bench.open()[::-1])
        assert [tx.nonce for tx in bench.nodes[0].sent] == [0, 1, 2]
        assert [one.verdict for one in heard.values()] == ["ok"] * 3
        assert all(one.newest.sent_at_ms == bench.clock.now_ms() for one in bench.open())


async def test_what_no_node_took_is_not_out(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await three_stored(bench)
        bench.nodes[0].refuses = "nobody knows why"
        heard = await broadcaster(bench).send(bench.open()[:1])
        assert [(one.verdict, one.words) for one in heard.values()] == [("other", "nobody knows why")]
        assert not any(one.is_out for one in bench.open())


async def test_a_node_that_hangs_does_not_hold_up_the_next_nonce(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        await three_stored(bench)
        bench.nodes[0].hangs = True
        began_s = trio.current_time()
        arrived_s: list[float] = []
        bench.nodes[1].hook = lambda _: arrived_s.append(trio.current_time() - began_s)
        await broadcaster(bench).send(bench.open())
        assert [round(at_s / STAGGER_S) for at_s in arrived_s] == [0, 1, 2]
        assert [tx.nonce for tx in bench.nodes[1].sent[-3:]] == [0, 1, 2]


async def test_it_is_due_once_in_a_process_and_then_after_a_while(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await three_stored(bench)
        one = broadcaster(bench)
        assert one.is_due(bench.open()[0], LIMITS.resend_ms)
        await one.send(bench.open()[:1])
        [first, second, _] = bench.open()
        assert not one.is_due(first, LIMITS.resend_ms)
        assert one.is_due(second, LIMITS.resend_ms)
        await trio.sleep(LIMITS.resend_ms / 1000 - 0.01)
        assert not one.is_due(first, LIMITS.resend_ms)
        await trio.sleep(0.01)
        assert one.is_due(first, LIMITS.resend_ms)
        assert broadcaster(bench).is_due(first, LIMITS.resend_ms)


async def test_what_no_node_took_is_due_sooner(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await three_stored(bench)
        bench.nodes[0].refuses = "no"
        one = broadcaster(bench)
        await one.send(bench.open()[:1])
        [first, *_] = bench.open()
        await trio.sleep(REFUSED_WAIT_MS / 1000 - 0.01)
        assert not one.is_due(first, LIMITS.resend_ms)
        await trio.sleep(0.01)
        assert one.is_due(first, LIMITS.resend_ms)


async def test_what_is_over_is_forgotten(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await three_stored(bench)
        one = broadcaster(bench)
        await one.send(bench.open())
        [first, second, third] = bench.open()
        one.keep_only([second])
        assert [one.is_due(each, LIMITS.resend_ms) for each in (first, second, third)] == [True, False, True]


async def test_what_a_reorg_took_back_is_due_at_once(realm_db: Database) -> None:
    async with open_bench(realm_db) as bench:
        await three_stored(bench)
        one = broadcaster(bench)
        await one.send(bench.open()[:1])
        [first, *_] = bench.open()
        await realm_db.write(note_mined, first, Mined(5, 1, 0), landed=None, retry_at_ms=0)
        await realm_db.write(reopen_above, CHAIN, 4)
        [first, *_] = bench.open()
        assert one.is_due(first, LIMITS.resend_ms)
