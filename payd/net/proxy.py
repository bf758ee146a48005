"""The operator's HTTP proxy: a dial that tunnels, so that everything above it stays as it is without one.

The proxy is told the address that was vetted, never a name: it has nothing to look up, and nothing to be
misled about.

Source: DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import base64
import re
from typing import Final
from urllib.parse import unquote

import h11
import msgspec
import trio

from payd.core.endpoint import check_url
from payd.core.errors import InvalidParams
from payd.net.connection import Connection, Failed, exchange
from payd.net.dial import Dial, connect_any, reason_of
from payd.net.dns import DnsFailed, Resolve

_URL: Final = re.compile(r"http://(?:(?P<user>[^@/?#]*)@)?(?P<address>[^@/?#]+:[0-9]{1,5})/?")


class ProxyFailed(OSError):
    """There is no tunnel, and the receiver knows nothing of it; `detail` says what happened."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Proxy(msgspec.Struct, frozen=True):
    """Where the proxy is, and what it wants to hear.

    Attributes:
        host: Without brackets; the operator's own choice, which nobody vets.
        port: Its port.
        authorization: The value of `Proxy-Authorization`; not shown by `repr`.
    """

    host: str
    port: int
    authorization: str | None = None

    @classmethod
    def of(cls, url: str) -> Proxy:
        """The proxy of `http://[user:password@]host:port`, user and password percent-encoded.

        Raises:
            ValueError: It is no such URL; the message says why, and has nothing of the password.
        """
        found = _URL.fullmatch(url)
        if found is None:
            raise ValueError("The proxy must be http://[user:password@]host:port and nothing more.")
        try:
            _, host, port = check_url(f"http://{found['address']}", allow_http=True)
        except InvalidParams as refused:
            raise ValueError(refused.message.replace("The url", "The proxy")) from None
        if found["user"] is None:
            return cls(host, port)
        credentials = base64.b64encode(unquote(found["user"]).encode()).decode("ascii")
        return cls(host, port, f"Basic {credentials}")

    def __repr__(self) -> str:
        return f"Proxy(host={self.host!r}, port={self.port})"


def dial_through(proxy: Proxy, resolve: Resolve, dial: Dial) -> Dial:
    """A dial to any address through `proxy`, which itself is reached with `resolve` and `dial`.

    The dial raises `ProxyFailed` when the proxy cannot be reached, refuses, or does not answer as one.
    """

    async def dial_target(address: str, port: int) -> trio.abc.Stream:
        try:
            stream, _ = await connect_any(await resolve(proxy.host), proxy.port, dial)
        except DnsFailed as error:
            raise ProxyFailed(f"the proxy has no address: {error}") from error
        except OSError as error:
            raise ProxyFailed(f"the proxy cannot be reached: {reason_of(error)}") from error
        await _open_tunnel(stream, proxy, address, port)
        return stream

    return dial_target


async def _open_tunnel(stream: trio.abc.Stream, proxy: Proxy, address: str, port: int) -> None:
    """Have the proxy connect `stream` to the address; closes it on every failure."""
    authority = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    headers = [("host", authority)]
    if proxy.authorization is not None:
        headers.append(("proxy-authorization", proxy.authorization))
    connection = Connection(stream, address)
    head = h11.Request(method="CONNECT", target=authority, headers=headers)
    try:
        response = await exchange(connection, head, b"", reused=False)
    except Failed as failed:
        raise ProxyFailed(f"the proxy: {failed.detail}") from failed
    if not 200 <= response.status_code <= 299:
        await connection.aclose()
        raise ProxyFailed(f"the proxy answered {response.status_code} to CONNECT")
    # A server speaks when it is asked: this is the proxy's own, and would be read as the target's answer.
    if connection.h11.trailing_data[0]:
        await connection.aclose()
        raise ProxyFailed("the proxy sent more than its answer to CONNECT")
