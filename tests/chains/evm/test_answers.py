"""Logs, transactions, receipts and blocks, as nodes write them and as they should not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.evm.answers import (
    decode_block,
    decode_log,
    decode_logs,
    decode_receipt,
    decode_transaction,
)
from payd.chains.evm.codec import COUNT_MAX, to_quantity
from payd.chains.evm.events import TRANSFER
from payd.chains.rpc_errors import BadAnswer
from tests.chains.evm.json import (
    BLOCK_HASH,
    BLOCK_NUMBER,
    BUYER,
    SHOP,
    TOKEN,
    TX_HASH,
    block_json,
    check_read_or_refused,
    json_values,
    receipt_json,
    transaction_json,
    transfer_log,
)

Decode = Callable[[object], object]

WHOLE: dict[Decode, dict[str, Any]] = {
    decode_log: transfer_log(BUYER, SHOP, 5),
    decode_transaction: transaction_json(),
    decode_receipt: receipt_json(transfer_log(BUYER, SHOP, 5)),
    decode_block: block_json(),
}
# Fields that a node may leave out, because not every chain has them or not every moment does.
MAY_MISS: dict[Decode, set[str]] = {
    decode_log: {"removed", "transactionIndex"},
    decode_transaction: {"to", "blockHash", "blockNumber", "gas", "type", "chainId", "transactionIndex"},
    decode_receipt: {
        "from",
        "to",
        "type",
        "transactionIndex",
        "cumulativeGasUsed",
        "effectiveGasPrice",
        "contractAddress",
        "logsBloom",
    },
    decode_block: {"baseFeePerGas", "transactions"},
}
FIELDS = [(decode, field) for decode, whole in WHOLE.items() for field in whole]
NEEDED = [(decode, field) for decode, field in FIELDS if field not in MAY_MISS[decode]]


def test_a_log_is_read() -> None:
    log = decode_log(transfer_log(BUYER, SHOP, 5, logIndex="0x11"))
    assert (log.address, log.topics[0], int.from_bytes(log.data, "big")) == (TOKEN, TRANSFER, 5)
    assert (log.block_hash, log.block_number, log.tx_hash) == (BLOCK_HASH, BLOCK_NUMBER, TX_HASH)
    assert (log.log_index, log.removed) == (17, False)


def test_a_log_that_a_reorg_took_back_says_so() -> None:
    assert decode_log(transfer_log(BUYER, SHOP, 5, removed=True)).removed


def test_a_mined_transaction_is_read() -> None:
    transaction = decode_transaction(transaction_json(value="0x5", input="0xABcd"))
    assert transaction is not None
    assert (transaction.hash, transaction.sender, transaction.to) == (TX_HASH, BUYER, TOKEN)
    assert (transaction.value, transaction.input, transaction.nonce) == (5, b"\xab\xcd", 7)
    assert transaction.block_hash == BLOCK_HASH


def test_a_transaction_may_be_unmined_or_create_a_contract() -> None:
    transaction = decode_transaction(transaction_json(to=None, blockHash=None, blockNumber=None))
    assert transaction is not None
    assert (transaction.to, transaction.block_hash) == (None, None)


def test_a_receipt_is_read_with_what_it_cost() -> None:
    receipt = decode_receipt(receipt_json(transfer_log(BUYER, SHOP, 5), l1Fee="0x64"))
    assert receipt is not None
    assert (receipt.tx_hash, receipt.status, receipt.block_number) == (TX_HASH, 1, BLOCK_NUMBER)
    assert [log.log_index for log in receipt.logs] == [40]
    assert (receipt.gas_used, receipt.gas_price, receipt.l1_fee) == (50_000, 10**9, 100)


def test_logs_of_a_receipt_stand_in_the_order_of_the_block() -> None:
    answer = receipt_json(transfer_log(BUYER, SHOP, 5), transfer_log(BUYER, SHOP, 6))
    answer["logs"].reverse()
    receipt = decode_receipt(answer)
    assert receipt is not None
    assert [int.from_bytes(log.data, "big") for log in receipt.logs] == [5, 6]


@pytest.mark.parametrize("field", ["transactionHash", "blockHash"])
def test_a_receipt_with_a_log_of_something_else_is_refused(field: str) -> None:
    answer = receipt_json(transfer_log(BUYER, SHOP, 5, **{field: "0x" + "99" * 32}))
    with pytest.raises(BadAnswer, match="another transaction or block"):
        decode_receipt(answer)


@pytest.mark.parametrize("status", ["0x2", "0x01ff", None, "", 1, True])
def test_a_receipt_is_done_or_reverted(status: object) -> None:
    with pytest.raises(BadAnswer):
        decode_receipt(receipt_json(status=status))


def test_a_block_is_read_whatever_is_in_it() -> None:
    block = decode_block(block_json(transaction_json(), TX_HASH, None))
    assert block is not None
    assert (block.number, block.hash, block.time_s) == (BLOCK_NUMBER, BLOCK_HASH, 0x68F00000)
    assert block.parent_hash == "0x" + "b0" * 32
    assert block.base_fee == 10**9


@pytest.mark.parametrize("decode", [decode_transaction, decode_receipt, decode_block])
def test_null_is_what_the_node_does_not_have(decode: Decode) -> None:
    assert decode(None) is None


@pytest.mark.parametrize("topics", [None, "0x", ["0x"], ["0x" + "00" * 31], ["0x" + "00" * 32] * 5])
def test_a_log_with_odd_topics_is_refused(topics: object) -> None:
    with pytest.raises(BadAnswer):
        decode_log({**transfer_log(BUYER, SHOP, 5), "topics": topics})


@pytest.mark.parametrize("removed", [None, "false", 0])
def test_a_log_is_removed_or_not(removed: object) -> None:
    with pytest.raises(BadAnswer):
        decode_log(transfer_log(BUYER, SHOP, 5, removed=removed))


@pytest.mark.parametrize(("decode", "field"), NEEDED)
def test_nothing_is_made_up_for_a_field_that_is_missing(decode: Decode, field: str) -> None:
    answer = {name: value for name, value in WHOLE[decode].items() if name != field}
    with pytest.raises(BadAnswer):
        decode(answer)


@pytest.mark.parametrize(("decode", "field"), [pair for pair in FIELDS if pair not in NEEDED])
def test_what_not_every_chain_has_may_be_missing(decode: Decode, field: str) -> None:
    assert decode({name: value for name, value in WHOLE[decode].items() if name != field}) is not None


@pytest.mark.parametrize("decode", WHOLE)
def test_a_number_that_fits_no_column_is_refused(decode: Decode) -> None:
    fields: dict[Decode, str] = {decode_block: "number", decode_transaction: "nonce"}
    field = fields.get(decode, "blockNumber")
    with pytest.raises(BadAnswer, match="out of bounds"):
        decode({**WHOLE[decode], field: to_quantity(COUNT_MAX + 1)})


@given(st.sampled_from(FIELDS), json_values)
def test_junk_in_any_field_is_read_or_refused(pair: tuple[Decode, str], junk: object) -> None:
    decode, field = pair
    check_read_or_refused(decode, {**WHOLE[decode], field: junk})


@given(st.sampled_from([*WHOLE, decode_logs]), json_values)
def test_junk_in_place_of_an_answer_is_refused(decode: Decode, junk: object) -> None:
    try:
        assert decode(junk) in (None, ())
    except BadAnswer:
        return
