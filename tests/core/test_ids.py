"""Ids and API keys."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.ids import (
    AT_MS_MAX,
    ENTROPY_BYTES,
    KEY_ENTROPY_BYTES,
    Realm,
    api_key_realm,
    hash_api_key,
    is_id,
    make_api_key,
    make_id,
    realm_of,
)

times = st.integers(0, AT_MS_MAX)
entropies = st.binary(min_size=ENTROPY_BYTES, max_size=ENTROPY_BYTES)
prefixes = st.sampled_from(["pay_t", "pay_l", "app_t", "mrch_", "crypto_", "evt_", "opt_"])
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def number_of(text: str) -> int:
    number = 0
    for char in text:
        number = number * 32 + ALPHABET.index(char)
    return number


@given(prefixes, times, entropies)
def test_an_id_is_its_prefix_and_36_characters_without_punctuation(
    prefix: str, at_ms: int, entropy: bytes
) -> None:
    text = make_id(prefix, at_ms, entropy)

    assert text.startswith(prefix)
    assert re.fullmatch("[a-z0-9]{36}", text[len(prefix) :])


@given(times, entropies)
def test_an_id_holds_its_whole_time_and_130_random_bits(at_ms: int, entropy: bytes) -> None:
    text = make_id("", at_ms, entropy)

    assert number_of(text[:10]) == at_ms
    assert [number_of(char) for char in text[10:]] == [byte % 32 for byte in entropy]


@given(times, entropies, times, entropies)
def test_ids_sort_by_time(a_ms: int, a: bytes, b_ms: int, b: bytes) -> None:
    if a_ms != b_ms:
        assert (make_id("pay_t", a_ms, a) < make_id("pay_t", b_ms, b)) == (a_ms < b_ms)


@given(prefixes, times, entropies)
def test_what_make_id_makes_is_an_id(prefix: str, at_ms: int, entropy: bytes) -> None:
    assert is_id(make_id(prefix, at_ms, entropy), prefix)


GOOD = make_id("mrch_", 1_780_000_000_000, bytes(range(ENTROPY_BYTES)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mrch_",
        GOOD[:-1],
        GOOD + "0",
        GOOD + "\n",
        " " + GOOD,
        GOOD.upper(),
        GOOD[:-1] + "u",
        GOOD[:-1] + "i",
        GOOD[:-1] + "-",
        GOOD[:-1] + "１",
        "evt_" + GOOD.removeprefix("mrch_"),
        "pay_l" + GOOD.removeprefix("mrch_"),
        "mrch_8" + GOOD[6:],
    ],
)
def test_what_make_id_cannot_make_is_no_id(text: str) -> None:
    assert not is_id(text, "mrch_")


@pytest.mark.parametrize(
    ("at_ms", "entropy"),
    [(-1, bytes(26)), (AT_MS_MAX + 1, bytes(26)), (0, bytes(25)), (0, bytes(27))],
)
def test_an_id_is_refused_a_time_or_entropy_of_another_size(at_ms: int, entropy: bytes) -> None:
    with pytest.raises(ValueError, match="48-bit time and 26 random bytes"):
        make_id("evt_", at_ms, entropy)


@pytest.mark.parametrize(
    ("text", "realm"),
    [
        ("pay_t01ks", "test"),
        ("pay_l01ks", "live"),
        ("app_t01ks", "test"),
        ("app_l01ks", "live"),
        ("pay_x01ks", None),
        ("pay_", None),
        ("mrch_t01ks", None),
        ("", None),
        ("PAY_T", None),
    ],
)
def test_the_letter_after_pay_and_app_names_the_realm(text: str, realm: Realm | None) -> None:
    assert realm_of(text) == realm


@given(st.sampled_from(["test", "live"]), st.binary(min_size=KEY_ENTROPY_BYTES, max_size=KEY_ENTROPY_BYTES))
def test_a_key_names_its_realm_and_holds_all_its_random_bits(realm: Realm, entropy: bytes) -> None:
    key = make_api_key(realm, entropy)
    tail = key.removeprefix("svc_test_" if realm == "test" else "svc_")

    assert api_key_realm(key) == realm
    assert re.fullmatch("[a-z0-9]{52}", tail)
    assert number_of(tail) == int.from_bytes(entropy, "big")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "svc_",
        "svc_test_",
        "Svc_" + "0" * 52,
        "svc_" + "0" * 51,
        "svc_2" + "0" * 51,
        "svc_" + "0" * 53,
        "svc_live_" + "0" * 52,
        "svc_test_test_" + "0" * 52,
        "svc_" + "0" * 52 + "\n",
    ],
)
def test_a_text_that_is_no_key_is_of_no_realm(key: str) -> None:
    assert api_key_realm(key) is None


def test_a_key_is_refused_entropy_of_another_size() -> None:
    with pytest.raises(ValueError, match="32 random bytes"):
        make_api_key("live", bytes(31))


def test_the_hash_of_a_key_is_sha_256_of_all_of_it_and_takes_any_text() -> None:
    assert hash_api_key("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert len(hash_api_key("svc_\udcff")) == 32
