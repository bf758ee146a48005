"""A blockchain in memory, and what a node says of it: blocks, reorgs, finality, logs, lag and lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

from payd.chains.evm.binding import tagged_transfer, transfer_call
from payd.chains.evm.codec import keccak256, to_data, to_quantity, word_of_address, word_of_uint
from payd.chains.evm.events import AUTHORIZATION_USED, TRANSFER
from tests.chains.evm.json import BUYER, SHOP, THIRD, TOKEN
from tests.chains.rpc_node import FakeNode, Says

BLOCK_S: Final = 2
START_S: Final = 1_780_000_000
UNKNOWN_BLOCK: Final = Says(-32000, "unknown block")
PRUNED: Final = Says(4444, "pruned history unavailable")

_numbers = count(1)


@dataclass(frozen=True)
class FakeLog:
    """An event: who emitted it, its topics and data."""

    address: str
    topics: tuple[bytes, ...]
    data: bytes


@dataclass(frozen=True)
class FakeTransaction:
    """A transaction and what it does when it is mined; its hash stays the same in every block."""

    sender: str
    to: str
    value: int = 0
    input: bytes = b""
    logs: tuple[FakeLog, ...] = ()
    status: int = 1
    hash: str = field(default_factory=lambda: _hash(f"transaction {next(_numbers)}"))


@dataclass(frozen=True)
class FakeBlock:
    """A block; `hash` differs between forks."""

    number: int
    hash: str
    parent_hash: str
    time_s: int
    transactions: tuple[FakeTransaction, ...]


def log_of_transfer(sender: str, recipient: str, value: int, token: str = TOKEN) -> FakeLog:
    """What a token says when it moves."""
    topics = (TRANSFER, word_of_address(sender), word_of_address(recipient))
    return FakeLog(token, topics, word_of_uint(value))


def token_transfer(
    value: int, tag: bytes | None = None, *, to: str = SHOP, sender: str = BUYER, token: str = TOKEN
) -> FakeTransaction:
    """A transfer that a wallet sent itself."""
    called = transfer_call(to, value) if tag is None else tagged_transfer(to, value, tag)
    return FakeTransaction(sender, token, 0, called, (log_of_transfer(sender, to, value, token),))


def relayed_transfer(value: int, nonce: bytes, *, to: str = SHOP, relayer: str = THIRD) -> FakeTransaction:
    """An authorization of the buyer that somebody else brought to the token."""
    used = FakeLog(TOKEN, (AUTHORIZATION_USED, word_of_address(BUYER), nonce), b"")
    return FakeTransaction(relayer, TOKEN, 0, b"\xe3\xee\x16\x0e", (used, log_of_transfer(BUYER, to, value)))


def coin_transfer(value: int, tag: bytes = b"", *, to: str = SHOP, status: int = 1) -> FakeTransaction:
    """A transfer of the chain's own coin."""
    return FakeTransaction(BUYER, to, value, tag, status=status)


class FakeChain:
    """What is true. Nodes tell of it, each in its own way."""

    def __init__(self, height: int = 100, final_depth: int = 20) -> None:
        self.final_depth = final_depth
        self.blocks: list[FakeBlock] = []
        self._fork = 0
        for _ in range(height + 1):
            self.mine()

    @property
    def head(self) -> FakeBlock:
        """The newest block."""
        return self.blocks[-1]

    def mine(self, *transactions: FakeTransaction) -> FakeBlock:
        """One block more, with these transactions."""
        number = len(self.blocks)
        parent = self.blocks[-1].hash if self.blocks else "0x" + "00" * 32
        time_s = START_S + number * BLOCK_S
        block = FakeBlock(number, _hash(f"block {self._fork} {number}"), parent, time_s, transactions)
        self.blocks.append(block)
        return block

    def mine_empty(self, number: int) -> None:
        """So many blocks with nothing in them."""
        for _ in range(number):
            self.mine()

    def reorg(self, depth: int, *blocks: Sequence[FakeTransaction]) -> None:
        """Other blocks in place of the newest `depth`, and one more than these, or as many as are given."""
        del self.blocks[-depth:]
        self._fork += 1
        for transactions in blocks or [()] * (depth + 1):
            self.mine(*transactions)

    def find(self, tx_hash: str) -> tuple[FakeBlock, FakeTransaction] | None:
        """Where a transaction is mined."""
        for block in self.blocks:
            for transaction in block.transactions:
                if transaction.hash == tx_hash:
                    return block, transaction
        return None


