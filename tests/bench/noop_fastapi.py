"""What payd is measured beside, second: FastAPI on uvicorn, with uvloop and httptools.

It does what `tests/bench/noop.py` does: decodes and encodes the same JSON by msgspec, and no more. FastAPI's
own models would be slower; access is not logged.
"""

from __future__ import annotations

import socket

import uvicorn
from fastapi import FastAPI, Request, Response

from tests.bench import answers
from tests.bench.fixed import BACKLOG


def json_answer(body: bytes, status: int = 200) -> Response:
    """Bytes as Starlette's response."""
    return Response(body, status, media_type="application/json")


async def create(request: Request) -> Response:
    """POST /v1/payments."""
    return json_answer(answers.created(await request.body()), 201)


async def status(payment_id: str) -> Response:
    """GET /v1/payments/{id}/status."""
    return json_answer(answers.status())


async def confirm(payment_id: str, request: Request) -> Response:
    """POST /v1/gateway/payment/{id}/confirm."""
    return json_answer(answers.confirmed(await request.body()))


async def ready() -> Response:
    """GET /readyz."""
    return json_answer(answers.READY)


def make_app() -> FastAPI:
    """The application."""
    app = FastAPI(openapi_url=None)
    app.add_api_route("/v1/payments", create, methods=["POST"])
    app.add_api_route("/v1/payments/{payment_id}/status", status)
    app.add_api_route("/v1/gateway/payment/{payment_id}/confirm", confirm, methods=["POST"])
    app.add_api_route("/readyz", ready)
    return app


def main() -> None:
    """Serve on a port of the system's choice, and say which."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    config = uvicorn.Config(
        make_app(), loop="uvloop", http="httptools", lifespan="off", access_log=False, log_level="warning"
    )
    config.load()
    answers.tune_gc()
    print(f"noop serves http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
