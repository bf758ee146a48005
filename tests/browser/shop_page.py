"""A shop's page on an origin of its own, under a policy that lets in payd's script, frame and websocket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

NOTES: Final = """
window.heard = [];
window.messages = [];
addEventListener('payd:status', (event) => {
  heard.push({ on: event.target.id || 'document', ...event.detail });
});
addEventListener('message', (event) => messages.push({ ...event.data, by: event.origin }));
"""


class ShopPage:
    """Serves one page and one script; a test says what is in them.

    Attributes:
        origin: As a browser names it: another site than payd's, which is reached as 127.0.0.1.
        body: What is inside the page's `main`.
        whole: A page to serve in its place, as it is and without a policy.
    """

    def __init__(self, payd: str) -> None:
        self.payd = payd
        self.body = ""
        self.whole = ""
        self.scripts = NOTES
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.origin = f"http://localhost:{self.server.server_port}"

    @property
    def policy(self) -> str:
        """What a careful shop allows."""
        socket = self.payd.replace("http", "ws")
        return (
            f"default-src 'none'; script-src 'self' {self.payd}; frame-src {self.payd} http://localhost:*;"
            f" connect-src {socket}; img-src data:"
        )

    def page(self) -> str:
        """The whole page. It is long, so that it could be scrolled."""
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Cart</title>'
            '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
            '<script src="/shop.js"></script>'
            f'<script src="{self.payd}/static/payd.js"></script></head>'
            f"<body><main><h1>Cart</h1>{self.body}{'<p>A fine thing.</p>' * 60}</main></body></html>"
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                script = self.path == "/shop.js"
                text = (shop.scripts if script else shop.whole or shop.page()).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/javascript" if script else "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(text)))
                if not shop.whole:
                    self.send_header("Content-Security-Policy", shop.policy)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        return Handler


@contextmanager
def open_shop_page(payd: str) -> Iterator[ShopPage]:
    """A shop that serves until the end of the block."""
    shop = ShopPage(payd)
    thread = threading.Thread(target=shop.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield shop
    finally:
        shop.server.shutdown()
        thread.join()
        shop.server.server_close()
