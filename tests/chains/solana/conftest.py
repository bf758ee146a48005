"""What tests of Solana's rooms have: a shop that offers, and one that follows payments, on a fresh chain."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from payd.store.db import Database
from tests.chains.solana.desk import Desk, open_desk
from tests.chains.solana.scene import Scene, open_scene


@pytest.fixture
async def desk(realm_db: Database) -> AsyncIterator[Desk]:
    """The one; its tests are marked `real_time`."""
    async with open_desk(realm_db) as opened:
        yield opened


@pytest.fixture
async def scene(realm_db: Database) -> AsyncIterator[Scene]:
    """The other, with one node; likewise."""
    async with open_scene(realm_db) as opened:
        yield opened
