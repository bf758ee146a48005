"""The chain that the seeds of Solana are lived through on: nothing is lost but what may be."""

from __future__ import annotations

from random import Random

import pytest
from solders.hash import Hash

from tests.live.solana import BUYER, LAMPORTS, MERCHANT, address, keypair, pay_sol, pubkey, tx_id_of
from tests.shop import START_MS
from tests.simulation.slot_buyers import transaction
from tests.simulation.slot_nodes import SlotNode
from tests.simulation.slots import CONFIRMED, Slots
from tests.simulation.solana_live import furnish_chain, moved_by


@pytest.fixture
async def chain() -> Slots:
    made = Slots(Random(1), lambda: START_MS // 1000)
    made.is_calm = True
    await furnish_chain(made)
    return made


def payment(chain: Slots, lamports: int = LAMPORTS) -> bytes:
    asked = [pay_sol(pubkey(BUYER), pubkey(MERCHANT), lamports)]
    return transaction(asked, keypair(BUYER), fresh=Hash.from_string(chain.at("confirmed").hash))


def received(chain: Slots) -> int:
    return (chain.svm.get_balance(pubkey(MERCHANT)) or 0) - LAMPORTS


def ticks(chain: Slots, count: int) -> None:
    for _ in range(count):
        chain.tick()


async def test_what_is_sent_lands_once_however_often_it_is_sent(chain: Slots) -> None:
    raw = payment(chain)
    for _ in range(3):
        chain.send(raw)
        ticks(chain, 10)
    assert received(chain) == LAMPORTS
    [moved] = moved_by(chain.landed[tx_id_of(raw)], MERCHANT)
    assert (moved.place[0], moved.value, moved.carries) == (tx_id_of(raw), LAMPORTS, b"")


async def test_what_waits_too_long_lands_never(chain: Slots) -> None:
    raw = payment(chain)
    for _ in range(151):
        chain.advance()
    chain.send(raw)
    ticks(chain, 10)
    assert received(chain) == 0
    assert not chain.pool


async def test_a_fork_loses_some_and_the_rest_comes_again(chain: Slots) -> None:
    sent = [payment(chain, lamports) for lamports in range(10**7, 10**7 + 40)]
    for raw in sent:
        chain.send(raw)
    ticks(chain, 1)
    before = {*chain.landed}
    chain.reorg(CONFIRMED)
    assert before
    assert not chain.landed
    assert received(chain) == 0
    ticks(chain, 20)
    assert 0 < len(before - chain.landed.keys()) < len(before)


async def test_what_is_made_up_leaves_the_chain_as_it_was(chain: Slots) -> None:
    landing = chain.made_up(payment(chain))
    assert landing is not None
    assert moved_by(landing, MERCHANT)
    assert (received(chain), chain.landed) == (0, {})


async def test_who_stays_on_a_fork_shows_what_is_nowhere_else_and_then_jumps_back(chain: Slots) -> None:
    node = SlotNode(chain, Random(2))
    raw = payment(chain)
    chain.send(raw)
    ticks(chain, 1)
    assert tx_id_of(raw) in chain.landed
    node.follows = chain.branch(40, confirms=True)
    chain.reorg(CONFIRMED)
    chain.pool.clear()
    ticks(chain, 39)

    assert tx_id_of(raw) not in chain.landed
    [listed] = node.ask("getSignaturesForAddress", address(MERCHANT), {"commitment": "confirmed"})
    assert (listed["signature"], listed["confirmationStatus"]) == (tx_id_of(raw), "confirmed")
    assert node.ask("getSignaturesForAddress", address(MERCHANT), {"commitment": "finalized"}) == []
    at = node.ask("getLatestBlockhash", {"commitment": "confirmed"})
    assert chain.valid_until(at["value"]["blockhash"]) is None, "good for nothing anywhere else"

    ticks(chain, 1)
    assert node.ask("getSignatureStatuses", [tx_id_of(raw)])["value"] == [None]
    assert node.tip() == chain.tip


async def test_what_is_sent_while_some_stay_on_a_fork_may_land_there_alone(chain: Slots) -> None:
    branch = chain.branch(40, confirms=False)
    chain.reorg(1)
    chain.is_calm = False
    sent = [payment(chain, lamports) for lamports in range(10**7, 10**7 + 60)]
    for raw in sent:
        chain.send(raw)
    ticks(chain, 20)

    assert len(branch.landed) == len(sent) > len(chain.landed) > 0
    there = branch.landed[tx_id_of(sent[0])]
    assert moved_by(there, MERCHANT)
    assert branch.at("confirmed").height < there.block.height
