"""Commands in hints, as they work when they are pasted into the terminal that shows them."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

Paste: TypeAlias = Callable[[str], str]
"""Makes a command for a hint from the words behind `payd`: `pasted`, or one that keeps what was typed."""


def pasted(words: str, *, config_file: str | None = None, data_dir: str | None = None) -> str:
    """A command of this program, such as `.venv/bin/payd demo`.

    Args:
        words: What follows the program's name.
        config_file: `--config`, where it was typed.
        data_dir: `--data-dir`, where it was typed.
    """
    return with_options(f"{_program()} {words}", {"config": config_file, "data-dir": data_dir})


def with_options(words: str, options: Mapping[str, str | int | None]) -> str:
    """A command with those of its options that have a value, as a shell reads them."""
    given = [f"--{name} {shlex.quote(str(value))}" for name, value in options.items() if value]
    return " ".join([words, *given])


def _program() -> str:
    """`payd` where the shell finds it, else the path by which it was started."""
    if shutil.which("payd"):
        return "payd"
    started, beside = Path(sys.argv[0]), Path(sys.executable).with_name("payd")
    if started.name == "payd" and started.is_file():
        return _from_here(started)
    if beside.is_file():
        return _from_here(beside)
    return f"{_from_here(Path(sys.executable))} -m payd"


def _from_here(path: Path) -> str:
    """Relative where it lies in the current folder. Links stay: that of an environment's Python is a link."""
    path, here = Path(os.path.abspath(path)), Path.cwd()
    if not path.is_relative_to(here):
        return shlex.quote(str(path))
    inside = path.relative_to(here)
    return shlex.quote(str(inside) if inside.parent.name else f"./{inside}")
