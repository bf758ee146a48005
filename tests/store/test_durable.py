"""Files that are whole or not there, and folders that the dead leave to the living."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from payd.store.durable import (
    CHUNK_BYTES,
    DraftBusy,
    DraftForeign,
    copy_file,
    draft_folder,
    hash_file,
    make_folder,
    write_file,
)
from tests.store.disk import Disk


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_written_file_is_its_owners_and_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "a"
    (tmp_path / "a.new").write_text("left by a dead process")
    for data in (b"one", b"two"):
        write_file(path, data)
        assert (path.read_bytes(), mode_of(path)) == (data, 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_no_secret_can_be_for_others_to_read(tmp_path: Path) -> None:
    write_file(tmp_path / "a", b"one", 0o644)
    assert mode_of(tmp_path / "a") == 0o644 & ~umask()


def umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now


def test_a_copy_says_what_was_read_and_overwrites_nothing(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    data = os.urandom(CHUNK_BYTES + 1)
    source.write_bytes(data)
    seen: list[int] = []

    assert copy_file(source, target, seen.append) == (len(data), hashlib.sha256(data).hexdigest())
    assert hash_file(target) == (len(data), hashlib.sha256(data).hexdigest())
    assert (target.read_bytes(), mode_of(target), seen) == (data, 0o600, [CHUNK_BYTES, CHUNK_BYTES + 1])
    with pytest.raises(FileExistsError):
        copy_file(source, target)


def test_folders_that_are_made_are_their_owners(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert {mode_of(tmp_path / "a"), mode_of(tmp_path / "a" / "b")} == {0o700}


def test_folders_that_are_made_outlive_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, tmp_path)
    make_folder(tmp_path / "a" / "b")
    assert disk.unsynced == set()
    write_file(tmp_path / "a" / "b" / "c", b"one")
    assert disk.before("a/b/c.new becomes a/b/c") == {"name a/b/c.new"}, "its bytes come before its name"
    assert disk.unsynced == set()


def test_a_folder_is_made_in_one_that_can_not_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "no", str(path))

    monkeypatch.setattr("payd.store.durable.sync_folder", refuse)
    make_folder(tmp_path / "a")
    assert (tmp_path / "a").is_dir()


def test_a_draft_is_gone_after_the_block_unless_it_was_renamed(tmp_path: Path) -> None:
    with draft_folder(tmp_path / "draft") as draft:
        (draft / "file").touch()
    assert list(tmp_path.iterdir()) == []
    with draft_folder(tmp_path / "draft") as draft:
        draft.rename(tmp_path / "kept")
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]


def test_a_draft_of_the_living_is_left_alone_and_one_of_the_dead_swept(tmp_path: Path) -> None:
    path = tmp_path / "draft"
    program = (
        "import sys, os, signal; from pathlib import Path; from payd.store.durable import draft_folder\n"
        "with draft_folder(Path(sys.argv[1])) as draft:\n"
        "    (draft / 'sub').mkdir(); (draft / 'file').touch()\n"
        "    print('there', flush=True); sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", program, str(path)]
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PYTHONPATH": root}
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"there\n"
        with pytest.raises(DraftBusy, match="Wait until"), draft_folder(path):
            pass
        assert (path / "file").exists()
        other.kill()
    with draft_folder(path) as draft:
        assert list(draft.iterdir()) == []


@pytest.mark.parametrize("put", ["link", "link to nothing", "file", "folder of another user"])
def test_what_somebody_else_put_in_the_place_of_a_draft_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: str
) -> None:
    path, other = tmp_path / "draft", tmp_path / "other"
    (other / "sub").mkdir(parents=True)
    if put == "link":
        path.symlink_to(other)
    elif put == "link to nothing":
        path.symlink_to("nowhere")
    elif put == "file":
        path.touch()
    else:
        path.mkdir(mode=0o700)
        (path / "file").touch()
        own = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DraftForeign, match="move it away"), draft_folder(path):
        pass
    assert sorted(tmp_path.rglob("*")) == before
    assert os.path.lexists(path)


def test_a_new_draft_is_taken_also_from_a_disk_that_gives_it_to_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with draft_folder(tmp_path / "draft") as draft:
        assert mode_of(draft) == 0o700


def test_a_draft_that_was_there_is_its_owners_before_anything_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "draft"
    path.mkdir()
    path.chmod(0o777)
    with draft_folder(path):
        assert mode_of(path) == 0o700


def test_a_draft_that_got_its_name_meanwhile_is_not_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that was opened is renamed before it is locked, and a third process begins under its name."""
    path, kept = tmp_path / "draft", tmp_path / "kept"

    def lock(_handle: int, _how: int) -> None:
        (path / "wanted").touch()
        path.rename(kept)
        path.mkdir()
        (path / "of another").touch()

    monkeypatch.setattr("payd.store.durable.fcntl.flock", lock)
    with pytest.raises(DraftBusy), draft_folder(path):
        pass
    assert (kept / "wanted").exists()
    assert (path / "of another").exists()


def test_a_link_that_takes_the_name_of_a_renamed_draft_is_not_followed(tmp_path: Path) -> None:
    path, kept = tmp_path / "draft", tmp_path / "kept"
    with draft_folder(path):
        (path / "wanted").touch()
        path.rename(kept)
        path.symlink_to(kept)
    assert (kept / "wanted").exists()
