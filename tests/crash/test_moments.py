"""kill -9 at each step of an upgrade, a restore and a backup: either old or new, never between.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from payd.store.migrate import read_migrations
from tests.crash.process import ROOT
from tests.short import IS_SHORT
from tests.stored.fill import stored

pytestmark = [pytest.mark.crash, pytest.mark.real_time]

Died = list[tuple[str, str, str]]
"""For each step: its name, what was found after the death, and what was found once it had been done again."""

ENDS_MAX_S: Final = 300
NEWEST: Final = (len(read_migrations("office")), len(read_migrations("realm")))
ALL_OLD: Final = [folder.name for versions, folder in stored().items() if versions != NEWEST]
OLD: Final = [ALL_OLD[0], ALL_OLD[len(ALL_OLD) // 2], ALL_OLD[-1]] if IS_SHORT else ALL_OLD


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a killed process is all that is tried: in memory, if there is such a place."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


def deaths(what: str, folder: Path, names: list[str]) -> dict[str, Died]:
    """What came of a death at each step."""
    words = [sys.executable, "-m", "tests.crash.moments", what, str(folder), *names]
    env = {"PYTHONPATH": str(ROOT), "PAYD_TESTS": os.environ.get("PAYD_TESTS", "")}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, timeout=ENDS_MAX_S, check=False, env=env)
    assert done.returncode == 0, done.stderr.decode()
    return msgspec.json.decode(done.stdout, type=dict[str, Died])


def check(died: Died, *steps: str) -> None:
    """All was old up to some step and new from then on; and it could be done again each time."""
    found = [there for _, there, _ in died]
    assert found == ["old"] * found.count("old") + ["new"] * found.count("new"), died
    assert {"old", "new"} == set(found)
    assert {again for _, _, again in died} == {"new"}
    names = [name for name, _, _ in died]
    assert [step for step in steps if not any(name.startswith(step) for name in names)] == []


def test_an_upgrade_from_any_stored_database_leaves_the_old_or_the_new(folder: Path) -> None:
    found = deaths("upgrade", folder, OLD)

    assert list(found) == OLD
    for died in found.values():
        check(
            died,
            "sql PRAGMA wal_checkpoint",
            "open office.db",
            "open test.db",
            "sql COMMIT",
            "os.rename plan.json.new",
            "os.link office.db",
            "os.rename office.db",
            "os.link test.db",
            "os.rename test.db",
            "os.rename manifest.json.new",
            "os.remove plan.json",
            "os.rmdir .staged",
        )


def test_a_restore_over_what_is_there_leaves_the_old_or_the_new(folder: Path) -> None:
    [died] = deaths("restore", folder, OLD[-1:]).values()

    check(
        died,
        "sql PRAGMA wal_checkpoint",
        "os.link test.db",
        "os.rename seal.key",
        "os.remove live.db",
        "os.rename manifest.json.new",
    )


def test_a_restore_on_a_disk_without_links_leaves_the_old_or_the_new(folder: Path) -> None:
    [died] = deaths("restore-without-links", folder, OLD[-1:]).values()

    check(
        died,
        "open test.db-wal.new",
        "open test.db.new",
        "os.chmod test.db.new",
        "os.rename test.db.new",
        "os.remove test.db-wal",
        "os.remove live.db",
    )


def test_a_backup_is_whole_or_not_there(folder: Path) -> None:
    [died] = deaths("backup", folder, OLD[-1:]).values()

    check(died, "open office.db", "open seal.key", "os.rename manifest.json.new", "os.rename .payd-backup")
