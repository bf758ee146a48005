"""aiosqlite's public API awaited from Trio, without asyncio's loop.

Of asyncio, aiosqlite 0.22 uses a future of `get_event_loop()`, and that future's loop to call back from its
thread. So a loop with two methods, registered for Trio's thread, is all it needs. Everything else that a loop
or a future has refuses with `UnsupportedByBridge`: an aiosqlite that wants more says so instead of hanging.

Source: DESIGN.md, "2. The stack".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, Final, NoReturn, TypeVarTuple

import outcome
import trio

Ts = TypeVarTuple("Ts")

# Whether this run has its bridge; two databases share one.
_OPEN: Final = trio.lowlevel.RunVar("payd.store.bridge", default=False)

_OFFERED: Final = {"create_future", "call_soon_threadsafe"}
_REFUSED: Final = {name for name in vars(asyncio.AbstractEventLoop) if name[0] != "_"} - _OFFERED


class UnsupportedByBridge(RuntimeError):
    """Something used more of asyncio than aiosqlite did when this was written."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is not part of the bridge between aiosqlite and Trio (payd/store/bridge.py). "
            "Either aiosqlite was upgraded past the tested series, or something else expects asyncio here."
        )


class _Future:
    """What aiosqlite awaits: one result from its thread, for one task.

    A waiter that is cancelled leaves at once; the call still runs, and its result is dropped when it comes.
    """

    __slots__ = ("_loop", "_outcome", "_task")

    def __init__(self, loop: _TrioLoop) -> None:
        self._loop = loop
        self._task: trio.lowlevel.Task | None = None
        self._outcome: outcome.Outcome[Any] | None = None

    def get_loop(self) -> _TrioLoop:
        return self._loop

    def done(self) -> bool:
        return self._outcome is not None

    def set_result(self, result: object) -> None:
        self._settle(outcome.Value(result))

    def set_exception(self, error: BaseException) -> None:
        self._settle(outcome.Error(error))

    def _settle(self, settled: outcome.Outcome[Any]) -> None:
        assert self._outcome is None, "a future is settled once"
        self._outcome = settled
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task, settled)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        if self._outcome is not None:
            await trio.lowlevel.checkpoint()
            return self._outcome.unwrap()
        assert self._task is None, "a future has one waiter"
        self._task = trio.lowlevel.current_task()

        def abandon(_: object) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(abandon)

    def __getattr__(self, name: str) -> NoReturn:
        raise UnsupportedByBridge(f"asyncio.Future.{name}")


class _TrioLoop(asyncio.AbstractEventLoop):
    """The two methods of an event loop that aiosqlite calls, on Trio."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()

    def __getattribute__(self, name: str) -> Any:
        if name in _REFUSED:
            raise UnsupportedByBridge(f"AbstractEventLoop.{name}")
        return super().__getattribute__(name)

    def create_future(self) -> Any:
        return _Future(self)

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Any:
        """Run `callback` on Trio's thread, soon.

        Raises:
            RuntimeError: Trio's run is over; asyncio's loops say it with the same class.
        """
        try:
            self._token.run_sync_soon(callback, *args)
        except trio.RunFinishedError:
            raise RuntimeError("Event loop is closed: Trio's run is over") from None


@contextmanager
def bridge() -> Iterator[None]:
    """Let aiosqlite be awaited in this Trio run; opened once, in `main()`, around every database.

    While it is open, asyncio's loop of this thread is ours; afterwards the thread has none, as before. Inside
    another bridge this does nothing.

    Raises:
        RuntimeError: Not in a Trio run.
    """
    if _OPEN.get():
        yield
        return
    asyncio.set_event_loop(_TrioLoop())  # type: ignore[abstract]  # only in the stubs; see _REFUSED
    _OPEN.set(True)
    try:
        yield
    finally:
        _OPEN.set(False)
        asyncio.set_event_loop(None)


def check_bridge() -> None:
    """Refuse to go on without a bridge: aiosqlite would make an asyncio loop, and fail at its first await.

    Raises:
        RuntimeError: No bridge is open in this run.
    """
    if not _OPEN.get():
        raise RuntimeError("no bridge is open: write `with payd.store.bridge.bridge():` around it, in main()")
