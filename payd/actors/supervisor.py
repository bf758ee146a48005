"""Supervision: restart with backoff what crashed, go on beside it, and work that outlives whoever asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import outcome
import structlog
import trio

from payd.core.errors import InternalError, OutcomeUnknown, StoreUnavailable

log = structlog.get_logger("payd.supervisor")

T = TypeVar("T")


# More doublings reach any last delay, and some more a number too large for seconds.
DOUBLINGS_MAX: Final = 60


@dataclass(slots=True, frozen=True)
class Backoff:
    """Doubling delays between a first and a last, in seconds."""

    first_s: float
    last_s: float

    def delay_s(self, failures: int) -> float:
        """The delay after that many failures in a row, counted from 1."""
        return float(min(self.first_s * 2 ** min(failures - 1, DOUBLINGS_MAX), self.last_s))


RESTART: Final = Backoff(first_s=0.5, last_s=60.0)
# What ran this long starts over with short delays.
STEADY_S: Final = 60.0


async def keep_running(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run a task for ever: when it raises an exception or ends, log it and start it again.

    A run that lasted `STEADY_S` clears the count of failures. Cancellation and errors that are not
    `Exception` pass through.
    """
    failures = 0
    while True:
        started_s = trio.current_time()
        try:
            await run()
            problem: BaseException | None = None
        except Exception as crash:
            problem = crash
        except BaseExceptionGroup as crashes:
            problem, fatal = crashes.split(Exception)
            if fatal is not None:
                raise
        failures = 1 if trio.current_time() - started_s >= STEADY_S else failures + 1
        delay_s = RESTART.delay_s(failures)
        log.error("task.restarts", task=name, failures=failures, delay_s=delay_s, exc_info=problem)
        await trio.sleep(delay_s)


async def do_all(chores: Mapping[str, Callable[[], Awaitable[int]]]) -> dict[str, int]:
    """Do chores one after the other, and log the one that crashes; what the others counted.

    Raises:
        StoreUnavailable, OutcomeUnknown: Nothing can be stored now, by no chore.
    """
    counts: dict[str, int] = {}
    for name, chore in chores.items():
        try:
            counts[name] = await chore()
        except (StoreUnavailable, OutcomeUnknown):
            raise
        except Exception as crash:
            log.error("chore.crashed", chore=name, exc_info=crash)
    return counts


async def in_background(nursery: trio.Nursery, work: Callable[[], Awaitable[T]]) -> T:
    """Run work in the nursery and wait for its result.

    When the caller is cancelled the work goes on to its end, and its result is dropped.

    Raises:
        InternalError: The nursery was cancelled under the work.
    """
    waiting: list[trio.lowlevel.Task | None] = [trio.lowlevel.current_task()]

    async def run() -> None:
        result: outcome.Outcome[T] = outcome.Error(InternalError("The server is stopping."))
        try:
            result = outcome.Value(await work())
        except Exception as error:
            result = outcome.Error(error)
        finally:
            if waiting[0] is not None:
                trio.lowlevel.reschedule(waiting[0], result)

    def abort(_: object) -> trio.lowlevel.Abort:
        waiting[0] = None
        return trio.lowlevel.Abort.SUCCEEDED

    nursery.start_soon(run)
    found: T = await trio.lowlevel.wait_task_rescheduled(abort)
    return found
