"""A backup has all of a data directory but its keys, overwrites nothing, and is of nothing damaged."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
from collections import namedtuple
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from payd.store.backup import DRAFT, BackupRefused, Keystore, last_backup, left_out, make_backup
from payd.store.durable import DraftBusy, DraftForeign, draft_folder, hash_file
from payd.store.manifest import Manifest, read_manifest
from payd.store.restore import restore
from tests.store.disk import Disk
from tests.stored.fill import stored, unpack
from tests.stored.spoil import SPOILED, spoil

NOW_MS = 1_790_000_000_000
NEWEST = max(stored())
Usage = namedtuple("Usage", "total used free")
KEYSTORE = b'{"version": 3, "crypto": {"kdf": "scrypt"}}'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a payd.toml, a folder of somebody's and what belongs to the moment."""
    unpack(stored()[NEWEST], tmp_path / "data")
    for name in (
        "payd.toml",
        "lock",
        "admin.sock.new",
        "mine/deep/note.txt",
        "mine/office.db",
        "snapshots/old/office.db",
        ".staged/new/test.db",
        ".dry-run/test.db",
        "manifest.json",
    ):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    with closing(socket.socket(socket.AF_UNIX)) as admin:
        admin.bind(str(tmp_path / "data" / "admin.sock"))
    return tmp_path / "data"


def make(data: Path, dest: Path, keystore: Keystore | None = None, *, with_keys: bool = False) -> Manifest:
    return make_backup(data, dest, keystore or Keystore(), with_keys=with_keys, now_ms=NOW_MS)


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


PLAIN = {"manifest.json", "office.db", "test.db", "payd.toml", "mine/deep/note.txt", "mine/office.db"}


def test_all_of_a_data_directory_is_in_it_but_its_keys_and_what_is_of_the_moment(data: Path) -> None:
    dest = data.parent / "backup"

    manifest = make(data, dest)

    assert files_in(dest) == PLAIN
    assert read_manifest(dest) == manifest
    assert {each.name for each in manifest.files} == PLAIN - {"manifest.json"}
    for each in manifest.files:
        assert hash_file(dest / each.name) == (each.bytes, each.sha256)
    versions = {each.name: each.schema_version for each in manifest.files if each.kind == "database"}
    assert (versions["office.db"], versions["test.db"]) == NEWEST
    assert not manifest.with_keys
    modes = {stat.S_IMODE(path.stat().st_mode) for path in dest.rglob("*") if path.is_file()}
    folders = {stat.S_IMODE(path.stat().st_mode) for path in (dest, dest / "mine")}
    assert (modes, folders) == ({0o600}, {0o700})


