"""What tests of Solana's rooms have: a shop that offers on a fresh local chain."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from payd.store.db import Database
from tests.chains.solana.desk import Desk, open_desk


@pytest.fixture
async def desk(realm_db: Database) -> AsyncIterator[Desk]:
    """The one; its tests are marked `real_time`."""
    async with open_desk(realm_db) as opened:
        yield opened
