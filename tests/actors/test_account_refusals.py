"""Nodes of Solana that are not read though they answer: what they say cannot be, or is not all."""

from __future__ import annotations

import trio
from structlog.testing import capture_logs

from payd.actors.account_refusals import GAP_SLOTS
from payd.actors.walk import GONE_S
from payd.store.db import Database
from tests.actors.solana_watching import FINALIZED, WINDOW_S, SolanaWatching, open_solana
from tests.live.svm_ledger import Ledger

# From one look to the next.
LOOK_S = 200


def far_ahead() -> Ledger:
    """A chain that has come so far as no chain can have."""
    far = Ledger(1, FINALIZED)
    far.advance(skipped=100_000)
    far.advance()
    return far


async def test_a_slot_to_which_no_chain_can_have_come_keeps_no_other_node_from_being_read(
    two_solanas: SolanaWatching,
) -> None:
    solana = two_solanas
    payment = await solana.sell()
    solana.nodes[0].ledger = far_ahead()
    paid = await solana.pay(payment)
    assert await solana.watcher.run_once()
    assert solana.kinds(paid) == ["matched"]
    head = solana.walk.cursor("head")
    assert head is not None
    assert head.number == solana.ledger.at("confirmed").slot


async def test_what_every_node_says_for_long_is_believed_however_far_it_is(solana: SolanaWatching) -> None:
    """It was our own clock, which was set back, or the one by which the last slot was kept."""
    solana.nodes[0].ledger = far = far_ahead()
    for wait_s in (GONE_S - 1, 1):
        assert not await solana.watcher.run_once()
        await trio.sleep(wait_s)
    assert await solana.watcher.run_once()
    head = solana.walk.cursor("head")
    assert head is not None
    assert head.number == far.at("confirmed").slot


async def sold_and_paid_while_nobody_looked(solana: SolanaWatching, name: str = "1") -> tuple[str, str]:
    """A payment, and what paid it in time; its window has passed, and each node has forgotten all of that."""
    payment = await solana.sell(name)
    paid = await solana.pay(payment)
    await solana.local.slots(2 * GAP_SLOTS)
    await solana.later(2 * WINDOW_S)
    await trio.sleep(2 * WINDOW_S)
    for node in solana.nodes:
        node.first_slot = solana.ledger.tip.slot - 1
        node.hides.add(paid)
    return payment, paid


async def look(solana: SolanaWatching, times: int) -> None:
    for _ in range(times):
        await solana.later(LOOK_S)
        await trio.sleep(LOOK_S)
        await solana.watcher.run_once()


def has_closed(solana: SolanaWatching, payment: str) -> bool:
    return solana.walk.read_until_s() * 1000 > solana.payment(payment).expires_at_ms


async def test_no_window_closes_by_a_node_that_has_forgotten_what_came_while_payd_was_stopped(
    solana: SolanaWatching,
) -> None:
    payment, paid = await sold_and_paid_while_nobody_looked(solana)
    await look(solana, 3)
    assert not has_closed(solana, payment)
    another = await solana.sell("2")
    paid_later = await solana.pay(another)
    await solana.watcher.run_once()
    assert solana.kinds(paid_later) == ["matched"], "what is new is read meanwhile"

    solana.nodes[0].first_slot = 0
    solana.nodes[0].hides.clear()
    await look(solana, 3)
    assert has_closed(solana, payment)
    assert solana.kinds(paid) == ["matched"]


async def test_of_two_nodes_the_one_that_has_it_all_is_read(realm_db: Database) -> None:
    async with open_solana(realm_db, 2) as solana:
        payment, paid = await sold_and_paid_while_nobody_looked(solana)
        solana.nodes[1].first_slot = 0
        solana.nodes[1].hides.clear()
        await look(solana, 4)
        assert has_closed(solana, payment)
        assert solana.kinds(paid) == ["matched"]


async def test_what_no_node_has_for_long_is_read_past_and_operators_are_told(solana: SolanaWatching) -> None:
    payment, _ = await sold_and_paid_while_nobody_looked(solana)
    with capture_logs() as logs:
        await look(solana, int(GONE_S // LOOK_S) + 4)
    assert has_closed(solana, payment)
    critical = [one["event"] for one in logs if one["log_level"] == "critical"]
    assert critical == ["chain.history_gone"]

    payment, _ = await sold_and_paid_while_nobody_looked(solana, "2")
    await look(solana, 1)
    assert not has_closed(solana, payment), "the next time it is waited for anew"


async def test_a_node_that_does_not_say_since_when_it_has_everything_is_taken_to_have_it(
    solana: SolanaWatching,
) -> None:
    payment, _ = await sold_and_paid_while_nobody_looked(solana)
    solana.nodes[0]._getFirstAvailableBlock = None  # type: ignore[assignment, method-assign]
    await look(solana, 1)
    assert has_closed(solana, payment)
