"""Codes of apps and recovery codes: right once, wrong otherwise."""

from __future__ import annotations

import base64

import pytest

from payd.core.totp import (
    RECOVERY_BYTES,
    RECOVERY_CODES,
    STEP_MS,
    clean_code,
    code_at,
    link_for_app,
    make_recovery_codes,
    make_secret,
    matching_step,
    recovery_hash,
)

# RFC 6238, appendix B: the key, and codes of its last six digits.
SECRET = base64.b32encode(b"12345678901234567890").decode()
KNOWN = {59: "287082", 1111111109: "081804", 1234567890: "005924", 20000000000: "353130"}


@pytest.mark.parametrize(("at_s", "code"), KNOWN.items())
def test_codes_are_those_of_the_standard(at_s: int, code: str) -> None:
    assert code_at(SECRET, at_s * 1000 // STEP_MS) == code
    assert matching_step(SECRET, code, at_s * 1000, 0) == at_s * 1000 // STEP_MS


def test_a_clock_may_be_one_step_off_and_no_more() -> None:
    now_ms, step = 1_780_000_000_000, 1_780_000_000_000 // STEP_MS
    found = {off: matching_step(SECRET, code_at(SECRET, step + off), now_ms, 0) for off in range(-3, 4)}
    assert found == {-3: None, -2: None, -1: step - 1, 0: step, 1: step + 1, 2: None, 3: None}


def test_no_code_is_taken_twice_nor_one_before_it() -> None:
    now_ms, step = 1_780_000_000_000, 1_780_000_000_000 // STEP_MS
    assert matching_step(SECRET, code_at(SECRET, step), now_ms, step) is None
    assert matching_step(SECRET, code_at(SECRET, step - 1), now_ms, step) is None
    assert matching_step(SECRET, code_at(SECRET, step + 1), now_ms, step) == step + 1


@pytest.mark.parametrize("text", ["287082", " 287 082 ", "287-082", "287\t082\n"])
def test_a_pasted_code_is_fine(text: str) -> None:
    assert matching_step(SECRET, text, 59_000, 0) == 1


@pytest.mark.parametrize("text", ["", "28708", "2870820", "28708a", "２８７０８２", "287.082"])
def test_anything_else_is_no_code(text: str) -> None:
    assert matching_step(SECRET, text, 59_000, 0) is None


def test_a_secret_is_made_of_its_bytes_alone() -> None:
    assert make_secret(b"12345678901234567890") == SECRET
    with pytest.raises(ValueError, match="20"):
        make_secret(b"short")


def test_the_link_for_an_app_has_what_it_needs() -> None:
    link = link_for_app(SECRET, "ada@example.com", "payd Café")
    assert link.startswith("otpauth://totp/payd%20Caf%C3%A9:ada%40example.com?secret=")
    assert f"secret={SECRET}" in link


def test_recovery_codes_are_ten_and_differ_and_can_be_typed_as_one_likes() -> None:
    codes = make_recovery_codes(bytes(range(RECOVERY_CODES * RECOVERY_BYTES)))
    assert len({*codes}) == RECOVERY_CODES
    assert all(len(one) == 19 for one in codes)
    assert recovery_hash("usr_1", codes[0]) == recovery_hash("usr_1", codes[0].upper().replace("-", " "))
    assert recovery_hash("usr_1", codes[0]) != recovery_hash("usr_2", codes[0])
    with pytest.raises(ValueError, match="10"):
        make_recovery_codes(b"short")


def test_a_code_is_cleaned_of_what_comes_along() -> None:
    assert clean_code(" AB-cd\n12 ") == "abcd12"
