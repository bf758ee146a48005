"""Through the operator's proxy: what it is told, what stays as it is without one, and how it can fail."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio
from trio.testing import memory_stream_pair

from payd.net.dns import DnsFailed
from payd.net.http import CONNECT_DEADLINE_S, Client, Reply, Target, tls_context
from payd.net.proxy import Proxy
from tests.receiver import CA_FILE, Does, Receiver, always, in_turn, server_tls

TRUSTING = tls_context(CA_FILE)
PROXY = Proxy("proxy.internal", 3128)
HOOK = Target.of("http://a.test/hook")
SAFE_HOOK = Target.of("https://receiver.test/hook")
ADDRESSES = {
    "proxy.internal": ["10.0.0.7"],
    "a.test": ["93.184.216.34"],
    "receiver.test": ["93.184.216.34"],
    "six.test": ["2606:4700::1"],
    "both.test": ["2606:4700::1", "93.184.216.34"],
    "inside.test": ["10.0.0.9"],
}


@dataclass
class ProxyServer:
    """An HTTP proxy in memory that tunnels to one receiver.

    Attributes:
        answers: Sent instead of the tunnel's answer, for the CONNECT with this first line or for all ("").
        stays: After such an answer it waits for the client to close.
        silent: It never answers.
        connects: The heads of what was asked.
        dialled: Addresses that the client dialled.
    """

    receiver: Receiver
    nursery: trio.Nursery
    answers: dict[str, bytes] = field(default_factory=dict)
    stays: bool = False
    silent: bool = False
    connects: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)
    open: int = 0

    async def dial(self, address: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        self.dialled.append((address, port))
        ours, theirs = memory_stream_pair()
        self.nursery.start_soon(self.serve, theirs)
        return ours

    async def serve(self, client: trio.abc.Stream) -> None:
        self.open += 1
        head = b""
        while b"\r\n\r\n" not in head:
            head += await client.receive_some()
        self.connects.append(head.decode())
        line = head.decode().split("\r\n")[0]
        if self.silent:
            await client.receive_some()
        elif (answer := self.answers.get(line, self.answers.get(""))) is not None:
            await client.send_all(answer)
            if self.stays:
                await client.receive_some()
            await client.aclose()
        else:
            await self.tunnel(client)
        self.open -= 1

    async def tunnel(self, client: trio.abc.Stream) -> None:
        target = await self.receiver.dial("", 0)
        await client.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def pump(source: trio.abc.Stream, sink: trio.abc.Stream) -> None:
            try:
                while data := await source.receive_some():
                    await sink.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            await trio.aclose_forcefully(sink)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(pump, client, target)
            nursery.start_soon(pump, target, client)


async def resolve(host: str) -> list[str]:
    await trio.lowlevel.checkpoint()
    if host == "127.0.0.1":
        return [host]
    if host not in ADDRESSES:
        raise DnsFailed(f"{host}: gone")
    return ADDRESSES[host]


@asynccontextmanager
async def open_proxied(
    *acts: Does,
    proxy: Proxy = PROXY,
    tls: bool = False,
    may_call: Callable[[str], bool] = lambda address: not address.startswith("10."),
) -> AsyncIterator[tuple[Client, ProxyServer]]:
    """A client that has nothing but a proxy, and the proxy."""
    async with trio.open_nursery() as nursery:
        receiver = Receiver(
            nursery, in_turn(*acts) if acts else always(Does()), server_tls() if tls else None
        )
        server = ProxyServer(receiver, nursery)
        client = Client(may_call=may_call, tls=TRUSTING, resolve=resolve, dial=server.dial, proxy=proxy)
        yield client, server
        await client.aclose()
        nursery.cancel_scope.cancel()


async def post(client: Client, target: Target = HOOK) -> Reply:
    return await client.send("POST", target, (), b"{}")


async def answered(raw: bytes, *, stays: bool = False) -> Reply:
    """The reply when the proxy answers a CONNECT with these bytes; the connection must be closed then."""
    async with open_proxied() as (client, server):
        server.answers[""], server.stays = raw, stays
        reply = await post(client)
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0
        assert server.receiver.received == []
    return reply


async def test_the_proxy_is_told_the_vetted_address_and_never_the_name() -> None:
    async with open_proxied() as (client, server):
        reply = await post(client)

        assert (reply.status, reply.remote_ip) == (200, "93.184.216.34")
        assert server.dialled == [("10.0.0.7", 3128)]
        assert server.connects == ["CONNECT 93.184.216.34:80 HTTP/1.1\r\nhost: 93.184.216.34:80\r\n\r\n"]
        [received] = server.receiver.received
        assert (received.path, received.headers["host"]) == ("/hook", "a.test")


async def test_tls_is_within_the_tunnel_and_proves_the_original_name() -> None:
    async with open_proxied(tls=True) as (client, server):
        assert (await post(client, SAFE_HOOK)).status == 200
        assert server.connects[0].startswith("CONNECT 93.184.216.34:443 ")

        refused = await post(client, Target.of("https://a.test/hook"))
        assert refused.error_class == "tls_error"
        assert "certificate" in refused.detail


async def test_an_ipv6_address_is_in_brackets() -> None:
    async with open_proxied() as (client, server):
        await post(client, Target.of("http://six.test:8080/"))

        assert server.connects[0].startswith("CONNECT [2606:4700::1]:8080 HTTP/1.1\r\n")


async def test_an_address_that_may_not_be_called_is_not_asked_of_the_proxy() -> None:
    async with open_proxied() as (client, server):
        reply = await post(client, Target.of("http://inside.test/"))

        assert reply.error_class == "blocked_address"
        assert server.dialled == []


async def test_credentials_go_to_the_proxy_and_not_to_the_receiver() -> None:
    proxy = Proxy.of("http://payd:s%40cret@proxy.internal:3128")
    async with open_proxied(proxy=proxy) as (client, server):
        assert (await post(client)).status == 200

        credentials = base64.b64encode(b"payd:s@cret").decode()
        assert f"proxy-authorization: Basic {credentials}\r\n" in server.connects[0]
        assert "proxy-authorization" not in server.receiver.received[0].headers


async def test_a_tunnel_is_used_again_and_a_dead_one_replaced() -> None:
    ok = Does(raw=b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    async with open_proxied(Does(), ok, Does()) as (client, server):
        for _ in range(3):
            assert (await post(client)).status == 200
            await trio.testing.wait_all_tasks_blocked()

        assert len(server.connects) == 2
        assert len(server.receiver.received) == 3


async def test_an_address_that_the_proxy_cannot_reach_gives_way_to_the_next() -> None:
    async with open_proxied() as (client, server):
        server.answers["CONNECT [2606:4700::1]:80 HTTP/1.1"] = b"HTTP/1.1 503 No route\r\n\r\n"
        reply = await post(client, Target.of("http://both.test/"))

        assert (reply.status, reply.remote_ip) == (200, "93.184.216.34")


@pytest.mark.parametrize("status", [301, 403, 407, 502])
async def test_a_refusal_names_the_status_of_the_proxy(status: int) -> None:
    reply = await answered(b"HTTP/1.1 %d No\r\ncontent-length: 6\r\n\r\nsecret" % status, stays=True)

    assert (reply.status, reply.error_class) == (None, "proxy_error")
    assert reply.detail == f"the proxy answered {status} to CONNECT"
    assert reply.timing.connect_ms is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 2",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x05\xff",
        b"HTTP/1.1 200 OK\r\n" + b"x-long: y\r\n" * 10_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    ],
    ids=[
        "nothing",
        "half a line",
        "ssh",
        "socks",
        "endless head",
        "endless 1xx",
        "101",
        "the target's words",
    ],
)
async def test_what_is_no_answer_to_a_connect_opens_no_tunnel(raw: bytes) -> None:
    reply = await answered(raw)

    assert (reply.status, reply.error_class) == (None, "proxy_error")
    assert "the proxy" in reply.detail


async def test_the_targets_words_from_the_proxy_close_the_connection() -> None:
    reply = await answered(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", stays=True)

    assert reply.error_class == "proxy_error"


async def test_a_proxy_that_never_answers_costs_as_much_as_an_address_that_never_connects() -> None:
    async with open_proxied() as (client, server):
        server.silent = True
        reply = await post(client)
        await trio.testing.wait_all_tasks_blocked()

        assert (reply.error_class, reply.duration_ms) == ("timeout_connect", CONNECT_DEADLINE_S * 1000)
        assert server.open == 0


async def test_a_proxy_without_an_address_is_no_fault_of_the_receiver() -> None:
    async with open_proxied(proxy=Proxy("elsewhere.internal", 3128)) as (client, server):
        reply = await post(client)

        assert reply.error_class == "proxy_error"
        assert "the proxy has no address: elsewhere.internal" in reply.detail
        assert server.dialled == []


@pytest.mark.real_time
async def test_a_proxy_that_is_down_is_no_fault_of_the_receiver() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    client = Client(may_call=lambda _: True, proxy=Proxy("127.0.0.1", port))

    reply = await post(client, Target.of("http://93.184.216.34/"))
    assert (reply.error_class, reply.detail) == (
        "proxy_error",
        "the proxy cannot be reached: Connection refused",
    )


@pytest.mark.real_time
async def test_over_real_sockets_a_tunnel_carries_tls_and_is_used_again() -> None:
    async with trio.open_nursery() as nursery:
        server = ProxyServer(Receiver(nursery, tls=server_tls()), nursery)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, server.serve, listeners)
        proxy = Proxy("127.0.0.1", listeners[0].socket.getsockname()[1])
        client = Client(may_call=lambda _: True, tls=TRUSTING, resolve=resolve, proxy=proxy)
        replies = [await post(client, SAFE_HOOK) for _ in range(3)]
        await client.aclose()
        nursery.cancel_scope.cancel()

    assert [(reply.status, reply.remote_ip) for reply in replies] == [(200, "93.184.216.34")] * 3
    assert len(server.connects) == 1


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://proxy.internal:3128")
    dialled: list[str] = []
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery)

        async def dial(address: str, port: int) -> trio.abc.Stream:
            dialled.append(address)
            return await receiver.dial(address, port)

        client = Client(may_call=lambda _: True, resolve=resolve, dial=dial)
        assert (await post(client)).status == 200
        nursery.cancel_scope.cancel()

    assert dialled == ["93.184.216.34"]


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://proxy.internal:3128", Proxy("proxy.internal", 3128)),
        ("http://PROXY.internal:3128/", Proxy("proxy.internal", 3128)),
        ("http://[fd00::7]:80", Proxy("fd00::7", 80)),
        ("http://10.0.0.7:1", Proxy("10.0.0.7", 1)),
        ("http://a:b@p:8080", Proxy("p", 8080, "Basic YTpi")),
        ("http://a%3Ab:%40%2F@p:8080", Proxy("p", 8080, "Basic YTpiOkAv")),
    ],
)
def test_a_proxy_is_read_from_its_url(url: str, proxy: Proxy) -> None:
    assert Proxy.of(url) == proxy


@pytest.mark.parametrize(
    "url",
    [
        "",
        "proxy.internal:3128",
        "https://proxy.internal:3128",
        "socks5://proxy.internal:1080",
        "http://proxy.internal",
        "http://proxy.internal:0",
        "http://proxy.internal:65536",
        "http://proxy.internal:3128/path",
        "http://proxy.internal:3128?a=b",
        "http://:3128",
        "http://s3cret:s3cret@:3128",
        "http://s3cret@s3cret@proxy.internal:3128",
        "http://pro xy:3128",
        "http://proxy.internal:3128\n",
        "http://[::1:3128",
    ],
)
def test_what_is_no_proxy_is_refused_in_words_without_the_password(url: str) -> None:
    with pytest.raises(ValueError, match=r"^The proxy") as refused:
        Proxy.of(url)

    assert "s3cret" not in str(refused.value)


def test_a_proxy_does_not_show_its_password() -> None:
    proxy = Proxy.of("http://payd:s3cret@proxy.internal:3128")

    assert repr(proxy) == "Proxy(host='proxy.internal', port=3128)"
