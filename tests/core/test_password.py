"""What is refused as a password, and how little else."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.errors import InvalidParams
from payd.core.password import LENGTH_MAX, LENGTH_MIN, check_password, is_common

EMAIL = "ada.lovelace@analytical.example"


@pytest.mark.parametrize(
    "password",
    [
        "correct horse staple",
        "Zwölf Boxkämpfer",
        "aQ3$kfiw92!x",
        "ユーザーのパスワードです",
        "          spaces",
        "my dog is called rex",
    ],
)
def test_a_few_words_are_enough(password: str) -> None:
    check_password(password, EMAIL)
    assert not is_common(password)


@pytest.mark.parametrize(
    "password",
    [
        "password123",
        "PASSWORD!!!!",
        "123 password 123",
        "1234567890",
        "0987654321",
        "qwertyuiop",
        "poiuytrewq",
        "abcdefghijk",
        "aaaaaaaaaaaa",
        "abcabcabcabc",
        "iloveyou2026",
        "correcthorsebatterystaple",
        "1q2w3e4r5t6y",
        "ada.lovelace@analytical.example",
        "lovelace2026",
        "analytical!!",
    ],
)
def test_what_is_tried_first_is_refused(password: str) -> None:
    with pytest.raises(InvalidParams, match="one of the first"):
        check_password(password, EMAIL)


def test_short_and_endless_ones_are_refused_with_how_long_they_may_be() -> None:
    with pytest.raises(InvalidParams, match="at least 10"):
        check_password("x7!kQ2mz9", EMAIL)
    with pytest.raises(InvalidParams, match="at most 200"):
        check_password("x7!kQ2mz9 " * 21, EMAIL)


@given(st.text(min_size=LENGTH_MIN, max_size=LENGTH_MAX))
def test_any_text_is_judged_and_none_is_an_error(password: str) -> None:
    with suppress(InvalidParams):
        check_password(password, EMAIL)
    assert is_common(password) in (True, False)
