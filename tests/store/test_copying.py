"""Copies of databases that are being written: of one moment, one file each, ended when somebody wants."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from payd.store.copying import (
    LinkAstray,
    LogAstray,
    OfficeMissing,
    check_logs,
    check_office,
    copy_pinned,
    databases_in,
    has_foreign_log,
    looked_at,
    open_existing,
    pinned,
    take_log,
)

WAL_FLAGS = slice(18, 20)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two databases with a log and a row each."""
    paths = (tmp_path / "office.db", tmp_path / "test.db")
    for path in paths:
        with closing(sqlite3.connect(path)) as tx, tx:
            tx.execute("PRAGMA journal_mode = WAL")
            tx.execute("CREATE TABLE a (x)")
            tx.execute("INSERT INTO a VALUES (1)")
    return paths


@pytest.mark.parametrize("left", [("test.db",), ("test.db", "live.db")])
def test_payments_without_their_accounts_are_no_new_house(tmp_path: Path, left: tuple[str, ...]) -> None:
    check_office(tmp_path)
    for name in left:
        (tmp_path / name).touch()
        check_office(tmp_path)
    for name in left:
        (tmp_path / name).write_bytes(b"SQLite format 3\0")
    for _ in range(2):
        with pytest.raises(OfficeMissing, match=r"office\.db is missing or empty, and test\.db is there"):
            check_office(tmp_path)
        (tmp_path / "office.db").touch()
    (tmp_path / "office.db").write_bytes(b"SQLite format 3\0")
    check_office(tmp_path)


def kill(path: Path) -> None:
    """Leave a database as its killed writer would: what was written last is in its log alone."""
    begun = path.with_name("begun.db")
    with closing(sqlite3.connect(begun, isolation_level=None)) as tx:
        tx.execute("PRAGMA journal_mode = WAL")
        tx.execute("CREATE TABLE IF NOT EXISTS a (x)")
        tx.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        tx.execute("INSERT INTO a VALUES (2)")
        for suffix in ("", "-wal"):
            shutil.copy(f"{begun}{suffix}", f"{path}{suffix}")


def test_a_log_beside_its_own_database_or_an_empty_one_is_nothing_to_say(tmp_path: Path) -> None:
    check_logs(tmp_path)
    kill(tmp_path / "live.db")
    (tmp_path / "test.db").touch()
    (tmp_path / "test.db-wal").touch()
    (tmp_path / "office.db").write_bytes(
        b"no database at all".ljust(WAL_FLAGS.start) + b"\x01\x01, as others say"
    )
    (tmp_path / "office.db-wal").write_bytes(b"log")
    check_logs(tmp_path)
    with closing(open_existing(tmp_path / "live.db")) as tx:
        assert count(tx) == 1


def test_a_log_that_a_start_would_throw_away_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    kill(path)
    path.rename(tmp_path / "moved.db")
    for _ in range(2):
        with pytest.raises(LogAstray, match=r"live\.db is missing or empty, and live\.db-wal is there"):
            check_logs(tmp_path)
        path.touch()
    (tmp_path / "moved.db").replace(path)
    check_logs(tmp_path)
    with closing(open_existing(path)) as tx:
        assert count(tx) == 1, "nothing was lost"


def test_a_log_that_a_start_would_mix_into_a_copy_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    kill(path)
    with pinned([path]) as [tx]:
        copy_pinned(tx, tmp_path / "copy.db")
    kill(path)
    (tmp_path / "copy.db").replace(path)
    with pytest.raises(LogAstray, match=r"live\.db is a copy, .* live\.db-wal is the log"):
        check_logs(tmp_path)
    assert has_foreign_log(path)
    (tmp_path / "live.db-wal").unlink()
    check_logs(tmp_path)
    assert not has_foreign_log(path)


