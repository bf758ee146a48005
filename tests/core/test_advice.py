"""Advice: every failure of the log has one line that says what to do, and a success has none."""

from __future__ import annotations

import re

import pytest

from payd.core.advice import BY_CLASS, BY_STATUS, WORDS, advice, words_for
from payd.net.http import Reply

LINE_MAX = 160
WORDS_MAX = 50


def classes_of_replies() -> set[str]:
    """The error classes that the client's own documentation lists."""
    listed = re.search(r"error_class: .*?else one of (.*?)\.", Reply.__doc__ or "", re.S)
    assert listed is not None
    return set(re.findall(r"\w+", listed[1]))


@pytest.mark.parametrize(
    "error_class", sorted(classes_of_replies() | {"redirect", "http_status", "interrupted"})
)
def test_every_way_not_to_be_answered_has_its_advice(error_class: str) -> None:
    assert advice(None, error_class) == BY_CLASS[error_class]
    assert words_for(error_class) == WORDS[error_class]


@pytest.mark.parametrize(
    ("status", "error_class", "words"),
    [
        (301, "redirect", "trailing slash or https"),
        (302, "redirect", "Set the final URL"),
        (304, "redirect", "not followed"),
        (307, "redirect", "trailing slash"),
        (308, "redirect", "trailing slash"),
        (400, "http_status", "`payd webhook verify`"),
        (401, "http_status", "raw bytes"),
        (403, "http_status", "CSRF"),
        (404, "http_status", "path"),
        (405, "http_status", "POST"),
        (410, "http_status", "payd goes on trying"),
        (413, "http_status", "size"),
        (415, "http_status", "application/json"),
        (418, "http_status", "Only a 2xx counts"),
        (429, "http_status", "Retry-After"),
        (500, "http_status", "crashed"),
        (502, "http_status", "overloaded"),
        (503, "http_status", "overloaded"),
        (504, "http_status", "overloaded"),
        (599, "http_status", "crashed"),
        (None, "timeout_response", "Answer at once, and do the work afterwards."),
        (None, "connection_refused", "Is your receiver running"),
        (None, "blocked_address", "allow_networks"),
        (None, "interrupted", "replay-missing"),
    ],
)
def test_a_failure_is_told_what_to_do(status: int | None, error_class: str, words: str) -> None:
    assert words in (advice(status, error_class) or "")


@pytest.mark.parametrize(
    ("status", "error_class"),
    [(200, None), (204, None), (299, None), (None, None), (None, "something_new"), (99, "something_new")],
)
def test_nothing_is_said_of_a_success_or_of_what_is_not_known(
    status: int | None, error_class: str | None
) -> None:
    assert advice(status, error_class) is None


def test_a_failure_has_words_that_follow_a_colon_and_are_no_code() -> None:
    assert WORDS.keys() == BY_CLASS.keys()
    assert words_for("timeout_response") == "no answer within 15 s"
    assert words_for("something_new") == "something new"
    for words in WORDS.values():
        assert len(words) <= WORDS_MAX
        assert "_" not in words
        assert not words.endswith(".")


@pytest.mark.parametrize("words", sorted({*BY_CLASS.values(), *BY_STATUS.values()}))
def test_advice_is_one_short_line(words: str) -> None:
    assert "\n" not in words
    assert len(words) <= LINE_MAX
    assert words.endswith((".", "?"))
