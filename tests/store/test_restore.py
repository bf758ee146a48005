"""What was backed up comes back, byte for byte, or not at all; and what is lost without the keys is said."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from payd.store.backup import Keystore, make_backup
from payd.store.durable import hash_file
from payd.store.manifest import BackupUnusable, encode_manifest, read_manifest
from payd.store.migrate import DatabaseTooNew, Schema, read_migrations
from payd.store.restore import Lost, Restored, RestoreRefused, Waiting, restore
from payd.store.snapshots import SNAPSHOTS_KEPT, snapshot_name, snapshots_in
from payd.store.swap import PLAN, STAGE, Swap, stage
from payd.store.upgrade import upgrade
from tests.stored.fill import stored, unpack
from tests.stored.spoil import SPOILED, spoil

NOW_MS = 1_790_000_000_000
NEWEST = max(stored())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    unpack(stored()[NEWEST], tmp_path / "data")
    (tmp_path / "data" / "payd.toml").write_text("")
    (tmp_path / "data" / "mine").mkdir()
    (tmp_path / "data" / "mine" / "note.txt").write_text("")
    return tmp_path / "data"


def backed_up(data: Path, *, with_keys: bool = False) -> Path:
    dest = data.parent / f"backup-{with_keys}"
    make_backup(data, dest, Keystore(), with_keys=with_keys, now_ms=NOW_MS)
    return dest


def put_back(source: Path, directory: Path, *, overwrite: bool = False, now_ms: int = NOW_MS) -> Restored:
    directory.mkdir(exist_ok=True)
    return restore(source, directory, overwrite=overwrite, now_ms=now_ms)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_with_the_keys_everything_is_back_and_nothing_lost(data: Path) -> None:
    source = backed_up(data, with_keys=True)
    done = put_back(source, data.parent / "new")
    there = contents(data.parent / "new")
    assert there == {name: data for name, data in contents(source).items() if name != "manifest.json"}
    assert (done.lost, done.replaced) == ((), None)
    assert {path.stat().st_mode & 0o777 for path in (data.parent / "new").glob("*.*")} == {0o600}


def test_without_the_seal_key_it_is_said_what_nobody_can_read(data: Path) -> None:
    done = put_back(backed_up(data), data.parent / "new")
    assert done.lost == (
        Lost("office.db", "authenticator apps of people", 1),
        Lost("test.db", "signing secrets of webhook endpoints", 2),
        Lost("test.db", "answers of buyers", 1),
    )


def test_changes_of_live_destinations_that_wait_again_are_said(data: Path) -> None:
    assert put_back(backed_up(data), data.parent / "test alone").waiting == ()
    shutil.copy(data / "test.db", data / "live.db")
    with closing(sqlite3.connect(data / "live.db")) as tx, tx:
        tx.execute("DELETE FROM settlement_changes")
        tx.executemany(
            "INSERT INTO settlement_changes VALUES (?, 'mrch_1', 'acct_1', 'eip155:1:0x1', 'key_1', 0, ?)",
            [("crypto_2", 2000), ("crypto_1", 1000)],
        )
    source = backed_up(data, with_keys=True)
    assert put_back(source, data.parent / "new").waiting == (
        Waiting("mrch_1", "crypto_1", "eip155:1:0x1", "1970-01-01T00:00:01.000Z"),
        Waiting("mrch_1", "crypto_2", "eip155:1:0x1", "1970-01-01T00:00:02.000Z"),
    )


def test_a_seal_key_that_is_there_already_is_tried(data: Path) -> None:
    source = backed_up(data)
    right, wrong, none = (data.parent / name for name in ("right", "wrong", "none"))
    for folder, key in ((right, (data / "seal.key").read_text()), (wrong, "00" * 32), (none, "no key")):
        folder.mkdir()
        (folder / "seal.key").write_text(key)
        (folder / "seal.key").chmod(0o600)
    assert put_back(source, right).lost == ()
    assert [len(put_back(source, each).lost) for each in (wrong, none)] == [3, 3]


def test_of_two_seal_keys_the_one_that_comes_along_is_tried(data: Path) -> None:
    source = backed_up(data, with_keys=True)
    (data / "seal.key").write_text("00" * 32)
    assert put_back(source, data, overwrite=True).lost == ()


def test_what_an_interrupted_restore_has_yet_to_put_there_is_there(data: Path) -> None:
    """Its plan counts: whoever comes next sees what it would have left, and loses nothing of it."""
    source, there = backed_up(data), data.parent / "there"
    there.mkdir()
    (stage(there) / "live.db").write_bytes((data / "test.db").read_bytes())
    plan = Swap(("live.db",), (), "snapshots/20260101T000000000Z-restore")
    (there / STAGE / PLAN).write_bytes(msgspec.json.encode(plan))
    with pytest.raises(RestoreRefused, match=r"There is live\.db"):
        put_back(source, there)
    assert contents(there) == {"live.db": (data / "test.db").read_bytes()}


def test_who_ends_it_on_the_way_leaves_nothing_behind(data: Path) -> None:
    source = backed_up(data)
    before = contents(data)

    def look(what: str, file: str, _done: int, _total: int) -> None:
        if (what, file) == ("copying", "test.db"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(source, data, overwrite=True, now_ms=NOW_MS, look=look)
    assert contents(data) == before
    assert not (data / STAGE).exists()


def test_the_same_files_are_not_overwritten_either(data: Path) -> None:
    source = backed_up(data)
    with pytest.raises(RestoreRefused, match=r"There is mine/note\.txt, office\.db, .*test\.db in"):
        put_back(source, data)


def test_payments_that_the_backup_does_not_have_are_not_taken_away_unless_that_is_said(data: Path) -> None:
    there = data.parent / "there"
    there.mkdir()
    shutil.copy(data / "test.db", there / "live.db")
    with pytest.raises(RestoreRefused, match=r"There is live\.db"):
        put_back(backed_up(data), there)
    assert set(contents(there)) == {"live.db"}


def test_what_is_there_is_not_overwritten_unless_that_is_said_and_then_kept(data: Path) -> None:
    source = backed_up(data, with_keys=True)
    shutil.copy(data / "test.db", data / "live.db")
    before = contents(data)
    with pytest.raises(RestoreRefused, match=r"There is .*office\.db.*live\.db.*--overwrite"):
        put_back(source, data)
    assert contents(data) == before

    done = put_back(source, data, overwrite=True)

    assert done.replaced is not None
    assert not (data / "live.db").exists(), "a database that the backup does not have is gone from its place"
    kept = contents(data / done.replaced)
    del kept["manifest.json"]
    assert kept == {name: before[name] for name in kept}
    assert set(kept) == {"office.db", "test.db", "live.db", "seal.key", "payd.toml", "mine/note.txt"}


def test_a_database_that_is_all_there_is_is_kept_as_well(data: Path) -> None:
    there = data.parent / "there"
    there.mkdir()
    shutil.copy(data / "test.db", there / "live.db")
    done = put_back(backed_up(data), there, overwrite=True)
    assert done.replaced is not None
    assert set(contents(there / done.replaced)) == {"live.db", "manifest.json"}


def name_merchants(data: Path, name: str) -> None:
    """A change that stays in the log, as after a death."""
    with closing(sqlite3.connect(data / "test.db", isolation_level=None)) as tx:
        tx.execute("PRAGMA journal_mode = WAL")
        tx.execute("UPDATE merchants SET name = ?", (name,))
        log = (data / "test.db-wal").read_bytes()
    # With the last connection the log would have gone as well.
    (data / "test.db-wal").write_bytes(log)


def merchants_in(data: Path) -> set[str]:
    with closing(sqlite3.connect(data / "test.db")) as tx:
        return {name for (name,) in tx.execute("SELECT name FROM merchants")}


def test_what_a_restore_replaced_is_restored_like_a_backup(data: Path) -> None:
    (data / "relayer.json").write_bytes(b'{"crypto": {}}')
    source = backed_up(data, with_keys=True)
    (data / "payd.toml").write_text("# another\n")
    name_merchants(data, "Another")
    done = put_back(source, data, overwrite=True)
    assert done.replaced is not None
    assert merchants_in(data) != {"Another"}

    back = put_back(data / done.replaced, data, overwrite=True, now_ms=NOW_MS + 1)

    assert (merchants_in(data), (data / "payd.toml").read_text()) == ({"Another"}, "# another\n")
    assert (done.by_hand, back.by_hand, back.manifest.with_keys) == (None, None, True)
    assert back.keystores == ("relayer.json",)
    kinds = {each.name: each.kind for each in back.manifest.files}
    assert kinds == {
        "office.db": "database",
        "test.db": "database",
        "payd.toml": "file",
        "mine/note.txt": "file",
        "relayer.json": "keystore",
        "seal.key": "key",
    }


def test_a_database_that_the_backup_did_not_have_is_brought_back_with_the_others(data: Path) -> None:
    source = backed_up(data)
    shutil.copy(data / "test.db", data / "live.db")
    there = (data / "live.db").read_bytes()
    done = put_back(source, data, overwrite=True)
    assert done.replaced is not None
    put_back(data / done.replaced, data, overwrite=True, now_ms=NOW_MS + 1)
    assert (data / "live.db").read_bytes() == there


def test_a_database_of_a_newer_payd_is_kept_for_the_newer_payd(data: Path) -> None:
    source = backed_up(data)
    with closing(sqlite3.connect(data / "test.db")) as tx:
        tx.execute("PRAGMA user_version = 999")
    done = put_back(source, data, overwrite=True)
    assert done.replaced is not None
    assert done.by_hand is None
    with pytest.raises(DatabaseTooNew, match="999"):
        put_back(data / done.replaced, data, overwrite=True, now_ms=NOW_MS + 1)


@pytest.mark.parametrize("harm", ["no database", "nothing", "no index", "no file"])
def test_damage_stops_no_restore_and_what_is_put_back_by_hand_only_is_said(data: Path, harm: str) -> None:
    source = backed_up(data)
    if unreadable := harm in {"no database", "nothing"}:
        (data / "test.db-wal").write_bytes(b"log")
        (data / "test.db").write_bytes(b"" if harm == "nothing" else b"x" * 5000)
    elif harm == "no index":
        with closing(sqlite3.connect(data / "test.db")) as tx, tx:
            tx.execute("DROP INDEX payments_by_amount")
    else:
        (data / "payd.toml").unlink()
        (data / "payd.toml").symlink_to("nowhere")
    harmed = (data / "test.db").read_bytes()

    done = put_back(source, data, overwrite=True)

    words = {
        "no database": "test.db cannot be read: file is not a database",
        "nothing": "test.db is empty",
        "no index": "test.db is damaged: index payments_by_amount is missing",
        "no file": "No such file",
    }
    assert done.by_hand is not None
    assert words[harm] in done.by_hand
    assert done.replaced is not None
    kept = contents(data / done.replaced)
    assert kept["test.db"] == harmed
    assert kept.get("test.db-wal") == (b"log" if unreadable else None)
    assert "manifest.json" not in kept
    assert (data / "test.db").read_bytes() == (source / "test.db").read_bytes()


def test_what_another_program_has_open_is_put_back_by_hand_with_its_log(data: Path) -> None:
    source = backed_up(data)
    with closing(sqlite3.connect(data / "test.db", isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("UPDATE merchants SET name = 'Another'")
        done = put_back(source, data, overwrite=True)
    assert done.by_hand == "another program has test.db open"
    assert (data / str(done.replaced) / "test.db-wal").exists()


def test_what_the_disk_cannot_take_into_one_file_is_put_back_by_hand(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> bool:
        raise sqlite3.OperationalError("disk I/O error")

    source = backed_up(data)
    monkeypatch.setattr("payd.store.restore.take_log", refuse)
    assert put_back(source, data, overwrite=True).by_hand == "disk I/O error"


def test_a_copy_beside_the_log_of_another_one_is_put_back_by_hand_as_it_was(data: Path) -> None:
    source = backed_up(data)
    with closing(sqlite3.connect(data / "test.db", isolation_level=None)) as tx:
        tx.execute("PRAGMA journal_mode = WAL")
        tx.execute("UPDATE merchants SET name = 'Another'")
        log = (data / "test.db-wal").read_bytes()
    (data / "test.db-wal").write_bytes(log)
    shutil.copy(source / "test.db", data / "test.db")
    done = put_back(source, data, overwrite=True)
    assert done.by_hand == "test.db is a copy, and the log beside it is another one's"
    kept = contents(data / str(done.replaced))
    assert (kept["test.db"], kept["test.db-wal"]) == ((source / "test.db").read_bytes(), log)


def test_two_at_the_same_instant_keep_both_what_they_replaced(data: Path) -> None:
    source = backed_up(data)
    first = put_back(source, data, overwrite=True)
    with closing(sqlite3.connect(data / "test.db", isolation_level=None)) as tx:
        tx.execute("UPDATE merchants SET name = 'Later'")
    second = put_back(source, data, overwrite=True)
    assert first.replaced != second.replaced
    with closing(sqlite3.connect(data / str(second.replaced) / "test.db")) as tx:
        assert tx.execute("SELECT DISTINCT name FROM merchants").fetchall() == [("Later",)]


def test_what_was_replaced_stays_also_where_the_clock_is_behind(data: Path) -> None:
    source = backed_up(data)
    for n in range(SNAPSHOTS_KEPT):
        (data / snapshot_name(NOW_MS + n, "upgrade")).mkdir(parents=True)
        (data / snapshot_name(n, "upgrade")).mkdir(parents=True)
    done = put_back(source, data, overwrite=True, now_ms=NOW_MS - 1)
    assert done.replaced is not None
    assert (data / done.replaced / "test.db").exists()
    assert len(snapshots_in(data)) == SNAPSHOTS_KEPT + 1


def test_who_tries_one_backup_after_the_other_keeps_what_came_in_last(tmp_path: Path) -> None:
    data, old = tmp_path / "data", tmp_path / "old"
    unpack(stored()[NEWEST], data)
    unpack(stored()[min(stored())], old)
    last = (data / "test.db").read_bytes()
    source = tmp_path / "backup"
    make_backup(old, source, Keystore(), with_keys=False, now_ms=NOW_MS)
    kept = set()
    for hour in range(4):
        now_ms = NOW_MS + hour * 3_600_000
        kept.add(put_back(source, data, overwrite=True, now_ms=now_ms).replaced)
        assert upgrade(data, now_ms + 1000) is not None, "as a start does"
    assert last in {(data / str(each) / "test.db").read_bytes() for each in kept}


@pytest.mark.parametrize("name", ["office.db", "test.db", "payd.toml"])
@pytest.mark.parametrize("harm", ["gone", "cut", "bit"])
def test_a_backup_that_was_harmed_changes_nothing(data: Path, name: str, harm: str) -> None:
    source = backed_up(data)
    (data / "payd.toml").write_text("x = 1")
    path = source / name
    if harm == "gone":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(path.read_bytes()[:-1] if name != "payd.toml" else b"longer")
    else:
        path.write_bytes(b"\x00" + path.read_bytes()[1:] if name != "payd.toml" else b"\x00")
    before = contents(data)
    with pytest.raises(BackupUnusable, match=f"{name} is not"):
        put_back(source, data, overwrite=True)
    assert contents(data) == before


def forged(source: Path, schema: Schema = "realm") -> None:
    """A manifest that fits the files as they are now."""
    manifest = read_manifest(source)
    files = []
    for each in manifest.files:
        size, sha256 = hash_file(source / each.name)
        changed = msgspec.structs.replace(each, bytes=size, sha256=sha256)
        if each.name == "test.db":
            changed = msgspec.structs.replace(changed, schema=schema)
        files.append(changed)
    new = msgspec.structs.replace(manifest, files=tuple(files))
    (source / "manifest.json").write_bytes(encode_manifest(new))


def test_checksums_are_not_all_that_is_looked_at(data: Path) -> None:
    source = backed_up(data)
    with closing(sqlite3.connect(source / "test.db")) as tx, tx:
        tx.execute("DROP INDEX payments_by_amount")
    forged(source)
    with pytest.raises(BackupUnusable, match="index payments_by_amount is missing"):
        put_back(source, data.parent / "new")
    (source / "test.db").write_bytes(b"no database at all")
    forged(source)
    with pytest.raises(BackupUnusable, match=r"test\.db is damaged"):
        put_back(source, data.parent / "new")
    shutil.copy(data / "test.db", source / "test.db")
    spoil(source / "test.db")
    forged(source)
    with pytest.raises(BackupUnusable, match=rf"test\.db is damaged: {SPOILED}"):
        put_back(source, data.parent / "new")
    shutil.copy(data / "test.db", source / "test.db")
    with closing(sqlite3.connect(source / "test.db")) as tx:
        tx.execute("PRAGMA user_version = 1")
    forged(source)
    with pytest.raises(BackupUnusable, match=f"its schema version is 1, and not {NEWEST[1]}"):
        put_back(source, data.parent / "new")
    forged(source, schema="office")
    with pytest.raises(BackupUnusable, match="no database of payd's"):
        put_back(source, data.parent / "new")
    shutil.copy(data / "test.db", source / "test.db")
    forged(source)
    manifest = read_manifest(source)
    more = [
        msgspec.structs.replace(each, name="more.db") for each in manifest.files if each.name == "test.db"
    ]
    shutil.copy(data / "test.db", source / "more.db")
    longer = msgspec.structs.replace(manifest, files=(*manifest.files, *more))
    (source / "manifest.json").write_bytes(encode_manifest(longer))
    with pytest.raises(BackupUnusable, match=r"more\.db is no database of payd's"):
        put_back(source, data.parent / "new")
    assert contents(data.parent / "new") == {}


def test_one_of_a_newer_payd_is_refused_in_words(data: Path) -> None:
    with closing(sqlite3.connect(data / "test.db")) as tx:
        tx.execute(f"PRAGMA user_version = {NEWEST[1] + 1}")
    words = rf"test\.db of this backup is at schema version {NEWEST[1] + 1}"
    with pytest.raises(DatabaseTooNew, match=words):
        put_back(backed_up(data), data.parent / "new")


def test_a_snapshot_of_an_upgrade_is_restored_like_a_backup_and_upgraded_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    unpack(stored()[1, 1], data)
    old = contents(data)
    done = upgrade(data, NOW_MS)
    assert done is not None
    assert done.snapshot is not None

    back = put_back(data / done.snapshot, data, overwrite=True, now_ms=NOW_MS + 1)

    assert {name: contents(data)[name] for name in old} == old
    assert back.lost == ()
    assert upgrade(data, NOW_MS + 2) is not None
    assert NEWEST[1] <= len(read_migrations("realm"))


def test_a_snapshot_of_a_database_that_was_a_link_is_restored_as_well(tmp_path: Path) -> None:
    data = tmp_path / "data"
    unpack(stored()[1, 1], data)
    old = (data / "test.db").read_bytes()
    (data / "test.db").rename(tmp_path / "larger.db")
    (data / "test.db").symlink_to("../larger.db")
    done = upgrade(data, NOW_MS)
    assert done is not None
    assert done.snapshot is not None

    put_back(data / done.snapshot, data, overwrite=True, now_ms=NOW_MS + 1)

    assert (data / "test.db").read_bytes() == old
