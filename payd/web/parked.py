"""Connections that wait for their next request, side by side in an epoll of their own.

A task that waits for its socket costs a call to the kernel and a turn of the scheduler for each request. Here
a connection is registered once, edge-triggered, and one task reads whatever comes on any of them. What can be
answered without waiting is answered there and then; everything else goes to the connection's own task.

Where the system has no epoll, each task waits for itself.

Source: DESIGN.md, "2. The stack"; epoll(7), "Level-triggered and edge-triggered".
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Final

import outcome
import trio

from payd.store.db import COMPANY
from payd.web.wire import CHUNK_BYTES, Wire, receive_now

# So many are read before others have their turn: as many creations as a commit waits for. It begins while the
# next are read.
AT_ONCE: Final = COMPANY

AnswerNow = Callable[[Wire, bytes], bytes | None]
"""Deals with what came, without waiting. Returns what the connection's own task has to deal with, or None."""


class Parked:
    """The connections that wait.

    Args:
        answer_now: Is given what came first. What it raises, its connection's task raises.
    """

    def __init__(self, answer_now: AnswerNow) -> None:
        self._answer_now = answer_now
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._known: dict[int, Wire] = {}
        self._numbers: dict[Wire, int] = {}
        self._tasks: dict[Wire, trio.lowlevel.Task] = {}
        # Answered later, and not read until then.
        self._held: set[Wire] = set()
        # Something came while their tasks were at work: the kernel will not say so again.
        self._ready: set[Wire] = set()
        # Nothing comes after what is there: nor will it say that again.
        self._over: set[Wire] = set()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._tasks)

    async def run(self) -> None:
        """Read what comes, for ever; where there is no epoll, there is nothing to do."""
        if (epoll := self._epoll) is None:
            return
        try:
            while True:
                await trio.lowlevel.wait_readable(epoll.fileno())
                for number, events in epoll.poll(0, AT_ONCE):
                    if (wire := self._known.get(number)) is not None:
                        if events & select.EPOLLRDHUP:
                            self._over.add(wire)
                        self._read(wire)
        finally:
            epoll.close()

    async def receive(self, wire: Wire) -> bytes:
        """What comes next on a connection, and was not answered; empty at its end.

        Raises:
            trio.BrokenResourceError, trio.ClosedResourceError: It is gone, or was closed here.
        """
        if self._epoll is None:
            return await wire.receive_some(CHUNK_BYTES)
        if wire.socket.fileno() < 0:
            raise trio.ClosedResourceError("closed here")
        if wire not in self._numbers:
            number = self._numbers[wire] = wire.socket.fileno()
            self._known[number] = wire
            # Says so if something is there already.
            self._epoll.register(number, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
        elif wire in self._ready or wire in self._over:
            self._ready.discard(wire)
            await trio.lowlevel.checkpoint()
            data = receive_now(wire.socket, CHUNK_BYTES)
            if data is not None:
                return self._whole(wire, data)
        self._tasks[wire] = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            del self._tasks[wire]
            return trio.lowlevel.Abort.SUCCEEDED

        data = await trio.lowlevel.wait_task_rescheduled(abort)
        assert isinstance(data, bytes), "what `_wake` gave"
        return data

    def hold(self, wire: Wire) -> None:
        """What comes next on a connection waits until `go_on`."""
        self._held.add(wire)

    def go_on(self, wire: Wire, left: bytes | Exception | None) -> None:
        """Read it again; `left` is what its task has to deal with first, or to raise."""
        self._held.discard(wire)
        if isinstance(left, Exception):
            self._wake(wire, outcome.Error(left))
        elif left is not None:
            self._wake(wire, outcome.Value(left))
        elif wire in self._ready or wire in self._over:
            self._ready.discard(wire)
            self._read(wire)

    def leave(self, wire: Wire) -> None:
        """A connection does not come back here."""
        self._held.discard(wire)
        self._ready.discard(wire)
        self._over.discard(wire)
        number = self._numbers.pop(wire, None)
        if number is None or self._known.get(number) is not wire:
            return  # closed under its task, and its number is or was another's since
        del self._known[number]
        if self._epoll is not None and not self._epoll.closed and wire.socket.fileno() == number:
            self._epoll.unregister(number)

    def _read(self, wire: Wire) -> None:
        if wire not in self._tasks or wire in self._held:
            self._ready.add(wire)
            return
        while True:
            try:
                data = receive_now(wire.socket, CHUNK_BYTES)
                if data is None:
                    return
                # Behind a full chunk there may be more, of which nobody tells: its task reads on.
                full = len(data) == CHUNK_BYTES
                left = self._whole(wire, data) if full else self._answer_now(wire, data)
            except Exception as bug:  # noqa: BLE001  # its own task's to raise: all the others wait here
                return self._wake(wire, outcome.Error(bug))
            if left is not None:
                return self._wake(wire, outcome.Value(left))
            if wire not in self._over or wire not in self._tasks or wire in self._held:
                return

    def _whole(self, wire: Wire, data: bytes) -> bytes:
        """What was read; that there may be more is remembered, as the kernel has told of it already."""
        if len(data) == CHUNK_BYTES:
            self._ready.add(wire)
        return data

    def _wake(self, wire: Wire, found: outcome.Outcome[bytes]) -> None:
        task = self._tasks.pop(wire, None)
        if task is not None:  # else it was ended while it was answered
            trio.lowlevel.reschedule(task, found)
