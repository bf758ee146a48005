"""`payd` without a command teaches; a file a command, and only the wanted one is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import payd.cli
from payd import __version__
from payd.cli import COMMANDS
from tests.terminal import Terminal


def test_help_shows_every_command_with_a_line_that_says_what_it_is_for(payd: Terminal) -> None:
    shown = payd("--help").output
    for name in COMMANDS:
        [line] = [
            line for line in shown.splitlines() if line.startswith(f"  {name} ") and name in line.split()[0]
        ]
        assert len(line.split()) > 3, line


def test_help_teaches_the_first_payment_and_the_exit_codes(payd: Terminal) -> None:
    shown = payd("-h").output
    for words in (
        "payd demo",
        "payd serve --demo",
        "payd key create --mode test",
        "Exit codes:",
        "3  the server",
    ):
        assert words in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(payd: Terminal, name: str) -> None:
    assert "Usage: payd " in payd(name, "--help").output


def test_each_command_is_a_file_of_its_name() -> None:
    folder = Path(payd.cli.__file__).parent
    assert [name for name in COMMANDS if not (folder / f"{name.replace('-', '_')}.py").is_file()] == []


def test_an_unknown_command_is_wrong_usage(payd: Terminal) -> None:
    assert "No such command" in payd.error("frobnicate", code=2)


def test_a_mistyped_group_is_guessed(payd: Terminal) -> None:
    assert "No such command 'keys'. Did you mean 'key'?" in payd.error("keys", "list", code=2)


def test_the_version_is_an_option_too(payd: Terminal) -> None:
    assert payd("--version").output == f"payd {__version__}\n"


def test_no_command_at_all_shows_the_help(payd: Terminal) -> None:
    assert "First payment:" in payd(code=2).output


def test_the_module_runs_as_the_program_does() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "payd", "version"], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith(f"payd {__version__}\n")


def test_showing_the_version_imports_no_server() -> None:
    code = (
        "import sys; from payd.cli import cli; cli(['version'], standalone_mode=False); print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"quart", "hypercorn", "payd.server", "payd.web.routes"} & set(run.stdout.split())
