"""The program leaves as the table of exit codes says, and silently where nobody did anything wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from payd.cli.failure import Misconfigured, Refused, Unreachable
from payd.cli.leaving import NOTHING_DONE, UNANSWERED, leave, wants_colour
from tests.terminal import Terminal

URL = "http://127.0.0.1:9/hook"


def raising(*errors: BaseException) -> Callable[[], None]:
    """What raises the last error, each while the one before was handled."""

    def run() -> None:
        if len(errors) == 1:
            raise errors[0]
        try:
            raising(*errors[:-1])()
        except (KeyboardInterrupt, EOFError, click.Abort, BaseExceptionGroup):
            raise errors[-1] from None

    return run


@pytest.mark.parametrize(
    ("run", "code", "said"),
    [
        (lambda: None, 0, ""),
        (lambda: 1, 1, ""),  # what ctx.exit(1) becomes
        (raising(Refused("no")), 1, "Error: no\n"),
        (raising(click.UsageError("how?")), 2, "Error: how?\n"),
        (raising(Misconfigured("line 3")), 2, "Error: line 3\n"),
        (raising(Unreachable("away")), 3, "Error: away\n"),
        (raising(KeyboardInterrupt(), click.Abort()), 130, ""),
        (raising(KeyboardInterrupt(), click.Abort(), click.Abort()), 130, ""),
        (raising(BaseExceptionGroup("", [KeyboardInterrupt()]), click.Abort()), 130, ""),
        (raising(EOFError(), click.Abort()), 1, f"Error: {UNANSWERED}\n"),
        (raising(click.Abort()), 1, f"{NOTHING_DONE}\n"),
    ],
)
def test_each_end_has_its_code_and_its_words(
    run: Callable[[], Any], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        leave(run)
    assert left.value.code == code
    assert capsys.readouterr() == ("", said)


def test_a_bug_comes_out_as_itself() -> None:
    with pytest.raises(ZeroDivisionError):
        leave(lambda: 1 // 0)


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, True),
        ({"NO_COLOR": ""}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm"}, True),
    ],
)
def test_colours_are_refused_by_the_usual_variables(
    variables: Mapping[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert wants_colour() is wanted


def started(folder: Path, *args: str, **options: Any) -> subprocess.Popen[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])}
    env |= options.pop("variables", {})
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command = [sys.executable, "-m", "payd", *args]
    return subprocess.Popen(command, cwd=folder, env=env, text=True, **options)


@pytest.mark.real_time
@pytest.mark.parametrize("line", ["check-config", "--help", "webhook set --help", "version --licenses"])
def test_a_reader_that_went_away_makes_no_noise(tmp_path: Path, line: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with started(tmp_path, *line.split(), stdout=writing) as process:
        os.close(writing)
        _, said = process.communicate()
    assert (process.returncode, said) == (141, "")


@pytest.mark.real_time
@pytest.mark.parametrize("line", ["check-config", "--help", "webhook set --help", "version --licenses"])
def test_a_disk_that_is_full_is_one_line_and_the_code_of_what_could_not_be_done(
    tmp_path: Path, line: str
) -> None:
    with open("/dev/full", "w") as full, started(tmp_path, *line.split(), stdout=full) as process:
        _, said = process.communicate()
    assert process.returncode == 1
    assert "No space left on device" in said
    assert said.count("\n") == 1, said


@pytest.mark.parametrize("line", ["account list", "webhook show --json"])
def test_ctrl_c_makes_no_noise(payd: Terminal, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("payd.cli.options.ask", interrupted)
    ended = payd(*line.split(), code=130)
    assert (ended.stdout, ended.stderr.strip()) == ("", "")


@pytest.mark.real_time
@pytest.mark.parametrize(
    "variables",
    [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}],
    ids=["C locale", "ascii"],
)
def test_a_locale_without_letters_ends_no_command(
    payd: Terminal, tmp_path: Path, variables: dict[str, str]
) -> None:
    payd("init")
    for words in (["key", "list"], ["key", "list", "--help"], ["check-config"]):
        with started(tmp_path, *words, variables=variables) as process:
            shown, said = process.communicate()
        assert (process.returncode, said) == (0, ""), words
        assert shown.count("\n") > 1


def test_a_question_that_nobody_answers_says_what_to_do(payd: Terminal) -> None:
    payd("init")
    payd("webhook", "set", "--url", URL)
    shown = payd("webhook", "delete", code=1, input="")
    assert UNANSWERED in shown.stderr
    shown = payd("webhook", "delete", code=1, input="n\n")
    assert (shown.stdout, shown.stderr.splitlines()[-1]) == ("", NOTHING_DONE)
    assert payd.json("webhook", "show")["url"] == URL


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_stops_no_command(closed: str) -> None:
    run = ["sh", "-c", f'exec "$0" -m payd version {closed}', sys.executable]
    ended = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ("payd " in ended.stdout) is (closed != ">&-")
