"""The cursor of a listener: checked before anything happens, kept whole, and named where it fails."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from payd.cli.failure import Refused
from payd.cli.progress import Progress, kept_cursor, typed_cursor
from payd.web.cursor import encode_cursor

CURSOR = encode_cursor(7, 1_780_000_000_000)


def test_a_cursor_is_kept_and_found_again(tmp_path: Path) -> None:
    file = tmp_path / "cursor"
    assert kept_cursor(file) is None
    Progress(file).move(CURSOR)
    assert kept_cursor(file) == CURSOR
    assert [one.name for one in tmp_path.iterdir()] == ["cursor"]
    file.write_text("")
    assert kept_cursor(file) is None


def test_without_a_file_it_is_known_and_nothing_else() -> None:
    progress = Progress(None)
    progress.move(CURSOR)
    assert progress.cursor == CURSOR


def test_a_file_that_cannot_be_written_is_named_as_it_was_typed(tmp_path: Path) -> None:
    for blocked in ("draft", "file"):
        file = tmp_path / blocked
        (file.with_name("draft.new") if blocked == "draft" else file).mkdir()
        with pytest.raises(OSError) as refused:
            Progress(file).move(CURSOR)
        assert (refused.value.filename, refused.value.filename2) == (str(file), None)


def test_a_file_in_no_folder_is_refused_before_anything_happens(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match=r"nowhere/x: there is no folder .*nowhere\."):
        kept_cursor(tmp_path / "nowhere" / "x")


@pytest.mark.parametrize("text", ["buy milk", "garbage", "\u20ac", encode_cursor("a"), encode_cursor(-1)])
def test_what_is_no_cursor_is_refused_with_what_it_is_from(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cursor"
    file.write_text(text)
    with pytest.raises(
        Refused, match=r"cursor holds no cursor.* without it, listening begins with what is n"
    ):
        kept_cursor(file)
    with pytest.raises(click.BadParameter, match="Without it, listening begins with what is new") as refused:
        typed_cursor(text)
    assert refused.value.param_hint == "--after"
    assert typed_cursor(CURSOR) == CURSOR
