"""A terminal in an empty folder, without a variable of the machine's own."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.terminal import Terminal


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def payd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The program, where nothing was ever made."""
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("PAYD_")]:
        monkeypatch.delenv(variable)
    return Terminal(tmp_path)


@pytest.fixture
def begun(payd: Terminal) -> Terminal:
    """The program, after `payd init`."""
    payd("init")
    return payd
