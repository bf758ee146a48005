"""A dataclass is a table of keys."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from typing import Annotated, Any

import pytest

from payd.config.keys import Key, Place, Row, Rows, keys_of, rows_of, written
from payd.config.kinds import FLAG, number

METRES = number("metres", 0, 9)
SHORT = Row({"near": Key(METRES, 3, "How near.")}, frozenset(), dict)
LONG = Row({"far": Key(METRES, 3, "How far.")}, frozenset(), dict)
ROWS = Rows("id", {"short:": SHORT, "long:": LONG})


@dataclass
class Inner:
    far: Annotated[int, METRES, "How far."]
    open: Annotated[bool, FLAG, "Whether it is open."] = True


@dataclass
class Outer:
    inner: Inner
    rows: Annotated[tuple[Any, ...], ROWS] = ()
    near: Annotated[int, METRES, "How near."] = 3
    origin: str = field(default="no key")


def test_fields_with_a_kind_are_keys_and_fields_that_are_dataclasses_are_sections() -> None:
    keys = dict(keys_of(Outer))
    assert list(keys) == ["inner.far", "inner.open", "near"]
    assert keys["near"] == Key(METRES, 3, "How near.")
    assert (keys["near"].unit, keys["inner.open"].unit) == ("metres", "")
    assert keys["inner.far"].default is MISSING


def test_fields_with_rows_are_arrays_of_tables() -> None:
    assert dict(rows_of(Outer)) == {"rows": ROWS}


@pytest.mark.parametrize(
    ("value", "kind"),
    [("short:1", SHORT), ("long:1", LONG), ("wide:1", SHORT), ("", SHORT), (None, SHORT), (5, SHORT)],
)
def test_a_row_is_of_the_kind_that_it_begins_with_and_else_of_the_first(value: object, kind: Row) -> None:
    assert ROWS.kind_of(value) is kind


def test_a_key_may_be_one_of_another_kind_of_row() -> None:
    assert ROWS.is_of_another("far")
    assert not ROWS.is_of_another("wide")


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (("data_dir",), "data_dir"),
        (("webhooks", "test", "ca_file"), "webhooks.test.ca_file"),
        (("chains", 1), "chains[1]"),
        (("chains", 0, "depth", "1000"), "chains[0].depth.1000"),
    ],
)
def test_a_place_is_written_as_people_write_it(place: Place, text: str) -> None:
    assert written(place) == text
