"""Nodes in memory that speak JSON-RPC over real HTTP/1.1, in virtual time, and the `Rpc` that asks them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import trio

from payd.chains.dialect import Dialect
from payd.chains.evm.dialect import EvmDialect
from payd.chains.rpc import Rpc
from payd.net.http import Client
from tests.receiver import Does, Received, Receiver, Script

CHAIN_ID: Final = 8453
# Whatever is shown of a node's URL, this is not.
KEY: Final = "d34db33fd34db33fd34db33f"


@dataclass(frozen=True)
class Says:
    """A JSON-RPC error."""

    code: int
    message: str
    data: Any = None


@dataclass
class FakeNode:
    """One node; good until it is told otherwise.

    Attributes:
        results: What it says to each method; a function is given the parameters.
        does: What it does instead of answering.
        delay_s: Before it does either.
        batch_max: The longest batch that it takes.
        calls_a_s: How many calls it answers in a second; the others of a batch are refused one by one.
        refuses_whole: Or all of the batch, with a status.
        asked: The methods of each POST, in order.
    """

    results: dict[str, Any] = field(default_factory=lambda: {"eth_blockNumber": "0x10"})
    chain_id: int = CHAIN_ID
    does: Does | None = None
    delay_s: float = 0.0
    batch_max: int | None = None
    calls_a_s: int | None = None
    refuses_whole: bool = False
    answered_s: list[float] = field(default_factory=list)
    asked: list[list[str]] = field(default_factory=list)

    def __call__(self, received: Received) -> Does:
        """The script of a `Receiver`."""
        assert received.path == f"/v2/{KEY}?token={KEY}"
        asked = msgspec.json.decode(received.body)
        listed = asked if isinstance(asked, list) else [asked]
        self.asked.append([one["method"] for one in listed])
        if self.does is not None:
            return replace(self.does, delay_s=self.delay_s)
        if isinstance(asked, list) and self.batch_max is not None and len(asked) > self.batch_max:
            error = {"code": -32600, "message": "batch too large"}
            return self._says({"jsonrpc": "2.0", "id": None, "error": error})
        if self.refuses_whole and len(listed) > self._left():
            return Does(status=429, delay_s=self.delay_s)
        answers = [self._answer(one) for one in listed]
        return self._says(answers if isinstance(asked, list) else answers[0])

    def _says(self, answer: Any) -> Does:
        return Does(body=msgspec.json.encode(answer), delay_s=self.delay_s)

    def _left(self) -> float:
        """How many calls it would answer in this moment."""
        if self.calls_a_s is None:
            return float("inf")
        lately = [at_s for at_s in self.answered_s if trio.current_time() - at_s < 1]
        return self.calls_a_s - len(lately)

    def _answer(self, one: dict[str, Any]) -> dict[str, Any]:
        if self._left() < 1:
            error = {"code": -32007, "message": f"{self.calls_a_s}/second request limit reached"}
            return {"jsonrpc": "2.0", "id": one["id"], "error": error}
        self.answered_s.append(trio.current_time())
        said = self.results.get(one["method"], Says(-32601, "the method does not exist"))
        if one["method"] == "eth_chainId" and "eth_chainId" not in self.results:
            said = hex(self.chain_id)
        if callable(said):
            said = said(*one["params"])
        answer = {"jsonrpc": "2.0", "id": one["id"]}
        if isinstance(said, Says):
            return {**answer, "error": {"code": said.code, "message": said.message, "data": said.data}}
        return {**answer, "result": said}

    def count(self, method: str) -> int:
        """How often it was asked that."""
        return sum(post.count(method) for post in self.asked)


def urls(count: int) -> list[str]:
    """Of so many nodes, each with a key in path and query."""
    return [f"http://node{place}.test/v2/{KEY}?token={KEY}" for place in range(count)]


@asynccontextmanager
async def open_client(*scripts: Script) -> AsyncIterator[Client]:
    """A client for which `node0.test` is the first script, and so on."""
    async with trio.open_nursery() as nursery:
        receivers = {f"10.0.0.{place}": Receiver(nursery, script) for place, script in enumerate(scripts)}

        async def resolve(host: str) -> list[str]:
            await trio.lowlevel.checkpoint()
            return [f"10.0.0.{host.removeprefix('node').removesuffix('.test')}"]

        async def dial(address: str, port: int) -> trio.abc.Stream:
            return await receivers[address].dial(address, port)

        client = Client(may_call=lambda _: True, resolve=resolve, dial=dial)
        yield client
        await client.aclose()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_rpc(
    *nodes: FakeNode, chain_id: int = CHAIN_ID, dialect: Dialect | None = None
) -> AsyncIterator[Rpc]:
    """What payd has of these nodes, preferred in their order."""
    async with open_client(*nodes) as client:
        yield Rpc(urls(len(nodes)), dialect or EvmDialect(chain_id), client=client)
