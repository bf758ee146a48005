"""A merchant with open payments, for each test of the store that wants one."""

from __future__ import annotations

import pytest

from payd.store.db import Database
from tests.till import Till


@pytest.fixture
async def till(realm_db: Database) -> Till:
    """Its merchant, and nothing sold yet."""
    return await Till(realm_db).open()
