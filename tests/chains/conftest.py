"""A fresh node, and a shop on it, for each test of a chain that wants one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from payd.store.db import Database
from tests.chains.evm.scene import Scene, open_scene
from tests.live.anvil import Anvil, running_anvil


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    """It mines each transaction at once, and `finalized` is two blocks behind."""
    with running_anvil(slots_in_an_epoch=1) as running:
        yield running


@pytest.fixture
async def scene(realm_db: Database, anvil: Anvil) -> AsyncIterator[Scene]:
    """A shop with one node; its tests are marked `real_time`."""
    async with open_scene(realm_db, anvil) as opened:
        yield opened
