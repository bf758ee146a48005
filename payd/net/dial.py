"""A TCP connection to the first of several vetted addresses that answers (RFC 8305, "happy eyeballs").

Source: DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from itertools import zip_longest
from typing import Final, TypeAlias

import trio

Dial: TypeAlias = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""Connects to one address and port; raises OSError."""

# RFC 8305, section 5: how long an address may keep the next one waiting.
STAGGER_S: Final = 0.25
# A name with more addresses than this is an attack or a mistake.
ADDRESSES_MAX: Final = 6


def check_sources(bind: Sequence[str]) -> None:
    """Return when connections can come from each of these addresses.

    Raises:
        OSError: One is not an address of this machine; its `filename` is the address.
    """
    for address in bind:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError as error:
                error.filename = address
                raise


def reason_of(error: OSError) -> str:
    """Why there is no connection, in the system's words alone: Trio's name the address before them."""
    return os.strerror(error.errno) if error.errno else error.strerror or type(error).__name__


def dial_from(bind: Sequence[str] = ()) -> Dial:
    """Dials from the local addresses in `bind`, at most one of each family; from any when it is empty."""

    async def dial(address: str, port: int) -> trio.abc.Stream:
        family = [local for local in bind if (":" in local) == (":" in address)]
        if bind and not family:
            version = 6 if ":" in address else 4
            raise OSError(None, f"no source address for IPv{version} is configured")
        sock = trio.socket.socket(trio.socket.AF_INET6 if ":" in address else trio.socket.AF_INET)
        try:
            if family:
                await sock.bind((family[0], 0))
            await sock.connect((address, port))
        except BaseException:
            sock.close()
            raise
        return trio.SocketStream(sock)

    return dial


async def connect_any(addresses: Sequence[str], port: int, dial: Dial) -> tuple[trio.abc.Stream, str]:
    """The first connection that stands, and its address.

    The families take turns, so that none of them is left out where the other has many addresses.

    Raises:
        OSError: None does; the error of the first address that was called.
    """
    if len(addresses) == 1:
        return await dial(addresses[0], port), addresses[0]
    tried = in_turns(addresses)[:ADDRESSES_MAX]
    race = _Race(port, dial)
    try:
        async with trio.open_nursery() as nursery:
            for address in tried:
                gone = trio.Event()
                nursery.start_soon(race.run, address, gone, nursery.cancel_scope)
                with trio.move_on_after(STAGGER_S):
                    await gone.wait()
    except BaseException:
        # The caller was cancelled in the moment of the finish, and will never hear of the winner.
        if race.winner is not None:
            await trio.aclose_forcefully(race.winner[0])
        raise
    if race.winner is not None:
        return race.winner
    errors = [race.errors[address] for address in tried]
    raise next((error for error in errors if error.errno), errors[0])


def in_turns(addresses: Sequence[str]) -> list[str]:
    """The same with IPv6 and IPv4 by turns, that of the first address first (RFC 8305, section 4)."""
    families: dict[bool, list[str]] = {}
    for address in addresses:
        families.setdefault(":" in address, []).append(address)
    return [one for each in zip_longest(*families.values()) for one in each if one is not None]


class _Race:
    def __init__(self, port: int, dial: Dial) -> None:
        self._port = port
        self._dial = dial
        self.winner: tuple[trio.abc.Stream, str] | None = None
        self.errors: dict[str, OSError] = {}

    async def run(self, address: str, gone: trio.Event, race: trio.CancelScope) -> None:
        try:
            stream = await self._dial(address, self._port)
        except OSError as error:
            self.errors[address] = error
            gone.set()
            return
        if self.winner is None:
            self.winner = (stream, address)
            race.cancel()
        else:
            await trio.aclose_forcefully(stream)