def test_the_log_of_a_database_behind_a_link_lies_beside_the_database(tmp_path: Path) -> None:
    data, path = tmp_path / "data", tmp_path / "live.db"
    data.mkdir()
    (data / "live.db").symlink_to("../live.db")
    kill(path)
    check_logs(data)
    with pinned([path]) as [tx]:
        copy_pinned(tx, tmp_path / "copy.db")
        assert not take_log(data / "live.db"), "another has it open"
    kill(path)
    (tmp_path / "copy.db").replace(path)
    with pytest.raises(LogAstray, match=r"live\.db is a copy, .* live\.db-wal is the log"):
        check_logs(data)
    path.unlink()
    with pytest.raises(LogAstray, match=r"live\.db is missing or empty"):
        check_logs(data)


def count(tx: sqlite3.Connection) -> int:
    return int(tx.execute("SELECT count(*) FROM a").fetchone()[0])


def test_copies_are_of_the_moment_of_pinning_whatever_is_written_then(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    with pinned(pair) as opened:
        for path, tx in zip(pair, opened, strict=True):
            with closing(sqlite3.connect(path)) as writer:
                for _ in range(500):
                    with writer:
                        writer.execute("INSERT INTO a VALUES (randomblob(2000))")
            copy_pinned(tx, tmp_path / f"copy of {path.name}")
    for path in pair:
        copy = tmp_path / f"copy of {path.name}"
        assert copy.stat().st_mode & 0o777 == 0o600
        assert copy.read_bytes()[WAL_FLAGS] == b"\x01\x01", "a copy is one file, without a log"
        with closing(sqlite3.connect(copy)) as tx:
            assert count(tx) == 1
    assert sorted(each.name for each in tmp_path.iterdir() if each.name.startswith("copy")) == [
        "copy of office.db",
        "copy of test.db",
    ]


def test_a_log_is_taken_unless_another_program_has_the_database_open(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    path = pair[0]
    with closing(sqlite3.connect(path)) as writer, writer:
        writer.execute("INSERT INTO a VALUES (2)")
        assert not take_log(path)
    assert take_log(path)
    assert not (tmp_path / "office.db-wal").exists()
    path.write_bytes(b"no database at all")
    with pytest.raises(sqlite3.DatabaseError):
        take_log(path)


def test_who_looks_hears_how_far_it_is_and_can_end_it(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    with closing(sqlite3.connect(pair[0])) as tx, tx:
        tx.execute("INSERT INTO a VALUES (zeroblob(5000000))")
    told: list[tuple[int, int]] = []

    def look(_what: str, _file: str, done: int, total: int) -> None:
        told.append((done, total))
        if len(told) == 3:
            raise InterruptedError

    with pinned(pair) as opened:
        with pytest.raises(InterruptedError):
            copy_pinned(opened[0], tmp_path / "copy", look)
        assert told[0] < told[1] < told[2]
        with pytest.raises(FileExistsError):
            copy_pinned(opened[0], tmp_path / "copy")


def test_a_long_statement_ends_when_who_looks_says_so(pair: tuple[Path, Path]) -> None:
    def look(*_: object) -> None:
        raise InterruptedError

    endless = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    with closing(open_existing(pair[0])) as tx:
        with pytest.raises(InterruptedError), looked_at(tx, "checking", "office.db", look):
            tx.execute(endless).fetchone()
        with pytest.raises(sqlite3.OperationalError, match="nowhere"), looked_at(tx, "", "", look):
            tx.execute("SELECT 1 FROM nowhere")
        assert count(tx) == 1


def test_only_databases_that_are_there_are_opened(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    assert databases_in(tmp_path) == [("office.db", "office"), ("test.db", "realm")]
    with pytest.raises(sqlite3.OperationalError):
        open_existing(tmp_path / "live.db")
    assert not (tmp_path / "live.db").exists()


@pytest.mark.parametrize("name", ["office.db", "test.db", "live.db"])
def test_a_database_on_a_disk_that_is_not_mounted_is_not_taken_for_none(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("unmounted/file.db")
    for look in (databases_in, check_office):
        with pytest.raises(LinkAstray, match=rf"{name} is a link to unmounted/file\.db.* Mount the disk"):
            look(tmp_path)
    (tmp_path / "unmounted").mkdir()
    (tmp_path / "unmounted" / "file.db").touch()
    assert [found for found, _ in databases_in(tmp_path)] == [name]
