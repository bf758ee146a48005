"""CSV: whatever a text is, a reader gets it back, and no spreadsheet takes it for a formula."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.csv import cell, line

FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠1")
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


def read(data: bytes) -> list[list[str]]:
    """What Python's own reader makes of it."""
    return list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))


@pytest.mark.parametrize("text", FORMULAS)
def test_what_looks_like_a_formula_is_text(text: str) -> None:
    [[before, found, after]] = read(line(["a", text, "b"]))
    assert (before, found[0], found[1:].replace("'", ""), after) == ("a", "'", text, "b")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A1;=1", "A1;'=1"),
        ("a|+1", "a|'+1"),
        ("a\t@B", "a\t'@B"),
        ("a\n-1", "a\n'-1"),
        ("\t=1", "'\t'=1"),
        ('a;"=1"', """a;"'=1\""""),
        ("a=1; b", "a=1; b"),
    ],
)
def test_what_another_divider_would_make_a_formula_is_text(text: str, found: str) -> None:
    assert cell(text) == found


def test_a_plain_text_stays_as_it_is() -> None:
    assert line(["ORDER-1", "2026-05-18T09:59:00.123Z", "12.50", ""]) == (
        b"ORDER-1,2026-05-18T09:59:00.123Z,12.50,\r\n"
    )


@given(st.lists(st.lists(st.one_of(TEXTS, st.sampled_from(FORMULAS)), min_size=2, max_size=5), max_size=5))
def test_a_reader_gets_every_cell_back_and_none_begins_a_formula(rows: list[list[str]]) -> None:
    found = read(b"".join(line(row) for row in rows))

    assert found == [[cell(text) for text in row] for row in rows]
    assert all(text[:1] not in set("=+-@\t\r") for row in found for text in row)


@pytest.mark.parametrize("divider", [";", "\t", "|"])
@given(
    st.lists(
        st.lists(st.sampled_from([";", "\t", "|", "\n", "\r", " ", '"', ",", "=1", "@A1", "a", "'"])).map(
            "".join
        ),
        min_size=1,
        max_size=4,
    )
)
def test_no_formula_begins_where_a_spreadsheet_divides_at_another_sign(divider: str, row: list[str]) -> None:
    record = io.StringIO(line(["order", *row]).decode(), newline="")
    cells = [one for found in csv.reader(record, delimiter=divider) for one in found]

    assert not any(one.startswith(("=", "@")) for one in cells), record.getvalue()


def test_records_end_and_are_quoted_as_the_standard_says() -> None:
    assert line(['say "hi"', "a,b", "two\r\nlines"]) == b'"say ""hi""","a,b","two\r\nlines"\r\n'


def test_half_a_character_does_not_end_the_export() -> None:
    assert line(["\ud800"]) == b"?\r\n"
