"""What a node tells of a chain: logs, transactions, receipts and blocks.

Read strictly, because it is evidence: a field that is missing or odd is a `BadAnswer`. Fields that nobody
here reads are ignored, so that a chain may have more of them.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from payd.chains.evm.codec import (
    WORD_BYTES,
    from_address,
    from_count,
    from_data,
    from_hash,
    from_list,
    from_object,
    from_quantity,
)
from payd.chains.rpc_errors import BadAnswer

T = TypeVar("T")

TOPICS_MAX: Final = 4


class Log(msgspec.Struct, frozen=True):
    """One event. `log_index` is its place in its block; a removed one was taken back by a reorg."""

    address: str
    topics: tuple[bytes, ...]
    data: bytes
    block_hash: str
    block_number: int
    tx_hash: str
    log_index: int
    removed: bool = False


class Transaction(msgspec.Struct, frozen=True):
    """A transaction as it was sent. Without a `block_hash` it is not mined; without a `to` it creates."""

    hash: str
    sender: str
    to: str | None
    value: int
    input: bytes
    nonce: int
    block_hash: str | None = None


class Receipt(msgspec.Struct, frozen=True):
    """What a mined transaction did. `status` 1 is done, 0 is reverted.

    Attributes:
        logs: In the order of the block.
        gas_price: What a unit of gas cost; 0 where the node does not say.
        l1_fee: What a rollup of the OP kind takes beside the gas, 0 elsewhere.
    """

    tx_hash: str
    status: int
    block_hash: str
    block_number: int
    logs: tuple[Log, ...]
    gas_used: int
    gas_price: int = 0
    l1_fee: int = 0


class Block(msgspec.Struct, frozen=True):
    """A block, without its transactions.

    Attributes:
        base_fee: Smallest units of the native coin for a unit of gas; None on a chain without.
    """

    number: int
    hash: str
    parent_hash: str
    time_s: int
    base_fee: int | None = None


def decode_log(answer: object) -> Log:
    """A log of a mined block, by `eth_getLogs` or in a receipt.

    Raises:
        BadAnswer: It is none.
    """
    row = from_object(answer, "log")
    topics = from_list(row.get("topics"), "log.topics")
    if len(topics) > TOPICS_MAX:
        raise BadAnswer(f"log.topics has {len(topics)} topics")
    removed = row.get("removed", False)
    if not isinstance(removed, bool):
        raise BadAnswer("log.removed is neither true nor false")
    return Log(
        address=from_address(row.get("address"), "log.address"),
        topics=tuple(_topic(topic) for topic in topics),
        data=from_data(row.get("data"), "log.data"),
        block_hash=from_hash(row.get("blockHash"), "log.blockHash"),
        block_number=from_count(row.get("blockNumber"), "log.blockNumber"),
        tx_hash=from_hash(row.get("transactionHash"), "log.transactionHash"),
        log_index=from_count(row.get("logIndex"), "log.logIndex"),
        removed=removed,
    )


def decode_logs(answer: object) -> tuple[Log, ...]:
    """The answer of `eth_getLogs`.

    Raises:
        BadAnswer: It is none.
    """
    return tuple(decode_log(row) for row in from_list(answer, "logs"))


def decode_transaction(answer: object) -> Transaction | None:
    """A transaction; None where the node does not know it.

    Raises:
        BadAnswer: It is neither.
    """
    if answer is None:
        return None
    row = from_object(answer, "transaction")
    return Transaction(
        hash=from_hash(row.get("hash"), "transaction.hash"),
        sender=from_address(row.get("from"), "transaction.from"),
        to=_optional(from_address, row.get("to"), "transaction.to"),
        value=from_quantity(row.get("value"), "transaction.value"),
        input=from_data(row.get("input"), "transaction.input"),
        nonce=from_count(row.get("nonce"), "transaction.nonce"),
        block_hash=_optional(from_hash, row.get("blockHash"), "transaction.blockHash"),
    )


def decode_receipt(answer: object) -> Receipt | None:
    """A receipt; None where the node does not know the transaction as mined.

    Raises:
        BadAnswer: It is neither, or a log in it is of another transaction or block.
    """
    if answer is None:
        return None
    row = from_object(answer, "receipt")
    status = from_quantity(row.get("status"), "receipt.status")
    if status not in (0, 1):
        raise BadAnswer(f"receipt.status is {status}")
    receipt = Receipt(
        tx_hash=from_hash(row.get("transactionHash"), "receipt.transactionHash"),
        status=status,
        block_hash=from_hash(row.get("blockHash"), "receipt.blockHash"),
        block_number=from_count(row.get("blockNumber"), "receipt.blockNumber"),
        logs=tuple(sorted(decode_logs(row.get("logs")), key=lambda log: log.log_index)),
        gas_used=from_count(row.get("gasUsed"), "receipt.gasUsed"),
        gas_price=_optional(from_quantity, row.get("effectiveGasPrice"), "receipt.effectiveGasPrice") or 0,
        l1_fee=_optional(from_quantity, row.get("l1Fee"), "receipt.l1Fee") or 0,
    )
    for log in receipt.logs:
        if (log.tx_hash, log.block_hash) != (receipt.tx_hash, receipt.block_hash):
            raise BadAnswer(f"the receipt of {receipt.tx_hash} has a log of another transaction or block")
    return receipt


def decode_block(answer: object) -> Block | None:
    """A block; None where the node does not have it.

    Raises:
        BadAnswer: It is neither.
    """
    if answer is None:
        return None
    row = from_object(answer, "block")
    return Block(
        number=from_count(row.get("number"), "block.number"),
        hash=from_hash(row.get("hash"), "block.hash"),
        parent_hash=from_hash(row.get("parentHash"), "block.parentHash"),
        time_s=from_count(row.get("timestamp"), "block.timestamp"),
        base_fee=_optional(from_quantity, row.get("baseFeePerGas"), "block.baseFeePerGas"),
    )


def _topic(answer: object) -> bytes:
    topic = from_data(answer, "log.topics")
    if len(topic) != WORD_BYTES:
        raise BadAnswer(f"a topic has {len(topic)} bytes")
    return topic


def _optional(read: Callable[[object, str], T], answer: object, what: str) -> T | None:
    return None if answer is None else read(answer, what)
