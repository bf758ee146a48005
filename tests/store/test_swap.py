"""Files that are replaced as one, with the old ones kept; `crash/test_moments.py` kills it at each step."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from payd.store import durable
from payd.store.swap import STAGE, Swap, commit, drop_stage, finish, stage
from tests.store.disk import Disk

SWAP = Swap(("a.db", "in/b"), ("gone.db",), "snapshots/1", "note")


def texts(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    data = tmp_path / "the data"
    data.mkdir()
    for name in ("a.db", "a.db-wal", "a.db-shm", "gone.db", "gone.db-wal", "other"):
        (data / name).write_text(f"old {name}")
    return data


def umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now


def put(new: Path) -> None:
    (new / "in").mkdir()
    for name in ("a.db", "in/b"):
        (new / name).write_text(f"new {name}")


DONE = {
    "a.db": "new a.db",
    "in/b": "new in/b",
    "other": "old other",
    "snapshots/1/a.db": "old a.db",
    "snapshots/1/a.db-wal": "old a.db-wal",
    "snapshots/1/gone.db": "old gone.db",
    "snapshots/1/gone.db-wal": "old gone.db-wal",
    "snapshots/1/manifest.json": "note",
}


def test_new_files_take_the_places_and_the_old_ones_are_kept_with_their_logs(directory: Path) -> None:
    put(stage(directory))
    commit(directory, SWAP)
    assert texts(directory) == DONE
    assert not finish(directory)


# What was there, and what says what is to be done with it.
RELIED_ON = ("snapshots", "plan")


def test_a_power_cut_takes_nothing_whichever_of_the_names_it_leaves(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a step relies on is on the disk before it: the new files before the plan, and so on to its end."""
    put(stage(directory))
    disk = Disk(monkeypatch, directory)
    disk.unsynced |= {f"name .staged/new{below}" for below in ("", "/a.db", "/in", "/in/b")}
    commit(directory, SWAP)

    counts = disk.before(".staged/plan.json.new becomes .staged/plan.json")
    assert {each for each in counts if ".staged" in each} == {"name .staged/plan.json.new"}
    replaced = [step for step, _ in disk.steps if " becomes " in step and "plan" not in step]
    assert replaced[:2] == [".staged/new/a.db becomes a.db", ".staged/new/in/b becomes in/b"]
    for step in (*replaced[:2], "a.db-wal goes", "gone.db goes", "gone.db-wal goes"):
        assert {each for each in disk.before(step) if any(word in each for word in RELIED_ON)} == set(), step
    assert "name a.db-wal" not in disk.before(replaced[0]), (
        "an old log would be played back into the new file"
    )
    assert {each for each in disk.before(".staged/plan.json goes") if ".staged" not in each} == set()
    assert {each for each in disk.unsynced if "new" not in each} <= {"name .staged"}


def test_what_is_staged_without_a_plan_counts_for_nothing(directory: Path) -> None:
    before = texts(directory)
    put(stage(directory))
    assert not finish(directory)
    assert texts(directory) == before
    put(stage(directory))
    assert list(stage(directory).iterdir()) == [], "nor for who begins anew"
    put(stage(directory))
    drop_stage(directory)
    assert texts(directory) == before


