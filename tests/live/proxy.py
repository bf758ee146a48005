"""A node between payd and a real one which fails, lags or lies as a test tells it: a real server on loopback.

It answers what the node answers, but for what is set on it. `Proxy.rewrite` can make it say anything.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import trio

from tests.live.anvil import Anvil, Refused
from tests.receiver import Does, Received, Receiver

Request: TypeAlias = dict[str, Any]
"""One JSON-RPC request: `method` and `params`."""
Rewrite: TypeAlias = Callable[[Request, Any], Any]
"""A request and anvil's result into what the proxy says; raises `Refused` for an error."""

AProxy = TypeVar("AProxy", bound="Proxy")

# Where a method has the block that it is asked about.
BLOCK_PARAM: Final[Mapping[str, int]] = {
    "eth_call": 1,
    "eth_estimateGas": 1,
    "eth_getBalance": 1,
    "eth_getCode": 1,
    "eth_getTransactionCount": 1,
    "eth_getBlockByNumber": 0,
    "eth_getStorageAt": 2,
    "eth_feeHistory": 1,
}


class Asked(Protocol):
    """What is behind a proxy."""

    def ask(self, method: str, *params: Any) -> Any:
        """The result of one call; raises Refused."""


@dataclass
class Proxy:
    """A node that can be told to be bad.

    Attributes:
        node: What is behind it.
        status: Answer every POST with this and no JSON; None: do not.
        retry_after: The `Retry-After` that goes with it.
        hang: Take requests, and never answer.
        resets: Close each connection without an answer.
        delay_s: Before each answer.
        raw: The body of each answer, whatever was asked.
        errors: A code and words for each method that it refuses.
        batch_max: The longest batch that it takes.
        rewrite: Has the last word about each result.
        calls: How many calls of each method came.
        posts: How many requests came.
        requests: The calls themselves.
    """

    node: Asked
    status: int | None = None
    retry_after: str | None = None
    hang: bool = False
    resets: bool = False
    delay_s: float = 0.0
    raw: bytes | None = None
    errors: dict[str, tuple[int, str]] = field(default_factory=dict)
    batch_max: int | None = None
    rewrite: Rewrite | None = None
    calls: Counter[str] = field(default_factory=Counter)
    posts: int = 0
    requests: list[Request] = field(default_factory=list)
    url: str = ""

    def __call__(self, received: Received) -> Does:
        """What it does with one POST: the script of a `Receiver`."""
        self.posts += 1
        if not received.body:
            return Does(resets=True)  # its client left in the middle of it
        asked = json.loads(received.body)
        for one in asked if isinstance(asked, list) else [asked]:
            self.calls[one["method"]] += 1
            self.requests.append(one)
        if self.hang or self.resets:
            return Does(hangs=self.hang, resets=self.resets)
        if self.status is not None:
            headers = () if self.retry_after is None else (("retry-after", self.retry_after),)
            return Does(status=self.status, headers=headers, body=b"<html>", delay_s=self.delay_s)
        return Does(body=self.raw or json.dumps(self._answer(asked)).encode(), delay_s=self.delay_s)

    def _answer(self, asked: Any) -> Any:
        if not isinstance(asked, list):
            return self._one(asked)
        if self.batch_max is not None and len(asked) > self.batch_max:
            return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "batch too large"}}
        return [self._one(one) for one in asked]

    def _one(self, request: Request) -> Any:
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            return {**answer, "result": self.result(request)}
        except Refused as refused:
            error = {"code": refused.code, "message": refused.message, "data": refused.data}
            return {**answer, "error": error}

    def result(self, request: Request) -> Any:
        """What it says to one call. Raises Refused where that is an error."""
        if request["method"] in self.errors:
            raise Refused(*self.errors[request["method"]])
        result = self.answer(request)
        return result if self.rewrite is None else self.rewrite(request, result)

    def answer(self, request: Request) -> Any:
        """What it would say, if nobody rewrote it."""
        return self.node.ask(request["method"], *request.get("params", ()))


