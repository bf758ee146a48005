"""How far a listener came: the cursor, and the file that keeps it from one run to the next."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from payd.cli.failure import Refused
from payd.core.errors import InvalidParams
from payd.web.feed_cursor import read_feed_cursor

CURSOR_BYTES_MAX: Final = 4096
NEWS: Final = "listening begins with what is new"


class Progress:
    """How far events were handed on; kept in a file where somebody wants that."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.cursor: str | None = None

    def move(self, cursor: str) -> None:
        """Everything up to here is done. The file is whole at any moment, also after a power cut.

        Raises:
            OSError: It cannot be written; its `filename` is the file.
        """
        self.cursor = cursor
        if self._file is None:
            return
        draft = self._file.with_name(self._file.name + ".new")
        try:
            with draft.open("w", encoding="ascii") as opened:
                opened.write(cursor + "\n")
                opened.flush()
                os.fsync(opened.fileno())
            draft.replace(self._file)
        except OSError as error:
            error.filename = str(self._file)
            error.filename2 = None
            raise


def typed_cursor(text: str) -> str:
    """A checked `--after`.

    Raises:
        click.BadParameter: It is no cursor.
    """
    if not _is_cursor(text):
        raise click.BadParameter(f"{text!r} is no cursor. Without it, {NEWS}.", param_hint="--after")
    return text


def kept_cursor(file: Path) -> str | None:
    """The cursor in a file; None when it is not there yet, or empty.

    Raises:
        OSError: It cannot be read.
        click.BadParameter: It is in no folder.
        Refused: It has something else in it.
    """
    if not file.parent.is_dir():
        raise click.BadParameter(f"{file}: there is no folder {file.parent}.", param_hint="--cursor")
    if not file.exists():
        return None
    with file.open("rb") as opened:
        text = opened.read(CURSOR_BYTES_MAX).strip().decode("ascii", "replace")
    if text and not _is_cursor(text):
        raise Refused(f"{file} holds no cursor. Choose another file, or delete it: without it, {NEWS}.")
    return text or None


def _is_cursor(text: str) -> bool:
    try:
        return read_feed_cursor(text).seq >= 0
    except InvalidParams:
        return False
