"""A merchant with open payments, and a small file, for each test of the store that wants one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from payd.store.db import Database
from tests.till import Till


@pytest.fixture
async def till(realm_db: Database) -> Till:
    """Its merchant, and nothing sold yet."""
    return await Till(realm_db).open()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with ten rows in table `t`."""
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x INTEGER PRIMARY KEY)")
        connection.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(10)])
    return tmp_path / "x.db"
