"""Until when a transaction can land: no single node makes it seem over before it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from payd.chains.rpc import Rpc
from payd.chains.solana.answers import Blockhash
from payd.chains.solana.dialect import SolanaDialect
from payd.chains.solana.lifetime import APART_MAX, BLOCKHASH_BLOCKS, lands_until, last_valid_height
from payd.core.errors import ChainUnavailable
from tests.chains.solana.desk import TERMS, Desk
from tests.live.anvil import Refused
from tests.live.svm_node import ServedNode, open_svm_node

pytestmark = pytest.mark.real_time

HASH = "4uQeVj5tqViQh7yWWGStvkEG1Zmhx6uasJtWCJziofM"


@pytest.fixture
async def nodes() -> AsyncIterator[tuple[ServedNode, ServedNode]]:
    """Two, of which the second is further by twenty blocks."""
    async with open_svm_node() as first, open_svm_node() as second:
        await first.rpc("payd_slot", 200)
        await second.rpc("payd_slot", 220)
        yield first, second


async def height(node: ServedNode) -> int:
    return int(await node.rpc("getBlockHeight", {"commitment": "confirmed"}))


async def last(*nodes: ServedNode, told: int) -> int:
    rpc = Rpc([node.url for node in nodes], SolanaDialect(TERMS.chain.reference))
    try:
        return await last_valid_height(rpc, Blockhash(HASH, told, 1))
    finally:
        await rpc.aclose()


async def test_of_one_node_its_word_is_taken(desk: Desk) -> None:
    assert await last(desk.node, told=7) == 7


async def test_a_node_that_names_an_early_end_is_not_believed(nodes: tuple[ServedNode, ServedNode]) -> None:
    honest = await height(nodes[1]) + BLOCKHASH_BLOCKS

    for told in (0, 1, honest - 21, honest - 1):
        assert await last(*nodes, told=told) == honest
    assert await last(*nodes, told=honest + 5) == honest + 5


async def test_a_height_out_of_all_bounds_can_be_stored(
    nodes: tuple[ServedNode, ServedNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes[1], "_getBlockHeight", lambda *_: 2**63 - 1)
    assert await last(nodes[1], told=2**63 - 1) == 2**63 - 1
    nodes[0].genesis = "1" * 44
    assert await last(*nodes, told=7) == 2**63 - 1


@pytest.mark.parametrize("place", [0, 1])
async def test_of_two_nodes_one_that_takes_slots_for_heights_is_not_heard(
    nodes: tuple[ServedNode, ServedNode], monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    honest = await height(nodes[1 - place])
    monkeypatch.setattr(nodes[place], "_getBlockHeight", lambda *_: 22_000_000)
    monkeypatch.setattr(nodes[place], "_getSlot", lambda *_: 22_000_000)

    assert await last(*nodes, told=7) == honest + BLOCKHASH_BLOCKS


@pytest.mark.parametrize("place", [0, 1])
async def test_of_two_nodes_one_that_stands_still_or_lies_makes_nothing_earlier(
    nodes: tuple[ServedNode, ServedNode], monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """What can still land would be told to be nowhere."""
    monkeypatch.setattr(nodes[place], "_getBlockHeight", lambda *_: 300_000_000)
    monkeypatch.setattr(nodes[place], "_getSlot", lambda *_: 322_000_000)

    for told in (7, 300_000_000 + BLOCKHASH_BLOCKS):
        assert await last(*nodes, told=told) == 300_000_000 + BLOCKHASH_BLOCKS


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_of_three_nodes_one_that_takes_slots_for_heights_is_not_heard(
    nodes: tuple[ServedNode, ServedNode], monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """What cannot land any more would end in months."""
    async with open_svm_node() as third:
        all_three = (*nodes, third)
        honest = max([await height(one) for at, one in enumerate(all_three) if at != place])
        monkeypatch.setattr(all_three[place], "_getBlockHeight", lambda *_: 22_000_000)

        assert await last(*all_three, told=7) == honest + BLOCKHASH_BLOCKS


async def test_of_three_nodes_the_furthest_is_heard_though_the_others_are_an_hour_behind(
    nodes: tuple[ServedNode, ServedNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_svm_node() as third:
        monkeypatch.setattr(third, "_getBlockHeight", lambda *_: 10_000)

        assert await last(third, *nodes, told=7) == 10_000 + BLOCKHASH_BLOCKS


async def test_no_end_is_taken_that_is_far_beyond_every_height(
    nodes: tuple[ServedNode, ServedNode],
) -> None:
    honest = await height(nodes[1]) + BLOCKHASH_BLOCKS

    assert await last(*nodes, told=22_000_000) == honest + APART_MAX


@pytest.mark.parametrize("answer", [None, -1, "300", Refused(-32005, "Node is behind by 42 slots")])
async def test_who_does_not_answer_makes_nothing_earlier(
    nodes: tuple[ServedNode, ServedNode], monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    def says(*_: Any) -> Any:
        if isinstance(answer, Refused):
            raise answer
        return answer

    monkeypatch.setattr(nodes[1], "_getBlockHeight", says)

    assert await last(*nodes, told=0) == await height(nodes[0]) + BLOCKHASH_BLOCKS


async def test_where_nobody_answers_the_word_of_the_first_is_left(
    nodes: tuple[ServedNode, ServedNode],
) -> None:
    for node in nodes:
        node.genesis = "1" * 44

    assert await last(*nodes, told=333) == 333


async def test_what_is_stored_of_a_fetched_transaction_is_not_one_nodes_word(desk: Desk) -> None:
    async with open_svm_node() as other:
        await other.rpc("payd_slot", await height(desk.node) + 20)
        rpc = Rpc([desk.node.url, other.url], SolanaDialect(TERMS.chain.reference))
        desk.rpc = rpc
        desk.open()
        payment = await desk.payment()
        fetched = await desk.fetch(payment, await desk.quote(payment))
        await rpc.aclose()

        assert desk.build_of(fetched).valid_until_height == await height(other) + BLOCKHASH_BLOCKS


async def test_what_is_in_a_block_can_land_again_for_a_blockhashs_life_by_the_further_node(
    nodes: tuple[ServedNode, ServedNode],
) -> None:
    rpc = Rpc([node.url for node in nodes], SolanaDialect(TERMS.chain.reference))
    assert await lands_until(rpc) == await height(nodes[1]) + BLOCKHASH_BLOCKS
    await rpc.aclose()


async def test_where_no_node_says_how_far_it_is_nobody_knows(nodes: tuple[ServedNode, ServedNode]) -> None:
    nodes[0].genesis = "1" * 44
    rpc = Rpc([nodes[0].url], SolanaDialect(TERMS.chain.reference))
    with pytest.raises(ChainUnavailable):
        await lands_until(rpc)
    await rpc.aclose()