def test_it_is_on_the_disk_before_it_has_its_name_and_then_with_that(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a power cut there is a whole one, or none."""
    disk = Disk(monkeypatch, data.parent)
    make(data, data.parent / "backup", with_keys=True)
    assert disk.before(f"{DRAFT} becomes backup") == {f"name {DRAFT}"}
    assert disk.unsynced == set()


def test_keys_come_along_when_they_are_asked_for_and_no_password_ever(data: Path) -> None:
    (data / "hidden.json").write_bytes(KEYSTORE)
    (data / "password").write_text("secret")
    outside = data.parent / "elsewhere.json"
    outside.write_bytes(KEYSTORE)
    keystore = Keystore(outside, data / "password")

    make(data, data.parent / "without", keystore)
    manifest = make(data, data.parent / "with", keystore, with_keys=True)

    assert files_in(data.parent / "without") == PLAIN
    assert files_in(data.parent / "with") == PLAIN | {"seal.key", "hidden.json", "keys/elsewhere.json"}
    kinds = {each.name: each.kind for each in manifest.files}
    assert (kinds["seal.key"], kinds["hidden.json"]) == ("key", "keystore")


@pytest.mark.parametrize("content", [KEYSTORE, b'{"Crypto": {"kdf": "scrypt"}}', b"of some other kind"])
@pytest.mark.parametrize("place", ["data/relayer.json", "relayer.json"])
def test_the_keystore_that_is_named_is_no_file_like_others(data: Path, place: str, content: bytes) -> None:
    path = data.parent / place
    path.write_bytes(content)
    make(data, data.parent / "without", Keystore(path))
    assert files_in(data.parent / "without") == PLAIN
    manifest = make(data, data.parent / "with", Keystore(path), with_keys=True)
    there = [(each.name, each.kind) for each in manifest.files if "relayer" in each.name]
    if place.startswith("data"):
        assert there == [("relayer.json", "keystore")] or content == b"of some other kind"
    else:
        assert there == [("keys/relayer.json", "keystore")]


@pytest.mark.parametrize("name", ["Crypto", "crypto"])
def test_a_keystore_that_nobody_names_is_known_by_what_it_says(data: Path, name: str) -> None:
    (data / "old.json").write_bytes(KEYSTORE.replace(b"crypto", name.encode()))
    make(data, data.parent / "backup")
    assert files_in(data.parent / "backup") == PLAIN


@pytest.mark.parametrize("name", ["seal.key.old", "seal.key~", "mine/seal.key"])
def test_an_older_seal_key_that_somebody_kept_is_a_key_as_well(data: Path, name: str) -> None:
    shutil.copy(data / "seal.key", data / name)
    make(data, data.parent / "without")
    manifest = make(data, data.parent / "with", with_keys=True)
    assert files_in(data.parent / "without") == PLAIN
    assert {each.name: each.kind for each in manifest.files}[name] == "key"
    done = restore(data.parent / "with", data.parent / "new", overwrite=False, now_ms=NOW_MS)
    assert (done.keystores, (data.parent / "new" / name).exists()) == ((), True)


def test_after_a_restore_with_keys_there_are_further_backups_with_keys(data: Path) -> None:
    outside = data.parent / "relayer.json"
    outside.write_bytes(KEYSTORE)
    make(data, data.parent / "one", Keystore(outside), with_keys=True)
    restore(data.parent / "one", data, overwrite=True, now_ms=NOW_MS)
    assert (data / "keys" / "relayer.json").read_bytes() == KEYSTORE

    manifest = make(data, data.parent / "two", Keystore(outside), with_keys=True)

    keystores = [each.name for each in manifest.files if each.kind == "keystore"]
    assert keystores == ["keys/relayer.json"]


def test_the_keystore_in_use_has_its_name_and_another_of_that_name_a_number(data: Path) -> None:
    outside = data.parent / "relayer.json"
    outside.write_bytes(KEYSTORE)
    older = {"relayer.json": KEYSTORE + b" ", "relayer-2.json": KEYSTORE + b"  "}
    (data / "keys").mkdir()
    for name, data_bytes in older.items():
        (data / "keys" / name).write_bytes(data_bytes)

    manifest = make(data, data.parent / "b", Keystore(outside), with_keys=True)

    found = {
        each.name: (data.parent / "b" / each.name).read_bytes()
        for each in manifest.files
        if each.kind == "keystore"
    }
    assert found["keys/relayer.json"] == KEYSTORE
    assert sorted(found.values()) == [KEYSTORE, KEYSTORE + b" ", KEYSTORE + b"  "]
    restore(data.parent / "b", data.parent / "new", overwrite=False, now_ms=NOW_MS)
    assert (data.parent / "new" / "keys" / "relayer.json").read_bytes() == KEYSTORE


def test_what_is_no_keystore_and_has_its_name_keeps_it(data: Path) -> None:
    outside = data.parent / "note.txt"
    outside.write_bytes(KEYSTORE)
    (data / "keys").mkdir()
    (data / "keys" / "note.txt").write_text("where the keys are")
    manifest = make(data, data.parent / "b", Keystore(outside), with_keys=True)
    kinds = {each.name: each.kind for each in manifest.files}
    assert (kinds["keys/note.txt"], kinds["keys/note-2.txt"]) == ("file", "keystore")


def test_a_backup_with_keys_has_the_seal_key_or_is_none(data: Path) -> None:
    (data / "seal.key").rename(data.parent / "seal.key")
    with pytest.raises(BackupRefused, match=r"no .*seal\.key, which opens what is sealed"):
        make(data, data.parent / "one", with_keys=True)
    assert not (data.parent / "one").exists()
    make(data, data.parent / "one")


def test_a_keystore_that_is_named_and_not_there_is_said(data: Path) -> None:
    with pytest.raises(BackupRefused, match=r"no keystore .*gone\.json"):
        make(data, data.parent / "b", Keystore(data.parent / "gone.json"), with_keys=True)
    assert not (data.parent / "b").exists()


@pytest.mark.parametrize("there", ["file", "folder", "link"])
def test_nothing_is_overwritten(data: Path, there: str) -> None:
    dest = data.parent / "backup"
    if there == "file":
        dest.touch()
    elif there == "folder":
        dest.mkdir()
    else:
        dest.symlink_to("nowhere")
    with pytest.raises(BackupRefused, match="is there already"):
        make(data, dest)
    assert not (data.parent / DRAFT).exists()


def test_what_gets_there_meanwhile_is_not_overwritten_either(data: Path) -> None:
    dest = data.parent / "backup"

    def look(what: str, _file: str, _done: int, _total: int) -> None:
        if what == "hashing":
            dest.mkdir(exist_ok=True)

    with pytest.raises(BackupRefused, match="is there already"):
        make_backup(data, dest, Keystore(), with_keys=False, now_ms=NOW_MS, look=look)
    assert list(dest.iterdir()) == []


def test_a_place_that_cannot_be_is_refused_with_what_to_do(data: Path, tmp_path: Path) -> None:
    with pytest.raises(BackupRefused, match="mount the disk"):
        make(data, tmp_path / "unmounted" / "backup")
    with pytest.raises(BackupRefused, match="lies in the data directory"):
        make(data, data / "backup")
    (tmp_path / "link").symlink_to(data / "mine")
    with pytest.raises(BackupRefused, match="lies in the data directory"):
        make(data, tmp_path / "link" / "backup")
    with pytest.raises(BackupRefused, match="nothing to back up"):
        make(tmp_path / "empty", tmp_path / "backup")


def test_a_database_on_a_disk_that_is_not_mounted_makes_no_backup_without_it(data: Path) -> None:
    """It would be whole, and the next to go are those that have the payments."""
    (data / "live.db").symlink_to(data.parent / "unmounted" / "live.db")
    with pytest.raises(BackupRefused, match="Mount the disk"):
        make(data, data.parent / "backup")
    assert {each.name for each in data.parent.iterdir()} == {"data"}


def test_a_backup_that_would_fill_the_disk_is_refused_before_it_does(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data / "mine" / "old backups.tar").write_bytes(bytes(3_000_000))
    copied = {*PLAIN - {"manifest.json"}, "mine/old backups.tar"}
    size = sum((data / name).stat().st_size for name in copied)
    (data.parent / DRAFT).mkdir()
    (data.parent / DRAFT / "left").write_bytes(b"by one that was killed")
    free = size + size // 2 - 1
    written: list[str] = []

    def usage(path: Path) -> Usage:
        assert os.listdir(path) == []
        return Usage(10**12, 0, free)

    def look(_what: str, file: str, _done: int, _total: int) -> None:
        written.append(file)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    with pytest.raises(BackupRefused, match=r"needs [1-9].*old backups away"):
        make_backup(data, data.parent / "b", Keystore(), with_keys=False, now_ms=NOW_MS, look=look)
    assert written == []
    assert {each.name for each in data.parent.iterdir()} == {"data"}

    free += 1
    make(data, data.parent / "backup")


@pytest.mark.parametrize(
    ("code", "words"),
    [(sqlite3.SQLITE_FULL, "Make room"), (sqlite3.SQLITE_IOERR_SHMSIZE, "Make room"), (10, "Look at")],
)
def test_a_full_disk_is_not_taken_for_a_broken_one(
    data: Path, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    def refuse(*_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr("payd.store.backup.copy_pinned", refuse)
    with pytest.raises(BackupRefused, match=f"disk I/O error. {words} .*the disks of the data directory"):
        make(data, data.parent / "backup")


def test_room_on_the_disk_of_the_server_is_of_no_use_on_another(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum((data / name).stat().st_size for name in PLAIN - {"manifest.json"})
    stat_of = Path.stat

    def elsewhere(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = stat_of(path, follow_symlinks=follow_symlinks)
        is_draft = path.name == DRAFT and follow_symlinks
        return os.stat_result((*found[:2], found.st_dev + 1, *found[3:10])) if is_draft else found

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, size))
    with pytest.raises(BackupRefused, match="choose another disk"):
        make(data, data.parent / "backup")
    monkeypatch.setattr(Path, "stat", elsewhere)
    make(data, data.parent / "backup")


def test_the_log_of_what_is_copied_can_be_emptied_while_the_rest_is(data: Path) -> None:
    """Else a server's disk fills for as long as the slowest database takes."""
    emptied: list[int] = []

    def look(what: str, file: str, _done: int, _total: int) -> None:
        if (what, file) == ("copying", "test.db") and not emptied:
            tx.execute("UPDATE accounts SET name = 'written meanwhile'")
            emptied.append(tx.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])

    with closing(sqlite3.connect(data / "office.db", isolation_level=None, timeout=0)) as tx:
        tx.execute("PRAGMA journal_mode = WAL")
        tx.execute("UPDATE accounts SET name = 'before'")
        make_backup(data, data.parent / "b", Keystore(), with_keys=False, now_ms=NOW_MS, look=look)
    assert emptied == [0], "nobody reads what is in it"


