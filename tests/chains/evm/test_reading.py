"""Reading blocks: all of what one node shows, or nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import trio

from payd.chains.evm.binding import payment_tag
from payd.chains.evm.proof import Watched
from payd.chains.evm.reading import TOPICS_AT_ONCE, Piece, Reader, TooWide
from payd.chains.rpc import Node, NodesDown, Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.unread import Unread
from payd.core.caip import parse_chain
from tests.chains.evm.json import OTHER_SHOP, SHOP, THIRD, TOKEN
from tests.chains.fake_chain import (
    FakeChain,
    FakeTransaction,
    View,
    block_json,
    coin_transfer,
    log_of_transfer,
    logs_json,
    token_transfer,
)
from tests.chains.rpc_node import FakeNode, Says, open_rpc
from tests.receiver import Does

CHAIN = "eip155:8453"
USDC, ETH = f"{CHAIN}/erc20:{TOKEN}", f"{CHAIN}/slip44:60"
TAG = payment_tag("pay_1")
WATCHED = Watched(frozenset({TOKEN}), frozenset({SHOP, OTHER_SHOP}))
COINS_TOO = Watched(frozenset({TOKEN}), frozenset({SHOP}), ETH)


@dataclass
class Desk:
    """A reader with one node in front of it."""

    chain: FakeChain
    view: View
    fake: FakeNode
    rpc: Rpc
    reader: Reader

    @property
    def node(self) -> Node:
        return self.rpc.nodes[0]

    async def blocks(self, back: int = 1, watched: Watched = WATCHED) -> Piece:
        """Read the newest blocks by their hashes."""
        after = self.chain.blocks[-1 - back]
        tips = await self.reader.tips(self.node, None, "latest")
        return await self.reader.blocks(self.node, watched, (after.number, after.hash), tips.head)

    async def range(self, back: int = 50, watched: Watched = WATCHED) -> Piece:
        """Read the newest blocks in one range."""
        after = self.chain.blocks[-1 - back]
        to = self.chain.head.number
        return await self.reader.range(self.node, watched, (after.number, after.hash), to)

    def twist(self, method: str, change: Callable[[Any], Any]) -> None:
        """Have the node say something else."""
        honest = self.fake.results[method]
        self.fake.results[method] = lambda *params: change(honest(*params))


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async def known(bindings: Sequence[bytes]) -> set[tuple[bytes, str]]:
        await trio.lowlevel.checkpoint()
        return {(binding, asset) for binding in bindings for asset in (USDC, ETH) if binding == TAG}

    chain = FakeChain()
    view = View(chain)
    fake = view.node()
    async with open_rpc(fake) as rpc:
        yield Desk(chain, view, fake, rpc, Reader(rpc, parse_chain(CHAIN), known))


async def test_a_transfer_is_read_with_its_block_its_time_and_its_binding(desk: Desk) -> None:
    paid, bare = token_transfer(5, TAG), token_transfer(6, to=OTHER_SHOP)
    first = desk.chain.mine(token_transfer(1, to=THIRD), paid)
    second = desk.chain.mine(bare)
    for piece in (await desk.blocks(2), await desk.range()):
        assert [(one.tx_id, one.log_index, one.value) for one in piece.transfers] == [
            (paid.hash, 0, 5),
            (bare.hash, 0, 6),
        ]
        one, two = piece.transfers
        assert (one.block_number, one.block_hash, one.block_time_s) == (
            first.number,
            first.hash,
            first.time_s,
        )
        assert (one.asset, one.recipient, one.binding) == (USDC, f"{CHAIN}:{SHOP}", TAG)
        assert (two.block_hash, two.binding) == (second.hash, None)
        assert piece.last.hash == second.hash


async def test_a_place_is_counted_in_the_transaction_and_not_in_the_block(desk: Desk) -> None:
    logs = (log_of_transfer(THIRD, THIRD, 1), log_of_transfer(THIRD, SHOP, 5))
    desk.chain.mine(token_transfer(9), FakeTransaction(THIRD, THIRD, logs=logs))
    piece = await desk.blocks()
    assert [one.log_index for one in piece.transfers] == [0, 1]


async def test_coins_are_read_where_they_are_watched(desk: Desk) -> None:
    paid, failed = coin_transfer(5, TAG), coin_transfer(6, TAG, status=0)
    desk.chain.mine(paid, failed, coin_transfer(0, TAG), coin_transfer(7, to=THIRD))
    desk.chain.mine(token_transfer(8))
    for piece in (await desk.blocks(2, COINS_TOO), await desk.range(10, COINS_TOO)):
        assert [(one.asset, one.log_index, one.value) for one in piece.transfers] == [
            (ETH, -1, 5),
            (USDC, 0, 8),
        ]
    assert [one.value for one in (await desk.blocks(2)).transfers] == [8]


async def test_coins_are_read_of_a_node_that_writes_addresses_with_capitals(desk: Desk) -> None:
    paid = coin_transfer(5, TAG)
    desk.chain.mine(paid)

    def spell(block: Any) -> Any:
        sent = [{**one, "to": "0x" + one["to"][2:].upper()} for one in block["transactions"]]
        return {**block, "transactions": sent}

    desk.twist("eth_getBlockByHash", spell)
    assert [one.tx_id for one in (await desk.blocks(1, COINS_TOO)).transfers] == [paid.hash]


async def test_transactions_of_a_kind_that_nobody_knows_do_not_hinder_those_of_ours(desk: Desk) -> None:
    paid = coin_transfer(5, TAG)
    desk.chain.mine(paid)

    def add_strange(block: Any) -> Any:
        if block is None or not isinstance((block["transactions"] or [""])[0], dict):
            return block
        strange = {"type": "0x7e", "hash": None, "to": None, "mint": "0x1"}
        return {**block, "transactions": [strange, *block["transactions"]]}

    desk.twist("eth_getBlockByHash", add_strange)
    assert [one.tx_id for one in (await desk.blocks(1, COINS_TOO)).transfers] == [paid.hash]


async def test_logs_that_nobody_asked_for_are_not_taken(desk: Desk) -> None:
    desk.chain.mine(token_transfer(5, TAG), token_transfer(6, to=THIRD), token_transfer(7, token=THIRD))
    honest = desk.fake.results["eth_getLogs"]

    def everything(wanted: dict[str, Any]) -> Any:
        topics = [wanted["topics"][0]]
        return honest({**wanted, "address": [TOKEN, THIRD], "topics": topics})

    desk.fake.results["eth_getLogs"] = everything
    assert [one.value for one in (await desk.blocks()).transfers] == [5]
    assert desk.rpc.calls["eth_getTransactionReceipt"] == 1


async def test_transfers_of_nothing_are_not_looked_into(desk: Desk) -> None:
    desk.chain.mine(token_transfer(0), coin_transfer(0))
    assert (await desk.blocks(1, COINS_TOO)).transfers == ()
    assert desk.rpc.calls["eth_getTransactionReceipt"] == 0


async def test_logs_of_other_blocks_are_unread(desk: Desk) -> None:
    old = desk.chain.mine(token_transfer(5))
    desk.chain.mine_empty(10)
    [log] = logs_json(old, old.transactions[0])
    desk.twist("eth_getLogs", lambda logs: [log])
    with pytest.raises(Unread, match="other blocks"):
        await desk.blocks()
    with pytest.raises(Unread, match="other blocks"):
        await desk.range(5)


async def test_blocks_of_other_numbers_are_unread(desk: Desk) -> None:
    desk.chain.mine_empty(10)
    late = block_json(desk.chain.blocks[-2], False)
    desk.twist(
        "eth_getBlockByNumber",
        lambda block: late if block["number"] == hex(desk.chain.head.number) else block,
    )
    with pytest.raises(Unread, match="other numbers"):
        await desk.range(10)


@pytest.mark.parametrize("watched", [WATCHED, COINS_TOO], ids=["headers", "whole blocks"])
async def test_a_block_that_follows_and_says_another_number_is_unread(desk: Desk, watched: Watched) -> None:
    """What is kept of blocks, and when a transfer is looked at again, goes by their numbers."""
    desk.chain.mine_empty(3)
    number = desk.chain.head.number - 1
    desk.twist(
        "eth_getBlockByNumber",
        lambda block: {**block, "number": hex(2**40)} if block["number"] == hex(number) else block,
    )
    with pytest.raises(Unread, match="other numbers"):
        await desk.blocks(3, watched)


async def test_a_transfer_in_a_block_that_is_not_the_chains_is_unread(desk: Desk) -> None:
    desk.chain.mine(token_transfer(5))
    number = desk.chain.head.number
    desk.chain.mine_empty(10)
    desk.twist(
        "eth_getBlockByNumber",
        lambda block: {**block, "hash": "0x" + "66" * 32} if block["number"] == hex(number) else block,
    )
    with pytest.raises(Unread, match="while it was read"):
        await desk.range(20)


async def test_nothing_to_look_for_takes_no_request(desk: Desk) -> None:
    await desk.blocks()
    before = desk.rpc.posts
    piece = await desk.blocks(1, Watched(frozenset(), frozenset({SHOP})))
    assert (piece.transfers, piece.last.number) == ((), desk.chain.head.number)
    assert desk.rpc.posts - before == 1  # the head, which `Desk.blocks` asks for


async def test_more_destinations_than_fit_a_filter_are_asked_for_in_pieces(desk: Desk) -> None:
    many = frozenset(f"0x{number:040x}" for number in range(0xABC000, 0xABC000 + 2 * TOPICS_AT_ONCE))
    desk.chain.mine(token_transfer(5), token_transfer(6, to=min(many)), token_transfer(7, to=max(many)))
    before = desk.rpc.calls["eth_getLogs"]
    piece = await desk.blocks(1, Watched(frozenset({TOKEN}), many | {SHOP}))
    assert sorted(one.value for one in piece.transfers) == [5, 6, 7]
    assert desk.rpc.calls["eth_getLogs"] - before == 3


async def test_a_chain_that_turned_since_the_last_block_is_unread(desk: Desk) -> None:
    desk.chain.mine(token_transfer(5))
    for read in (desk.reader.blocks, desk.reader.range):
        tips = await desk.reader.tips(desk.node, None, "latest")
        to: Any = tips.head if read == desk.reader.blocks else tips.head.number
        with pytest.raises(Unread, match="turned"):
            await read(desk.node, WATCHED, (tips.head.number - 1, "0x" + "66" * 32), to)


async def test_blocks_that_do_not_follow_on_each_other_are_unread(desk: Desk) -> None:
    desk.chain.mine_empty(5)
    other = {"parentHash": "0x" + "66" * 32}
    desk.twist(
        "eth_getBlockByNumber",
        lambda block: {**block, **other} if block["number"] == hex(desk.chain.head.number - 2) else block,
    )
    with pytest.raises(Unread, match="turned"):
        await desk.blocks(5)
    with pytest.raises(Unread, match="turned"):
        await desk.range(5, COINS_TOO)


async def test_a_chain_that_turns_while_a_range_is_read_is_unread(desk: Desk) -> None:
    desk.chain.mine(token_transfer(5))
    desk.chain.mine_empty(20)

    def turn(logs: Any) -> Any:
        desk.chain.reorg(21, *[[]] * 21)
        return logs

    desk.twist("eth_getLogs", turn)
    with pytest.raises(Unread):
        await desk.range(30)


async def test_the_last_block_of_a_range_must_be_there(desk: Desk) -> None:
    after = desk.chain.blocks[50]
    desk.view.lag = 20
    with pytest.raises(Unread, match="does not have"):
        await desk.reader.range(desk.node, WATCHED, (50, after.hash), 90)


async def test_a_block_that_the_logs_machine_does_not_have_is_unread(desk: Desk) -> None:
    desk.chain.mine(token_transfer(5))
    desk.view.ghosts = 1
    with pytest.raises(Unread, match="unknown block"):
        await desk.blocks()


async def test_a_range_that_is_too_wide_says_so_and_a_single_block_is_never(desk: Desk) -> None:
    desk.view.range_max = 0
    with pytest.raises(TooWide):
        await desk.range(2)
    with pytest.raises(Unread):
        await desk.range(1)


@pytest.mark.parametrize("says", [Says(-32000, "header not found"), Says(-32602, "no such parameter")])
async def test_a_refusal_is_taken_for_a_width_where_it_can_be_one(desk: Desk, says: Says) -> None:
    desk.view.says["eth_getLogs"] = says
    with pytest.raises(Unread if "header" in says.message else TooWide):
        await desk.range(10)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("eth_getTransactionReceipt", lambda one: None),
        ("eth_getTransactionReceipt", lambda one: {**one, "logs": []}),
        ("eth_getTransactionReceipt", lambda one: {**one, "logs": one["logs"][:1]}),
        ("eth_getTransactionReceipt", lambda one: {**one, "status": "0x0"}),
        ("eth_getTransactionReceipt", lambda one: {**one, "status": None}),
        ("eth_getTransactionReceipt", lambda one: {**one, "blockHash": "0x" + "66" * 32, "logs": []}),
        ("eth_getTransactionReceipt", lambda one: {**one, "blockNumber": hex(2**40)}),
        ("eth_getTransactionReceipt", lambda one: Says(-32000, "not now")),
        ("eth_getTransactionByHash", lambda one: None),
        ("eth_getTransactionByHash", lambda one: {**one, "blockHash": None}),
        ("eth_getTransactionByHash", lambda one: {**one, "hash": "0x" + "66" * 32}),
        ("eth_getTransactionByHash", lambda one: []),
    ],
)
async def test_evidence_that_contradicts_itself_is_unread_and_names_its_transaction(
    desk: Desk, method: str, change: Callable[[Any], Any]
) -> None:
    logs = (log_of_transfer(THIRD, SHOP, 4), log_of_transfer(THIRD, SHOP, 5))
    paid = FakeTransaction(THIRD, THIRD, logs=logs)
    desk.chain.mine(paid, token_transfer(6))
    honest = desk.fake.results[method]
    desk.fake.results[method] = lambda tx_id: change(honest(tx_id)) if tx_id == paid.hash else honest(tx_id)
    with pytest.raises(Unread) as raised:
        await desk.blocks()
    assert raised.value.tx_id == paid.hash

    desk.reader.skipped.add(paid.hash)
    assert [one.value for one in (await desk.blocks()).transfers] == [6]


async def test_coins_are_not_believed_by_the_receipt_of_another_transaction(desk: Desk) -> None:
    desk.chain.mine(coin_transfer(5, TAG))
    desk.twist("eth_getTransactionReceipt", lambda one: {**one, "transactionHash": "0x" + "66" * 32})
    with pytest.raises(Unread, match="another transaction"):
        await desk.blocks(1, COINS_TOO)


@pytest.mark.parametrize("junk", [None, 7, "0x", [], {}, {"number": "0x1"}, [None], [{}]])
@pytest.mark.parametrize("method", ["eth_getLogs", "eth_getBlockByNumber", "eth_getBlockByHash"])
async def test_junk_is_unread(desk: Desk, method: str, junk: Any) -> None:
    desk.chain.mine(coin_transfer(5))
    desk.chain.mine(coin_transfer(5))
    tips = await desk.reader.tips(desk.node, None, "latest")
    after = desk.chain.blocks[-3]
    desk.fake.results[method] = lambda *params: junk
    if method == "eth_getLogs" and junk == []:
        assert [one.value for one in (await desk.blocks(2, COINS_TOO)).transfers] == [5, 5]
        return
    with pytest.raises((Unread, BadAnswer)):
        await desk.reader.blocks(desk.node, COINS_TOO, (after.number, after.hash), tips.head)


async def test_a_node_that_is_away_is_no_answer(desk: Desk) -> None:
    desk.fake.does = Does(status=503)
    with pytest.raises(NodesDown):
        await desk.reader.tips(desk.node, None, "finalized")


async def test_tips_are_one_request(desk: Desk) -> None:
    await desk.reader.headers(desk.node, [0])  # which chain it is of was asked once
    before = desk.rpc.posts
    tips = await desk.reader.tips(desk.node, 90, "finalized")
    assert desk.rpc.posts - before == 1
    assert tips.at_cursor is not None
    assert tips.final is not None
    assert [block.number for block in (tips.head, tips.at_cursor, tips.final)] == [100, 90, 80]
    assert (await desk.reader.tips(desk.node, 101, 70)).at_cursor is None


async def test_a_last_final_block_above_the_head_is_not_believed(desk: Desk) -> None:
    desk.twist("eth_getBlockByNumber", lambda block: block)
    tips = await desk.reader.tips(desk.node, None, 100)
    assert tips.final is not None
    desk.view.lag = 0
    honest = desk.fake.results["eth_getBlockByNumber"]
    ahead = {**honest("latest", False), "number": hex(101)}
    desk.fake.results["eth_getBlockByNumber"] = lambda tag, full: (
        ahead if tag == "finalized" else honest(tag, full)
    )
    assert (await desk.reader.tips(desk.node, None, "finalized")).final is None


async def test_a_single_transaction_is_read_with_the_block_at_its_height(desk: Desk) -> None:
    paid = token_transfer(5, TAG)
    block = desk.chain.mine(paid)
    transaction, receipt, shown = await desk.reader.transaction(desk.node, paid.hash)
    assert transaction is not None
    assert receipt is not None
    assert shown is not None
    assert shown.hash == block.hash
    [seen] = await desk.reader.seen(transaction, receipt, shown, WATCHED)
    assert (seen.value, seen.binding, seen.block_time_s) == (5, TAG, block.time_s)
    assert await desk.reader.transaction(desk.node, "0x" + "00" * 32) == (None, None, None)
