"""The machine's part of the metrics page: which payd this is, the disk it writes to, and its last backup.

Memory, file descriptors and the garbage collector come from the library, under everybody's names.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from payd import __version__
from payd.clock import system_wall_ms
from payd.store.backup import LAST_BACKUP

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


def machine_families(data_dir: Path | None) -> Iterator[Metric]:
    """Every family that has something to show.

    Args:
        data_dir: Where the server's files are; None: it has none.
    """
    from prometheus_client.metrics_core import GaugeMetricFamily as Gauge

    info = Gauge("payd_info", "Which payd this is; the number is always 1.", labels=["version", "python"])
    info.add_metric([__version__, platform.python_version()], 1)
    yield info
    if data_dir is None:
        return
    if (free := free_bytes(data_dir)) is not None:
        yield Gauge(
            "payd_disk_free_bytes",
            "Space that is left for the data directory. Worry below 1e9: on a full disk no payment moves.",
            value=free,
        )
    if (age_s := backup_age_s(data_dir, system_wall_ms())) is not None:
        yield Gauge(
            "payd_backup_age_seconds",
            "Since the last whole backup; absent before the first. Worry above 172800 (2 days).",
            value=age_s,
        )


def backup_age_s(data_dir: Path, now_ms: int) -> float | None:
    """Seconds since the last whole backup; None if there was none.

    Args:
        data_dir: Where a backup leaves its note.
        now_ms: Unix milliseconds by the wall.
    """
    try:
        made_s = (data_dir / LAST_BACKUP).stat().st_mtime
    except OSError:
        return None
    return max(0.0, now_ms / 1000 - made_s)


def free_bytes(data_dir: Path | None) -> int | None:
    """Space that is left for the data directory; None: there is none, or the disk does not answer."""
    try:
        return None if data_dir is None else shutil.disk_usage(data_dir).free
    except OSError:
        return None
