"""A fresh node for each test that wants one: it starts within a blink."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.anvil import Anvil, running_anvil
from tests.live.chain import LocalChain


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    """It mines each transaction at once, and `finalized` is two blocks behind."""
    with running_anvil(slots_in_an_epoch=1) as running:
        yield running


@pytest.fixture
def chain(anvil: Anvil) -> LocalChain:
    """What can be done on it."""
    return LocalChain(anvil)
