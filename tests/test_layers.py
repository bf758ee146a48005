"""Imports point down only: the contracts of pyproject.toml hold, and each of them would notice."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

# What someone might write one day: the file, the module it must not import, and the contract that says so.
FORBIDDEN = (
    ("store/payments.py", "payd.web.call", "floors: every import points down"),
    ("net/http.py", "payd.store.db", "floors: every import points down"),
    ("core/retry.py", "time", "the core is pure"),
    ("web/merchants.py", "sqlite3", "SQL is spoken in store only"),
    ("web/merchants.py", "quart", "handlers do not know their door"),
    ("web/merchants.py", "payd.web.payments", "routes do not know each other"),
)


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts on the `payd` that lies in `folder`."""
    return subprocess.run(
        [LINT_IMPORTS, "--no-logo", "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the sources, to break."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    ignore = shutil.ignore_patterns("__pycache__", "static", "templates", "migrations")
    shutil.copytree(ROOT / "payd", tmp_path / "payd", ignore=ignore)
    return tmp_path


def test_every_contract_is_kept() -> None:
    linted = lint_imports(ROOT)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_forbidden_imports_break_their_contracts(house: Path) -> None:
    for file, module, _ in FORBIDDEN:
        with (house / "payd" / file).open("a") as source:
            source.write(f"\nimport {module}\n")

    linted = lint_imports(house)

    assert linted.returncode == 1, linted.stdout + linted.stderr
    for file, module, contract in FORBIDDEN:
        importer = "payd." + file.removesuffix(".py").replace("/", ".")
        assert f"{contract} BROKEN" in linted.stdout
        assert f"{importer} -> {module}" in linted.stdout, linted.stdout


def test_a_room_without_a_floor_is_noticed(house: Path) -> None:
    (house / "payd" / "attic.py").write_text('"""A room that no floor has."""\n')

    linted = lint_imports(house)

    assert linted.returncode == 1, linted.stdout + linted.stderr
    assert "attic" in linted.stdout
