"""Query parameters: what is allowed, and that whatever is not is refused by name."""

from __future__ import annotations

from typing import cast

import pytest

from payd.core.errors import InvalidParams
from payd.web import query
from payd.web.call import Call, Request
from payd.web.house import House, Realm

NO_HOUSE = cast(House, None)
NO_REALM = cast(Realm, None)


def asked(text: str) -> Call:
    return Call(Request.from_head("GET", "/", text.encode(), []), {}, "req_1", NO_HOUSE, None, NO_REALM, "")


def refused(found: pytest.ExceptionInfo[InvalidParams], name: str) -> None:
    assert found.value.code == "invalid_params"
    assert name in found.value.message


@pytest.mark.parametrize(("text", "value"), [("", None), ("a=1", "1"), ("a=%C3%A9", "é"), ("b=1", None)])
def test_a_parameter_stands_there_once_or_not_at_all(text: str, value: str | None) -> None:
    assert query.one(asked(text), "a") == value


def test_a_parameter_that_stands_there_twice_is_refused() -> None:
    with pytest.raises(InvalidParams) as found:
        query.one(asked("a=1&a=1"), "a")
    refused(found, "a")


@pytest.mark.parametrize("text", ["a=", "a=1,", "a=,1", "a=1&a="])
def test_an_empty_value_opens_no_filter(text: str) -> None:
    with pytest.raises(InvalidParams) as found:
        query.many(asked(text), "a")
    refused(found, "a")
    with pytest.raises(InvalidParams) as found:
        query.one(asked("a="), "a")
    refused(found, "a")


def test_a_parameter_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    query.check_names({"limit": ["1"], "matched": ["true"]}, ("matched", "limit"))
    with pytest.raises(InvalidParams, match=r"no parameter 'limt' here; there are matched, limit\."):
        query.check_names({"limt": ["1"]}, ("matched", "limit"))
    with pytest.raises(InvalidParams, match="there are none"):
        query.check_names({"a": ["1"]}, ())


def test_a_page_may_be_asked_with_an_empty_value() -> None:
    assert query.one(asked("a="), "a", blank=True) is None
    assert query.one(asked("a=1"), "a", blank=True) == "1"


@pytest.mark.parametrize(("text", "value"), [("", 50), ("limit=1", 1), ("limit=200", 200), ("limit=007", 7)])
def test_a_limit_within_its_bounds(text: str, value: int) -> None:
    assert query.limit_in(asked(text), 200, 50) == value


@pytest.mark.parametrize(
    "text", ["0", "201", "-1", "%2B1", "1.0", "1e2", "x", "0x1", "%D9%A3", "1" * 16, "1%00", "+1"]
)
def test_another_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidParams) as found:
        query.limit_in(asked(f"limit={text}"), 200, 50)
    refused(found, "limit")


def test_a_choice_is_one_of_its_words() -> None:
    assert query.choice(asked("c=asc"), "c", ("asc", "desc")) == "asc"
    assert query.choice(asked(""), "c", ("asc", "desc")) is None
    for text in ("ASC", "ascending", "asc,desc"):
        with pytest.raises(InvalidParams) as found:
            query.choice(asked(f"c={text}"), "c", ("asc", "desc"))
        refused(found, "c")


def test_a_flag_is_true_or_false() -> None:
    assert [query.flag(asked(text), "f") for text in ("f=true", "f=false", "")] == [True, False, None]
    for text in ("1", "True", "yes"):
        with pytest.raises(InvalidParams):
            query.flag(asked(f"f={text}"), "f")


def test_many_values_are_repeated_or_in_a_list() -> None:
    assert query.many(asked("m=a&m=b,c"), "m") == ("a", "b", "c")
    assert query.many(asked(""), "m") == ()
    assert len(query.many(asked("m=" + ",".join("a" * query.LIST_MAX)), "m")) == query.LIST_MAX
    with pytest.raises(InvalidParams):
        query.many(asked("m=a&m=x"), "m", ("a", "b"))
    with pytest.raises(InvalidParams):
        query.many(asked("m=" + ",".join("a" * (query.LIST_MAX + 1))), "m")


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-05-18T09:59:00Z", 1_779_098_340_000),
        ("2026-05-18T11:59:00%2B02:00", 1_779_098_340_000),
        ("2026-05-18T11:59:00+02:00", 1_779_098_340_000),
        ("2026-05-18T09:59:00.123Z", 1_779_098_340_123),
        ("2026-05-18T09:59:00.123456789Z", 1_779_098_340_124),
    ],
)
def test_an_instant_names_its_zone(text: str, at_ms: int) -> None:
    assert query.instant_ms(asked(f"t={text}"), "t") == at_ms


@pytest.mark.parametrize(
    "text",
    [
        "now",
        "1779098340",
        "2026-05-18",
        "2026-05-18T09:59:00",
        "2026-13-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "%00",
    ],
)
def test_another_instant_is_refused(text: str) -> None:
    with pytest.raises(InvalidParams) as found:
        query.instant_ms(asked(f"t={text}"), "t")
    refused(found, "t")


def test_no_instant_is_none() -> None:
    assert query.instant_ms(asked(""), "t") is None


@pytest.mark.parametrize(
    ("text", "wait_ms"),
    [
        ("0", 0),
        ("1", 1),
        ("55000", 55_000),
        ("55001", 55_000),
        ("999999999999999", 55_000),
        ("9007199254740991", 55_000),
        ("9" * 400, 55_000),
    ],
)
def test_a_poll_is_clamped(text: str, wait_ms: int) -> None:
    assert query.poll_ms(asked(f"maxPollMs={text}")) == wait_ms


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "1e3", "%D9%A3", "Infinity", "1&maxPollMs=2"])
def test_a_poll_that_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidParams) as found:
        query.poll_ms(asked(f"maxPollMs={text}"))
    refused(found, "maxPollMs")