@dataclass
class FlakyProxy(Proxy):
    """One in front of anvil.

    Attributes:
        node: anvil.
        lag: So many blocks behind anvil, in everything that it says.
        chain_id: What `eth_chainId` says; None: the truth.
        hidden: Hashes of transactions, in lower case, that it says it does not know, nor lists in blocks.
        censors: Whether it says ok to each transaction that is sent, and drops it.
    """

    lag: int = 0
    chain_id: int | None = None
    hidden: set[str] = field(default_factory=set)
    censors: bool = False

    def answer(self, request: Request) -> Any:
        """What a node says that is as far as this one."""
        method = request["method"]
        if method == "eth_chainId" and self.chain_id is not None:
            return hex(self.chain_id)
        if method == "eth_sendRawTransaction" and self.censors:
            return "0x" + "00" * 32
        result = Lagging(self.node, self.lag).result(request) if self.lag else super().answer(request)
        if method == "eth_getBlockByNumber" and result is not None:
            listed = [one for one in result["transactions"] if str(one) not in self.hidden]
            result = {**result, "transactions": listed}
        return None if self._is_hidden(request, result) else result

    def _is_hidden(self, request: Request, result: Any) -> bool:
        if not isinstance(result, dict):
            return False
        return str(result.get("transactionHash", result.get("hash"))).lower() in self.hidden


class Lagging:
    """What a node says that has not seen anvil's newest blocks."""

    def __init__(self, anvil: Asked, lag: int) -> None:
        self._anvil = anvil
        self._head = max(0, int(anvil.ask("eth_blockNumber"), 16) - lag)

    def result(self, request: Request) -> Any:
        """The answer to one request, from a chain that ends earlier."""
        method, params = request["method"], list(request["params"])
        if method == "eth_blockNumber":
            return hex(self._head)
        if method in BLOCK_PARAM and len(params) > BLOCK_PARAM[method]:
            place = BLOCK_PARAM[method]
            number = self._number(params[place])
            if number > self._head:
                if method == "eth_getBlockByNumber":
                    return None
                raise Refused(-32000, "header not found")
            params[place] = hex(number)
        if method == "eth_getLogs" and "blockHash" not in params[0]:
            return self._logs(params[0])
        result = self._anvil.ask(method, *params)
        return None if self._is_too_new(result) else result

    def _logs(self, wanted: dict[str, Any]) -> Any:
        first = self._number(wanted.get("fromBlock", "latest"))
        last = min(self._number(wanted.get("toBlock", "latest")), self._head)
        if first > last:
            return []
        return self._anvil.ask("eth_getLogs", {**wanted, "fromBlock": hex(first), "toBlock": hex(last)})

    def _number(self, tag: str) -> int:
        if tag.startswith("0x"):
            return int(tag, 16)
        if tag == "earliest":
            return 0
        if tag in ("latest", "pending"):
            return self._head
        return min(self._head, int(self._anvil.ask("eth_getBlockByNumber", tag, False)["number"], 16))

    def _is_too_new(self, result: Any) -> bool:
        """Of a block, a receipt or a mined transaction."""
        if not isinstance(result, dict):
            return False
        number = result.get("blockNumber", result.get("number"))
        return isinstance(number, str) and int(number, 16) > self._head


def without_logs(request: Request, result: Any) -> Any:
    """Rewrites receipts: no log in any of them."""
    if request["method"] == "eth_getTransactionReceipt" and result is not None:
        return {**result, "logs": []}
    return result


def with_status(status: int) -> Rewrite:
    """Rewrites receipts: this status in all of them."""

    def rewrite(request: Request, result: Any) -> Any:
        if request["method"] == "eth_getTransactionReceipt" and result is not None:
            return {**result, "status": hex(status)}
        return result

    return rewrite


@asynccontextmanager
async def open_proxy(anvil: Anvil) -> AsyncIterator[FlakyProxy]:
    """A proxy in front of anvil, good until it is told otherwise; in real time alone."""
    async with serving(FlakyProxy(anvil)) as proxy:
        yield proxy


@asynccontextmanager
async def serving(proxy: AProxy) -> AsyncIterator[AProxy]:
    """Have a proxy answer on a port."""
    async with trio.open_nursery() as nursery:
        proxy.url = f"http://127.0.0.1:{await Receiver(nursery, proxy).listen()}"
        yield proxy
        nursery.cancel_scope.cancel()
