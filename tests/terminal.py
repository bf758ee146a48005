"""The command line in this process: what somebody types, and what comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from payd.cli import cli


class Terminal:
    """Somebody who types `payd …` in a folder.

    Attributes:
        folder: The current one; `data/` in it is the default data directory.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *args: str, code: int = 0, input: str | bytes | None = None) -> Result:
        """Run a command, which has to end with `code`; a bug comes out as itself."""
        result = CliRunner().invoke(cli, list(args), input=input, prog_name="payd")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    def json(self, *args: str) -> Any:
        """What a command prints with `--json`, and nothing beside it."""
        return msgspec.json.decode(self(*args, "--json").stdout)

    def error(self, *args: str, code: int = 1) -> str:
        """What a command that fails says: on standard error, in one line, nothing on the other."""
        result = self(*args, code=code)
        assert result.stdout == ""
        return result.stderr


def on_terminal(monkeypatch: pytest.MonkeyPatch, *, columns: int) -> None:
    """From now on, what is printed goes to a terminal as wide as this."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
