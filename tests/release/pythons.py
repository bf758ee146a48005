"""The Pythons of this machine for which the one file has libraries."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.release.build import PYTHONS

PYTHON: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"
"""The one that the tests run with."""


def pythons_of(env: Mapping[str, str]) -> dict[str, Path]:
    """The program of each, by version such as `3.12`: the tests' own, else one on the PATH, else of pyenv.

    Args:
        env: The environment, of which PATH, PYENV_ROOT and HOME count.
    """
    found = {PYTHON: Path(sys.executable)}
    for python in PYTHONS:
        programs = (each for each in _programs(python, env) if os.access(each, os.X_OK))
        if (first := next(programs, None)) is not None:
            found.setdefault(python, first)
    return found


def _programs(python: str, env: Mapping[str, str]) -> Iterator[Path]:
    """Where it may be."""
    for folder in env.get("PATH", "").split(os.pathsep):
        # pyenv's are there for every version that anybody has, and run nothing.
        if not folder.endswith("shims"):
            yield Path(folder, f"python{python}")
    pyenv = Path(env.get("PYENV_ROOT") or Path(env.get("HOME", "/"), ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{python}.*/bin/python{python}"), reverse=True)


HERE: Final = pythons_of(os.environ)
OTHERS: Final = [python for python in HERE if python != PYTHON]
