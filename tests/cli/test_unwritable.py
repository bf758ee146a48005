"""A user who may not write the data directory is told so by every command, in a line, and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal import Terminal

pytestmark = pytest.mark.real_time

NOBODY = 65534
# The libraries are imported first: they may lie where that user sees nothing.
AS_NOBODY = f"""
import encodings.idna, os, payd.server, payd.web.commands, payd.cli.serve, payd.cli.init, payd.cli.key
import payd.cli.account
if os.geteuid() == 0:
    os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
payd.cli.main()
"""
COMMANDS = (
    ("serve", "--listen", "127.0.0.1:0"),
    ("serve", "--demo", "--listen", "127.0.0.1:0"),
    ("init",),
    ("account", "create", "main"),
    ("key", "list"),
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user may read, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made)
        path.chmod(0o755)
        yield path
        for each in (path, *path.rglob("*")):
            each.chmod(0o755)


def run_as_nobody(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.fspath(Path(__file__).parents[2])}
    command = [sys.executable, "-c", AS_NOBODY, *args]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=30)


def check(folder: Path, *args: str) -> None:
    run = run_as_nobody(folder, *args)
    assert (run.returncode, run.stdout) == (1, ""), run.stderr
    assert run.stderr.count("\n") == 1, run.stderr
    line = run.stderr.rstrip()
    assert line.startswith(f"Error: payd cannot write to {folder}/data (user "), line
    assert line.endswith("). Give this user the directory, or choose another with --data-dir.")


@pytest.mark.parametrize("args", COMMANDS[:4], ids=" ".join)
def test_a_directory_that_cannot_be_made(folder: Path, args: tuple[str, ...]) -> None:
    folder.chmod(0o555)
    check(folder, *args)


@pytest.mark.alike
@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_directory_of_somebody_else(payd: Terminal, folder: Path, args: tuple[str, ...], mode: int) -> None:
    payd("init", "--data-dir", str(folder / "data"))
    (folder / "data").chmod(mode)
    check(folder, *args)


@pytest.mark.alike
@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_a_database_of_somebody_else(payd: Terminal, folder: Path, args: tuple[str, ...]) -> None:
    payd("init", "--data-dir", str(folder / "data"))
    (folder / "data").chmod(0o777)
    (folder / "data/lock").chmod(0o666)
    (folder / "data/office.db").chmod(0o444)
    check(folder, *args)


def test_a_file_in_its_place_is_told_as_such(payd: Terminal) -> None:
    Path("data").touch()
    assert "is no directory" in payd.error("account", "create", "main")
    assert "is no directory" in payd.error("init")
