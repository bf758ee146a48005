"""What payd is measured beside: Quart-Trio on stock hypercorn; it decodes and encodes the same JSON, no more.

It stores nothing, checks nobody and keeps no state but the sockets that wait for a push.
"""

from __future__ import annotations

import socket
from functools import partial

import hypercorn.config
import hypercorn.trio
import trio
from quart import request, websocket
from quart_trio import QuartTrio
from quart_trio.wrappers import TrioResponse

from tests.bench import answers

PAGE = (
    b'{"version":1,"status":"processing","isFinal":false,"pollInMs":1000,"expiresAt":1800000900,"info":null}'
)


def json_answer(body: bytes, status: int = 200) -> TrioResponse:
    """Bytes as Quart's response."""
    return TrioResponse(body, status, content_type="application/json")


class Pushes:
    """Sockets that wait for the next push; each wakes by itself."""

    def __init__(self) -> None:
        self.next = trio.Event()

    async def follow(self, payment_id: str) -> None:
        """One websocket: the snapshot, then every push."""
        await websocket.send(PAGE)
        while True:
            await self.next.wait()
            await websocket.send(PAGE)

    async def push(self) -> TrioResponse:
        """To all."""
        pushed, self.next = self.next, trio.Event()
        pushed.set()
        return json_answer(b"{}")


async def create() -> TrioResponse:
    """POST /v1/payments."""
    return json_answer(answers.created(await request.get_data(cache=False)), 201)


async def status(payment_id: str) -> TrioResponse:
    """GET /v1/payments/{id}/status."""
    return json_answer(answers.status())


async def confirm(payment_id: str) -> TrioResponse:
    """POST /v1/gateway/payment/{id}/confirm."""
    return json_answer(answers.confirmed(await request.get_data(cache=False)))


async def ready() -> TrioResponse:
    """GET /readyz."""
    return json_answer(answers.READY)


def make_app() -> QuartTrio:
    """The application."""
    app = QuartTrio("noop", static_folder=None)
    pushes = Pushes()
    app.add_url_rule("/v1/payments", "create", create, methods=["POST"])
    app.add_url_rule("/v1/payments/<payment_id>/status", "status", status)
    app.add_url_rule("/v1/gateway/payment/<payment_id>/confirm", "confirm", confirm, methods=["POST"])
    app.add_url_rule("/readyz", "ready", ready)
    app.add_url_rule("/push", "push", pushes.push, methods=["POST"])
    app.add_websocket("/v1/payments/<payment_id>/feed", "feed", pushes.follow)
    return app


async def main() -> None:
    """Serve on a port of the system's choice, and say which."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = hypercorn.config.Config()
    config.bind = [f"fd://{listener.fileno()}"]
    config.keep_alive_max_requests = 10**9  # its default of 1000 would measure how connections are opened
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(hypercorn.trio.serve, make_app(), config))
        answers.tune_gc()
        print(f"noop serves http://127.0.0.1:{listener.getsockname()[1]}", flush=True)


if __name__ == "__main__":
    trio.run(main)
