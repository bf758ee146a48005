"""Calldata as contracts read it, and returns read in their bounds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from eth_abi.abi import decode, encode
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.evm.abi import (
    RETURN_BYTES_MAX,
    TEXT_BYTES_MAX,
    Call,
    Returned,
    aggregate3_call,
    authorization_state_call,
    balance_of_call,
    call,
    decimals_call,
    decode_aggregate3,
    decode_bool,
    decode_text,
    decode_uint,
    decode_word,
    domain_separator_call,
    eth_balance_call,
    is_valid_signature_call,
)
from payd.chains.evm.codec import keccak256
from payd.chains.rpc_errors import BadAnswer
from tests.chains.evm.json import BUYER, SHOP, TOKEN, check_read_or_refused

WORD = bytes(range(32))

DECODERS: tuple[Callable[[bytes], object], ...] = (
    decode_word,
    decode_uint,
    decode_bool,
    decode_text,
    lambda data: decode_aggregate3(data, 0),
    lambda data: decode_aggregate3(data, 1),
    lambda data: decode_aggregate3(data, 3),
)

# Bytes that look like pointers and lengths now and then.
returns = st.lists(
    st.one_of(
        st.binary(min_size=32, max_size=32),
        st.sampled_from([0, 1, 2, 3, 31, 32, 64, 96, 128, 2**255, 2**256 - 1]).map(
            lambda n: n.to_bytes(32, "big")
        ),
    ),
    max_size=20,
).map(b"".join)


@pytest.mark.parametrize(
    ("data", "selector", "types", "arguments"),
    [
        (balance_of_call(BUYER), "70a08231", ["address"], (BUYER,)),
        (decimals_call(), "313ce567", [], ()),
        (domain_separator_call(), "3644e515", [], ()),
        (authorization_state_call(BUYER, WORD), "e94a0102", ["address", "bytes32"], (BUYER, WORD)),
        (is_valid_signature_call(WORD, b"signed"), "1626ba7e", ["bytes32", "bytes"], (WORD, b"signed")),
        (eth_balance_call(BUYER), "4d2301cc", ["address"], (BUYER,)),
    ],
)
def test_a_call_is_its_selector_and_its_arguments(
    data: bytes, selector: str, types: list[str], arguments: tuple[object, ...]
) -> None:
    assert data[:4].hex() == selector
    assert decode(types, data[4:]) == arguments


def test_calls_in_an_aggregate_may_fail_alone_unless_said_otherwise() -> None:
    data = aggregate3_call([Call(TOKEN, decimals_call()), Call(SHOP, b"", may_fail=False)])
    assert data[:4].hex() == "82ad56cb"
    [rows] = decode(["(address,bool,bytes)[]"], data[4:])
    assert rows == ((TOKEN, True, decimals_call()), (SHOP, False, b""))


def test_any_other_call_can_be_written() -> None:
    assert (
        call("transfer", ["address", "uint256"], SHOP, 5)[:4] == keccak256(b"transfer(address,uint256)")[:4]
    )


def test_one_word_is_read() -> None:
    assert decode_word(WORD) == WORD
    assert decode_uint(encode(["uint256"], [2**256 - 1])) == 2**256 - 1
    assert decode_bool(encode(["bool"], [True])) is True
    assert decode_bool(encode(["bool"], [False])) is False


@pytest.mark.parametrize("data", [b"", WORD[:-1], WORD + b"\0", WORD * 2])
def test_more_or_less_than_one_word_is_refused(data: bytes) -> None:
    for read in (decode_word, decode_uint, decode_bool):
        with pytest.raises(BadAnswer):
            read(data)


def test_what_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(BadAnswer):
        decode_bool(encode(["uint256"], [2]))


@given(st.text(max_size=60))
def test_a_text_is_read(text: str) -> None:
    assert decode_text(encode(["string"], [text])) == text


def test_a_text_is_utf_8_and_short() -> None:
    assert decode_text(encode(["string"], ["x" * TEXT_BYTES_MAX])) == "x" * TEXT_BYTES_MAX
    with pytest.raises(BadAnswer, match="257"):
        decode_text(encode(["string"], ["x" * (TEXT_BYTES_MAX + 1)]))
    with pytest.raises(BadAnswer, match="UTF-8"):
        decode_text(encode(["bytes"], [b"\xff\xfe"]))


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=100)), max_size=8))
def test_an_aggregate_is_read_call_by_call(rows: list[tuple[bool, bytes]]) -> None:
    data = encode(["(bool,bytes)[]"], [rows])
    assert decode_aggregate3(data, len(rows)) == tuple(Returned(*row) for row in rows)


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=9)), max_size=4), st.integers(0, 5))
def test_an_aggregate_of_another_number_of_calls_is_refused(
    rows: list[tuple[bool, bytes]], count: int
) -> None:
    if count != len(rows):
        with pytest.raises(BadAnswer):
            decode_aggregate3(encode(["(bool,bytes)[]"], [rows]), count)


def test_a_call_in_an_aggregate_succeeds_or_fails() -> None:
    with pytest.raises(BadAnswer, match="neither succeeded nor failed"):
        decode_aggregate3(encode(["(uint256,bytes)[]"], [[(2, b"")]]), 1)


def test_an_aggregate_holds_short_returns_only() -> None:
    most = bytes(RETURN_BYTES_MAX)
    assert decode_aggregate3(encode(["(bool,bytes)[]"], [[(True, most)]]), 1) == (Returned(True, most),)
    with pytest.raises(BadAnswer, match="1025"):
        decode_aggregate3(encode(["(bool,bytes)[]"], [[(True, most + b"\0")]]), 1)


def test_a_pointer_far_beyond_the_end_is_refused() -> None:
    far = (2**256 - 1).to_bytes(32, "big")
    for read in (decode_text, lambda data: decode_aggregate3(data, 1)):
        with pytest.raises(BadAnswer, match="less than it points to"):
            read(far)


@given(st.binary(max_size=400) | returns)
def test_whatever_is_returned_is_read_or_refused(data: bytes) -> None:
    for read in DECODERS:
        check_read_or_refused(read, data)
