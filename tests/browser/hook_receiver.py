"""A merchant's webhook receiver on a port of its own, which answers as a test says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook


@dataclass
class HookReceiver:
    """What came, and how it is answered."""

    url: str = ""
    status: int = 200
    body: bytes = b"thank you"
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def is_signed(self, secret: str, at: int = -1) -> bool:
        """Whether an independent verifier accepts a delivery; it raises where it does not."""
        headers, body = self.received[at]
        return bool(Webhook(secret).verify(body, headers))


@contextmanager
def running_receiver() -> Iterator[HookReceiver]:
    """A receiver that answers until the end."""
    hook = HookReceiver()

    class Handler(BaseHTTPRequestHandler):
        """Keeps what came and answers."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            hook.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(hook.status)
            self.send_header("content-length", str(len(hook.body)))
            self.end_headers()
            self.wfile.write(hook.body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hook.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
