"""Every command teaches: what it is for, options with words, examples that work, and JSON for programs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from payd.cli import cli
from payd.cli.teaching import teach

COLUMNS = 80

WITHOUT_JSON = {
    "payd serve": "it runs; what it has to say goes to its log, which can be JSON",
    "payd completion": "it prints a script for a shell",
}
"""Commands that print no data, each with the reason."""

SHELL = re.compile(r"\||>|\$\(|&")


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Context]]:
    """Every command below one and itself, by the words that call it."""
    yield context.command_path, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, click.Context(below, info_name=name, parent=context))


ROOT = click.Context(cli, info_name="payd", help_option_names=["-h", "--help"])
ALL = dict(commands(cli, ROOT))
LEAVES = {path: context for path, context in ALL.items() if not isinstance(context.command, click.Group)}
each = pytest.mark.parametrize("path", ALL)


def help_of(path: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", ALL[path].get_help())


def examples(path: str) -> list[str]:
    """The lines that begin with the command's own words, without the words behind two blanks."""
    text = re.sub(r"\\\n +", "", help_of(path))
    typed = re.findall(rf"^ +((?:sudo |[A-Z_]+=\S+ )*{path}(?: .*|))$", text, re.MULTILINE)
    return [re.split(" {2,}", line)[0] for line in typed]


def test_there_are_as_many_commands_as_ever() -> None:
    assert len(LEAVES) > 55


@each
def test_its_purpose_is_one_line(path: str) -> None:
    first = (ALL[path].command.help or "").split("\n\n")[0]
    assert len(first.split()) >= 3, path
    assert ALL[path].command.get_short_help_str(200).endswith("."), first


@each
def test_its_help_has_examples(path: str) -> None:
    shown = help_of(path)
    if path != "payd":
        assert "\n  Examples:\n" in shown, f"{path}: its epilog is to come from teaching.py"
        assert "Exit codes: payd help exit-codes" in shown
    typed = (
        examples(path) if path in LEAVES else re.findall(rf"^ +(?:sudo )?{path} \w.*$", shown, re.MULTILINE)
    )
    assert typed, shown


@each
def test_its_help_fits_a_terminal(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    long = [line for line in help_of(path).splitlines() if len(line) > COLUMNS and " " in line.strip()]
    assert long == []
    assert "..." not in help_of(path).replace("]...", "").replace("...]", ""), "a sentence is cut"


@each
def test_each_of_its_options_has_help(path: str) -> None:
    bare = [one.opts for one in ALL[path].command.params if isinstance(one, click.Option) and not one.help]
    assert bare == []


@pytest.mark.parametrize("path", LEAVES)
def test_it_prints_json_for_programs(path: str) -> None:
    has = any("--json" in one.opts for one in LEAVES[path].command.params)
    assert has is (path not in WITHOUT_JSON), path


@pytest.mark.parametrize("path", LEAVES)
def test_its_examples_are_understood(path: str) -> None:
    block = re.sub(r"\\\n +", "", help_of(path)).split("Examples:\n")[1].split("\n\n")[0]
    assert len(examples(path)) == len(block.splitlines()), block
    for line in examples(path):
        own = re.sub(r"^(?:sudo |[A-Z_]+=\S+ )+", "", SHELL.split(line)[0])
        words = shlex.split(own)[len(path.split()) :]
        command = LEAVES[path].command
        context = click.Context(command, info_name=path, parent=LEAVES[path].parent)
        parser = command.make_parser(context)
        values, _, _ = parser.parse_args(list(words))
        missing = [
            one.name
            for one in command.params
            if one.required and not values.get(one.name or "") and not one.envvar
        ]
        assert missing == [], line


def test_what_is_taught_stands_in_an_order() -> None:
    told = teach("payd x\npayd y  words\n", notes="Notes.", codes="it is odd", then="payd z")
    assert told == (
        "Notes.\n\n\b\nExamples:\n  payd x\n  payd y  words\n\n"
        "\b\nNext: payd z\nExit code 1: it is odd\nExit codes: payd help exit-codes"
    )


def test_most_commands_need_neither_notes_nor_more() -> None:
    assert teach("payd x") == "\b\nExamples:\n  payd x\n\n\b\nExit codes: payd help exit-codes"