@pytest.mark.parametrize("moment", range(1, 15))
def test_a_plan_is_carried_out_to_its_end_by_whoever_comes_next(
    directory: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """The disk fails at one sync after another; a start afterwards goes on."""
    put(stage(directory))
    left = [moment]
    sync = durable.sync_folder

    def fail(path: Path) -> None:
        left[0] -= 1
        if not left[0]:
            raise OSError("no")
        sync(path)

    with monkeypatch.context() as patched:
        patched.setattr("payd.store.swap.sync_folder", fail)
        try:
            commit(directory, SWAP)
        except OSError:
            assert (directory / STAGE).exists()
    had_plan = (directory / STAGE / "plan.json").exists()
    assert finish(directory) == had_plan or not (directory / STAGE).exists()
    assert texts(directory) == DONE or not had_plan


def test_where_nothing_was_there_no_empty_folder_is_kept(tmp_path: Path) -> None:
    put(stage(tmp_path))
    commit(tmp_path, Swap(("a.db", "in/b"), (), "snapshots/1"))
    assert texts(tmp_path) == {"a.db": "new a.db", "in/b": "new in/b"}
    assert not (tmp_path / "snapshots" / "1").exists()


NO_LINK = ["EPERM", "EXDEV", "EMLINK", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]


@pytest.mark.parametrize("why", NO_LINK)
def test_where_a_file_can_have_no_second_name_a_copy_is_kept(
    directory: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """As with a file of another user, a disk without links, or snapshots on another disk."""
    (directory / "a.db").chmod(0o600)
    (directory / "gone.db").chmod(0o640)
    left = directory / "snapshots" / "1" / "a.db.new"
    left.parent.mkdir(parents=True)
    left.write_text("left by a dead process")

    def refuse(source: Path, target: Path) -> None:
        raise OSError(getattr(errno, why), "no", str(source), None, str(target))

    monkeypatch.setattr(os, "link", refuse)
    put(stage(directory))
    commit(directory, SWAP)
    assert texts(directory) == DONE
    modes = [(left.parent / name).stat().st_mode & 0o777 for name in ("a.db", "gone.db")]
    assert modes == [0o600, 0o640]


def test_what_was_a_link_is_kept_as_one_that_leads_to_the_same_file(directory: Path) -> None:
    """As of a database on a larger disk, by a name that counts from its own folder."""
    larger = directory / "larger"
    larger.mkdir()
    (directory / "a.db").rename(larger / "a.db")
    (directory / "a.db").symlink_to("larger/a.db")
    put(stage(directory))
    commit(directory, SWAP)
    assert texts(directory) == DONE | {"larger/a.db": "old a.db"}
    assert not (directory / "a.db").is_symlink()


def test_where_a_link_can_not_be_kept_a_copy_is(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: Path) -> None:
        raise OSError(errno.EPERM, "no", source, None, str(target))

    (directory / "a.db").rename(directory / "b.db")
    (directory / "a.db").symlink_to("b.db")
    put(stage(directory))
    monkeypatch.setattr(os, "symlink", refuse)
    commit(directory, SWAP)
    assert texts(directory) == DONE | {"b.db": "old a.db"}


def test_another_failure_of_a_link_is_none_of_a_disk_without_them(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, _target: Path) -> None:
        raise OSError(errno.EIO, "no", str(source))

    put(stage(directory))
    with monkeypatch.context() as patched:
        patched.setattr(os, "link", refuse)
        with pytest.raises(OSError, match="no"):
            commit(directory, SWAP)
    assert finish(directory)
    assert texts(directory) == DONE


def test_what_might_not_be_kept_is_found_before_anything_counts(directory: Path) -> None:
    (directory / "in" / "b").mkdir(parents=True)
    put(stage(directory))
    with pytest.raises(IsADirectoryError):
        commit(directory, SWAP)
    assert not (directory / STAGE).exists(), "it is as large as what it would have replaced"
    assert not finish(directory)
    assert (directory / "a.db").read_text() == "old a.db"


@pytest.mark.parametrize("where", ["a.db", "in/b", "gone.db"])
@pytest.mark.parametrize("by", ["its name", "a link"])
def test_a_file_that_is_mounted_by_itself_is_found_before_anything_counts(
    directory: Path, monkeypatch: pytest.MonkeyPatch, where: str, by: str
) -> None:
    """As payd.toml in a container: no file can be renamed to it, and every start would fail over the plan."""
    real = directory
    if by == "a link":
        directory = real.with_name("link")
        directory.symlink_to(real)
    (directory / "in").mkdir()
    mounted = os.fsencode(real / where).replace(b" ", rb"\040")
    table = directory.parent / "mountinfo"
    table.write_bytes(b"22 1 0:21 / /proc rw - proc proc rw\n36 35 98:0 /f " + mounted + b" ro - ext4 d rw\n")
    monkeypatch.setattr("payd.store.swap.MOUNTS", table)
    before = texts(directory)
    put(stage(directory))
    with pytest.raises(OSError, match=f"mounted by itself.*{where}"):
        commit(directory, SWAP)
    assert not finish(directory)
    assert texts(directory) == before


@pytest.mark.parametrize("why", ["it is mounted", "its folder is not ours"])
def test_what_can_not_be_replaced_and_is_the_same_already_stays(
    directory: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    place = directory / "in" / "b"
    place.parent.mkdir()
    place.write_text("old in/b")
    if why == "it is mounted":
        table = directory.parent / "mountinfo"
        mounted = os.fsencode(place).replace(b" ", rb"\040")
        table.write_bytes(b"36 35 98:0 /f " + mounted + b" ro - ext4 d rw\n")
        monkeypatch.setattr("payd.store.swap.MOUNTS", table)
    else:
        monkeypatch.setattr(os, "access", lambda path, _mode: path != place.parent)
    put(new := stage(directory))
    for each in (place, new / "in" / "b"):
        os.utime(each, (1, 1))  # as large, and of the same time
    with pytest.raises(OSError, match="No other file can be put there"):
        commit(directory, SWAP)
    place.write_text("new in/b")
    before = place.stat()
    put(stage(directory))
    commit(directory, SWAP)
    assert texts(directory) == DONE | {"snapshots/1/in/b": "new in/b"}
    assert os.path.samestat(place.stat(), before)


def test_a_folder_on_another_disk_gets_its_files_as_well(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def across(path: Path, target: Path) -> Path:
        if target.parent.name == "in":
            raise OSError(errno.EXDEV, "no", str(path), None, str(target))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", across)
    put(stage(directory))
    commit(directory, SWAP)
    assert texts(directory) == DONE
    assert (directory / "in" / "b").stat().st_mode & 0o777 == 0o644 & ~umask()


def test_a_disk_that_fails_while_files_take_their_places_is_gone_on_with_later(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy over the old file would leave half of one where that fails as well."""

    def fail(path: Path, _target: Path) -> Path:
        raise OSError(errno.EIO, "no", str(path))

    put(stage(directory))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match="no"):
            commit(directory, SWAP)
    assert (directory / "a.db").read_text() == "old a.db"
    assert finish(directory)
    assert texts(directory) == DONE


@pytest.mark.parametrize("there", ["file", "link to nothing"])
def test_what_is_no_folder_where_one_has_to_be_is_found_before_anything_counts(
    directory: Path, there: str
) -> None:
    if there == "file":
        (directory / "in").write_text("in")
    else:
        (directory / "in").symlink_to("unmounted")
    before = texts(directory)
    put(stage(directory))
    with pytest.raises(OSError, match="in"):
        commit(directory, SWAP)
    assert not finish(directory)
    assert texts(directory) == before


def test_where_nothing_can_be_kept_nothing_counts(directory: Path) -> None:
    """Such as for a link to a disk that is not there: every start would fail over the plan."""
    (directory / "snapshots").symlink_to(directory.parent / "unmounted")
    before = texts(directory)
    put(stage(directory))
    with pytest.raises(OSError, match="snapshots"):
        commit(directory, SWAP)
    assert not finish(directory)
    assert texts(directory) == before


def test_a_plan_that_cannot_be_written_leaves_no_empty_snapshot(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, _data: bytes) -> None:
        raise OSError(errno.ENOSPC, "full", str(path))

    put(stage(directory))
    with monkeypatch.context() as patched:
        patched.setattr("payd.store.swap.write_file", refuse)
        with pytest.raises(OSError, match="full"):
            commit(directory, SWAP)
    assert not (directory / SWAP.kept).exists()
