"""A password that is typed: what comes of one that is no text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# What a terminal reads as strictly, what other ways let pass, and a variable.
HOW = (
    {"PYTHONIOENCODING": "utf-8:strict"},
    {"PYTHONIOENCODING": "utf-8:surrogateescape"},
    {"PAYD_RELAYER_PASSWORD": "gr\udcfcn und gelb"},
)


@pytest.mark.real_time
@pytest.mark.parametrize("how", HOW, ids=str)
def test_a_password_in_another_encoding_is_refused_in_words(tmp_path: Path, how: dict[str, str]) -> None:
    """As from a terminal that writes Latin-1: its letter for ü is none in UTF-8."""
    run = subprocess.run(
        [sys.executable, "-m", "payd", "relayer", "create", "new.json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.fspath(Path(__file__).parents[2]), **how},
        input=2 * b"gr\xfcn und gelb\n",
        capture_output=True,
        start_new_session=True,  # else it is asked at the terminal that the tests are run at
        timeout=60,
    )
    assert run.returncode == 1
    assert b"Error: The password is not UTF-8. " in run.stderr
    assert b"Traceback" not in run.stderr
    assert b"gelb" not in run.stderr
    assert list(tmp_path.iterdir()) == []
