"""Requests that wait for nothing but a commit, side by side in one task.

In a task of its own each of them costs two turns of the scheduler: one to begin, one to go on once it is on
the disk. Here they go on together, as their commits do.

Source: DESIGN.md, "2. The stack".
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import outcome
import trio

from payd.store.batch import HANDED_OVER, Step

T = TypeVar("T")
Tell: TypeAlias = Callable[[T | Exception], None]


class WaitsForMore(RuntimeError):
    """A coroutine that is driven waited for something other than a step."""


class Driver(Generic[T]):
    """Runs coroutines that wait for steps of the store alone; `run` runs beside it."""

    def __init__(self) -> None:
        self._context = copy_context()
        self._context.run(HANDED_OVER.set, True)
        self._stored: list[tuple[Coroutine[Any, Any, T], Tell[T], outcome.Outcome[Any]]] = []
        self._woken = trio.Event()

    def start(self, coroutine: Coroutine[Any, Any, T], tell: Tell[T]) -> T | Exception | None:
        """Run it here and now.

        Args:
            coroutine: It waits for nothing but steps.
            tell: Given what it came to, or what it raised, where it had to wait; must not raise.

        Returns:
            What it came to, or what it raised; None where it waits.
        """
        return self._go_on(coroutine, tell, coroutine.send, None)

    async def run(self) -> None:
        """Go on with those whose steps are stored, for ever."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            stored, self._stored = self._stored, []
            for coroutine, tell, result in stored:
                ended = self._go_on(coroutine, tell, result.send, coroutine)
                if ended is not None:
                    tell(ended)

    def _go_on(
        self, coroutine: Coroutine[Any, Any, T], tell: Tell[T], send: Callable[[Any], Any], what: object
    ) -> T | Exception | None:
        try:
            step = self._context.run(send, what)
            if not isinstance(step, Step):
                coroutine.close()  # raises where it goes on waiting
                raise WaitsForMore(f"{coroutine} waits for more than a commit")
        except StopIteration as done:
            found: T = done.value
            return found
        except Exception as bug:  # noqa: BLE001  # told to who asked
            return bug
        step.then = partial(self._note, coroutine, tell)
        return None

    def _note(self, coroutine: Coroutine[Any, Any, T], tell: Tell[T], result: outcome.Outcome[Any]) -> None:
        """A step is stored, or not; the committer goes on before it is told."""
        self._stored.append((coroutine, tell, result))
        self._woken.set()
