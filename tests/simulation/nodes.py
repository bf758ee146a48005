"""What nodes say of a chain under a seed: the truth, or what they are behind of, stand on, or make up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final

from payd.chains.assets import AssetBook
from payd.chains.evm.abi import (
    authorization_state_call,
    balance_of_call,
    decimals_call,
    domain_separator_call,
)
from payd.chains.evm.authorization import domain_separator
from payd.chains.evm.codec import to_data, to_quantity
from payd.chains.evm.tokens import domain_of
from payd.core.caip import parse_asset, parse_chain
from tests.chains.fake_chain import (
    PRUNED,
    UNKNOWN_BLOCK,
    FakeBlock,
    FakeTransaction,
    block_json,
    logs_json,
    receipt_json,
    transaction_json,
)
from tests.chains.rpc_node import FakeNode, Says
from tests.receiver import Does, Received
from tests.simulation.chain import Chain, Sent
from tests.simulation.moods import in_its_mood
from tests.simulation.relayed import authorized_in, relayed

CHAIN: Final = "eip155:1"
# Enough for anything that anybody buys.
BALANCE: Final = 10**24
GAS_PRICE: Final = 2 * 10**9
GAS: Final = 90_000
REVERTED: Final = Says(3, "execution reverted")


class Node:
    """One node.

    Args:
        chain: The truth.
        rng: Its moods.

    Attributes:
        moody: Whether it fails at times.
        is_down: It answers nothing.
        lag: So many blocks behind.
        fork: It stands on these blocks, which are not, or no longer, the chain's; empty: it does not.
        hides: Whether it leaves out logs.
        denies: Whether it knows no transaction of those whose logs it leaves out.
        reverts: Whether it says of every transaction that it failed.
        forged: Transactions that never were, by the number of the block that it shows them in.
        other_chain: Whether it tells of another chain.
        ahead_s: By so much the times of its blocks are ahead.
        first_block: Of older ones it has no logs any more, and says that there are none.
        refuses: It says that it has pruned them instead.
        read: Hashes of blocks whose logs it gave, all of them.
    """

    def __init__(self, chain: Chain, rng: Random) -> None:
        self.chain = chain
        self.read: set[str] = set()
        self._rng = rng
        self._wire = FakeNode(results=_answers(self))
        self.be_good()

    def be_good(self) -> None:
        """From now on it says what is true, at once."""
        self.moody = self.is_down = self.hides = self.denies = self.reverts = self.other_chain = False
        self.lag = self.ahead_s = self.first_block = 0
        self.refuses = False
        self.fork: list[FakeBlock] = []
        self.forged: dict[int, list[FakeTransaction]] = {}

    @property
    def leaves_out(self) -> bool:
        """Whether the logs that it gives are not all."""
        return self.hides or self.reverts

    def __call__(self, received: Received) -> Does:
        """The script of a `Receiver`."""
        self._wire.asked.clear()
        return in_its_mood(self, self._rng, lambda: self._wire(received))

    # Blocks, as it has them.

    @property
    def height(self) -> int:
        """Of its newest block."""
        if self.fork and self._has_root():
            return self.fork[-1].number
        return max(0, self.chain.height - self.lag)

    def at(self, number: int) -> FakeBlock | None:
        """The block of that number."""
        if number > self.height:
            return None
        if self.fork and self._has_root() and number >= self.fork[0].number:
            return self.fork[number - self.fork[0].number]
        return self.chain.blocks[number]

    def by_hash(self, block_hash: str) -> FakeBlock | None:
        """The block of that hash."""
        known = self.chain.block(block_hash) or next(
            (one for one in self.fork if one.hash == block_hash), None
        )
        return known if known is not None and self.at(known.number) == known else None

    def find(self, tx_hash: str) -> tuple[FakeBlock, FakeTransaction] | None:
        """Where it has a transaction."""
        for number_of, block, one in self._made_up():
            if one.hash == tx_hash and self.at(number_of) == block:
                return block, one
        found = self.chain.find(tx_hash)
        if found is None or self.denies or self.at(found[0].number) != found[0]:
            return None
        return (found[0], replace(found[1], status=0, logs=())) if self.reverts else found

    def transactions(self, block: FakeBlock) -> list[FakeTransaction]:
        """Whose logs it gives for a block."""
        if block.number < self.first_block:
            return []
        forged = self.forged.get(block.number, [])
        return forged if self.leaves_out else [*block.transactions, *forged]

    def _has_root(self) -> bool:
        first = self.fork[0]
        return (
            first.number <= len(self.chain.blocks)
            and self.chain.blocks[first.number - 1].hash == first.parent_hash
        )

    def _made_up(self) -> Iterator[tuple[int, FakeBlock, FakeTransaction]]:
        for block in self.fork:
            for one in block.transactions:
                yield block.number, block, one
        for number, forged in self.forged.items():
            if number < len(self.chain.blocks):
                for one in forged:
                    yield number, self.chain.blocks[number], one


class _Answers:
    """One node's answers, by method."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def eth_chainId(self) -> str:
        return "0x2" if self._node.other_chain else "0x1"

    def eth_blockNumber(self) -> str:
        return to_quantity(self._node.height)

    def eth_getBlockByNumber(self, tag: str, full: bool) -> Any:
        return self._shown(self._node.at(self._number(tag)), full)

    def eth_getBlockByHash(self, block_hash: str, full: bool) -> Any:
        return self._shown(self._node.by_hash(block_hash), full)

    def eth_getLogs(self, wanted: dict[str, Any]) -> Any:
        node = self._node
        if "blockHash" in wanted:
            block = node.by_hash(wanted["blockHash"])
            if block is None:
                return UNKNOWN_BLOCK
            blocks = [block]
        else:
            first, last = int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)
            if last > node.height:
                return Says(-32602, "block range extends beyond current head block")
            blocks = [block for number in range(first, last + 1) if (block := node.at(number)) is not None]
        if node.refuses and any(block.number < node.first_block for block in blocks):
            return PRUNED
        if not node.leaves_out:
            node.read.update(block.hash for block in blocks if block.number >= node.first_block)
        return [
            log
            for block in blocks
            for log in _logs(block, node.transactions(block))
            if _is_wanted(log, wanted)
        ]

    def eth_getTransactionByHash(self, tx_hash: str) -> Any:
        found = self._node.find(tx_hash)
        if found is not None:
            return {**transaction_json(*found), "nonce": to_quantity(_nonce(found[1]))}
        waiting = self._node.chain.pool.get(tx_hash)
        if waiting is None or self._node.denies:
            return None
        shown = transaction_json(self._node.chain.blocks[-1], waiting)
        return {**shown, "nonce": to_quantity(waiting.nonce), "blockHash": None, "blockNumber": None}

    def eth_getTransactionReceipt(self, tx_hash: str) -> Any:
        found = self._node.find(tx_hash)
        if found is None:
            return None
        if found[0].number < self._node.first_block:
            return PRUNED if self._node.refuses else None
        block, one = found
        logs = _logs(block, [one]) if one.logs else []
        return {**receipt_json(replace(block, transactions=(one,)), one), "logs": logs}

    def eth_getTransactionCount(self, address: str, tag: str) -> Any:
        number = self._number(tag)
        if number > self._node.height:
            return Says(-32000, "header not found")
        return to_quantity(self._node.chain.count_of(address.lower(), number))

    def eth_getBalance(self, _address: str, _tag: str) -> str:
        return to_quantity(BALANCE)

    def eth_getCode(self, address: str, _tag: str) -> str:
        return "0x6001" if address.lower() in TOKENS else "0x"

    def eth_gasPrice(self) -> str:
        return to_quantity(GAS_PRICE)

    def eth_maxPriorityFeePerGas(self) -> str:
        return to_quantity(10**9)

    def eth_call(self, asked: dict[str, str], _tag: str = "latest") -> Any:
        said = self._called(asked["to"].lower(), bytes.fromhex(asked["data"][2:]))
        return REVERTED if said is None else to_data(said)

    def eth_estimateGas(self, asked: dict[str, str]) -> Any:
        said = self.eth_call(asked)
        return said if isinstance(said, Says) else to_quantity(GAS)

    def eth_sendRawTransaction(self, raw: str) -> Any:
        chain = self._node.chain
        sent = replace(relayed(bytes.fromhex(raw[2:])), sent_s=chain.blocks[-1].time_s)
        if sent.nonce < chain.count_of(sender := sent.sender, self._node.height):
            return Says(-32000, "nonce too low")
        before = next(
            (one for one in chain.pool.values() if (one.sender, one.nonce) == (sender, sent.nonce)), None
        )
        if before is not None and before.hash == sent.hash:
            return Says(-32000, "already known")
        if before is not None:
            del chain.pool[before.hash]
        if chain.find(sent.hash) is None:
            chain.send(sent)
        return sent.hash

    def _shown(self, block: FakeBlock | None, full: bool) -> dict[str, Any] | None:
        if block is None:
            return None
        return block_json(replace(block, time_s=block.time_s + self._node.ahead_s), full)

    def _called(self, to: str, data: bytes) -> bytes | None:
        """What a token answers; None where it reverts."""
        if to not in TOKENS:
            return None
        if data[:4] == _STATE_OF:
            name = (to, to_data(data[16:36]), data[36:68])
            return (name in self._node.chain.used(self._node.height)).to_bytes(32, "big")
        uses = authorized_in(to, data)
        if not uses:
            return _said_by_token(to, data)
        used, now_s = self._node.chain.used(self._node.height), self._node.chain.blocks[-1].time_s
        return None if any(one.name in used or one.valid_before_s <= now_s for one in uses) else b""

    def _number(self, tag: str) -> int:
        if tag.startswith("0x"):
            return int(tag, 16)
        return max(0, self._node.height - self._node.chain.depth(tag))


