"""A hint names the program as the terminal that shows it would find it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from payd.cli.pasted import pasted


@pytest.fixture(autouse=True)
def _nothing_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))


def make_program(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)


def test_where_the_shell_finds_it_its_name_is_enough(tmp_path: Path) -> None:
    make_program(tmp_path / "bin/payd")
    make_program(tmp_path / ".venv/bin/payd")
    assert pasted("demo") == "payd demo"


def test_the_path_by_which_it_was_started_is_relative_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(tmp_path / "env/bin/payd")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "env/bin/payd"), "serve"])
    assert pasted("demo") == "env/bin/payd demo"
    monkeypatch.chdir(tmp_path / "env/bin")
    assert pasted("demo") == "./payd demo"


def test_elsewhere_it_is_whole_and_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_program(tmp_path / "my env/bin/payd")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "my env/bin/payd")])
    assert pasted("demo") == f"'{tmp_path}/my env/bin/payd' demo"


def test_a_module_is_named_by_the_program_beside_its_python(tmp_path: Path) -> None:
    assert pasted("demo") == ".venv/bin/python -m payd demo"
    make_program(tmp_path / ".venv/bin/payd")
    assert pasted("demo") == ".venv/bin/payd demo"


def test_what_was_typed_goes_along() -> None:
    shown = pasted("demo", config_file="a b.toml", data_dir="data2")
    assert shown.endswith(" demo --config 'a b.toml' --data-dir data2")
