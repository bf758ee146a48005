"""A key of the configuration, and the keys that a dataclass has: its fields, annotated.

A field says all of a key: `Annotated[<type>, <kind>, "<meaning>"] = <default>`. A field that is a dataclass
is a section; one whose kind is `Rows` is an array of tables, which have keys of their own.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from payd.config.kinds import Kind

Place = tuple[str | int, ...]
"""Where a value stands in a file: names of tables and keys, and places in arrays from 0."""


class Key(NamedTuple):
    """One key of the configuration."""

    kind: Kind
    default: Any
    meaning: str

    @property
    def unit(self) -> str:
        """Such as "seconds"; empty for what has none."""
        return self.kind.unit


class Row(NamedTuple):
    """One kind of table in an array.

    Attributes:
        keys: A default is `dataclasses.MISSING` where there is none or it depends on the row.
        required: The keys that each row must have.
        make: A row from the values that were given, all of them checked.
    """

    keys: Mapping[str, Key]
    required: frozenset[str]
    make: Callable[[Mapping[str, Any]], Any]


class Rows(NamedTuple):
    """An array of tables, such as `[[chains]]`.

    Attributes:
        by: The key that tells of which kind a row is.
        kinds: What its value begins with, and the keys that such a row has.
    """

    by: str
    kinds: Mapping[str, Row]

    def kind_of(self, value: object) -> Row:
        """The kind of a row with this under `by`; the first one for what is of none."""
        first = next(iter(self.kinds.values()))
        if not isinstance(value, str):
            return first
        return next((row for start, row in self.kinds.items() if value.startswith(start)), first)

    def is_of_another(self, key: str) -> bool:
        """Whether some kind of row has this key."""
        return any(key in row.keys for row in self.kinds.values())


def keys_of(section: type[Any], prefix: str = "") -> Iterator[tuple[str, Key]]:
    """Every key of a dataclass and of the sections in it, by its dotted name."""
    for name, hint, default in _fields(section):
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield from keys_of(hint, f"{prefix}{name}.")
        elif (described := getattr(hint, "__metadata__", None)) and isinstance(described[0], Kind):
            yield prefix + name, Key(described[0], default, described[1])


def rows_of(section: type[Any]) -> Iterator[tuple[str, Rows]]:
    """Every array of tables that a dataclass has at its top, by name."""
    for name, hint, _ in _fields(section):
        if (described := getattr(hint, "__metadata__", None)) and isinstance(described[0], Rows):
            yield name, described[0]


def written(place: Place) -> str:
    """A place as people write it: `chains[1].rpc`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place]
    return "".join(parts).removeprefix(".")


def _fields(section: type[Any]) -> Iterator[tuple[str, Any, Any]]:
    hints = typing.get_type_hints(section, include_extras=True)
    for each in dataclasses.fields(section):
        yield each.name, hints[each.name], each.default
