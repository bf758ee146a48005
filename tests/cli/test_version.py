"""`payd version` says which program, API and webhook versions these are, and what they run on."""

from __future__ import annotations

import platform
import sqlite3
import tomllib
from pathlib import Path
from typing import get_args

from payd import __version__
from payd.cli.libraries import libraries
from payd.cli.version import LICENSE
from payd.store.migrate import Schema, read_migrations
from tests.terminal import Terminal

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_a_person_sees_the_version_first_and_what_it_runs_on(payd: Terminal) -> None:
    first, *others = payd("version").output.splitlines()
    assert first == f"payd {__version__}"
    shown = {name: value.strip() for name, value in (line.split(maxsplit=1) for line in others)}
    assert shown["Licence"] == "MIT"
    assert shown["Python"].startswith(platform.python_version())
    assert shown["SQLite"] == sqlite3.sqlite_version
    assert shown["Libraries"].startswith(f"{len(libraries())};")


def test_a_program_sees_all_versions(payd: Terminal) -> None:
    shown = payd.json("version")
    assert shown["version"] == __version__
    assert shown["apiVersions"] == ["2026-02-18", "2026-02-19.preview"]
    assert shown["webhookVersion"] == "2026-05-18"
    assert (shown["python"], shown["sqlite"]) == (platform.python_version(), sqlite3.sqlite_version)
    assert shown["schemas"] == {name: len(read_migrations(name)) for name in get_args(Schema)}
    assert shown["libraries"] == {each.name: each.version for each in libraries()}


def test_the_licence_is_that_of_the_project(payd: Terminal) -> None:
    assert (
        payd.json("version")["license"] == LICENSE == tomllib.loads(PROJECT.read_text())["project"]["license"]
    )
