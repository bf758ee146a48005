"""A fresh node for each test that wants one: it starts within a blink."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.anvil import Anvil, running_anvil
from tests.live.chain import LocalChain
from tests.live.solana import LocalSolana, furnish_solana
from tests.live.svm_methods import SvmNode


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
def node() -> SvmNode:
    """A node of Solana without a port; what has four blocks on top is final."""
    return SvmNode(finalized=4)


@pytest.fixture
async def solana(node: SvmNode) -> LocalSolana:
    """What can be done on it."""
    local = LocalSolana(node)
    await furnish_solana(local)
    return local
