"""What is printed: nothing is folded where nobody looks, and nothing that was typed is taken for markup."""

from __future__ import annotations

import click
import msgspec
import pytest

from payd.cli.show import Row, moment, show_fields, show_json, show_rows
from tests.terminal import on_terminal

LONG = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913" * 5


def test_json_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"ä": [1, None], "b": "x\ny"})
    assert msgspec.json.decode(capsys.readouterr().out) == {"ä": [1, None], "b": "x\ny"}


def test_rows_stand_under_their_headings_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows([{"b": 1, "a": "x"}, {"a": "y", "b": None}], {"a": "First", "b": "Second"}, "none")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["First", "Second"], ["x", "1"], ["y", "–"]]


def test_a_long_value_is_not_folded_for_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows([{"a": LONG}], {"a": "A"}, "none")
    assert LONG in capsys.readouterr().out.splitlines()[1]


def test_what_looks_like_markup_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows([{"a": "[red]x[/red]"}], {"a": "A"}, "none")
    show_fields({"A": "[bold]y"})
    shown = capsys.readouterr().out
    assert "[red]x[/red]" in shown
    assert "[bold]y" in shown


def test_an_empty_table_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows([], {"a": "A"}, "Make one: payd …")
    assert capsys.readouterr().out == "Make one: payd …\n"


def test_a_field_without_a_value_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    show_fields({"Id": "x", "Secret": None, "Events": ["a", "b"]})
    assert capsys.readouterr().out == "Id      x\nEvents  a b\n"


def test_a_table_that_a_terminal_is_too_narrow_for_is_told_briefly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"a": "x" * 30, "b": 1}, {"a": "y", "b": 2}]

    def shown() -> str:
        show_rows(rows, {"a": "A", "b": "B"}, "none", lambda row: f"{row['b']}: {row['a']}")
        return capsys.readouterr().out

    table = shown()
    assert table.startswith("A")
    on_terminal(monkeypatch, columns=33)
    assert click.unstyle(shown()) == table, "it just fits"
    on_terminal(monkeypatch, columns=32)
    assert shown() == f"1: {'x' * 30}\n2: y\n"


def test_without_brief_words_such_a_row_is_a_line_a_field(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch, columns=20)
    rows: list[Row] = [
        {"name": "main", "id": "x" * 30, "gone": None},
        {"name": "other", "id": "y", "gone": 1},
    ]
    show_rows(rows, {"name": "Name", "id": "Id", "gone": "Revoked"}, "none")
    shown = click.unstyle(capsys.readouterr().out)
    assert shown == f"main\n  Id  {'x' * 30}\nother\n  Id       y\n  Revoked  1\n"


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_table_has_no_styles_where_nobody_wants_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    on_terminal(monkeypatch, columns=80)
    monkeypatch.setenv("TERM", "xterm")

    def shown() -> str:
        show_rows([{"a": 1}], {"a": "A"}, "none")
        return capsys.readouterr().out

    assert "\x1b[1m" in shown()
    monkeypatch.setenv(variable, value)
    assert shown().split() == ["A", "1"]


def test_an_instant_is_shown_to_the_second() -> None:
    assert moment("2026-05-18T09:59:00.123Z") == "2026-05-18 09:59:00"
    assert moment(None) is None


@pytest.mark.parametrize("columns", [None, 10])
def test_what_a_stranger_chose_does_not_steer_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int | None
) -> None:
    evil = "x\x1b[2J\n404 forged\x9b31m\u202etxt\x7f"
    if columns is not None:
        on_terminal(monkeypatch, columns=columns)
        monkeypatch.setenv("NO_COLOR", "1")
    show_rows([{"a": evil}], {"a": "A"}, "none", lambda row: row["a"])
    show_fields({"A": evil, "B": [evil]})
    shown = capsys.readouterr().out
    assert not set(shown) & set("\x9b\u202e\x7f")
    assert "x\x1b" not in shown
    assert not any(line.startswith("404") for line in shown.splitlines())
    show_json({"a": evil})
    shown = capsys.readouterr().out
    assert not set(shown) & set("\x1b\x9b\u202e\x7f")
    assert msgspec.json.decode(shown) == {"a": evil}
