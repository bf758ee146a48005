"""What was shown and is listed no more: elsewhere, gone, or there all the same."""

from __future__ import annotations

import pytest
import trio

from payd.actors.account_vanished import Missing, find_missing, take_vanished
from payd.chains.solana.answers import Listed
from payd.chains.unread import Unread
from payd.store.sightings import Sighting
from tests.actors.solana_watching import DOWN, SolanaWatching


async def shown(solana: SolanaWatching) -> tuple[str, Sighting]:
    """A payment, and the final transfer that pays it."""
    payment = await solana.sell()
    paid = await solana.pay(payment)
    await solana.watcher.run_once()
    await solana.later()
    [sighting] = solana.shown(paid)
    return payment, sighting


async def test_what_is_listed_in_its_slot_is_not_asked_for(solana: SolanaWatching) -> None:
    _, one = await shown(solana)
    posts = solana.rpc.posts
    listed = Listed(one.tx_id, one.block_number, None)
    assert await find_missing(solana.rpc, [one], [listed]) == Missing()
    assert solana.rpc.posts == posts


async def test_what_a_node_still_has_there_is_there(two_solanas: SolanaWatching) -> None:
    _, one = await shown(two_solanas)
    two_solanas.nodes[0].unknown.add(one.tx_id)
    missing = await find_missing(two_solanas.rpc, [one], [])
    assert missing.gone == ()


async def test_what_landed_in_another_slot_is_read_there(solana: SolanaWatching) -> None:
    _, one = await shown(solana)
    slot = one.block_number
    solana.ledger.landed[one.tx_id].block = solana.ledger.at("finalized")
    missing = await find_missing(solana.rpc, [one], [])
    [elsewhere] = missing.elsewhere
    assert (elsewhere.tx_id, missing.gone) == (one.tx_id, ())
    assert elsewhere.slot == solana.ledger.at("finalized").slot != slot


async def test_what_no_node_knows_or_what_failed_after_all_is_gone(two_solanas: SolanaWatching) -> None:
    _, one = await shown(two_solanas)
    for node in two_solanas.nodes:
        node.unknown.add(one.tx_id)
    assert (await find_missing(two_solanas.rpc, [one], [])).gone == (one,)
    for node in two_solanas.nodes:
        node.unknown.clear()
    two_solanas.ledger.landed[one.tx_id].err = {"InstructionError": [0, {"Custom": 1}]}
    assert (await find_missing(two_solanas.rpc, [one], [])).gone == (one,)
    failed = Listed(one.tx_id, one.block_number, "AccountInUse")
    assert (await find_missing(two_solanas.rpc, [one], [failed])).gone == (one,)


async def test_what_failed_in_a_block_that_a_fork_may_take_is_not_gone(two_solanas: SolanaWatching) -> None:
    _, one = await shown(two_solanas)
    landed = two_solanas.ledger.landed[one.tx_id]
    landed.err, landed.block = {"InstructionError": [0, {"Custom": 1}]}, two_solanas.ledger.tip
    assert (await find_missing(two_solanas.rpc, [one], [])).gone == ()


@pytest.mark.parametrize("place", [0, 1])
async def test_no_node_alone_takes_anything_back_while_the_other_is_away(
    two_solanas: SolanaWatching, place: int
) -> None:
    solana = two_solanas
    _, one = await shown(solana)
    for node in solana.nodes:
        node.unknown.add(one.tx_id)
    solana.nodes[place].does = DOWN
    assert (await find_missing(solana.rpc, [one], [])).gone == ()
    solana.nodes[place].does = None
    await trio.sleep(1)
    assert (await find_missing(solana.rpc, [one], [])).gone == (one,)


async def test_where_nobody_says_nothing_is_known(solana: SolanaWatching) -> None:
    _, one = await shown(solana)
    solana.nodes[0].does = DOWN
    with pytest.raises(Unread):
        await find_missing(solana.rpc, [one], [])


async def test_a_node_that_lags_takes_nothing_away(two_solanas: SolanaWatching) -> None:
    """Behind one address are many nodes: who answers may not have come to where it is."""
    solana = two_solanas
    _, one = await shown(solana)
    behind = solana.ledger.tip.slot - one.block_number + 1
    solana.nodes[0].lag = behind
    assert (await find_missing(solana.rpc, [one], [])).gone == ()
    solana.nodes[1].lag = behind
    with pytest.raises(Unread):
        await find_missing(solana.rpc, [one], [])


async def test_a_node_that_has_forgotten_takes_nothing_away(two_solanas: SolanaWatching) -> None:
    """Also beside one that lies."""
    _, one = await shown(two_solanas)
    for node in two_solanas.nodes:
        node.unknown.add(one.tx_id)
    two_solanas.nodes[1].first_slot = one.block_number + 1
    assert (await find_missing(two_solanas.rpc, [one], [])).gone == ()
    two_solanas.nodes[1].first_slot = one.block_number
    assert (await find_missing(two_solanas.rpc, [one], [])).gone == (one,)


async def test_only_what_nobody_looks_after_is_taken_back(solana: SolanaWatching) -> None:
    payment, one = await shown(solana)
    assert one.awaits is not None
    assert await solana.db.write(take_vanished, [one]) == ()
    assert [each.block_hash for each in solana.shown(one.tx_id)] == [one.block_hash]
    await solana.succeed(payment, one.tx_id)
    assert await solana.db.write(take_vanished, [one, one]) == (payment,)
    plain = await solana.pay(await solana.sell("2"), 7)
    await solana.watcher.run_once()
    assert await solana.db.write(take_vanished, solana.shown(plain)) == ()
    assert [each.block_hash for each in solana.shown(plain)] == [None]
    again = await solana.pay(payment, 7)
    await solana.watcher.run_once()
    assert [each.payment_id for each in solana.shown(again)] == [payment]
    assert await solana.db.write(take_vanished, solana.shown(again)) == ()
