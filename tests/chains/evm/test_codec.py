"""Texts of a node: read in their bounds or refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.evm.codec import (
    COUNT_MAX,
    UINT256_MAX,
    address_of_word,
    from_address,
    from_count,
    from_data,
    from_hash,
    from_list,
    from_object,
    from_quantity,
    keccak256,
    to_data,
    to_quantity,
    word_of_address,
    word_of_uint,
)
from payd.chains.rpc_errors import BadAnswer
from tests.chains.evm.json import check_read_or_refused, json_values

READERS: tuple[Callable[[object], object], ...] = (
    from_quantity,
    from_count,
    from_data,
    from_address,
    from_hash,
    from_object,
    from_list,
)

ADDRESS = "0x52908400098527886e0f7030069857d2e4169ee7"


@given(st.binary())
def test_keccak_is_that_of_ethereum(data: bytes) -> None:
    assert keccak256(data) == keccak(data)


@given(st.integers(0, UINT256_MAX))
def test_a_quantity_is_read_as_it_was_written(value: int) -> None:
    assert from_quantity(to_quantity(value)) == value


@pytest.mark.parametrize("value", [-1, UINT256_MAX + 1])
def test_a_number_that_no_node_takes_is_not_written(value: int) -> None:
    with pytest.raises(ValueError, match="256 bits"):
        to_quantity(value)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "0x",
        "1f",
        "0x1g",
        "0x 1",
        "0x1_0",
        "0x-1",
        "0x1\n",
        " 0x1",
        "0x" + "f" * 65,
        31,
        None,
        True,
        ["0x1"],
    ],
)
def test_what_is_no_quantity_is_refused(answer: object) -> None:
    with pytest.raises(BadAnswer):
        from_quantity(answer)


def test_a_quantity_with_leading_zeros_is_the_same_number() -> None:
    assert from_quantity("0x0") == from_quantity("0x00") == 0
    assert from_quantity("0x0001F4") == 500


def test_a_count_fits_a_column_of_the_store() -> None:
    assert from_count(hex(COUNT_MAX)) == COUNT_MAX
    with pytest.raises(BadAnswer, match="out of bounds"):
        from_count(hex(COUNT_MAX + 1), "block.number")


@given(st.binary(max_size=200))
def test_data_are_read_as_they_were_written(data: bytes) -> None:
    assert from_data(to_data(data)) == data


@pytest.mark.parametrize("answer", ["", "0x1", "0x0g", "00", "0x00\n", "0x 0", None, 0, b"\0"])
def test_what_is_no_data_is_refused(answer: object) -> None:
    with pytest.raises(BadAnswer):
        from_data(answer)


def test_addresses_and_hashes_are_read_into_lower_case() -> None:
    assert from_address("0x52908400098527886E0F7030069857D2E4169EE7") == ADDRESS
    assert from_hash("0x" + "AB" * 32) == "0x" + "ab" * 32


@pytest.mark.parametrize("answer", [ADDRESS[:-1], ADDRESS + "0", ADDRESS[2:], ADDRESS + "\n", None, 5])
def test_what_is_no_address_or_hash_is_refused(answer: object) -> None:
    for read in (from_address, from_hash):
        with pytest.raises(BadAnswer):
            read(answer)


def test_a_refusal_names_the_field_and_shows_the_beginning_of_the_answer() -> None:
    with pytest.raises(BadAnswer, match=r"^block\.number is not a quantity: 'xxxx") as refused:
        from_quantity("x" * 1_000_000, "block.number")
    assert len(str(refused.value)) < 100


def test_a_refusal_is_one_line_whatever_a_node_sends() -> None:
    with pytest.raises(BadAnswer) as refused:
        from_quantity("\n\x1b[2J\u202e")
    assert str(refused.value).isprintable()


@given(json_values)
def test_nothing_that_json_can_hold_raises_anything_else(answer: object) -> None:
    for read in READERS:
        check_read_or_refused(read, answer)


@given(st.binary(min_size=20, max_size=20))
def test_an_address_goes_into_a_word_and_comes_out(raw: bytes) -> None:
    assert address_of_word(word_of_address(to_data(raw))) == to_data(raw)


@pytest.mark.parametrize(
    "word", [b"", bytes(31), bytes(33), b"\1" + bytes(31), bytes(11) + b"\1" + bytes(20)]
)
def test_a_word_that_is_more_than_an_address_is_none(word: bytes) -> None:
    assert address_of_word(word) is None


def test_a_number_is_a_word() -> None:
    assert word_of_uint(500) == bytes(30) + b"\x01\xf4"
