"""What the machine says of a process and of itself, from /proc."""

from __future__ import annotations

import os
import platform
import sqlite3
from importlib.metadata import version
from pathlib import Path
from typing import Final

LIBRARIES: Final = (
    *("trio", "hypercorn", "quart", "quart-trio", "msgspec", "aiosqlite", "h11", "wsproto"),
    *("fastapi", "uvicorn", "uvloop", "httptools"),
)


def cpu_s(pid: int) -> float:
    """Seconds that the process has been on a core so far, all threads, to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def resident_bytes(pid: int) -> int:
    """Memory of the process that is in RAM."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_descriptors(pid: int) -> int:
    """Files, sockets and the rest that the process holds open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def threads(pid: int) -> int:
    """Of the process."""
    return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())


def describe() -> str:
    """The machine and the versions, on one line."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return (
        f"{os.cpu_count()} cores ({model}), load {os.getloadavg()[0]:.1f} at the start;"
        f" Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {libraries}"
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
