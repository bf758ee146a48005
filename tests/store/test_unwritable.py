"""A failure is the directory's only when it is about the directory: then it is said why."""

from __future__ import annotations

import errno
import resource
import sqlite3
from pathlib import Path

import pytest

from payd.store.migrate import MigrationFailed
from payd.store.unwritable import Unwritable, why_unwritable

DATA = Path("/srv/payd/data")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/srv/payd/data/lock"), Unwritable.FORBIDDEN),
        (PermissionError(errno.EACCES, "Permission denied", "/srv/payd"), Unwritable.FORBIDDEN),
        (OSError(errno.EROFS, "Read-only file system"), Unwritable.READ_ONLY),
        (OSError(errno.ENOSPC, "No space left on device", "/srv/payd/data/live.db"), Unwritable.FULL),
        (FileExistsError(errno.EEXIST, "File exists", "/srv/payd/data"), Unwritable.NO_DIRECTORY),
        (PermissionError(errno.EACCES, "Permission denied", "/etc/ssl/ca.pem"), None),
        (OSError(errno.ECONNREFUSED, "Connection refused"), None),
        (sqlite3.OperationalError("no code"), None),
        (RuntimeError("a bug"), None),
    ],
)
def test_the_systems_errors_are_read(error: Exception, why: Unwritable | None) -> None:
    assert why_unwritable(error, DATA) == why


def test_sqlites_own_errors_are_read(tmp_path: Path) -> None:
    (tmp_path / "office.db").touch()
    with sqlite3.connect(f"{(tmp_path / 'office.db').as_uri()}?mode=ro", uri=True) as tx:
        with pytest.raises(sqlite3.OperationalError) as readonly:
            tx.execute("CREATE TABLE t (a)")
        assert why_unwritable(readonly.value, tmp_path) is Unwritable.FORBIDDEN
        failed = MigrationFailed("0001")
        failed.__cause__ = readonly.value
        assert why_unwritable(failed, tmp_path) is Unwritable.FORBIDDEN
    tx.close()
    with pytest.raises(sqlite3.OperationalError) as missing:
        sqlite3.connect(tmp_path / "no" / "office.db")
    assert why_unwritable(missing.value, tmp_path) is Unwritable.FORBIDDEN


def test_sqlites_full_disk_is_read(tmp_path: Path) -> None:
    tx = sqlite3.connect(tmp_path / "office.db")
    tx.execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite3.OperationalError) as full:
        tx.execute("CREATE TABLE t (a)")
    tx.close()
    assert why_unwritable(full.value, tmp_path) is Unwritable.FULL


def test_a_disk_that_was_full_before_a_database_was_opened_is_read(tmp_path: Path) -> None:
    path = tmp_path / "office.db"
    with sqlite3.connect(path) as tx:
        tx.execute("PRAGMA journal_mode = WAL")
    tx.close()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        tx = sqlite3.connect(path)
        with pytest.raises(sqlite3.OperationalError, match="disk I/O error") as full:
            tx.execute("SELECT count(*) FROM sqlite_schema")
        tx.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert why_unwritable(full.value, tmp_path) is Unwritable.FULL
