"""payd on a disk that takes its time: every commit waits a moment before it is made.

A kill seldom falls between what is done and what is durable when that takes a tenth of a millisecond. Here it
often does, and whoever is told something in between is told too early.
"""

from __future__ import annotations

import time
from random import SystemRandom
from typing import Any, Final

import payd.store.db
from payd.cli import main
from payd.store.batch import run_batch

WAIT_MAX_S: Final = 0.03


def run_batch_late(*args: Any) -> Any:
    """`run_batch`, a moment later. It runs on the writer's thread, where a disk would make it wait."""
    time.sleep(SystemRandom().random() * WAIT_MAX_S)
    return run_batch(*args)


if __name__ == "__main__":
    setattr(payd.store.db, "run_batch", run_batch_late)  # noqa: B010  # no attribute that mypy knows as exported
    main()
