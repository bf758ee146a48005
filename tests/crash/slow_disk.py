"""payd on a disk that takes its time: every commit waits a moment before it is made.

A kill seldom falls between what is done and what is durable when that takes a tenth of a millisecond. Here it
often does, and whoever is told something in between is told too early.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import SystemRandom
from typing import Any, Final

import payd.store.writer
from payd.cli import main
from payd.store.batch import commit_steps, run_batch

WAIT_MAX_S: Final = 0.03


def late(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, a moment later. It runs on the writer's thread, where a disk would make it wait."""

    def wait_and_run(*args: Any) -> Any:
        time.sleep(SystemRandom().random() * WAIT_MAX_S)
        return function(*args)

    return wait_and_run


if __name__ == "__main__":
    for function in (run_batch, commit_steps):
        setattr(payd.store.writer, function.__name__, late(function))
    main()
