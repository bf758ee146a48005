"""Names to addresses, so that a name server that never answers costs nobody but those who ask for its names.

`getaddrinfo` cannot be cancelled: its thread goes on after everybody has stopped waiting. So there is one
look-up a host at a time, which all who want it share, and a bounded number of threads of our own.

Source: DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import outcome
import trio

Resolve: TypeAlias = Callable[[str], Awaitable[list[str]]]
"""Every address of a host, as text; raises `DnsFailed`."""
LookUp: TypeAlias = Callable[[str], list[str]]
Answer: TypeAlias = list[str] | BaseException

# Threads that may hang on name servers at once; each costs a stack.
LOOKUPS_MAX: Final = 32
CACHE_S: Final = 10.0
CACHE_MAX: Final = 1024


class DnsFailed(Exception):
    """The host has no address, or nobody who knows it answers."""


def system_lookup(host: str) -> list[str]:
    """Every address by the system's resolver; blocks, as long as that takes."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Resolver:
    """Looks names up on threads of its own; an answer is good for `CACHE_S`."""

    def __init__(self, lookup: LookUp = system_lookup, lookups_max: int = LOOKUPS_MAX) -> None:
        self._lookup = lookup
        self._lookups_max = lookups_max
        self._running: dict[str, trio.Event] = {}
        self._answers: dict[str, tuple[float, Answer]] = {}

    async def __call__(self, host: str) -> list[str]:
        """Every address of `host`; an address is its own answer.

        Waits as long as the look-up takes: put it under a deadline.

        Raises:
            DnsFailed: There is none, or too many look-ups hang already.
        """
        await trio.lowlevel.checkpoint()
        with contextlib.suppress(ValueError):
            return [str(ipaddress.ip_address(host))]
        while True:
            answer = self._answers.get(host)
            if answer is not None and trio.current_time() - answer[0] < CACHE_S:
                return _addresses(host, answer[1])
            await self._look_up(host).wait()

    def _look_up(self, host: str) -> trio.Event:
        if host in self._running:
            return self._running[host]
        if len(self._running) >= self._lookups_max:
            raise DnsFailed(f"{len(self._running)} look-ups are waiting for name servers")
        done = self._running[host] = trio.Event()
        token = trio.lowlevel.current_trio_token()

        def deliver(found: outcome.Outcome[list[str]]) -> None:
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(self._store, host, found)

        trio.lowlevel.start_thread_soon(lambda: self._lookup(host), deliver, f"dns {host}"[:15])
        return done

    def _store(self, host: str, found: outcome.Outcome[list[str]]) -> None:
        # An outcome can be unwrapped once, an answer is given to many.
        answer = found.error if isinstance(found, outcome.Error) else found.unwrap()
        self._answers.pop(host, None)
        while len(self._answers) >= CACHE_MAX:
            del self._answers[next(iter(self._answers))]
        self._answers[host] = (trio.current_time(), answer)
        self._running.pop(host).set()


def _addresses(host: str, answer: Answer) -> list[str]:
    if isinstance(answer, (OSError, UnicodeError)):
        raise DnsFailed(f"{host}: {answer}") from None
    if isinstance(answer, BaseException):
        raise answer
    if not answer:
        raise DnsFailed(f"{host} has no address")
    return answer
