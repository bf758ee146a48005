"""Shells complete payd with what it says itself: bash, zsh and fish are each asked."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from payd.cli.completion import SHELLS
from tests.packages import from_debian
from tests.terminal import Terminal

pytestmark = pytest.mark.real_time

BASH = """
source script
complete -p payd >/dev/null
COMP_WORDS=({words} {last!r}) COMP_CWORD={at}
_payd_completion payd
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
FISH = "source script; complete -C '{line}'"
ZSH = """
autoload -Uz compinit && compinit -u -D
source ./script
compadd() {{ [[ $1 == -U ]] && print -l -- ${{(P)*[-1]}}; }}
_describe() {{ local each; for each in ${{(P)3}}; do print -- ${{each%%:*}}; done; }}
words=({words} {last!r}) CURRENT={place}
_payd_completion
"""


def completed(folder: Path, shell: str, *words: str) -> set[str]:
    """What a shell offers for the last word."""
    *before, last = ("payd", *words)
    program = folder / "payd"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m payd "$@"\n')
    program.chmod(0o755)
    places = {"words": shlex.join(before), "last": last, "at": len(before), "place": len(before) + 1}
    script, options = {
        "bash": (BASH, ["--norc"]),
        "zsh": (ZSH, ["-f"]),
        "fish": (FISH, ["--no-config"]),
    }[shell]
    env = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "HOME": str(folder),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    text = script.format(**places, line=shlex.join(before) + f" {last}")
    command = [from_debian(shell, shell), *options, "-c", text]
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return {line.split("\t")[0] for line in run.stdout.splitlines() if line}


@pytest.mark.parametrize("shell", SHELLS)
def test_it_offers_commands_options_and_values(payd: Terminal, tmp_path: Path, shell: str) -> None:
    script = payd("completion", shell).output
    assert "_PAYD_COMPLETE" in script
    (tmp_path / "script").write_text(script)
    assert completed(tmp_path, shell, "we") == {"webhook"}
    assert completed(tmp_path, shell, "webhook", "re") >= {"recover", "resend", "resume", "reveal"}
    assert completed(tmp_path, shell, "key", "create", "--mo") == {"--mode"}
    assert completed(tmp_path, shell, "key", "create", "--mode", "") == {"test", "live"}


def test_a_shell_that_is_not_known_is_wrong_usage(payd: Terminal) -> None:
    assert "'bash', 'zsh', 'fish'" in payd.error("completion", "tcsh", code=2)
