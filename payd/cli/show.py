"""What commands print: JSON for programs, short tables and lists for people. Colour only on a terminal.

Much of it is the text of others: a stranger's path, a node's error. None of it steers the terminal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from payd.cli.leaving import wants_colour
from payd.core.money import format_units
from payd.core.text import on_one_line

Row: TypeAlias = Mapping[str, Any]

# Where nobody looks, a line is as long as it is: ids must never be folded for a program.
UNFOLDED: Final = 10_000

# What JSON leaves as it is, and a terminal may take for an order: controls, and what turns a line around.
_STEERS: Final = re.compile("[\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]")


def amount_words(amount: Row) -> str:
    """An amount as the API shows it, such as `12.50 USDC`."""
    display = amount["display"]
    return f"{format_units(int(amount['value']), display['decimals'])} {display['assetSymbol']}"


json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
"""Adds what commands ask before `show_json`."""


def show_json(value: Any) -> None:
    """Print JSON, indented."""
    click.echo(msgspec.json.format(json_line(value), indent=2))


def json_line(value: Any) -> str:
    """A value as JSON on one line."""
    return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(value).decode())


def show_rows(
    rows: Sequence[Row], columns: Mapping[str, str], empty: str, brief: Callable[[Row], str] | None = None
) -> None:
    """Print a table.

    Args:
        rows: What to show.
        columns: Heading by field, in order.
        empty: What to say when there are no rows.
        brief: A row in a few lines, for terminals that are too narrow for the table: ids that are folded
            into columns cannot be copied. Without, it is a line a field.
    """
    if not rows:
        click.echo(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in columns.values():
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(_text(row.get(field)) for field in columns))
    screen = console()
    if screen.measure(table, options=screen.options.update(width=UNFOLDED)).maximum > screen.width:
        for row in rows:
            click.echo(_stacked(row, columns) if brief is None else brief(_plain(row)))
    else:
        screen.print(table)


def show_fields(fields: Mapping[str, Any]) -> None:
    """Print one thing, a line a field, all or nothing; what is None is left out."""
    there = {name: value for name, value in fields.items() if value is not None}
    width = max(map(len, there), default=0)
    lines = [f"{click.style(name.ljust(width), bold=True)}  {_text(value)}" for name, value in there.items()]
    click.echo("".join(f"{line}\n" for line in lines), nl=False)


def moment(instant: str | None) -> str | None:
    """An ISO instant to the second and without its letters, so that a row has room for its ids."""
    return None if instant is None else instant[:19].replace("T", " ")


class Screen(Console):
    """A console that leaves it to the program what to do when nobody reads any more."""

    def on_broken_pipe(self) -> None:
        """Raise again what rich caught; it would end with 1."""
        raise


def is_terminal() -> bool:
    """Whether a person looks at standard output, whatever the environment says of colours."""
    return sys.stdout.isatty()


def console() -> Console:
    """A console for what is standard output now."""
    colours: Literal["auto"] | None = "auto" if wants_colour() else None
    made = Screen(highlight=False, color_system=colours)
    return made if made.is_terminal else Screen(highlight=False, color_system=colours, width=UNFOLDED)


def _stacked(row: Row, columns: Mapping[str, str]) -> str:
    """A row in lines of its own, the first of them bold; what is None is left out."""
    (first, _), *others = columns.items()
    there = {heading: row[field] for field, heading in others if row.get(field) is not None}
    width = max(map(len, there), default=0)
    lines = [f"  {heading.ljust(width)}  {_text(value)}" for heading, value in there.items()]
    return "\n".join([click.style(str(_text(row.get(first))), bold=True), *lines])


def _text(value: Any) -> Text:
    match value:
        case None:
            return Text("–")
        case [*items]:
            return Text(on_one_line(" ".join(map(str, items))))
        case _:
            return Text(on_one_line(str(value)))


def _plain(row: Row) -> Row:
    return {field: on_one_line(value) if isinstance(value, str) else value for field, value in row.items()}
