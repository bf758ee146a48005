"""What stands outside payd in these tests: the process, a client, a buyer's wallet, and a webhook receiver.

Nothing here imports payd: these tests hold it to what its pages promise.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

ISO_MS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
ISO_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
# At least 128 random bits in [A-Za-z0-9] cannot be written with fewer characters.
ID_REST = r"[A-Za-z0-9]{22,}"
# Generous for a loaded machine: a green run never comes near it.
PATIENCE_S = 10.0

USDC = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
ETHER = "eip155:8453/slip44:60"
WALLET = "eip155:8453:0x2f318c334780961fb129d2a6c30d0763d9a5c970"
SOLANA = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
SOLANA_MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
SOLANA_USDC = f"{SOLANA}/token:{SOLANA_MINT}"
SOLANA_WALLET = f"{SOLANA}:FVen3X669xLzsi6N2V91DoiyzHzg1uAgqiT8jZ9nS96Z"
FLAT, NESTED = "2026-02-18", "2026-02-19.preview"


def magic_buyer(number: int) -> str:
    """Return a published test account: 1 approves, 2 signs badly, 3 has nothing, 4 stays, 5 settles late."""
    return f"eip155:8453:0x{number:040x}"


def fresh_buyer() -> str:
    """Return an account that nobody used before."""
    return f"eip155:8453:0x{os.urandom(20).hex()}"


def until(question: Callable[[], T], *, timeout_s: float = PATIENCE_S) -> T:
    """Ask until the answer is true, and return it; fail when it never is."""
    deadline = time.monotonic() + timeout_s
    while not (answer := question()):
        assert time.monotonic() < deadline, f"still {answer!r} after {timeout_s} s"
        time.sleep(0.01)
    return answer


def ok(answer: httpx.Response, status: int = 200) -> Any:
    """Return the body of an answer that has this status."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text}"
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    return answer.json()


def assert_refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Return the body of a refusal after holding it to the error body of the pages."""
    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text
    body: dict[str, Any] = answer.json()
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    assert isinstance(body["message"], str)
    assert body["message"]
    assert body["details"]["requestId"] == answer.headers["Request-Id"]
    assert re.fullmatch(f"req_{ID_REST}", answer.headers["Request-Id"])
    assert set(body) <= {"message", "code", "details", "issues"}
    for issue in body.get("issues", []):
        assert isinstance(issue["field"], str)
        assert isinstance(issue["message"], str)
    return body


def assert_misses_schema(answer: httpx.Response, field_name: str) -> None:
    """Hold a refusal to `params_validation` with an issue on this field."""
    body = assert_refused(answer, 400, "params_validation")
    assert any(field_name in issue["field"] for issue in body["issues"]), body


@dataclass(frozen=True)
class Caller:
    """Somebody with headers, such as a key, who calls one server."""

    http: httpx.Client
    headers: Mapping[str, str] = field(default_factory=dict)

    def having(self, **headers: str | None) -> Caller:
        """The same caller with more headers (`Api_Key` for `Api-Key`), or without those that are None."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        merged = {**self.headers, **named}
        return replace(self, headers={name: value for name, value in merged.items() if value is not None})

    def call(self, method: str, path: str, body: Any = ..., **params: Any) -> httpx.Response:
        """Send a request; a body is sent as JSON."""
        content = {} if body is ... else {"json": body}
        return self.http.request(method, path, headers=dict(self.headers), params=params or None, **content)

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.call("GET", path, **params)

    def post(self, path: str, body: Any = ..., **params: Any) -> httpx.Response:
        return self.call("POST", path, body, **params)

    def put(self, path: str, body: Any) -> httpx.Response:
        return self.call("PUT", path, body)

    def patch(self, path: str, body: Any) -> httpx.Response:
        return self.call("PATCH", path, body)

    def delete(self, path: str) -> httpx.Response:
        return self.call("DELETE", path)

    def once(self, path: str, body: Any, key: str | None = None) -> httpx.Response:
        """POST with an `Idempotency-Key`, a fresh one unless told."""
        return self.having(Idempotency_Key=key or os.urandom(12).hex()).post(path, body)


