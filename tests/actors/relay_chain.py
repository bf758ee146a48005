"""A chain in memory and nodes that show it: nonces, pools, fees, receipts and reorgs, as real ones have them.

What a call does is modelled as far as a relayer can tell: each authorization in it is used once or the call
reverts, as it does without gas enough. Signed transactions are real, and read back from their bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
from eth_account import Account
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_utils.crypto import keccak
from hexbytes import HexBytes

from payd.chains.evm.legs import legs_of
from tests.receiver import Does, Received

CHAIN_ID: Final = 8453
GWEI: Final = 10**9
GAS_USED: Final = 100_000
GAS_REVERTED: Final = 40_000
START_S: Final = 1_780_000_000

BLOOM: Final = "0x" + "00" * 256
ZERO: Final = "0x" + "00" * 32
STATE_SELECTOR: Final = keccak(text="authorizationState(address,bytes32)")[:4]


class Refusal(Exception):
    """The node answers with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class SignedTx:
    """A transaction as its bytes say."""

    hash: str
    sender: str
    nonce: int
    to: str
    data: bytes
    gas: int
    max_fee: int
    tip: int

    @classmethod
    def of(cls, raw: bytes) -> SignedTx:
        """Out of the signed bytes."""
        fields = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
        assert fields["chainId"] == CHAIN_ID
        return cls(
            hash="0x" + keccak(raw).hex(),
            sender=str(Account.recover_transaction(raw)).lower(),
            nonce=fields["nonce"],
            to="0x" + bytes(fields["to"]).hex(),
            data=bytes(fields["data"]),
            gas=fields["gas"],
            max_fee=fields["maxFeePerGas"],
            tip=fields["maxPriorityFeePerGas"],
        )


@dataclass(frozen=True)
class State:
    """What a block leaves behind."""

    counts: dict[str, int]
    used: frozenset[tuple[str, str, bytes]]
    balances: dict[str, int]


@dataclass(frozen=True)
class Block:
    """One block and its receipts by hash."""

    number: int
    hash: str
    time_s: int
    base_fee: int
    state: State
    receipts: dict[str, dict[str, Any]]


@dataclass
class FakeChain:
    """What is true.

    Attributes:
        base_fee: Of the blocks to come.
        tip: What nodes suggest.
        refused: Authorizers whose calls revert, and the contract's words.
        landed: How often each authorization was carried out, over all that ever happened.
        gas_used: By a call that does something.
    """

    base_fee: int = 10 * GWEI
    tip: int = GWEI
    refused: dict[str, str] = field(default_factory=dict)
    estimate: int = GAS_USED
    blocks: list[Block] = field(default_factory=list)
    forks: int = 0

    def __post_init__(self) -> None:
        self._add(State({}, frozenset(), {}), {})

    @property
    def head(self) -> Block:
        """The newest block."""
        return self.blocks[-1]

    def fund(self, address: str, balance: int) -> None:
        """What an account holds, from the newest block on."""
        state = self.head.state
        balances = {**state.balances, address: balance}
        self.blocks[-1] = replace(self.head, state=replace(state, balances=balances))

    def mine(self, transactions: list[SignedTx] | None = None, *, time_s: int | None = None) -> list[str]:
        """A block of these, as far as nonces and fees allow. Returns the hashes that it has."""
        counts = dict(self.head.state.counts)
        used = set(self.head.state.used)
        balances = dict(self.head.state.balances)
        receipts: dict[str, dict[str, Any]] = {}
        for tx in sorted(transactions or [], key=lambda tx: (tx.nonce, -tx.max_fee)):
            if tx.nonce != counts.get(tx.sender, 0) or tx.max_fee < self.base_fee:
                continue
            done = self._carried_out(tx, used)
            gas = GAS_USED if done else GAS_REVERTED
            price = self.base_fee + min(tx.tip, tx.max_fee - self.base_fee)
            counts[tx.sender] = tx.nonce + 1
            balances[tx.sender] = balances.get(tx.sender, 0) - gas * price
            receipts[tx.hash] = {"status": hex(done), "gasUsed": hex(gas), "effectiveGasPrice": hex(price)}
        self._add(State(counts, frozenset(used), balances), receipts, time_s)
        return list(receipts)

    def use(self, data: bytes, to: str) -> None:
        """Somebody else carries out all authorizations of a call, in a block of its own."""
        state = self.head.state
        used = state.used | {(leg.token, leg.authorizer, leg.nonce) for leg in legs_of(to, data)}
        self._add(replace(state, used=used), {})

    def forget(self, used: frozenset[tuple[str, str, bytes]]) -> None:
        """A reorg that takes all but these authorizations back, and none of the transactions of ours."""
        self._add(replace(self.head.state, used=used), {})

    def reorg(self, depth: int) -> None:
        """Other, empty blocks in place of the newest ones, and one more."""
        self.forks += 1
        dropped, self.blocks = self.blocks[-depth:], self.blocks[:-depth]
        for _ in [*dropped, None]:
            self.mine()

    def is_used(self, data: bytes, to: str) -> bool:
        """Whether all authorizations of a call were carried out."""
        return all(
            (leg.token, leg.authorizer, leg.nonce) in self.head.state.used for leg in legs_of(to, data)
        )

    def words_against(self, to: str, data: bytes, used: set[Any] | frozenset[Any]) -> str | None:
        """Why a call would revert; None if it would not."""
        for leg in legs_of(to, data):
            if leg.authorizer in self.refused:
                return self.refused[leg.authorizer]
            if (leg.token, leg.authorizer, leg.nonce) in used:
                return "authorization is used or canceled"
        return None

    def _carried_out(self, tx: SignedTx, used: set[tuple[str, str, bytes]]) -> bool:
        if self.words_against(tx.to, tx.data, used) is not None or tx.gas < GAS_USED:
            return False
        used |= {(leg.token, leg.authorizer, leg.nonce) for leg in legs_of(tx.to, tx.data)}
        return True

    def _add(self, state: State, receipts: dict[str, dict[str, Any]], time_s: int | None = None) -> None:
        number = len(self.blocks)
        hash = "0x" + keccak(text=f"{number}/{self.forks}/{sorted(receipts)}").hex()
        where = {"blockHash": hash, "blockNumber": hex(number), "logs": []}
        if time_s is None:
            time_s = self.head.time_s + 2 if self.blocks else START_S
        self.blocks.append(
            Block(
                number,
                hash,
                time_s,
                self.base_fee,
                state,
                {one: {"transactionHash": one, **what, **where} for one, what in receipts.items()},
            )
        )