@dataclass
class View:
    """What one node knows of a chain, and says.

    Attributes:
        chain: The truth.
        lag: So many blocks behind it.
        ghosts: It names these newest blocks, but its logs are of a machine that does not have them.
        hides: Hashes of transactions whose logs it leaves out.
        denies: Hashes of transactions that it does not know, although it shows their logs.
        range_max: The widest range of blocks that it gives logs of.
        says: Errors by method.
        has_final: Whether it knows what is final.
        ahead_s: By so much its blocks' times are ahead.
        first_block: Of older ones it has neither receipts nor logs any more, and says that there are none.
        refuses: It says that it has pruned them instead.
    """

    chain: FakeChain
    lag: int = 0
    ghosts: int = 0
    hides: set[str] = field(default_factory=set)
    denies: set[str] = field(default_factory=set)
    range_max: int | None = None
    says: dict[str, Says] = field(default_factory=dict)
    has_final: bool = True
    ahead_s: int = 0
    first_block: int = 0
    refuses: bool = False

    def node(self) -> FakeNode:
        """A node that says it."""
        methods = {
            "eth_blockNumber": self.block_number,
            "eth_getBlockByNumber": self.block_by_number,
            "eth_getBlockByHash": self.block_by_hash,
            "eth_getLogs": self.logs,
            "eth_getTransactionByHash": self.transaction,
            "eth_getTransactionReceipt": self.receipt,
        }
        return FakeNode(results={name: self._unless_told(name, method) for name, method in methods.items()})

    def _unless_told(self, name: str, method: Any) -> Any:
        return lambda *params: self.says.get(name) or method(*params)

    @property
    def blocks(self) -> list[FakeBlock]:
        """Those that it has."""
        return self.chain.blocks[: len(self.chain.blocks) - self.lag]

    def block_number(self) -> str:
        """eth_blockNumber."""
        return hex(len(self.blocks) - 1)

    def block_by_number(self, tag: str, full: bool) -> Any:
        """eth_getBlockByNumber."""
        if tag == "finalized":
            if not self.has_final:
                return Says(-39001, "'finalized' tag not supported")
            return self._json(self.blocks[max(0, len(self.blocks) - 1 - self.chain.final_depth)], full)
        number = len(self.blocks) - 1 if tag == "latest" else int(tag, 16)
        return self._json(self.blocks[number], full) if number < len(self.blocks) else None

    def block_by_hash(self, block_hash: str, full: bool) -> Any:
        """eth_getBlockByHash."""
        return next((self._json(block, full) for block in self.blocks if block.hash == block_hash), None)

    def _json(self, block: FakeBlock, full: bool) -> dict[str, Any]:
        return block_json(replace(block, time_s=block.time_s + self.ahead_s), full)

    def logs(self, wanted: dict[str, Any]) -> Any:
        """eth_getLogs."""
        blocks = self.blocks[: len(self.blocks) - self.ghosts]
        if "blockHash" in wanted:
            blocks = [block for block in blocks if block.hash == wanted["blockHash"]]
            if not blocks:
                return UNKNOWN_BLOCK
        else:
            first, last = int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)
            if self.range_max is not None and last - first + 1 > self.range_max:
                return Says(-32005, f"block range is too wide, the most is {self.range_max}")
            blocks = [block for block in blocks if first <= block.number <= last]
        if self.refuses and any(block.number < self.first_block for block in blocks):
            return PRUNED
        return [
            log
            for block in blocks
            if block.number >= self.first_block
            for transaction in block.transactions
            if transaction.hash not in self.hides
            for log in logs_json(block, transaction)
            if _is_wanted(log, wanted)
        ]

    def transaction(self, tx_hash: str) -> Any:
        """eth_getTransactionByHash."""
        found = self._find(tx_hash)
        return None if found is None else transaction_json(*found)

    def receipt(self, tx_hash: str) -> Any:
        """eth_getTransactionReceipt."""
        found = self._find(tx_hash)
        if found is None or found[0].number < self.first_block:
            return PRUNED if found is not None and self.refuses else None
        return receipt_json(*found)

    def _find(self, tx_hash: str) -> tuple[FakeBlock, FakeTransaction] | None:
        found = None if tx_hash in self.denies else self.chain.find(tx_hash)
        return found if found is not None and found[0].number < len(self.blocks) else None


def block_json(block: FakeBlock, full: bool) -> dict[str, Any]:
    """A block as a node writes it."""
    return {
        "number": to_quantity(block.number),
        "hash": block.hash,
        "parentHash": block.parent_hash,
        "timestamp": to_quantity(block.time_s),
        "baseFeePerGas": "0x3b9aca00",
        "transactions": [
            transaction_json(block, transaction) if full else transaction.hash
            for transaction in block.transactions
        ],
    }


def transaction_json(block: FakeBlock, transaction: FakeTransaction) -> dict[str, Any]:
    """A mined transaction as a node writes it."""
    return {
        "hash": transaction.hash,
        "from": transaction.sender,
        "to": transaction.to,
        "value": to_quantity(transaction.value),
        "input": to_data(transaction.input),
        "nonce": "0x0",
        "blockHash": block.hash,
        "blockNumber": to_quantity(block.number),
    }


def receipt_json(block: FakeBlock, transaction: FakeTransaction) -> dict[str, Any]:
    """Its receipt."""
    return {
        "transactionHash": transaction.hash,
        "status": to_quantity(transaction.status),
        "blockHash": block.hash,
        "blockNumber": to_quantity(block.number),
        "gasUsed": "0x5208",
        "logs": logs_json(block, transaction),
    }


def logs_json(block: FakeBlock, transaction: FakeTransaction) -> list[dict[str, Any]]:
    """Its logs, with their places in the block."""
    at = block.transactions.index(transaction)
    before = sum(len(other.logs) for other in block.transactions[:at])
    return [
        {
            "address": log.address,
            "topics": [to_data(topic) for topic in log.topics],
            "data": to_data(log.data),
            "blockHash": block.hash,
            "blockNumber": to_quantity(block.number),
            "transactionHash": transaction.hash,
            "logIndex": to_quantity(before + place),
            "removed": False,
        }
        for place, log in enumerate(transaction.logs)
    ]


def reverted(transaction: FakeTransaction) -> FakeTransaction:
    """The same transaction, where it fails."""
    return replace(transaction, status=0, logs=())


def _is_wanted(log: dict[str, Any], wanted: dict[str, Any]) -> bool:
    if log["address"] not in wanted["address"]:
        return False
    for topic, choice in zip(log["topics"], wanted["topics"], strict=False):
        choices = [choice] if isinstance(choice, str) else choice
        if choices is not None and topic not in choices:
            return False
    return len(log["topics"]) >= len(wanted["topics"])


def _hash(text: str) -> str:
    return to_data(keccak256(text.encode()))
