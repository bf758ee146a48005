"""Where deliveries come from: the addresses that an operator picks, which the endpoint names."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.contract.outside import Server, environment_of, open_server

OPEN = """
[webhooks.test]
allow_http = true
allow_networks = ["127.0.0.0/8", "::1"]

[webhooks]
"""


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[int]:
    """Serve from a thread; its port."""
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def receiver(host: str) -> Iterator[tuple[int, list[str]]]:
    """A receiver that notes who called, and its port."""
    peers: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            peers.append(self.client_address[0])
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    class Here(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    with serving(Here((host, 0), Handler)) as port:
        yield port, peers


def test_both_families_come_from_the_chosen_addresses_and_the_endpoint_names_them(tmp_path: Path) -> None:
    with (
        receiver("127.0.0.1") as (port, peers),
        receiver("::1") as (port_6, peers_6),
        open_server(tmp_path, f'{OPEN}bind = ["127.0.0.9", "::1"]\n') as server,
    ):
        server.cli_json("account", "create", "main")
        made = server.cli_json("webhook", "set", "--url", f"http://127.0.0.1:{port}/")
        assert made["sourceAddresses"] == ["127.0.0.9", "::1"]
        assert server.cli_json("webhook", "test")["status"] == 204
        assert peers == ["127.0.0.9"]
        server.cli_json("webhook", "set", "--url", f"http://[::1]:{port_6}/")
        assert server.cli_json("webhook", "test")["status"] == 204
        assert peers_6 == ["::1"]


def test_a_family_without_a_chosen_address_is_not_called(tmp_path: Path) -> None:
    with (
        receiver("127.0.0.1") as (port, peers),
        open_server(tmp_path, f'{OPEN}bind = ["::1"]\n') as server,
    ):
        server.cli_json("account", "create", "main")
        server.cli_json("webhook", "set", "--url", f"http://127.0.0.1:{port}/")
        sent = server.cli("webhook", "test", "--json")
        assert json.loads(sent.stdout)["errorClass"] == "network_unreachable"
        assert peers == []


@pytest.mark.alike
@pytest.mark.parametrize("address", ["203.0.113.7", "2001:db8::7"])
def test_an_address_of_another_machine_is_refused_at_the_start_in_words(tmp_path: Path, address: str) -> None:
    server = Server("", environment_of(tmp_path, f'{OPEN}bind = ["{address}"]\n'))
    refused = server.cli("serve")
    assert refused.returncode == 1
    assert f"bind in [webhooks] names {address}, which is no address of this machine" in refused.stderr
    assert "Traceback" not in refused.stderr


@contextmanager
def proxy() -> Iterator[tuple[int, list[str]]]:
    """An HTTP proxy that tunnels, and notes what it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            asked.append(f"{self.path} {self.headers['Proxy-Authorization']}")
            host, _, port = self.path.rpartition(":")
            with socket.create_connection((host, int(port))) as target:
                self.send_response(200)
                self.end_headers()
                target.sendall(self.connection.recv(65536))
                while data := target.recv(65536):
                    self.connection.sendall(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield port, asked


def test_deliveries_go_through_the_proxy_that_is_configured(tmp_path: Path) -> None:
    with (
        receiver("127.0.0.1") as (port, peers),
        proxy() as (through, asked),
        open_server(tmp_path, f'{OPEN}proxy = "http://me:pa%20ss@127.0.0.1:{through}"\n') as server,
    ):
        server.cli_json("account", "create", "main")
        server.cli_json("webhook", "set", "--url", f"http://localhost:{port}/hook")
        assert server.cli_json("webhook", "test")["status"] == 204
        assert asked == [f"127.0.0.1:{port} Basic bWU6cGEgc3M="], "an address, which was vetted, and no name"
        assert peers == ["127.0.0.1"]