@dataclass
class PoolNode:
    """One node: what it shows of the chain, and the transactions that it holds.

    Attributes:
        texts: Whose error texts and replacement rules it has.
        status: It answers every POST with this, and nothing else; None: it does not.
        lag: How many blocks behind it is.
        hides: Whether it shows no receipts.
        drops: Whether it says ok to what is sent, and forgets it.
        refuses: Words with which it refuses what is sent.
        gapless: Whether it refuses a nonce above the next.
        least_tip: Whose tip is below it, it refuses.
        hook: Called with each transaction that is sent, before the node looks at it.
        pool: By nonce, of the one sender that there is.
        calls: How many of each method.
    """

    chain: FakeChain
    texts: str = "geth"
    status: int | None = None
    lag: int = 0
    hides: bool = False
    drops: bool = False
    refuses: str | None = None
    gapless: bool = False
    least_tip: int = 0
    hangs: bool = False
    hook: Callable[[SignedTx], None] = lambda _: None
    without: frozenset[str] = frozenset()
    pool: dict[int, SignedTx] = field(default_factory=dict)
    sent: list[SignedTx] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    posts: int = 0

    def __call__(self, received: Received) -> Does:
        """The script of a `Receiver`."""
        self.posts += 1
        if self.status is not None or self.hangs:
            return Does(status=self.status or 200, hangs=self.hangs)
        asked = msgspec.json.decode(received.body)
        if isinstance(asked, list):
            return Does(body=msgspec.json.encode([self._one(one) for one in asked]))
        return Does(body=msgspec.json.encode(self._one(asked)))

    def _one(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        self.calls[request["method"]] += 1
        try:
            return {**answer, "result": self.result(request["method"], *request["params"])}
        except Refusal as refusal:
            return {**answer, "error": {"code": refusal.code, "message": refusal.message}}

    @property
    def view(self) -> list[Block]:
        """The blocks that it has."""
        return self.chain.blocks[: max(1, len(self.chain.blocks) - self.lag)]

    def result(self, method: str, *params: Any) -> Any:
        """What it says to a call."""
        if method in self.without:
            raise Refusal(-32601, f"the method {method} does not exist/is not available")
        head = self.view[-1]
        match method, params:
            case "eth_chainId", ():
                return hex(CHAIN_ID)
            case "eth_getTransactionCount", (str(of), "latest"):
                return hex(head.state.counts.get(of, 0))
            case "eth_getBalance", (str(of), "latest"):
                return hex(head.state.balances.get(of, 0))
            case "eth_getBlockByNumber", ("latest", False):
                return self._block(head)
            case "eth_maxPriorityFeePerGas", ():
                return hex(self.chain.tip)
            case "eth_gasPrice", ():
                return hex(self.chain.base_fee + self.chain.tip)
            case "eth_getTransactionReceipt", (str(of),):
                found = [block.receipts[of] for block in self.view if of in block.receipts]
                return found[-1] if found and not self.hides else None
            case "eth_call", ({"to": str(to), "data": str(data)}, "latest"):
                return self._call(to, bytes.fromhex(data[2:]), head)
            case "eth_estimateGas", ({"to": str(to), "data": str(data)},):
                self._call(to, bytes.fromhex(data[2:]), head)
                return hex(self.chain.estimate)
            case "eth_sendRawTransaction", (str(raw),):
                return self._send(bytes.fromhex(raw[2:]), head.state)
        raise AssertionError((method, params))

    def mine(self, *others: PoolNode) -> list[str]:
        """A block of what is in the pools of this node and others."""
        known = [*self.pool.values(), *(tx for other in others for tx in other.pool.values())]
        mined = self.chain.mine(list({tx.hash: tx for tx in known}.values()))
        for node in (self, *others):
            node.tidy()
        return mined

    def tidy(self) -> None:
        """Drop from the pool what can not be mined any more."""
        counts = self.view[-1].state.counts
        self.pool = {nonce: tx for nonce, tx in self.pool.items() if nonce >= counts.get(tx.sender, 0)}

    def _block(self, block: Block) -> dict[str, Any]:
        return {
            "number": hex(block.number),
            "hash": block.hash,
            "parentHash": ZERO,
            "timestamp": hex(block.time_s),
            "baseFeePerGas": hex(self.chain.base_fee),
            "logsBloom": BLOOM,
            "transactions": [],
        }

    def _call(self, to: str, data: bytes, head: Block) -> str:
        if data[:4] == STATE_SELECTOR:
            key = (to, "0x" + data[16:36].hex(), data[36:68])
            return "0x" + bytes([key in head.state.used]).rjust(32, b"\0").hex()
        words = self.chain.words_against(to, data, head.state.used)
        if words is not None:
            raise Refusal(3, f"execution reverted: {words}")
        return "0x"

    def _send(self, raw: bytes, state: State) -> str:
        tx = SignedTx.of(raw)
        self.hook(tx)
        if self.refuses is not None:
            raise Refusal(-32000, self.refuses)
        self.sent.append(tx)
        self._check(tx, state)
        if not self.drops:
            self.pool[tx.nonce] = tx
        return tx.hash

    def _check(self, tx: SignedTx, state: State) -> None:
        geth = self.texts == "geth"
        count, before = state.counts.get(tx.sender, 0), self.pool.get(tx.nonce)
        if tx.nonce < count:
            words = f"nonce too low: next nonce {count}, tx nonce {tx.nonce}" if geth else "nonce too low"
            raise Refusal(-32000 if geth else -32003, words)
        if self.gapless and tx.nonce > count and tx.nonce - 1 not in self.pool:
            raise Refusal(-32000, "nonce too high" if geth else "Nonce too high")
        if tx.tip < self.least_tip:
            words = f"transaction underpriced: gas tip cap {tx.tip}, minimum needed {self.least_tip}"
            raise Refusal(-32000, words)
        if before is not None and before.hash == tx.hash:
            raise Refusal(-32000, "already known" if geth else "transaction already imported")
        if state.balances.get(tx.sender, 0) < tx.gas * tx.max_fee:
            words = "insufficient funds for gas * price + value: balance 1, tx cost 2, overshot 1"
            raise Refusal(-32000, words if geth else "Insufficient funds for gas * price + value")
        if before is not None and not self._is_dearer(tx, before):
            raise Refusal(-32000, "replacement transaction underpriced")

    def _is_dearer(self, tx: SignedTx, before: SignedTx) -> bool:
        if self.texts != "geth":
            return tx.max_fee > before.max_fee
        return tx.max_fee * 10 >= before.max_fee * 11 and tx.tip * 10 >= before.tip * 11
