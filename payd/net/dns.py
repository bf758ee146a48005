"""Names to addresses, so that a name server that never answers costs nobody but those who ask for its names.

`getaddrinfo` cannot be cancelled: its thread goes on after everybody has stopped waiting. So there is one
look-up a host at a time, which all who want it share, and a bounded number of threads of our own. Who may
have one of the last threads depends on how the host's last look-up went.

Source: DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

import outcome
import trio

Resolve: TypeAlias = Callable[[str], Awaitable[list[str]]]
"""Every address of a host, as text; raises `DnsFailed`."""
LookUp: TypeAlias = Callable[[str], list[str]]
Answer: TypeAlias = list[str] | BaseException

# How long an asker waits; a look-up that took longer was of no use to anybody.
DNS_DEADLINE_S: Final = 5.0
# Threads that may hang on name servers at once, some tens of KiB each. The C library gives up by default
# after two tries of 5 s with each server of resolv.conf, so four new tarpits a second fill this.
LOOKUPS_MAX: Final = 128
CACHE_S: Final = 10.0
# A failure is good for all who ask at that moment, and not for a second attempt five seconds later.
FAILURE_S: Final = 2.0
CACHE_MAX: Final = 1024
# A longer answer is an attack or a mistake, and each of its addresses would be kept and vetted.
ADDRESSES_MAX: Final = 64


class _Answered(NamedTuple):
    """How a host's last look-up ended; an outcome can be unwrapped once, this is given to many."""

    at_s: float
    took_s: float
    answer: Answer

    def is_good(self) -> bool:
        """Whether who asks now need not ask again."""
        kept_s = CACHE_S if isinstance(self.answer, list) and self.answer else FAILURE_S
        return trio.current_time() - self.at_s < kept_s


class DnsFailed(Exception):
    """The host has no address, or nobody who knows it answers."""


def system_lookup(host: str) -> list[str]:
    """Every address by the system's resolver; blocks, as long as that takes."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Resolver:
    """Looks names up on threads of its own; an answer is good for `CACHE_S`, a failure for `FAILURE_S`.

    Hosts whose last look-up took longer than `DNS_DEADLINE_S` take at most half of the threads, and hosts
    that nothing is known of three quarters: neither old nor new tarpits shut out a host that answers.
    """

    def __init__(self, lookup: LookUp = system_lookup, lookups_max: int = LOOKUPS_MAX) -> None:
        self._lookup = lookup
        self._lookups_max = lookups_max
        self._running: dict[str, trio.Event] = {}
        self._last: dict[str, _Answered] = {}

    async def __call__(self, host: str) -> list[str]:
        """Every address of `host`, at most `ADDRESSES_MAX`; an address is its own answer.

        Waits as long as the look-up takes: put it under a deadline.

        Raises:
            DnsFailed: There is none, too many look-ups hang already, or the machine has no thread for one.
        """
        await trio.lowlevel.checkpoint()
        with contextlib.suppress(ValueError):
            return [str(ipaddress.ip_address(host))]
        while True:
            last = self._last.get(host)
            if last is not None and last.is_good():
                return _addresses(host, last.answer)
            await self._look_up(host).wait()

    def _look_up(self, host: str) -> trio.Event:
        if host in self._running:
            return self._running[host]
        if len(self._running) >= self._places(host):
            raise DnsFailed(f"{len(self._running)} look-ups are waiting for name servers")
        done = trio.Event()
        token = trio.lowlevel.current_trio_token()
        started_s = trio.current_time()

        def deliver(found: outcome.Outcome[list[str]]) -> None:
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(self._store, host, started_s, found)

        try:
            trio.lowlevel.start_thread_soon(lambda: self._lookup(host), deliver, f"dns {host}"[:15])
        except RuntimeError:
            raise DnsFailed("the machine gives no thread to look a name up") from None
        self._running[host] = done
        return done

    def _places(self, host: str) -> int:
        """How many look-ups may run when this one begins."""
        last = self._last.get(host)
        if last is None:
            return self._lookups_max * 3 // 4
        return self._lookups_max // 2 if last.took_s > DNS_DEADLINE_S else self._lookups_max

    def _store(self, host: str, started_s: float, found: outcome.Outcome[list[str]]) -> None:
        answer = found.error if isinstance(found, outcome.Error) else found.unwrap()[:ADDRESSES_MAX]
        self._last.pop(host, None)
        while len(self._last) >= CACHE_MAX:
            del self._last[next(iter(self._last))]
        now_s = trio.current_time()
        self._last[host] = _Answered(now_s, now_s - started_s, answer)
        self._running.pop(host).set()


def _addresses(host: str, answer: Answer) -> list[str]:
    if isinstance(answer, (OSError, UnicodeError)):
        raise DnsFailed(f"{host}: {answer}") from None
    if isinstance(answer, BaseException):
        raise answer
    if not answer:
        raise DnsFailed(f"{host} has no address")
    return answer
