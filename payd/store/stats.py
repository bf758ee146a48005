"""What a database did and how large it is, for metrics.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from payd.core.histogram import Histogram
from payd.store.copying import log_of

# Seconds: a fast disk's fsync, a slow one's, and what nobody should wait for.
COMMIT_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class StoreStats(msgspec.Struct, frozen=True):
    """What the database did since it was opened, for metrics.

    Attributes:
        commits: Transactions that were committed.
        steps: Steps in them, also those that were refused.
        failures: Batches that failed as a whole.
        staged: Steps that wait for the next transaction.
        commit_s: How long transactions took, in seconds, with their fsync.
        checkpoints: Checkpoints of the WAL.
        file_bytes: Of the database file; None: it cannot be seen.
        log_bytes: Of its write-ahead log; 0 where there is none.
    """

    commits: int
    steps: int
    failures: int
    staged: int
    commit_s: Histogram
    checkpoints: int
    file_bytes: int | None
    log_bytes: int


def bytes_of(path: Path) -> int | None:
    """The size of a file; None: it cannot be seen."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def log_bytes_of(path: Path) -> int:
    """The size of a database's write-ahead log, wherever that lies; 0 where there is none."""
    return bytes_of(log_of(path)) or 0
