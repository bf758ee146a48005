"""A bar where a person looks, and silence where a program reads."""

from __future__ import annotations

import pytest

from payd.cli.meter import meter
from tests.terminal import on_terminal


def test_where_no_person_looks_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with meter() as look:
        look("copying", "test.db", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_it_says_what_is_done_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_terminal(monkeypatch, columns=80)
    with meter() as look:
        look("copying", "test.db", 1, 2)
    out, err = capsys.readouterr()
    assert (out, "copying test.db" in err) == ("", True)
