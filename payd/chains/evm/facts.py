"""What a chain says at this moment about accounts: many facts read in one go, each kept for a few seconds.

Only offers rest on these. What pays is proven from receipts, by more than one node.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from payd.chains.asking import read, unavailable
from payd.chains.evm.abi import (
    MULTICALL3,
    Call,
    aggregate3_call,
    balance_of_call,
    decode_aggregate3,
    decode_uint,
    decode_word,
    eth_balance_call,
    is_valid_signature_call,
)
from payd.chains.evm.asking import decoded, eth_call
from payd.chains.evm.codec import from_data, from_quantity, keccak256
from payd.chains.rpc import Call as RpcCall
from payd.chains.rpc import Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer

KEPT_MS: Final = 5_000
# Some hundred buyers with their accounts and assets, all within those seconds.
KEPT_MAX: Final = 20_000
# A balance of a token behind a proxy costs some 10,000 gas, and nodes end a call at 10 to 50 million.
AGGREGATE_MAX: Final = 200

# A signature that is well made, of a key that nobody has: r is the x of the curve's generator, s is 1, v 27.
_PROBE_DIGEST: Final = keccak256(b"payd: does the account answer for signatures?")
_PROBE_SIGNATURE: Final = (
    bytes.fromhex("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")
    + (1).to_bytes(32, "big")
    + b"\x1b"
)


class Balance(msgspec.Struct, frozen=True):
    """What an owner has of a token, in smallest units; None where the token does not say."""

    token: str
    owner: str


class Coins(msgspec.Struct, frozen=True):
    """What an owner has of the native coin, in smallest units."""

    owner: str


class Code(msgspec.Struct, frozen=True):
    """The code at an address; empty for an account that a key alone controls."""

    address: str


class GasPrice(msgspec.Struct, frozen=True):
    """What a unit of gas costs now, in smallest units of the native coin."""


class Answers(msgspec.Struct, frozen=True):
    """Whether the code of an account has an answer to ERC-1271's question, be it yes or no."""

    account: str


Fact = Balance | Coins | Code | GasPrice | Answers
Value = int | bytes | None


class Facts:
    """The facts of one chain.

    Args:
        rpc: Its nodes.
    """

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._kept: dict[Fact, tuple[int, Value]] = {}
        self._has_multicall = False

    async def read(self, facts: Iterable[Fact], now_ms: int) -> None:
        """Read those that are not known, in one POST where a node allows it.

        Raises:
            ChainUnavailable: No node answers.
        """
        missing = [fact for fact in dict.fromkeys(facts) if not self._knows(fact, now_ms)]
        if not missing:
            return
        grouped: list[Fact] = []
        if self._has_multicall:
            grouped = [fact for fact in missing if isinstance(fact, Balance | Coins)]
        elif Code(MULTICALL3) not in missing:
            missing.append(Code(MULTICALL3))
        alone = [fact for fact in missing if fact not in set(grouped)]
        left = await self._read(alone, _chunks(grouped), now_ms)
        if left:
            await self._read(left, [], now_ms)

    async def balance(self, token: str, owner: str, now_ms: int) -> int | None:
        """See `Balance`."""
        value = await self._get(Balance(token, owner), now_ms)
        assert not isinstance(value, bytes)
        return value

    async def coins(self, owner: str, now_ms: int) -> int:
        """See `Coins`."""
        value = await self._get(Coins(owner), now_ms)
        assert isinstance(value, int)
        return value

    async def code(self, address: str, now_ms: int) -> bytes:
        """See `Code`."""
        value = await self._get(Code(address), now_ms)
        assert isinstance(value, bytes)
        return value

    async def gas_price(self, now_ms: int) -> int:
        """See `GasPrice`."""
        value = await self._get(GasPrice(), now_ms)
        assert isinstance(value, int)
        return value

    async def answers(self, account: str, now_ms: int) -> bool:
        """See `Answers`."""
        return bool(await self._get(Answers(account), now_ms))

    async def has_multicall(self, now_ms: int) -> bool:
        """Whether several calls can be made as one on this chain."""
        return self._has_multicall or bool(await self.code(MULTICALL3, now_ms))

    async def _get(self, fact: Fact, now_ms: int) -> Value:
        await self.read([fact], now_ms)
        return self._kept[fact][1]

    def _knows(self, fact: Fact, now_ms: int) -> bool:
        kept = self._kept.get(fact)
        # The wall clock may have been set back since.
        return kept is not None and 0 <= now_ms - kept[0] < KEPT_MS

    async def _read(self, alone: Sequence[Fact], chunks: Sequence[Sequence[Fact]], now_ms: int) -> list[Fact]:
        """Read facts alone, and chunks of them in an aggregate each; gives those that none answered."""
        calls = [_call(fact) for fact in alone]
        for chunk in chunks:
            inner = [Call(*_inner(fact)) for fact in chunk]
            calls.append(eth_call(MULTICALL3, aggregate3_call(inner)))
        results = await read(self._rpc, calls)
        for fact, result in zip(alone, results, strict=False):
            self._keep(fact, _value(fact, result), now_ms)
        left: list[Fact] = []
        for chunk, result in zip(chunks, results[len(alone) :], strict=True):
            left += self._keep_aggregate(chunk, result, now_ms)
        return left

    def _keep_aggregate(self, chunk: Sequence[Fact], result: object, now_ms: int) -> list[Fact]:
        returned = decoded(result, lambda data: decode_aggregate3(data, len(chunk)))
        if returned is None:
            return list(chunk)
        left: list[Fact] = []
        for fact, (success, data) in zip(chunk, returned, strict=True):
            if success and len(data) == 32:
                self._keep(fact, int.from_bytes(data, "big"), now_ms)
            else:
                left.append(fact)
        return left

    def _keep(self, fact: Fact, value: Value, now_ms: int) -> None:
        if fact == Code(MULTICALL3) and value:
            self._has_multicall = True
        self._kept.pop(fact, None)
        while len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[fact] = (now_ms, value)


def _chunks(facts: Sequence[Fact]) -> list[Sequence[Fact]]:
    return [facts[at : at + AGGREGATE_MAX] for at in range(0, len(facts), AGGREGATE_MAX)]


def _inner(fact: Fact) -> tuple[str, bytes]:
    """The call of a contract behind a fact: its target and data."""
    match fact:
        case Balance(token=token, owner=owner):
            return token, balance_of_call(owner)
        case Coins(owner=owner):
            return MULTICALL3, eth_balance_call(owner)
        case Answers(account=account):
            return account, is_valid_signature_call(_PROBE_DIGEST, _PROBE_SIGNATURE)
    raise AssertionError(f"{type(fact).__name__} is no contract's")


def _call(fact: Fact) -> RpcCall:
    match fact:
        case Coins(owner=owner):
            return ("eth_getBalance", owner, "latest")
        case Code(address=address):
            return ("eth_getCode", address, "latest")
        case GasPrice():
            return ("eth_gasPrice",)
        case _:
            return eth_call(*_inner(fact))


def _value(fact: Fact, result: object) -> Value:
    match fact:
        case Balance():
            return decoded(result, decode_uint)
        case Answers():
            return int(decoded(result, decode_word) is not None)
    if isinstance(result, RpcError):
        raise unavailable(result)
    try:
        return from_data(result, "the code") if isinstance(fact, Code) else from_quantity(result)
    except BadAnswer as bad:
        raise unavailable(bad) from bad
