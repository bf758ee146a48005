"""What tests of the doors share: a receiver that is registered, and both ways into the listener."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.web import street
from tests.web.hooked import Hooked, open_hooked


@pytest.fixture
async def hooked(tmp_path: Path) -> AsyncIterator[Hooked]:
    """With live mode, and the endpoint registered in test mode."""
    async with open_hooked(tmp_path, live=True) as opened:
        await opened.register()
        yield opened


@pytest.fixture(params=["lane", "hypercorn"])
def by_both_doors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once by the lane, and once by hypercorn alone."""
    if request.param == "hypercorn":
        monkeypatch.setattr(street, "LANE_BODY_MAX", -1)
