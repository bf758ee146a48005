"""What root makes in a data directory belongs to whom that belongs, as whom a server is to read it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from payd.store.backup import Keystore, make_backup
from payd.store.durable import make_file, write_file
from payd.store.lock import hold_data_dir
from payd.store.migrate import bring_up_to_date
from payd.store.restore import restore
from payd.store.seal import load_key
from payd.store.upgrade import upgrade
from tests.stored.fill import stored, unpack

NOW_MS = 1_790_000_000_000
OWNER = (4321, 8765)


class Root:
    """Acts as root in a folder of another user, and notes what it gives away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.given: set[int] = set()
        self._mine = {path.stat().st_ino for path in folder.rglob("*")}
        self._folder = folder
        real_stat = Path.stat

        def stat(path: Path, **options: bool) -> os.stat_result:
            found = real_stat(path, **options)
            if path == folder or found.st_ino in self.given:
                return os.stat_result((*found[:4], *OWNER, *found[6:]))
            return found

        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(os, "fchown", self._give)
        monkeypatch.setattr(Path, "stat", stat)

    def _give(self, handle: int, *owner: int) -> None:
        if owner == OWNER:
            self.given.add(os.fstat(handle).st_ino)

    def kept(self) -> set[str]:
        """What was made and not given away."""
        made = {path: path.lstat().st_ino for path in self._folder.rglob("*")}
        return {path.name for path, inode in made.items() if inode not in self.given | self._mine}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    unpack(stored()[min(stored())], tmp_path / "data")
    (tmp_path / "data" / "deep").mkdir()
    (tmp_path / "data" / "deep" / "payd.toml").write_text("")
    return tmp_path / "data"


def test_a_restore_and_what_it_replaced(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_backup(data, data.parent / "backup", Keystore(), with_keys=True, now_ms=NOW_MS)
    (data / "deep" / "payd.toml").unlink()
    (data / "deep").rmdir()
    root = Root(monkeypatch, data)
    restore(data.parent / "backup", data, overwrite=True, now_ms=NOW_MS)
    assert root.kept() == set()


def test_an_upgrade_and_its_snapshot(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Root(monkeypatch, data)
    assert upgrade(data, NOW_MS) is not None
    assert root.kept() == set()


def test_a_house_that_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Root(monkeypatch, tmp_path)
    with hold_data_dir(tmp_path / "deep" / "data") as data:
        bring_up_to_date(data / "office.db", "office")
        load_key(data / "seal.key")
        write_file(data / "note", b"")
    assert root.kept() == set()


def test_where_a_disk_knows_of_no_owners_it_stays_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", refuse)
    make_file(tmp_path / "a")
    assert (tmp_path / "a").exists()
