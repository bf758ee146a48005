"""A group that shows its commands by what they are for, not by their letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

ALL: Final = "Commands"
OTHERS: Final = "More"
"""Where commands stand that no section has."""

SENTENCE_MAX: Final = 200
"""Of what is shown of a command: a sentence, which click folds. It would cut it otherwise."""


class Sections(click.Group):
    """A group whose help has a paragraph for each section.

    Args:
        sections: Names of commands by title, in the order in which they are needed. Without, there is one.
    """

    def __init__(
        self, *args: Any, sections: Mapping[str, Sequence[str]] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections or {}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections, and those without one at the end."""
        there = self.list_commands(ctx)
        placed = {name for names in self.sections.values() for name in names}
        rest = [name for name in there if name not in placed]
        # One column for all, so that the eye runs down.
        width = max(map(len, there), default=0)
        for title, names in (*self.sections.items(), (OTHERS if placed else ALL, rest)):
            rows = [
                (name.ljust(width), command.get_short_help_str(SENTENCE_MAX))
                for name in names
                if name in there and (command := self.get_command(ctx, name)) is not None
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