@pytest.mark.parametrize("harm", ["index payments_by_amount is missing", SPOILED])
def test_what_is_not_as_it_should_be_makes_no_backup(data: Path, harm: str) -> None:
    if harm == SPOILED:
        spoil(data / "test.db")
    else:
        with closing(sqlite3.connect(data / "test.db")) as tx:
            tx.execute("DROP INDEX payments_by_amount")
    with pytest.raises(BackupRefused, match=rf"test\.db is damaged, and so would be its backup: {harm}"):
        make(data, data.parent / "backup")
    assert {each.name for each in data.parent.iterdir()} == {"data"}


def test_a_damaged_database_makes_no_backup(data: Path) -> None:
    path = data / "test.db"
    page = bytearray(path.read_bytes())
    page[-4096 * 3 : -4096] = b"\xff" * 4096 * 2
    path.write_bytes(page)
    with pytest.raises(BackupRefused, match=r"test\.db is damaged|cannot be copied"):
        make(data, data.parent / "backup")
    assert files_in(data.parent) & {"backup/manifest.json"} == set()
    assert not (data.parent / DRAFT).exists()


def test_a_database_of_a_newer_payd_is_copied_all_the_same(data: Path) -> None:
    with closing(sqlite3.connect(data / "test.db")) as tx:
        tx.execute("CREATE TABLE newer (x)")
        tx.execute("PRAGMA user_version = 999")
    manifest = make(data, data.parent / "backup")
    assert 999 in {each.schema_version for each in manifest.files}


