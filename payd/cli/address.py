"""Whether payd can listen where it was told to: asked before anything is made."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

import trio

from payd.cli.failure import Refused
from payd.config import Address
from payd.net.dial import check_sources
from payd.net.http import tls_context

ANOTHER = "Choose another with --listen HOST:PORT, such as --listen 127.0.0.1:{port}"


def check_address(address: Address) -> None:
    """Bind it and let it go again.

    Raises:
        Refused: It cannot be bound; the message says why, and what to type.
    """
    try:
        trio.run(_bind, address)
    except OSError as error:
        # Another port beside a taken one; the usual one where the host was wrong.
        port = min(address.port + 1, 65535) if error.errno == errno.EADDRINUSE else 8420
        raise Refused(f"{_words(error, address)}. {ANOTHER.format(port=port)}") from error


async def _bind(address: Address) -> None:
    try:
        listeners = await trio.open_tcp_listeners(address.port, host=address.host)
    except UnicodeError as error:  # Python's word for a name that can be no host's; nobody was asked
        raise socket.gaierror(socket.EAI_NONAME, str(error)) from error
    for listener in listeners:
        await listener.aclose()


def _words(error: OSError, address: Address) -> str:
    if isinstance(error, socket.gaierror):
        return f"{address.host} is no host that this machine knows"
    match error.errno:
        case errno.EADDRINUSE:
            return f"Another program serves at {address}"
        case errno.EADDRNOTAVAIL:
            return f"{address.host} is no address of this machine"
        case errno.EACCES | errno.EPERM:
            return f"This user may not listen at {address}: low ports are the system's"
        case _:
            return f"payd cannot listen at {address}: {error.strerror or error}"


def check_ca_file(file: Path | None) -> None:
    """Return when deliveries can trust the authorities in it.

    Raises:
        Refused: It cannot be read, or has none.
    """
    try:
        tls_context(file)
    except (OSError, ssl.SSLError) as error:
        reason = "it has no certificate in PEM form" if isinstance(error, ssl.SSLError) else error.strerror
        raise Refused(f"ca_file in [webhooks.test] or [webhooks.live] names {file}: {reason}") from error


def check_sources_are_ours(bind: Sequence[str]) -> None:
    """Return when deliveries can come from these addresses.

    Raises:
        Refused: One is not this machine's.
    """
    try:
        check_sources(bind)
    except OSError as error:
        words = f"bind in [webhooks] names {error.filename}, which is no address of this machine"
        raise Refused(f"{words} ({error.strerror}). `ip addr` shows those there are.") from error