@dataclass(frozen=True)
class Shop:
    """An account with a key that may do everything, and what its developer does."""

    account_id: str
    api: Caller

    def merchant(self, name: str = "Corner shop", *destinations: tuple[str, str]) -> str:
        """Create a merchant with destinations (USDC on an EVM chain unless told) and return its id."""
        body = {"merchantName": name, "merchantEmail": "till@shop.example"}
        merchant_id: str = ok(self.api.once("/v1/merchants", body), 201)["merchant"]["id"]
        pairs = [{"asset": a, "destination": d} for a, d in destinations or [(USDC, WALLET)]]
        path = f"/v1/merchants/{merchant_id}/settlements/crypto"
        ok(self.api.once(path, {"settlements": pairs}), 201)
        return merchant_id

    def payment(self, merchant_id: str, value: str = "1250", unit: str = "iso4217/USD", **extra: Any) -> str:
        """Create a payment and return its id."""
        body = {"referenceId": "order-1", "amount": {"unit": unit, "value": value}, **extra}
        return str(ok(self.api.having(Merchant_Id=merchant_id).post("/v1/payments", body), 201)["paymentId"])

    def detail(self, payment_id: str) -> Any:
        return ok(self.api.get(f"/v1/payments/{payment_id}"))

    def status_of(self, payment_id: str) -> str:
        return str(self.detail(payment_id)["status"])

    def clock(self) -> Any:
        return ok(self.api.get("/v1/test/clock"))

    def now_s(self) -> float:
        """The test realm's time in unix seconds."""
        return time.time() + float(self.clock()["offsetS"])

    def advance(self, span: str) -> None:
        """Advance the test realm's clock and wait for the work of that span."""
        self.clock_after(ok(self.api.post("/v1/test/clock", {"advance": span}), 202)["job"]["id"])

    def clock_after(self, job_id: str) -> Any:
        """Wait until an advance is done, and return the answer that said so."""

        def done() -> Any:
            answer = self.clock()
            assert answer["job"]["id"] == job_id
            return answer if answer["job"]["state"] == "done" else None

        return until(done, timeout_s=3 * PATIENCE_S)

    def simulate(self, payment_id: str, to: str, **more: str) -> Any:
        return ok(self.api.post(f"/v1/test/payments/{payment_id}/simulate", {"to": to, **more}))

    def options(self, payment_id: str, account: str, **params: Any) -> list[Any]:
        body = {"accounts": [account]}
        offered = ok(self.api.post(f"/v1/gateway/payment/{payment_id}/options", body, **params))
        options: list[Any] = offered["options"]
        return options

    def results(self, payment_id: str, option: Any) -> list[Any]:
        """Do what an option's actions say, as a wallet would, and return the results in order."""
        actions: list[Any] = []
        for action in option["actions"]:
            if action["type"] == "build":
                body = {"optionId": option["id"], "data": action["data"]}
                actions += ok(self.api.post(f"/v1/gateway/payment/{payment_id}/fetch", body))["actions"]
            else:
                actions.append(action)
        return [{"type": "walletRpc", "data": [executed(action)]} for action in actions]

    def confirm(self, payment_id: str, option_id: str, results: Any, **params: Any) -> httpx.Response:
        body = {"optionId": option_id, "results": results}
        return self.api.post(f"/v1/gateway/payment/{payment_id}/confirm", body, **params)

    def pay(self, payment_id: str, account: str) -> Any:
        """Pay with the first option, and return the answer to confirm."""
        option = self.options(payment_id, account)[0]
        return ok(self.confirm(payment_id, option["id"], self.results(payment_id, option)))


def executed(action: Any) -> str:
    """Return what a wallet hands back for a flat `walletRpc` action."""
    method = action["method"]
    if method.startswith("solana"):
        found = re.search(r'"transaction": ?"([A-Za-z0-9+/=]+)"', action["params"])
        return found[1] if found else base64.b64encode(os.urandom(300)).decode()
    return "0x" + os.urandom(32).hex() if method == "eth_sendTransaction" else "0x" + "11" * 64 + "1b"


@dataclass(frozen=True)
class Delivery:
    """One POST that a webhook endpoint received."""

    headers: Mapping[str, str]
    raw: bytes
    at_s: float

    @property
    def event(self) -> Any:
        return json.loads(self.raw)


