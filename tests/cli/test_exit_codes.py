"""The table of exit codes is the one that is shown, written down, and true."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from payd.cli.exit_codes import EXIT_CODES, INTERRUPTED, MISCONFIGURED, REFUSED, UNREACHABLE, UNREAD
from payd.cli.failure import Misconfigured, Refused, Unreachable
from payd.store.lock import DataDirectoryBusy
from tests.terminal import Terminal

README = Path(__file__).parents[2] / "README.md"


def test_the_kinds_of_failure_have_the_codes_of_the_table() -> None:
    kinds = {Refused: REFUSED, Misconfigured: MISCONFIGURED, Unreachable: UNREACHABLE}
    assert {kind: kind.exit_code for kind in kinds} == kinds
    assert click.UsageError.exit_code == MISCONFIGURED
    assert {INTERRUPTED, UNREAD} == {128 + 2, 128 + 13}
    assert set(EXIT_CODES) == {0, *kinds.values(), INTERRUPTED, UNREAD}


def test_the_page_has_the_same_table() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", README.read_text(), re.MULTILINE)
    assert {int(code): meaning.replace("`", "").replace("\\|", "|") for code, meaning in rows} == EXIT_CODES


def test_help_and_the_front_page_show_it(payd: Terminal) -> None:
    shown = " ".join(payd("--help").output.split())
    lines = payd("help", "exit-codes").output.splitlines()[1:]
    assert {int(line.split()[0]): line.split(maxsplit=1)[1].strip() for line in lines} == EXIT_CODES
    for code, meaning in EXIT_CODES.items():
        assert f"{code} {meaning}" in shown
    assert payd.json("help", "exit-codes") == {str(code): words for code, words in EXIT_CODES.items()}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("version", 0),
        ("--help", 0),
        ("webhook set --help", 0),
        ("", 2),
        ("webhook", 2),
        ("frobnicate", 2),
        ("webhook puase", 2),
        ("version --jsno", 2),
        ("key create --mode tset", 2),
        ("merchant create Shop", 2),  # its e-mail is missing
        ("check-config --config wrong.toml", 2),
        ("account create main", 0),
        ("account create main", 1),  # there is one of that name
        ("payment show pay_unknown", 1),
        ("webhook show", 1),
        ("doctor --config wrong.toml", 1),
        ("listen --url http://127.0.0.1:9", 2),  # its key is missing
    ],
)
def test_commands_end_as_the_table_says(payd: Terminal, tmp_path: Path, line: str, code: int) -> None:
    args = line.split()
    (tmp_path / "wrong.toml").write_text("lisen = 1\n")
    if code == 1 and args[0] == "account":
        payd(*args)
    elif code == 1 and args[0] != "doctor":
        payd("account", "create", "main")
    assert payd(*args, code=code).exit_code in EXIT_CODES


def test_data_that_another_process_holds_are_3(payd: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise DataDirectoryBusy(Path("data"), 4711)

    monkeypatch.setattr("payd.cli.options.ask", busy)
    assert "4711" in payd.error("account", "list", code=3)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("hlep", "'help'"),
        ("webhok show", "'webhook'"),
        ("webhook puase", "'pause'"),
        ("help webhok", "'webhook'"),
        ("demo --scrach", "'--scratch'"),
        ("help webhook recvoer", "'recover'"),
    ],
)
def test_what_is_misspelled_is_guessed(payd: Terminal, typed: str, meant: str) -> None:
    assert re.search(f"Did you mean.*{meant}", payd.error(*typed.split(), code=2))
