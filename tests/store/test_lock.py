"""The lock on the data directory: one holder, known by its process id, gone with its process."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from payd.store.lock import LOCK_NAME, DataDirectoryBusy, check_free, hold_data_dir

ROOT = Path(__file__).parents[2]

HOLD = """
import sys
from payd.store.lock import hold_data_dir
with hold_data_dir(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_directory_is_made_for_its_owner_only(tmp_path: Path) -> None:
    with hold_data_dir(tmp_path / "deep" / "data") as directory:
        assert directory == tmp_path / "deep" / "data"
        assert directory.stat().st_mode & 0o777 == 0o700
        assert (directory / LOCK_NAME).stat().st_mode & 0o777 == 0o600
        assert (directory / LOCK_NAME).read_text() == f"{os.getpid()}\n"


def test_a_second_holder_hears_who_the_first_is_and_may_come_back_later(tmp_path: Path) -> None:
    with hold_data_dir(tmp_path):
        with (
            pytest.raises(DataDirectoryBusy, match="runs here already") as caught,
            hold_data_dir(tmp_path),
        ):
            pass
        assert caught.value.pid == os.getpid()

    with hold_data_dir(tmp_path):
        assert (tmp_path / LOCK_NAME).read_text() == f"{os.getpid()}\n"


def test_a_holder_that_has_not_written_its_number_is_another_process(tmp_path: Path) -> None:
    with hold_data_dir(tmp_path):
        (tmp_path / LOCK_NAME).write_text("")
        with pytest.raises(DataDirectoryBusy, match="another process") as caught, hold_data_dir(tmp_path):
            pass

    assert caught.value.pid is None


def test_who_comes_while_a_backup_is_made_hears_to_wait_for_that(tmp_path: Path) -> None:
    with hold_data_dir(tmp_path, "backup"):
        with pytest.raises(DataDirectoryBusy) as caught:
            check_free(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path} is held by a backup (process {os.getpid()}): try again once that is done"
        )
        (tmp_path / LOCK_NAME).write_text("7 party\n")
        with pytest.raises(DataDirectoryBusy, match="runs here already"):
            check_free(tmp_path)


def test_a_person_who_removes_the_file_lets_no_second_one_in(tmp_path: Path) -> None:
    with hold_data_dir(tmp_path):
        (tmp_path / LOCK_NAME).unlink()
        for _ in range(2):
            with pytest.raises(DataDirectoryBusy, match="another process"), hold_data_dir(tmp_path):
                pass
    with hold_data_dir(tmp_path):
        pass


def test_a_disk_without_locks_of_folders_is_held_by_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def refuse(handle: int, how: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.ENOLCK, "No locks available")
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", refuse)
    with hold_data_dir(tmp_path), pytest.raises(DataDirectoryBusy), hold_data_dir(tmp_path):
        pass


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DataDirectoryBusy, match=f"process {holder.pid}"), hold_data_dir(tmp_path):
            pass
        holder.kill()

    with hold_data_dir(tmp_path):
        assert (tmp_path / LOCK_NAME).read_text() == f"{os.getpid()}\n"


def test_a_disk_that_takes_no_more_is_let_go_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It turned read-only while the directory was held: who ends in order is not told of that once more."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with hold_data_dir(tmp_path):
        monkeypatch.setattr(os, "ftruncate", refuse)
    monkeypatch.undo()
    assert (tmp_path / LOCK_NAME).read_text() == f"{os.getpid()}\n", "which is nobody's now"
    with hold_data_dir(tmp_path):
        assert (tmp_path / LOCK_NAME).read_text() == f"{os.getpid()}\n"


def test_whether_it_is_free_can_be_asked_without_making_anything(tmp_path: Path) -> None:
    check_free(tmp_path / "data")
    assert not (tmp_path / "data").exists()
    with hold_data_dir(tmp_path / "data"), pytest.raises(DataDirectoryBusy):
        check_free(tmp_path / "data")
    check_free(tmp_path / "data")
