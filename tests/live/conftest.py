"""A fresh node, and a shop on it, for each test that wants one: they start within a blink."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.live.anvil import Anvil, running_anvil
from tests.live.chain import LocalChain
from tests.live.solana import LocalSolana
from tests.live.solana_behind import SolanaBehind, open_solana_behind
from tests.live.solana_street import open_furnished
from tests.live.street import Street, furnish_chain, open_street


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    """It mines each transaction at once, and `finalized` is two blocks behind."""
    with running_anvil(slots_in_an_epoch=1) as running:
        yield running


@pytest.fixture
def chain(anvil: Anvil) -> LocalChain:
    """What can be done on it."""
    return LocalChain(anvil)


@pytest.fixture
async def street(tmp_path: Path, chain: LocalChain) -> AsyncIterator[Street]:
    """A shop on it, whose blocks come by themselves."""
    await furnish_chain(chain)
    async with open_street(tmp_path / "house", chain, block_s=0.2) as opened:
        yield opened


@pytest.fixture
async def solana() -> AsyncIterator[LocalSolana]:
    """A Solana chain with tokens, and accounts that have some."""
    async with open_furnished() as local:
        yield local


@pytest.fixture
async def pair(tmp_path: Path, solana: LocalSolana) -> AsyncIterator[SolanaBehind]:
    """A shop with two nodes."""
    async with open_solana_behind(tmp_path / "house", solana) as opened:
        yield opened


@pytest.fixture
async def still(tmp_path: Path, solana: LocalSolana) -> AsyncIterator[SolanaBehind]:
    """A shop with two nodes, on a chain whose blocks come when they are asked for."""
    async with open_solana_behind(tmp_path / "house", solana, slot_s=None) as opened:
        yield opened
