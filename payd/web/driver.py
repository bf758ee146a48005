"""Requests that wait for nothing but a commit, side by side in one task.

In a task of its own each of them costs two turns of the scheduler: one to begin, one to go on once it is on
the disk. Here they go on together, as their commits do.

Source: DESIGN.md, "2. The stack".
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar

import outcome
import trio

from payd.store.batch import HANDED_OVER, Step

T = TypeVar("T")


class WaitsForMore(RuntimeError):
    """A coroutine that is driven waited for something other than a step."""


class Driver(Generic[T]):
    """Runs coroutines that wait for steps of the store alone; `run` runs beside it."""

    def __init__(self) -> None:
        self._context = copy_context()
        self._context.run(HANDED_OVER.set, True)
        self._stored: list[Callable[[], None]] = []
        self._woken = trio.Event()

    def start(
        self, coroutine: Coroutine[Any, Any, T], tell: Callable[[outcome.Outcome[T]], None]
    ) -> outcome.Outcome[T] | None:
        """Run it here and now.

        Args:
            coroutine: It waits for nothing but steps.
            tell: Given what came of it, where it had to wait; must not raise.

        Returns:
            What came of it; None where it waits.
        """
        return self._go_on(coroutine, tell, outcome.Value(None))

    async def run(self) -> None:
        """Go on with those whose steps are stored, for ever."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            stored, self._stored = self._stored, []
            for go_on in stored:
                go_on()

    def _go_on(
        self,
        coroutine: Coroutine[Any, Any, T],
        tell: Callable[[outcome.Outcome[T]], None],
        sent: outcome.Outcome[Any],
    ) -> outcome.Outcome[T] | None:
        send: Callable[[Any], object] = sent.send
        try:
            step = self._context.run(send, coroutine)
            if not isinstance(step, Step):
                coroutine.close()  # raises where it goes on waiting
                raise WaitsForMore(f"{coroutine} waits for more than a commit")
        except StopIteration as done:
            return outcome.Value(done.value)
        except Exception as bug:  # noqa: BLE001  # told to who asked
            return outcome.Error(bug)
        step.then = partial(self._note, coroutine, tell)
        return None

    def _note(
        self,
        coroutine: Coroutine[Any, Any, T],
        tell: Callable[[outcome.Outcome[T]], None],
        result: outcome.Outcome[Any],
    ) -> None:
        """A step is stored, or not; the committer goes on before it is told."""

        def go_on() -> None:
            ended = self._go_on(coroutine, tell, result)
            if ended is not None:
                tell(ended)

        self._stored.append(go_on)
        self._woken.set()
