"""Which payd it is, the disk, and the last backup; what is not there is absent."""

from __future__ import annotations

import os
from pathlib import Path

from payd import __version__
from payd.store.backup import LAST_BACKUP
from payd.web.metrics_machine import backup_age_s, machine_families


def numbers(data_dir: Path | None) -> dict[str, float]:
    return {family.name: family.samples[0].value for family in machine_families(data_dir)}


def test_the_version_is_a_label_and_without_a_folder_nothing_else_is_said() -> None:
    [info] = list(machine_families(None))
    assert info.samples[0].labels["version"] == __version__
    assert info.samples[0].value == 1


def test_the_disk_is_that_of_the_data(tmp_path: Path) -> None:
    assert numbers(tmp_path)["payd_disk_free_bytes"] > 0
    assert "payd_disk_free_bytes" not in numbers(tmp_path / "gone")


def test_a_backup_grows_old_and_before_the_first_nothing_is_said(tmp_path: Path) -> None:
    assert backup_age_s(tmp_path, 5_000) is None
    assert "payd_backup_age_seconds" not in numbers(tmp_path)
    note = tmp_path / LAST_BACKUP
    note.write_text("{}")
    os.utime(note, (3, 3))
    assert backup_age_s(tmp_path, 5_000) == 2
    assert backup_age_s(tmp_path, 1_000) == 0
    assert numbers(tmp_path)["payd_backup_age_seconds"] > 1e6
