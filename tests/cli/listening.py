"""A real server with a shop, a real `payd listen` and a real receiver, for tests on the wall clock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from standardwebhooks.webhooks import Webhook

from tests.process import Server, free_port

PATIENCE_S: Final = 30.0


def until(question: Callable[[], Any], words: Callable[[], object] = lambda: "") -> Any:
    """Ask until the answer is true, and give it back."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (answer := question()):
        assert time.monotonic() < deadline_s, words()
        time.sleep(0.02)
    return answer


class Shop:
    """A server whose folder has an account, a key and a merchant."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(folder)
        made = self.server.init()
        self.key, self.merchant = made["apiKey"], made["merchantId"]
        self.server.start()

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The body of an answer that is a 2xx."""
        sent = {"Api-Key": self.key, **{name.replace("_", "-"): value for name, value in headers.items()}}
        status, answer, _ = self.server.request(method, path, body, sent)
        assert 200 <= status < 300, answer
        return answer

    def pay(self, count: int = 1) -> list[str]:
        """Create payments; each is one event `payment.created`. Their ids."""
        body = {"referenceId": "O-1", "amount": {"unit": "iso4217/USD", "value": "1250"}}
        return [
            self.call("POST", "/v1/payments", body, Merchant_Id=self.merchant)["paymentId"]
            for _ in range(count)
        ]

    def text(self, *words: str) -> str:
        """What `payd …` prints for people."""
        command = [sys.executable, "-m", "payd", *words]
        done = subprocess.run(
            command, env=self.server.env, capture_output=True, timeout=PATIENCE_S, check=True
        )
        return done.stdout.decode()

    def listener_keys(self) -> list[bool]:
        """For each key that a listener got, whether it is revoked."""
        keys = self.server.payd("key", "list", "--all")
        return [key["revokedAt"] is not None for key in keys if key["name"] == "payd listen"]


@contextmanager
def open_shop(folder: Path) -> Iterator[Shop]:
    """A shop whose server runs, killed at the end if need be."""
    shop = Shop(folder)
    try:
        yield shop
    finally:
        if shop.server.process is not None and shop.server.process.poll() is None:
            shop.server.kill()


class Hook:
    """A receiver on a port of its own; it listens only between `start` and `stop`."""

    def __init__(self, status: int = 200) -> None:
        self.port = free_port()
        self.url = f"127.0.0.1:{self.port}/hook"
        self.status = status
        self.received: list[tuple[dict[str, str], bytes]] = []
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> Hook:
        """Listen."""
        hook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(hook.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def count(self, number: int) -> list[str]:
        """The payments of all that came, once there are so many."""
        until(lambda: len(self.received) >= number, lambda: f"{len(self.received)} of {number}")
        return [json.loads(body)["data"]["payment_id"] for _, body in self.received]

    def verify(self, secret: str, index: int = -1) -> Any:
        """A delivery, judged by somebody else's code."""
        headers, body = self.received[index]
        return Webhook(secret).verify(body, headers)


@contextmanager
def open_hook(status: int = 200) -> Iterator[Hook]:
    """A receiver that listens."""
    hook = Hook(status).start()
    try:
        yield hook
    finally:
        hook.stop()


class Listener:
    """One `payd listen --format json`."""

    def __init__(
        self, shop: Shop, *options: str, form: str = "json", variables: Mapping[str, str] | None = None
    ) -> None:
        env = {**shop.server.env, "PYTHONPATH": os.fspath(Path(__file__).parents[2]), **(variables or {})}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "payd", "listen", "--format", form, *options],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        self.lines: list[str] = []
        self.said: list[str] = []
        self._threads = [
            threading.Thread(target=self._read, args=args, daemon=True)
            for args in ((self.process.stdout, self.lines), (self.process.stderr, self.said))
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _read(stream: Any, lines: list[str]) -> None:
        with stream:
            for line in stream:
                lines.append(line.decode().rstrip("\n"))

    def __str__(self) -> str:
        return "\n".join([*self.lines, *self.said])

    def objects(self, kind: str) -> list[Any]:
        """What was printed so far of a type."""
        return [one for one in map(json.loads, tuple(self.lines)) if one["type"] == kind]

    def state(self, name: str, nth: int = 1) -> Any:
        """The nth state of that name, once it was told."""

        def found() -> Any:
            return [one for one in self.objects("state") if one["state"] == name][nth - 1 : nth]

        return until(found, lambda: f"no {name}:\n{self}")[0]

    def events(self, number: int) -> list[Any]:
        """What was printed of events, once there are so many."""
        until(lambda: len(self.objects("event")) >= number, lambda: str(self))
        return self.objects("event")

    def end(self, number: int = signal.SIGINT) -> int:
        """Tell it to end; its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Its exit code, with all that it said read."""
        code = self.process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        return code


@contextmanager
def listening(
    shop: Shop, *options: str, form: str = "json", variables: Mapping[str, str] | None = None
) -> Iterator[Listener]:
    """A listener, told to end at the end."""
    listener = Listener(shop, *options, form=form, variables=variables)
    try:
        yield listener
    finally:
        if listener.process.poll() is None:
            listener.process.send_signal(signal.SIGCONT)
            listener.end()
