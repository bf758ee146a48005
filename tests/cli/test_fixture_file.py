"""Files of fixtures: what is one, what references stand for, and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.cli.failure import Refused
from payd.cli.fixture_file import (
    FILE_BYTES_MAX,
    RUN,
    STEPS_MAX,
    Missing,
    Step,
    filled,
    found_at,
    read_fixtures,
)

KNOWN = {RUN: "run_1", "a": {"id": "x", "n": 7, "yes": True, "list": [{"id": "y"}], "none": None}}
GET = {"method": "GET", "path": "/v1/payments"}


def read(folder: Path, *steps: Any, known: Any = None, name: str = "f.json") -> tuple[Step, ...]:
    file = folder / name
    file.write_text(json.dumps({"steps": steps}))
    return read_fixtures(file, {RUN: "run_1"} if known is None else known)


def refused(folder: Path, *steps: Any) -> str:
    with pytest.raises(Refused) as found:
        read(folder, *steps)
    return found.value.message


def test_json_and_toml_say_the_same(tmp_path: Path) -> None:
    toml = tmp_path / "f.toml"
    toml.write_text(
        """
[[steps]]
name = "made"
method = "POST"
path = "/v1/payments"
headers = { Merchant-Id = "mrch_1" }
body = { amount = { value = "1" } }

[[steps]]
method = "GET"
path = "/v1/payments/${made.paymentId}"
error = "not_found"
"""
    )
    made = {
        "name": "made",
        "method": "POST",
        "path": "/v1/payments",
        "headers": {"Merchant-Id": "mrch_1"},
        "body": {"amount": {"value": "1"}},
    }
    shown = {"method": "GET", "path": "/v1/payments/${made.paymentId}", "error": "not_found"}
    assert read_fixtures(toml, {}) == read(tmp_path, made, shown)


def test_a_reference_is_a_value_of_its_own_type_or_text_within_text() -> None:
    assert filled({"k${run}": ["${a.n}", "${a.yes}", "${a.none}", "${a.list}"]}, KNOWN) == {
        "krun_1": [7, True, None, [{"id": "y"}]]
    }
    assert filled("/v1/${a.id}/${a.list.0.id}?n=${a.n}", KNOWN) == "/v1/x/y?n=7"
    for nothing in ("${a.nope}", "${a.list.1}", "${a.list.-1}", "${b}", "x${a.yes}", "x${a.list}", "${}"):
        with pytest.raises(Missing):
            filled(nothing, KNOWN)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(Missing, match=r"there is no a\.list\.1\.id: 1 is not there"):
        found_at(KNOWN, "a.list.1.id")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_characters="$")),
    lambda one: st.lists(one) | st.dictionaries(st.text(st.characters(exclude_characters="$")), one),
)


@given(JSON)
def test_what_has_no_reference_stays_as_it_is(value: Any) -> None:
    assert filled(value, {}) == value


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"method": "FETCH", "path": "/v1/x"}, "step 2.method"),
        ({"method": "GET"}, "missing required field `path` - at step 2"),
        (GET | {"metod": "GET"}, "unknown field `metod` - at step 2"),
        (GET | {"path": "v1/payments"}, "must begin with /v1/"),
        (GET | {"path": "/livez"}, "must begin with /v1/"),
        (GET | {"name": "first"}, "first is the name of something before it"),
        (GET | {"name": "run"}, "run is the name of something before it"),
        (GET | {"name": "a.b"}, "a name has letters"),
        (GET | {"headers": {"API-Key": "svc_test_x"}}, "API-Key is not needed"),
        (GET | {"body": {"x": ["${later.id}"]}}, "${later.id} is of no step before it"),
        (GET | {"name": "me", "path": "/v1/${me.id}"}, "${me.id} is of no step before it"),
        (GET | {"expect": {"x": "${first.id"}}, "not as in '${first.id'"),
        (GET | {"headers": {"a": "${first.id}${"}}, "a reference is ${name.field}"),
    ],
)
def test_a_mistake_is_found_before_anything_is_done_and_its_step_is_named(
    tmp_path: Path, step: dict[str, Any], words: str
) -> None:
    said = refused(tmp_path, GET | {"name": "first"}, step)
    assert words in said
    assert "f.json" in said
    assert "tep 2" in said


def test_what_is_no_file_of_fixtures_says_why(tmp_path: Path) -> None:
    for name, text, words in (
        ("a.json", "{", "truncated"),
        ("a.json", "[]", "Expected `object`, got `array`"),
        ("a.json", '{"steps": [], "more": 1}', "unknown field `more`"),
        ("a.json", '{"steps": []}', "1 to"),
        ("a.toml", "steps = [", "Invalid value"),
        ("a.json", "[" * 100_000, "recursion"),
        ("a.json", " " * (FILE_BYTES_MAX + 1), "larger"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(Refused, match=words):
            read_fixtures(tmp_path / name, {})
    (tmp_path / "a.toml").write_bytes(b"\xff")
    with pytest.raises(Refused, match="utf-8"):
        read_fixtures(tmp_path / "a.toml", {})
    assert "1 to" in refused(tmp_path, *[GET] * (STEPS_MAX + 1))
