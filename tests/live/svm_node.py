"""A Solana node on this machine: JSON-RPC and websocket over LiteSVM, which has the real token programs.

It is no validator: there are no votes, no leaders and no market for fees, a transaction is in the newest
block the moment it is sent, and a fork is what a test asks for. Nobody but tests should talk to it.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, WebSocketRequest, serve_websocket

from tests.live.node_process import NodeProcess, Refused, started
from tests.live.svm_ledger import Landing, Ledger
from tests.live.svm_methods import MAINNET_GENESIS, SvmNode
from tests.receiver import Does, Received, Receiver

SLOT_MS: Final = 400
LISTENS: Final = re.compile(r"^Listening on \S*?:(\d+) and \S*?:(\d+)$", re.MULTILINE)
FRAME_MAX: Final = 64 * 1024
# What a page's wallet needs before a browser lets it ask.
CORS: Final = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-headers", "*"),
    ("content-type", "application/json"),
)


class ServedNode(SvmNode):
    """One on ports of 127.0.0.1.

    Attributes:
        url: For HTTP.
        ws_url: For websockets; the next port where that is free, as clients of Solana expect.
    """

    url = ""
    ws_url = ""


def answered(node: SvmNode, body: bytes) -> bytes:
    """The answer to one POST: a call or a batch."""
    try:
        asked = json.loads(body)
    except ValueError:
        error = {"code": -32700, "message": "Parse error"}
        return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    if isinstance(asked, list):
        return json.dumps([_answer(node, one) for one in asked]).encode()
    return json.dumps(_answer(node, asked)).encode()


def _answer(node: SvmNode, request: dict[str, Any]) -> dict[str, Any]:
    answer = {"jsonrpc": "2.0", "id": request.get("id")}
    try:
        return {**answer, "result": node.ask(request["method"], *request.get("params", ()))}
    except Refused as refused:
        error = {"code": refused.code, "message": refused.message}
        return {**answer, "error": error if refused.data is None else {**error, "data": refused.data}}


class Subscribers:
    """Who is told of signatures and of logs, over websockets."""

    def __init__(self, node: SvmNode) -> None:
        self._node = node
        self._news = trio.Event()
        node.changed = self._tell

    def _tell(self) -> None:
        news, self._news = self._news, trio.Event()
        news.set()

    async def serve(self, request: WebSocketRequest) -> None:
        """One connection, until its client goes."""
        peer = Peer(self._node, await request.accept())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._notify, peer)
            await peer.read()
            nursery.cancel_scope.cancel()

    async def _notify(self, peer: Peer) -> None:
        while True:
            news = self._news
            try:
                await peer.notify()
            except ConnectionClosed:
                return
            peer.subscribed = trio.Event()
            async with trio.open_nursery() as nursery:
                for event in (news, peer.subscribed):
                    nursery.start_soon(_first, event, nursery.cancel_scope)


async def _first(event: trio.Event, others: trio.CancelScope) -> None:
    await event.wait()
    others.cancel()


class Peer:
    """One websocket, and what its client wants to be told."""

    def __init__(self, node: SvmNode, socket: WebSocketConnection) -> None:
        self._node = node
        self._socket = socket
        self._made = 0
        self._wanted: dict[int, tuple[str, str, str]] = {}
        self._told: dict[int, set[tuple[str, int]]] = {}
        self.subscribed = trio.Event()

    async def read(self) -> None:
        """Answer its requests until it goes."""
        try:
            while True:
                request = json.loads(await self._socket.get_message())
                answer = {"jsonrpc": "2.0", "id": request.get("id")}
                try:
                    answer["result"] = self._do(request["method"], request.get("params", []))
                except Refused as refused:
                    answer["error"] = {"code": refused.code, "message": refused.message}
                await self._socket.send_message(json.dumps(answer))
                self.subscribed.set()
        except ConnectionClosed:
            return

    def _do(self, method: str, params: list[Any]) -> Any:
        if method.endswith("Unsubscribe"):
            if self._wanted.pop(params[0], None) is None:
                raise Refused(-32602, "Invalid subscription id.")
            return True
        commitment = (params[1] if len(params) > 1 else {}).get("commitment", "finalized")
        match method:
            case "signatureSubscribe":
                return self._subscribe("signature", params[0], commitment)
            case "logsSubscribe" if len(params[0].get("mentions", ())) == 1:
                return self._subscribe("logs", params[0]["mentions"][0], commitment)
            case "logsSubscribe":
                raise Refused(-32602, "Invalid Request: Only 1 address supported")
            case _:
                raise Refused(-32601, "Method not found")

    def _subscribe(self, kind: str, of: str, commitment: str) -> int:
        self._made += 1
        self._wanted[self._made] = (kind, of, commitment)
        seen = self._seen(kind, of, commitment) if kind == "logs" else ()
        self._told[self._made] = {(one.tx_id, one.block.slot) for one in seen}
        return self._made

    def _seen(self, kind: str, of: str, commitment: str) -> list[Landing]:
        if kind == "logs":
            return self._node.naming(of, commitment)
        known = self._node.known(of, commitment)
        return [] if known is None else [known]

    async def notify(self) -> None:
        """Send what it was not told yet. Raises ConnectionClosed."""
        for number, (kind, of, commitment) in list(self._wanted.items()):
            for landing in self._seen(kind, of, commitment):
                key = (landing.tx_id, landing.block.slot)
                if key in self._told[number]:
                    continue
                self._told[number].add(key)
                if kind == "signature":
                    self._wanted.pop(number, None)
                await self._send(number, kind, landing)

    async def _send(self, number: int, kind: str, landing: Landing) -> None:
        value: dict[str, Any] = {"err": landing.err}
        if kind == "logs":
            value = {"signature": landing.tx_id, "err": landing.err, "logs": landing.meta.logs()}
        result = {"context": {"slot": landing.block.slot}, "value": value}
        told = {
            "jsonrpc": "2.0",
            "method": f"{kind}Notification",
            "params": {"result": result, "subscription": number},
        }
        await self._socket.send_message(json.dumps(told))


class Counter:
    """Where calls over HTTP come in."""

    def __init__(self, node: SvmNode, nursery: trio.Nursery) -> None:
        self._node = node
        self.receiver = Receiver(nursery, self.answer)

    def answer(self, received: Received) -> Does:
        """The script of a `Receiver`, which keeps nothing here."""
        self.receiver.received.clear()
        if received.method == "OPTIONS":
            return Does(status=204, headers=CORS, body=b"")
        return Does(headers=CORS, body=answered(self._node, received.body))


@asynccontextmanager
async def open_svm_node(
    ledger: Ledger | None = None,
    *,
    genesis: str = MAINNET_GENESIS,
    confirmed: int = 1,
    finalized: int = 4,
    slot_s: float | None = None,
    port: int = 0,
) -> AsyncIterator[ServedNode]:
    """A fresh node on ports of its own; in real time alone.

    Args:
        ledger: The chain that it is of; one of its own when there is none.
        genesis: The hash that says which chain it is.
        confirmed: So many blocks on top of one make it confirmed.
        finalized: And so many final; 31 or more on the real chain.
        slot_s: A block comes so often; None: when it is asked for by `payd_slot`.
        port: Of HTTP; 0: a free one.
    """
    node = ServedNode(ledger, genesis=genesis, confirmed=confirmed, finalized=finalized)
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, Counter(node, nursery).receiver.serve, listeners)
        node.url = f"http://127.0.0.1:{port}"
        node.ws_url = f"ws://127.0.0.1:{await _serve_websockets(node, nursery, port + 1)}"
        if slot_s is not None:
            nursery.start_soon(_blocks_for_ever, node, slot_s)
        yield node
        nursery.cancel_scope.cancel()


async def _serve_websockets(node: SvmNode, nursery: trio.Nursery, port: int) -> int:
    async def start(at: int) -> int:
        serve = Subscribers(node).serve
        server = await nursery.start(serve_websocket, serve, "127.0.0.1", at, None)
        return int(server.port)

    try:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    except OSError:
        return await start(0)
    for one in listeners:
        await one.aclose()
    return await start(port)


async def _blocks_for_ever(node: SvmNode, slot_s: float) -> None:
    while True:
        await trio.sleep(slot_s)
        await node.rpc("payd_slot")


@contextmanager
def running_svm_node(
    *,
    port: int = 0,
    genesis: str = MAINNET_GENESIS,
    slot_ms: int = 0,
    finalized: int = 4,
) -> Iterator[NodeProcess]:
    """The same in a process of its own, ended with the block; the arguments are those of `main`."""
    command = [sys.executable, "-m", "tests.live.svm_node", "--port", str(port), "--genesis", genesis]
    command += ["--slot-ms", str(slot_ms), "--finalized", str(finalized)]
    with started(command, LISTENS) as (process, ports):
        yield NodeProcess(ports[0], ports[1], process)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until somebody ends it."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.svm_node", description=__doc__)
    parser.add_argument("--port", type=int, default=8899, help="of 127.0.0.1; 0: a free one")
    parser.add_argument("--slot-ms", type=int, default=SLOT_MS, help="how often a block comes; 0: never")
    parser.add_argument("--genesis", default=MAINNET_GENESIS, help="the hash that says which chain it is")
    parser.add_argument("--finalized", type=int, default=32, help="blocks on top of what is final")
    asked = parser.parse_args(arguments)

    async def run() -> None:
        # An exception out of a signal would come anywhere, in Trio's own code as well, and be lost there.
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with open_svm_node(
                genesis=asked.genesis,
                finalized=asked.finalized,
                slot_s=asked.slot_ms / 1000 or None,
                port=asked.port,
            ) as node:
                print(f"Listening on {node.url} and {node.ws_url}", flush=True)
                await anext(signals)

    trio.run(run)


if __name__ == "__main__":
    main()
