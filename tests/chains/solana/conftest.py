"""A fresh Solana node, and a shop on it, for each test that wants one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from payd.store.db import Database
from tests.chains.solana.scene import Scene, open_scene


@pytest.fixture
async def scene(realm_db: Database) -> AsyncIterator[Scene]:
    """A shop with one node; its tests are marked `real_time`."""
    async with open_scene(realm_db) as opened:
        yield opened
