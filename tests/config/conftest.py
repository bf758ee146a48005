"""A payd.toml in an empty folder: what it loads to, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from payd.config import Config, ConfigError, load

Loaded = Callable[..., Config]
Problems = Callable[..., list[str]]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "payd.toml"


@pytest.fixture
def loaded(file: Path) -> Loaded:
    """The configuration of a text and of variables."""

    def loaded(text: str, **env: str) -> Config:
        file.write_text(text)
        return load(file, env)

    return loaded


@pytest.fixture
def problems(file: Path, loaded: Loaded) -> Problems:
    """What is wrong with it, each with the line."""

    def problems(text: str, **env: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            loaded(text, **env)
        return [problem.replace(str(file), "payd.toml") for problem in caught.value.problems]

    return problems
