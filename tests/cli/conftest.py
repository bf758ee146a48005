"""A terminal in an empty folder, without a variable of the machine's own."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from payd.config import Config
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


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the server answers to each command, in place of a server; each command that was asked is kept."""
    given: dict[str, Any] = {"asked": []}

    def ask(_config: Config, command: str, args: dict[str, Any], _paste: object) -> Any:
        given["asked"].append((command, args))
        found = given[command]
        return found(args) if callable(found) else found

    monkeypatch.setattr("payd.cli.options.ask", ask)
    return given
