"""What became of a nonce, by the word of nodes that lag, hide, lie and contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from payd.chains.evm.answers import Receipt
from payd.chains.evm.fate import Sought, Word, agreed, cost_of, fates, likeliest
from payd.chains.rpc import NodesDown
from tests.chains.evm.json import receipt_json
from tests.chains.rpc_node import FakeNode, Says, open_rpc

SENDER = "0x" + "0a" * 20
OLD, NEW, OTHER = ("0x" + digit * 64 for digit in "123")
BLOCK_A, BLOCK_B = ("0x" + digit * 64 for digit in "ab")


def receipt(tx_hash: str = NEW, block_hash: str = BLOCK_A, status: int = 1) -> Receipt:
    """A receipt without logs."""
    return Receipt(tx_hash, status, block_hash, 5, (), 100)


def node(count: int, *mined: str, **more: Any) -> FakeNode:
    """A node that has counted so many, and shows the receipts of these."""

    def shown(tx_hash: str) -> Any:
        if tx_hash not in mined:
            return None
        return receipt_json(transactionHash=tx_hash, blockHash=BLOCK_A, logs=[])

    return FakeNode({"eth_getTransactionCount": hex(count), "eth_getTransactionReceipt": shown, **more})


async def asked(*nodes: FakeNode, at_most: int | None = 2) -> list[list[str]]:
    """What is said of nonce 4 with two forms, and of nonce 5 with one; receipts by their hash."""
    sought = [Sought(4, (OLD, NEW)), Sought(5, (OTHER,))]
    async with open_rpc(*nodes) as rpc:
        said = await fates(rpc, SENDER, sought, at_most=at_most)
    return [[word.tx_hash if isinstance(word, Receipt) else word for word in words] for words in said]


async def test_any_form_that_was_mined_is_found() -> None:
    assert await asked(node(5, OLD)) == [[OLD], ["behind"]]
    assert await asked(node(5, NEW)) == [[NEW], ["behind"]]


async def test_a_nonce_that_is_counted_and_shows_nothing_of_ours_is_taken() -> None:
    assert await asked(node(5)) == [["taken"], ["behind"]]
    assert await asked(node(6, OTHER)) == [["taken"], [OTHER]]


async def test_each_node_has_its_own_word() -> None:
    assert await asked(node(6, NEW, OTHER), node(5, NEW)) == [[NEW, NEW], [OTHER, "behind"]]
    assert await asked(node(5, NEW), node(5), node(5)) == [[NEW, "taken"], ["behind"] * 2]
    assert await asked(node(5, NEW), node(5), node(5), at_most=None) == [
        [NEW, "taken", "taken"],
        ["behind"] * 3,
    ]


@pytest.mark.parametrize(
    "more",
    [
        {"eth_getTransactionCount": "five"},
        {"eth_getTransactionReceipt": {"status": "0x1"}},
        {"eth_getTransactionReceipt": Says(-32000, "what?")},
    ],
)
async def test_a_node_that_talks_nonsense_has_no_word(more: dict[str, Any]) -> None:
    assert await asked(node(5, **more), node(5, NEW)) == [[NEW], ["behind"]]
    async with open_rpc(node(5, **more)) as rpc:
        with pytest.raises(NodesDown):
            await fates(rpc, SENDER, [Sought(4, (OLD,))], at_most=2)


async def test_a_receipt_of_something_else_is_none() -> None:
    lie = node(5, eth_getTransactionReceipt=receipt_json(transactionHash=BLOCK_B, logs=[]))
    assert await asked(lie) == [["taken"], ["behind"]]


@pytest.mark.parametrize(
    ("words", "common"),
    [
        (["behind", "behind"], "behind"),
        (["taken", "behind"], "taken"),
        (["taken", "taken"], "taken"),
        ([receipt(), receipt()], receipt()),
        ([receipt(), "behind"], receipt()),
        ([receipt(), "taken"], None),
        ([receipt(), receipt(block_hash=BLOCK_B)], None),
        ([receipt(), receipt(status=0)], None),
        ([receipt(), receipt(tx_hash=OLD)], None),
    ],
)
def test_nodes_agree_or_not(words: list[Word], common: Word | None) -> None:
    assert agreed(words) == common
    assert agreed(words[::-1]) == common


@pytest.mark.parametrize(
    ("words", "believed"),
    [
        (["behind"], "behind"),
        (["taken", "behind"], "taken"),
        (["taken", receipt(), "taken"], receipt()),
        ([receipt(status=0), receipt(), receipt()], receipt()),
        ([receipt(), receipt(status=0)], receipt(status=0)),
        ([receipt(status=0), receipt()], receipt(status=0)),
    ],
)
def test_of_nodes_that_contradict_a_receipt_is_believed(words: list[Word], believed: Word) -> None:
    assert likeliest(words) == believed


def test_no_node_makes_a_transaction_dearer_than_what_was_signed() -> None:
    def word(gas_used: int, gas_price: int, l1_fee: int = 0, block_hash: str = BLOCK_A) -> Receipt:
        return Receipt(NEW, 1, block_hash, 5, (), gas_used, gas_price, l1_fee)

    honest = word(100, 7, 30)
    assert cost_of(honest, [honest], 1000, 10) == 730
    assert cost_of(word(100, 0, 30), [word(100, 0, 30)], 1000, 10) == 1030, "nobody names a price"
    lie = word(10**30, 10**30, 30)
    assert cost_of(lie, [lie], 1000, 10) == 10_030
    for liar in (lie, word(100, 7, 10**30)):
        words: list[Word] = [honest, "behind", liar]
        assert cost_of(liar, words, 1000, 10) == 730
    assert cost_of(honest, [honest, word(1, 1, block_hash=BLOCK_B), "taken"], 1000, 10) == 730
