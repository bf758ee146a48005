"""Watchers over a chain in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from payd.store.db import Database
from tests.actors.solana_watching import SolanaWatching, open_solana
from tests.actors.submitting import Submitting, open_submitting
from tests.actors.watching import Watching, open_watching


@pytest.fixture
async def watching(realm_db: Database) -> AsyncIterator[Watching]:
    """One node."""
    async with open_watching(realm_db) as opened:
        yield opened


@pytest.fixture
async def two_nodes(realm_db: Database) -> AsyncIterator[Watching]:
    """Two nodes; the first one is preferred."""
    async with open_watching(realm_db, 2) as opened:
        yield opened


@pytest.fixture
async def solana(realm_db: Database) -> AsyncIterator[SolanaWatching]:
    """A Solana chain that one node tells of."""
    async with open_solana(realm_db) as opened:
        yield opened


@pytest.fixture
async def two_solanas(realm_db: Database) -> AsyncIterator[SolanaWatching]:
    """The same with two nodes; the first one is preferred."""
    async with open_solana(realm_db, 2) as opened:
        yield opened


@pytest.fixture
async def submitting(realm_db: Database) -> AsyncIterator[Submitting]:
    """A submitter with one node."""
    async with open_submitting(realm_db) as opened:
        yield opened


@pytest.fixture
async def two_submitting(realm_db: Database) -> AsyncIterator[Submitting]:
    """The same with two nodes."""
    async with open_submitting(realm_db, 2) as opened:
        yield opened