def _answers(node: Node) -> dict[str, Callable[..., Any]]:
    said = _Answers(node)
    return {name: getattr(said, name) for name in dir(said) if name.startswith("eth_")}


def _logs(block: FakeBlock, transactions: list[FakeTransaction]) -> list[dict[str, Any]]:
    """The logs of some transactions, of a block or shown in it, with their places among all."""
    listed = (*block.transactions, *(one for one in transactions if one not in block.transactions))
    whole = replace(block, transactions=listed)
    return [log for one in transactions for log in logs_json(whole, one)]


def _is_wanted(log: dict[str, Any], wanted: dict[str, Any]) -> bool:
    if log["address"] not in wanted["address"] or len(log["topics"]) < len(wanted["topics"]):
        return False
    pairs = zip(log["topics"], wanted["topics"], strict=False)
    return all(choice is None or topic in choice for topic, choice in pairs)


def _nonce(transaction: FakeTransaction) -> int:
    return transaction.nonce if isinstance(transaction, Sent) else 0


def _tokens() -> dict[str, tuple[int, bytes | None]]:
    """The chain's tokens that are known by name: decimals, and what their domains hash to."""
    chain = parse_chain(CHAIN)
    found = {}
    for row in AssetBook().rows_of(chain):
        if row.kind != "native":
            domain = domain_of(row, chain)
            own = None if domain is None else domain_separator(domain)
            found[parse_asset(row.asset).reference.lower()] = (row.decimals, own)
    return found


TOKENS: Final = _tokens()
_BALANCE_OF: Final = balance_of_call("0x" + "00" * 20)[:4]
_STATE_OF: Final = authorization_state_call("0x" + "00" * 20, bytes(32))[:4]


def _said_by_token(to: str, data: bytes) -> bytes | None:
    """What a token always answers; None where it reverts."""
    decimals, separator = TOKENS[to]
    if data[:4] == decimals_call()[:4]:
        return decimals.to_bytes(32, "big")
    if data[:4] == domain_separator_call()[:4]:
        return separator
    return BALANCE.to_bytes(32, "big") if data[:4] == _BALANCE_OF else None
