"""What a database says of itself."""

from __future__ import annotations

from pathlib import Path

from payd.store.db import Database, Tx
from payd.store.stats import COMMIT_BOUNDS_S, bytes_of, log_bytes_of


def begin(tx: Tx, count: int) -> None:
    tx.execute("CREATE TABLE counted (n)")
    tx.executemany("INSERT INTO counted VALUES (?)", [(n,) for n in range(count)])


async def test_a_database_says_what_it_did_and_how_large_it_is(realm_db: Database) -> None:
    before = realm_db.stats()
    await realm_db.write(begin, 10_000)
    after = realm_db.stats()

    assert (after.commits, after.steps) == (before.commits + 1, before.steps + 1)
    assert (after.failures, after.staged) == (0, 0)
    assert after.commit_s.count == after.commits
    assert after.commit_s.bounds == COMMIT_BOUNDS_S
    assert after.file_bytes is not None
    assert after.log_bytes > before.log_bytes


def test_a_file_that_is_not_to_be_seen_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"12345")

    assert bytes_of(tmp_path / "there") == 5
    assert bytes_of(tmp_path / "gone") is None


def test_the_log_of_a_database_that_is_a_link_lies_beside_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "larger").mkdir()
    (tmp_path / "larger" / "live.db-wal").write_bytes(b"12345")
    (tmp_path / "live.db").symlink_to("larger/live.db")

    assert log_bytes_of(tmp_path / "live.db") == 5
    assert log_bytes_of(tmp_path / "test.db") == 0
