"""Whether payd can listen where it was told to: asked before anything is made."""

from __future__ import annotations

import errno
import socket

import trio

from payd.cli.failure import Refused
from payd.config import Address

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
    for listener in await trio.open_tcp_listeners(address.port, host=address.host):
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
