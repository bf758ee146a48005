"""Nodes' answers for tests: JSON as a node writes it, of transactions that were never sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st

from payd.chains.evm.codec import to_data, to_quantity, word_of_address, word_of_uint
from payd.chains.evm.events import AUTHORIZATION_USED, TRANSFER
from payd.chains.rpc_errors import BadAnswer

T = TypeVar("T")

TOKEN = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
OTHER_TOKEN = "0x60a3e35cc302bfa44cb288bc5a4f316fdb1adb42"
BUYER = "0xb0b0000000000000000000000000000000000001"
WALLET = "0xb0b0000000000000000000000000000000000002"
THIRD = "0xb0b0000000000000000000000000000000000003"
SHOP = "0x5e11000000000000000000000000000000000001"
OTHER_SHOP = "0x5e11000000000000000000000000000000000002"

TX_HASH = "0x" + "7a" * 32
BLOCK_HASH = "0x" + "b1" * 32
BLOCK_NUMBER = 1000

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["0x", "0x0", TX_HASH]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=10,
)


def transfer_log(
    sender: str, recipient: str, value: int, token: str = TOKEN, **changes: object
) -> dict[str, Any]:
    """A `Transfer` of a token."""
    topics = [TRANSFER, word_of_address(sender), word_of_address(recipient)]
    return log_json(token, topics, word_of_uint(value), **changes)


def used_log(authorizer: str, nonce: bytes, token: str = TOKEN, **changes: object) -> dict[str, Any]:
    """An `AuthorizationUsed` of a token."""
    return log_json(token, [AUTHORIZATION_USED, word_of_address(authorizer), nonce], b"", **changes)


def log_json(address: str, topics: list[bytes], data: bytes, **changes: object) -> dict[str, Any]:
    """Any event."""
    return {
        "address": address,
        "topics": [to_data(topic) for topic in topics],
        "data": to_data(data),
        "blockHash": BLOCK_HASH,
        "blockNumber": to_quantity(BLOCK_NUMBER),
        "transactionHash": TX_HASH,
        "transactionIndex": "0x0",
        "logIndex": "0x0",
        "removed": False,
        **changes,
    }


def receipt_json(*logs: dict[str, Any], **changes: object) -> dict[str, Any]:
    """A receipt with these logs, which are numbered as in a block where others come first."""
    return {
        "transactionHash": TX_HASH,
        "transactionIndex": "0x3",
        "blockHash": BLOCK_HASH,
        "blockNumber": to_quantity(BLOCK_NUMBER),
        "from": BUYER,
        "to": TOKEN,
        "status": "0x1",
        "type": "0x2",
        "gasUsed": "0xc350",
        "cumulativeGasUsed": "0xc350",
        "effectiveGasPrice": "0x3b9aca00",
        "contractAddress": None,
        "logsBloom": to_data(bytes(256)),
        "logs": [{**log, "logIndex": to_quantity(40 + place)} for place, log in enumerate(logs)],
        **changes,
    }


def transaction_json(**changes: object) -> dict[str, Any]:
    """A transaction of the buyer to the token, without calldata."""
    return {
        "hash": TX_HASH,
        "from": BUYER,
        "to": TOKEN,
        "value": "0x0",
        "input": "0x",
        "nonce": "0x7",
        "gas": "0x186a0",
        "type": "0x2",
        "chainId": "0x2105",
        "blockHash": BLOCK_HASH,
        "blockNumber": to_quantity(BLOCK_NUMBER),
        "transactionIndex": "0x3",
        **changes,
    }


def block_json(*transactions: object, **changes: object) -> dict[str, Any]:
    """A block with these transactions, or their hashes."""
    return {
        "number": to_quantity(BLOCK_NUMBER),
        "hash": BLOCK_HASH,
        "parentHash": "0x" + "b0" * 32,
        "timestamp": "0x68f00000",
        "baseFeePerGas": "0x3b9aca00",
        "transactions": list(transactions),
        **changes,
    }


def check_read_or_refused(read: Callable[[T], object], answer: T) -> None:
    """Whatever a node says is read, or refused as what no node says; anything else fails the test."""
    words = ""
    try:
        read(answer)
    except BadAnswer as refused:
        words = str(refused)
    assert words.isprintable()