def test_two_at_once_into_one_folder_are_refused(data: Path) -> None:
    with draft_folder(data.parent / DRAFT), pytest.raises(DraftBusy):
        make(data, data.parent / "backup")
    make(data, data.parent / "backup")


LOOKS = (
    "import sqlite3, sys; tx = sqlite3.connect(sys.argv[1])\n"
    "print(tx.execute('SELECT name FROM merchants').fetchone()); tx.close()"
)


@pytest.mark.parametrize("other", ["behind a link", "second name", "link to it"])
def test_a_database_that_lies_there_by_another_name_keeps_its_locks(data: Path, other: str) -> None:
    """Else the next program that looks takes the log away, and what is written from then on is lost."""
    path = data / "test.db"
    if other == "behind a link":
        (data / "larger").mkdir()
        path.rename(data / "larger" / "file.db")
        path.symlink_to("larger/file.db")
        (data / "test.db-wal").write_text("the log of another one, which a restore must not put beside it")
    elif other == "second name":
        (data / "mine" / "test.db").hardlink_to(path)
    else:
        (data / "newest.db").symlink_to("test.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as server:
        server.execute("PRAGMA journal_mode = WAL")
        server.execute("UPDATE merchants SET name = 'before'")
        manifest = make(data, data.parent / "backup")
        told = []
        for name in ("after", "later"):
            subprocess.run([sys.executable, "-c", LOOKS, str(path)], check=True, capture_output=True)
            server.execute("UPDATE merchants SET name = ?", (name,))
            told.append(subprocess.check_output([sys.executable, "-c", LOOKS, str(path)], text=True))
    assert told == ["('after',)\n", "('later',)\n"]
    assert {each.name for each in manifest.files} == PLAIN - {"manifest.json"}


def test_a_link_in_the_place_of_the_draft_costs_nobody_his_files(data: Path) -> None:
    (data.parent / "victim" / "sub").mkdir(parents=True)
    (data.parent / DRAFT).symlink_to(data.parent / "victim")
    with pytest.raises(DraftForeign, match="is a link"):
        make(data, data.parent / "backup")
    assert (data.parent / "victim" / "sub").exists()


def test_what_is_told_can_end_it_and_then_nothing_is_left(data: Path) -> None:
    def look(what: str, file: str, _done: int, _total: int) -> None:
        if (what, file) == ("hashing", "test.db"):
            raise InterruptedError

    with pytest.raises(InterruptedError):
        make_backup(data, data.parent / "b", Keystore(), with_keys=False, now_ms=NOW_MS, look=look)
    assert {each.name for each in data.parent.iterdir()} == {"data"}
    assert last_backup(data) is None


def test_the_last_backup_is_known_until_there_is_a_newer_one(data: Path) -> None:
    assert last_backup(data) is None
    manifest = make(data, data.parent / "backup")
    last = last_backup(data)
    assert last is not None
    assert (last.dest, last.made_at_ms) == (str(data.parent / "backup"), NOW_MS)
    assert (last.bytes, last.with_keys) == (manifest.bytes(), False)
    (data / "last-backup.json").write_bytes(msgspec.json.encode("?"))
    assert last_backup(data) is None


def test_where_it_is_can_be_read_from_anywhere(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data.parent)
    make(data, Path("backup"))
    last = last_backup(data)
    assert last is not None
    assert last.dest == str(data.parent / "backup")


def test_links_to_folders_are_left_out_and_said(data: Path) -> None:
    (data / "mine" / "more").symlink_to(data.parent)
    (data / "all").symlink_to(data.parent)
    (data / "mine" / "link.txt").symlink_to("deep/note.txt")
    for name in ("snapshots", ".dry-run"):
        shutil.rmtree(data / name)
        (data / name).symlink_to(data.parent)
    make(data, data.parent / "backup")
    assert files_in(data.parent / "backup") == PLAIN | {"mine/link.txt"}
    assert left_out(data) == ["all", "mine/more"]


def test_one_that_cannot_be_noted_is_whole_all_the_same(data: Path) -> None:
    """A data directory on a full disk is the one that needs a backup most."""
    (data / "last-backup.json.new").mkdir()  # the note cannot be written
    manifest = make(data, data.parent / "backup")

    assert read_manifest(data.parent / "backup") == manifest
    assert last_backup(data) is None
