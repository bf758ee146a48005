"""Idempotency keys, scopes, fingerprints and records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.errors import IdempotencyConflict, InvalidParams, MissingIdempotencyKey
from payd.core.idempotency import KEY_MAX, Record, check_key, decide, fingerprint_of, scope_of

parts = st.tuples(
    st.sampled_from(["POST", "PUT"]),
    st.text(alphabet="/vpay1", max_size=6),
    st.none() | st.text(alphabet="mrch_1/", min_size=1, max_size=6),
    st.text(alphabet="/vpaymrch_1", max_size=6),
)


@pytest.mark.parametrize("header", [None, "", " ", "\t \t"])
def test_a_missing_or_empty_key_is_refused_only_where_it_is_required(header: str | None) -> None:
    assert check_key(header, required=False) is None
    with pytest.raises(MissingIdempotencyKey):
        check_key(header, required=True)


@given(
    st.text(alphabet=[chr(code) for code in range(0x21, 0x7F)], min_size=1, max_size=KEY_MAX), st.booleans()
)
def test_a_key_of_printable_ascii_is_taken_as_it_is_without_blanks_around_it(
    key: str, required: bool
) -> None:
    assert check_key(f" \t{key}\t ", required) == key


def test_quotes_and_inner_spaces_belong_to_the_key() -> None:
    assert check_key('"a b"', required=True) == '"a b"'


@pytest.mark.parametrize(
    "key", ["a" * (KEY_MAX + 1), "a\tb", "a\nb", "a\x00", "a\x7f", "schlüssel", "\u00a0a", "a\n"]
)
@pytest.mark.parametrize("required", [True, False])
def test_a_key_that_is_too_long_or_unprintable_is_refused(key: str, required: bool) -> None:
    with pytest.raises(InvalidParams, match="255 printable"):
        check_key(key, required)


def test_255_characters_are_the_most() -> None:
    assert check_key("k" * 255, required=True) == "k" * 255


@given(parts, parts)
def test_two_requests_share_a_scope_only_if_all_their_parts_are_the_same(
    a: tuple[str, str, str | None, str], b: tuple[str, str, str | None, str]
) -> None:
    assert (scope_of(*a) == scope_of(*b)) == (a == b)


def test_a_text_cannot_move_from_one_part_of_the_scope_to_the_next() -> None:
    assert scope_of("POST", "/a", "b", "c") != scope_of("POST", "/ab", None, "c")
    assert scope_of("POST", "/a", "b", "c") != scope_of("POST", "/a", None, "bc")
    assert len(scope_of("POST", "/\udcff", None, "k")) == 32


def test_a_key_is_new_until_it_has_a_record() -> None:
    assert decide(None, fingerprint_of(b"{}")) is None


def test_the_same_body_gets_the_record_again() -> None:
    record = Record(201, b'{"id":1}', fingerprint_of(b"{}"), "req_1")

    assert decide(record, fingerprint_of(b"{}")) is record


def test_another_body_is_a_conflict() -> None:
    record = Record(201, b'{"id":1}', fingerprint_of(b"{}"), "req_1")

    with pytest.raises(IdempotencyConflict):
        decide(record, fingerprint_of(b"[]"))
