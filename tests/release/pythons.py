"""The Pythons of this machine for which the one file has libraries."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.release.build import PYTHONS
from tests.short import IS_SHORT

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


def few_of(pythons: Mapping[str, Path]) -> dict[str, Path]:
    """The tests' own and the newest other one: a build with another takes a third more."""
    others = sorted(pythons.keys() - {PYTHON}, key=lambda python: int(python.partition(".")[2]))
    return {python: pythons[python] for python in (PYTHON, *others[-1:])}


HERE: Final = few_of(pythons_of(os.environ)) if IS_SHORT else pythons_of(os.environ)
"""In a short run, few of them."""

OTHERS: Final = [python for python in HERE if python != PYTHON]