@dataclass
class Door:
    """One webhook endpoint: what it received, and the statuses it answers next (200 when none is left)."""

    url: str
    received: list[Delivery] = field(default_factory=list)
    answers: deque[int] = field(default_factory=deque)
    otherwise: int = 200
    retry_after: str | None = None

    def of(self, payment_id: str) -> list[Delivery]:
        return [d for d in list(self.received) if d.event["data"]["payment_id"] == payment_id]

    def types_of(self, payment_id: str) -> list[str]:
        return [delivery.event["type"] for delivery in self.of(payment_id)]

    def wait_for(self, payment_id: str, *event_types: str) -> list[Delivery]:
        """Wait until all of these types have arrived for a payment; return all that arrived for it."""
        until(lambda: set(event_types) <= set(self.types_of(payment_id)))
        return self.of(payment_id)


class Receiver:
    """A webhook receiver on loopback with any number of doors."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.doors: dict[str, Door] = {}

    def door(self) -> Door:
        path = f"/hook/{len(self.doors)}"
        self.doors[path] = Door(f"http://127.0.0.1:{self.port}{path}")
        return self.doors[path]


@contextmanager
def open_receiver() -> Iterator[Receiver]:
    """Serve a receiver from a thread."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            door = receiver.doors[self.path]
            door.received.append(Delivery({k.lower(): v for k, v in self.headers.items()}, raw, time.time()))
            status = door.answers.popleft() if door.answers else door.otherwise
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", door.url)
            if door.retry_after is not None:
                self.send_header("Retry-After", door.retry_after)
            body = b"" if status == 204 else b"seen"
            if body:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class Server:
    """A running payd and its data directory."""

    url: str
    environment: Mapping[str, str]

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of payd to its end."""
        command = [sys.executable, "-m", "payd", *arguments]
        return subprocess.run(
            command, env=dict(self.environment), capture_output=True, text=True, timeout=60, check=False
        )

    def cli_json(self, *arguments: str) -> Any:
        """Run a command that must work, and return the JSON it prints."""
        done = self.cli(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def shop(self, name: str, http: httpx.Client, scopes: Sequence[str] = ()) -> Shop:
        """Create an account and a key of it."""
        account_id = self.cli_json("account", "create", name)["id"]
        return Shop(account_id, Caller(http, {"Api-Key": self.key(account_id, *scopes)}))

    def key(self, account_id: str, *scopes: str, merchants: Sequence[str] = ()) -> str:
        """Create a test key with these scopes (all when none is named)."""
        more = [word for scope in scopes for word in ("--scope", scope)]
        more += [word for merchant in merchants for word in ("--merchant", merchant)]
        made = self.cli_json("key", "create", "--mode", "test", "--account", account_id, *more)
        return str(made["apiKey"])


def environment_of(directory: Path, configuration: str) -> dict[str, str]:
    """Write payd.toml into a directory and return the variables that make payd use it, on a free port."""
    (directory / "payd.toml").write_text(configuration)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PAYD_")}
    ours = {"DATA_DIR": str(directory / "data"), "CONFIG": str(directory / "payd.toml")}
    return {**kept, **{f"PAYD_{k}": v for k, v in ours.items()}, "PAYD_LISTEN": f"127.0.0.1:{port}"}


@contextmanager
def open_server(directory: Path, configuration: str) -> Iterator[Server]:
    """Serve payd from a directory, ready to be called; stop it with SIGTERM and hold it to a clean end."""
    environment = environment_of(directory, configuration)
    url = f"http://{environment['PAYD_LISTEN']}"
    with (directory / "log").open("w") as log:
        command = [sys.executable, "-m", "payd", "serve"]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        until(lambda: process.poll() is not None or is_ready(url), timeout_s=6 * PATIENCE_S)
        assert process.poll() is None, (directory / "log").read_text()
        yield Server(url, environment)
    finally:
        process.terminate()
        try:
            status = process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
    assert status == 0, (directory / "log").read_text()[-2000:]


def is_ready(url: str) -> bool:
    """Return whether payd says that it can work."""
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False
