"""The doctor looks at the files: who may read them, keys, schemas, logs, and how old the backup is."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from payd.cli import doctor_files as module
from payd.cli.doctor_files import BACKUP_DAYS_MAX, DAY_MS, examine_files
from payd.cli.finding import Finding
from payd.store import self_check
from payd.store.backup import Keystore, make_backup
from payd.store.seal import Seal, load_key
from tests.stored.fill import stored, unpack

NOW_MS = 1_790_000_000_000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    unpack(stored()[max(stored())], tmp_path / "data")
    return tmp_path / "data"


def found(data: Path, subject: str, now_ms: int = NOW_MS) -> Finding:
    """The worst about a subject."""
    of = [one for one in examine_files(data, now_ms) if one.subject == subject]
    return max(of, key=lambda one: ("ok", "warning", "error").index(one.level))


def test_a_good_directory_is_good_and_an_empty_one_is_nothing(data: Path, tmp_path: Path) -> None:
    assert {one.level for one in examine_files(data, NOW_MS)} == {"ok"}
    assert list(examine_files(tmp_path / "none", NOW_MS)) == []


def test_a_database_on_a_disk_that_is_not_mounted_is_an_error(data: Path) -> None:
    (data / "live.db").symlink_to("unmounted/live.db")
    finding = found(data, "databases")
    assert (finding.level, "nothing is there. Mount the disk" in finding.words) == ("error", True)


@pytest.mark.parametrize(("name", "mode"), [(".", 0o755), ("test.db", 0o640), ("payd.toml", 0o604)])
def test_what_others_may_read_is_named_with_the_command_that_mends_it(
    data: Path, name: str, mode: int
) -> None:
    (data / "payd.toml").touch(mode=0o600)
    (data / name).chmod(mode)
    if name == "payd.toml":
        assert found(data, "file permissions").level == "ok", "nobody gets there"
        data.chmod(0o755)
    told = [one for one in examine_files(data, NOW_MS) if one.subject == "file permissions"]
    assert {one.level for one in told} == {"warning"}
    assert any(f"chmod {'700' if name == '.' else '600'}" in one.what_to_do for one in told)


@pytest.mark.parametrize("name", ["test.db", "seal.key"])
def test_another_owner_is_a_warning(data: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    real = Path.stat

    def stat(path: Path, **kwargs: bool) -> os.stat_result:
        seen = list(real(path, **kwargs))
        seen[4] += path.name == name
        return os.stat_result(seen)

    monkeypatch.setattr(Path, "stat", stat)
    assert f"{data / name} belongs to another user" in found(data, "file permissions").words


def test_a_seal_key_that_is_gone_or_open_is_an_error_and_none_is_made(data: Path) -> None:
    (data / "seal.key").chmod(0o644)
    assert "chmod 600" in found(data, "seal key").words
    (data / "seal.key").unlink()
    assert (found(data, "seal key").level, (data / "seal.key").exists()) == ("error", False)


def test_a_seal_key_that_opens_nothing_is_an_error(data: Path) -> None:
    secret = Seal(load_key(data / "seal.key")).seal(b"whsec_a", "we_1")
    with closing(sqlite3.connect(data / "test.db")) as tx, tx:
        tx.execute(
            "INSERT INTO endpoint_secrets (endpoint_id, sealed, created_at_ms) VALUES ('we_1', ?, 0)",
            (secret,),
        )
    assert found(data, "seal key").level == "ok"
    (data / "seal.key").write_text(bytes(32).hex())
    finding = found(data, "seal key")
    assert finding.level == "error"
    assert "does not open authenticator apps of people (1, in office.db), " in finding.words
    assert "payd webhook rotate --mode test" in finding.what_to_do
    (data / "test.db").rename(data / "live.db")
    live = [one for one in examine_files(data, NOW_MS, paste=lambda words: f"payd {words} there")]
    [todo] = [one.what_to_do for one in live if one.subject == "seal key"]
    assert "`payd webhook rotate --mode live there`" in todo


def test_old_schemas_are_a_warning_and_new_ones_an_error(data: Path, tmp_path: Path) -> None:
    unpack(stored()[1, 1], tmp_path / "old")
    assert "migrate --dry-run" in found(tmp_path / "old", "schemas").what_to_do
    with closing(sqlite3.connect(data / "test.db")) as tx:
        tx.execute("PRAGMA user_version = 999")
    assert "version 999" in found(data, "schemas").words
    (data / "office.db").write_bytes(b"no database" * 100)
    assert "office.db cannot be read" in found(data, "schemas").words


def test_damage_is_named_and_the_rest_is_looked_at(data: Path) -> None:
    assert found(data, "databases").words == "no damage in office.db, test.db"
    (data / "office.db").write_bytes(b"no database" * 1000)
    damaged, well = [one for one in examine_files(data, NOW_MS) if one.subject == "databases"]
    assert (damaged.level, damaged.words) == ("error", "office.db is damaged: file is not a database")
    assert "sqlite3 office.db .recover" in damaged.what_to_do
    assert "payd restore SRC --overwrite" in damaged.what_to_do
    assert well.words == "no damage in test.db"


def test_a_log_that_its_database_left_behind_is_named_and_left_alone(data: Path) -> None:
    (data / "test.db").write_bytes(b"")
    (data / "test.db-wal").write_bytes(b"what was written last")
    assert "test.db is missing or empty, and test.db-wal is there" in found(data, "databases").words
    assert (data / "test.db-wal").read_bytes() == b"what was written last"


def test_a_database_that_is_too_large_is_looked_at_in_part_and_deep_reads_all(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DAMAGE_S", 0.0)
    monkeypatch.setattr(self_check, "QUICK_STEPS", 1)
    part = found(data, "databases")
    assert (part.level, "no damage found in office.db, test.db, but" in part.words) == ("ok", True)
    assert "payd doctor --deep" in part.what_to_do
    [whole] = [one for one in examine_files(data, NOW_MS, deep=True) if one.subject == "databases"]
    assert whole.words == "no damage in office.db, test.db"


def test_only_deep_compares_an_index_with_its_table(data: Path) -> None:
    with closing(sqlite3.connect(data / "test.db")) as tx, tx:
        tx.executescript(
            "CREATE TABLE a (x); INSERT INTO a VALUES (1), (2); CREATE INDEX b ON a (x) WHERE x > 1;"
            " PRAGMA writable_schema = ON;"
            " UPDATE sqlite_schema SET sql = 'CREATE INDEX b ON a (x)' WHERE name = 'b'"
        )
    assert found(data, "databases").level == "ok"
    [damaged, _] = [one for one in examine_files(data, NOW_MS, deep=True) if one.subject == "databases"]
    assert "missing from index b" in damaged.words


def test_a_look_for_damage_holds_no_writer_up_and_leaves_the_log(data: Path) -> None:
    with closing(sqlite3.connect(data / "test.db", isolation_level=None, timeout=0)) as tx:
        tx.execute("PRAGMA journal_mode = WAL")
        tx.execute("CREATE TABLE a (x)")
        tx.execute("BEGIN IMMEDIATE")
        tx.execute("INSERT INTO a VALUES (1)")
        size = (data / "test.db-wal").stat().st_size
        assert found(data, "databases").words == "no damage in office.db, test.db"
        tx.execute("COMMIT")
        assert (data / "test.db-wal").stat().st_size >= size > 0


def test_a_database_that_cannot_be_opened_is_said_to_be_that(data: Path) -> None:
    (data / "test.db").unlink()
    (data / "test.db").mkdir()
    told = [one.words for one in examine_files(data, NOW_MS) if one.subject == "databases"]
    assert told[0].startswith("test.db cannot be read: ")
    assert told[1:] == ["no damage in office.db"]


def test_a_log_that_grew_is_a_warning(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(data / "test.db", isolation_level=None)) as tx:
        tx.execute("PRAGMA journal_mode = WAL")
        tx.execute("CREATE TABLE a (x)")
        assert {one.subject for one in examine_files(data, NOW_MS)} & {"write-ahead log"} == set()
        monkeypatch.setattr(module, "LOG_BYTES_MAX", 1000)
        assert found(data, "write-ahead log").level == "warning"


def test_a_swap_that_was_cut_short_is_told(data: Path) -> None:
    (data / ".staged").mkdir()
    (data / ".staged" / "plan.json").touch()
    assert "next start" in found(data, "data directory").what_to_do


def test_the_age_of_the_last_backup_counts_where_there_is_money(data: Path, tmp_path: Path) -> None:
    assert (found(data, "backup").level, found(data, "backup").what_to_do) == ("ok", "")
    unpack(stored()[max(stored())], tmp_path / "other")
    (tmp_path / "other" / "test.db").rename(data / "live.db")
    assert "none was ever made" in found(data, "backup").words
    assert found(data, "backup").level == "warning"
    make_backup(data, tmp_path / "backup", Keystore(), with_keys=False, now_ms=NOW_MS)
    assert found(data, "backup", NOW_MS + (BACKUP_DAYS_MAX - 1) * DAY_MS).level == "ok"
    old = found(data, "backup", NOW_MS + BACKUP_DAYS_MAX * DAY_MS)
    assert (old.level, f"{BACKUP_DAYS_MAX} days old" in old.words) == ("warning", True)
