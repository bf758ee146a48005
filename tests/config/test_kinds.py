"""What a value can be: the edges of each kind, and the words of a refusal."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from payd.config.kinds import (
    ADDRESS,
    FILE,
    FLAG,
    FOLDER,
    NETWORKS,
    SOURCES,
    TOKEN,
    URL,
    Address,
    Kind,
    choice,
    decimal,
    number,
    split_list,
    text,
)

HOURS = number("hours", 1, 24)
GWEI = decimal("gwei", 10, 3, positive=True)
SHARE = decimal("percent", 100, 2)
COLOUR = choice("red", "green")
WORD = text("lower-case letters", "[a-z]+")


def test_a_number_is_whole_and_within_its_bounds() -> None:
    assert [HOURS.parse(hours) for hours in (1, 24)] == [1, 24]
    assert (HOURS.unit, HOURS.from_text("24")) == ("hours", 24)


def test_a_decimal_is_exactly_what_was_written() -> None:
    assert SHARE.parse("0.10") == Decimal("0.1")
    assert str(SHARE.parse("0.10")) == "0.10"
    assert SHARE.parse(100) == 100
    assert GWEI.parse("0.001") == Decimal("0.001")


WRONG: list[tuple[Kind, Any]] = [
    *[(HOURS, value) for value in (0, 25, True, 1.0, "1", None)],
    *[(SHARE, value) for value in ("-1", "100.01", "0.001", 0.5, "1e1", " 1", "1\n", "", "٣", True, None)],
    *[(SHARE, value) for value in ("NaN", "Infinity", ".5", "5.", "00.5", -1, 101)],
    *[(GWEI, value) for value in ("0", 0, "0.0", "10.001", "11")],
    *[(COLOUR, value) for value in ("blue", "", 1, None)],
    *[(WORD, value) for value in ("", "A", "a\n", 1, None)],
    *[(FLAG, value) for value in (1, "true", None)],
    *[(ADDRESS, value) for value in ("8420", "x:65536", "[::1::9]:1", 8420)],
    *[(NETWORKS, value) for value in ("10.0.0.0/8", ["localhost"], ["10.0.0.1/8"], [1])],
    *[(SOURCES, [address]) for address in ("0.0.0.0", "::", "224.0.0.1", "ff02::1", "x")],
    *[(URL, f"https://{rest}") for rest in ("", "localhost:abc", "a:99999", "a:0", "a:", "a b", "a..b", ".")],
    *[(URL, f"https://{rest}") for rest in ("a" * 70, "a/b c", "a\n", "a\\b", "a/?", "a/#", "a?b=c", "[::1")],
    *[(URL, value) for value in ("ftp://a", "a", "//a", "https://me@a", "https://me:pw@a", " https://a", 5)],
    *[(FOLDER, value) for value in ("", "~", "~/payd", "~payd", "a\0b", 5)],
    *[(FILE, value) for value in ("~/relayer.json", "a\0b", 5)],
    *[(TOKEN, value) for value in ("short", "with a space in it", 1)],
]


@pytest.mark.parametrize(("kind", "value"), WRONG)
def test_what_is_not_allowed_is_refused(kind: Kind, value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        kind.parse(value)


def test_a_refusal_repeats_the_value_unless_it_is_secret() -> None:
    assert HOURS.refusal(25) == "must be a whole number of hours, 1 to 24, not 25"
    assert COLOUR.refusal("blue") == """must be one of "red", "green", not 'blue'"""
    assert "hunter2" not in TOKEN.refusal("hunter2")


def test_the_words_of_a_decimal_say_its_bounds() -> None:
    assert GWEI.words == 'a decimal in quotes, such as "0.5", above 0 and up to 10, at most 3 places'
    assert SHARE.words == 'a decimal in quotes, such as "0.5", 0 or more, up to 100, at most 2 places'


def test_an_address_is_written_as_it_was_read() -> None:
    for written in ("127.0.0.1:80", "[::1]:8420", "shop.example:1"):
        assert str(ADDRESS.parse(written)) == written
    assert str(Address("::1", 0)) == "[::1]:0"


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("https://pay.example", "https://pay.example"),
        ("http://[::1]:8420/a/B", "http://[::1]:8420/a/B"),
        ("HTTPS://Pay.Example/X", "https://pay.example/X"),
        ("https://pay.example:443", "https://pay.example"),
        ("http://localhost:80", "http://localhost"),
        ("https://bücher.example:1", "https://xn--bcher-kva.example:1"),
        ("http://[0:0::1]:8420", "http://[::1]:8420"),
    ],
)
def test_a_url_is_as_browsers_name_it_which_passkeys_are_compared_with(typed: str, named: str) -> None:
    assert URL.parse(typed) == URL.parse(f"{typed}/") == named
    assert URL.parse("") == ""


def test_a_list_in_a_variable_is_separated_by_commas() -> None:
    assert split_list(" a, b,,c ,") == ["a", "b", "c"]
