"""What binds a transfer to a payment: how it is made, and how it is found in calldata."""

from __future__ import annotations

import pytest
from eth_abi.abi import encode
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.evm.binding import (
    TAGS_MAX,
    TRANSFER_SELECTOR,
    Leg,
    authorization_nonce,
    payment_tag,
    tagged_calls,
    tagged_transfer,
    tags_in,
    transfer_call,
)
from payd.chains.evm.codec import UINT256_MAX, keccak256, to_data
from tests.chains.evm.json import OTHER_SHOP, SHOP

TAG = payment_tag("pay_l1")
OTHER_TAG = payment_tag("pay_l2")

addresses = st.binary(min_size=20, max_size=20).map(to_data)
tags = st.binary(min_size=32, max_size=32)


def test_bindings_are_hashes_of_the_payments_id_each_for_its_purpose() -> None:
    assert payment_tag("pay_l1") == keccak256(b"payd:tag:v1:pay_l1")
    legs: tuple[Leg, ...] = ("main", "fee")
    for leg in legs:
        nonce = authorization_nonce("pay_l1", leg)
        assert nonce[:24] == keccak256(f"payd:eip3009:v1:pay_l1:{leg}".encode())[:24]
        assert nonce[24:] == bytes(8), "for tokens with a sequence for each key, it is the first"


@given(st.lists(st.text(), unique=True, min_size=2, max_size=5))
def test_no_two_payments_and_no_two_purposes_share_a_binding(payment_ids: list[str]) -> None:
    bindings = [
        binding
        for payment_id in payment_ids
        for binding in (
            payment_tag(payment_id),
            authorization_nonce(payment_id),
            authorization_nonce(payment_id, "fee"),
        )
    ]
    assert len(set(bindings)) == len(bindings)


def test_a_tagged_transfer_is_a_transfer_with_32_bytes_behind_it() -> None:
    data = tagged_transfer(SHOP, 500, TAG)
    assert (
        data
        == keccak256(b"transfer(address,uint256)")[:4] + encode(["address", "uint256"], [SHOP, 500]) + TAG
    )


@pytest.mark.parametrize("tag", [b"", TAG[:-1], TAG + b"\0"])
def test_a_tag_has_32_bytes(tag: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        tagged_transfer(SHOP, 500, tag)


@given(addresses, st.integers(0, UINT256_MAX), tags, st.binary(max_size=100))
def test_the_tag_of_a_direct_call_is_found_whatever_follows_it(
    to: str, value: int, tag: bytes, suffix: bytes
) -> None:
    assert tags_in(tagged_transfer(to, value, tag) + suffix, to, value)[0] == tag


@given(st.binary(max_size=100), st.binary(max_size=100), tags)
def test_the_tag_is_found_at_any_offset(before: bytes, after: bytes, tag: bytes) -> None:
    assert tag in tags_in(before + tagged_transfer(SHOP, 500, tag) + after, SHOP, 500)


def test_the_tag_is_found_in_the_call_of_a_smart_wallet() -> None:
    inner = tagged_transfer(SHOP, 500, TAG)
    outer = b"\xb6\x1d\x27\xf6" + encode(["address", "uint256", "bytes"], [OTHER_SHOP, 0, inner])
    assert tags_in(outer, SHOP, 500) == [TAG]


def test_tags_of_several_calls_are_found_in_their_order_by_recipient_and_value() -> None:
    data = (
        b"\1\2\3"
        + tagged_transfer(SHOP, 500, TAG)
        + tagged_transfer(OTHER_SHOP, 500, OTHER_TAG)
        + tagged_transfer(SHOP, 500, OTHER_TAG)
        + tagged_transfer(SHOP, 501, OTHER_TAG)
    )
    assert tagged_calls(data) == {
        (SHOP, 500): [TAG, OTHER_TAG],
        (OTHER_SHOP, 500): [OTHER_TAG],
        (SHOP, 501): [OTHER_TAG],
    }


def test_a_call_that_follows_one_without_a_tag_keeps_its_own() -> None:
    data = transfer_call(SHOP, 500) + tagged_transfer(SHOP, 500, TAG)
    assert tags_in(data, SHOP, 500)[-1] == TAG


@pytest.mark.parametrize("apart", [4, 20, 67])
def test_a_selector_that_stands_shortly_before_hides_no_call(apart: int) -> None:
    before = TRANSFER_SELECTOR + b"\1" * (apart - len(TRANSFER_SELECTOR))
    assert tags_in(before + tagged_transfer(SHOP, 500, TAG), SHOP, 500) == [TAG]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        transfer_call(SHOP, 500),
        tagged_transfer(SHOP, 500, TAG)[:-1],
        tagged_transfer(SHOP, 499, TAG),
        tagged_transfer(OTHER_SHOP, 500, TAG),
        tagged_transfer(SHOP, 500, TAG)[4:],
        transfer_call(SHOP, 500)[:4] + b"\1" + tagged_transfer(SHOP, 500, TAG)[5:],
    ],
    ids=["nothing", "no tag", "cut", "another value", "another recipient", "no selector", "no address"],
)
def test_there_is_no_tag_without_the_whole_call_and_the_whole_tag(data: bytes) -> None:
    assert tags_in(data, SHOP, 500) == []


@given(st.binary(max_size=2000))
def test_any_calldata_is_read(data: bytes) -> None:
    for tags_of_call in tagged_calls(data).values():
        assert all(len(tag) == 32 and tag in data for tag in tags_of_call)


def test_who_fills_a_transaction_with_calls_has_only_so_many_read() -> None:
    data = tagged_transfer(SHOP, 500, TAG) * (TAGS_MAX + 10)
    assert len(tags_in(data, SHOP, 500)) == TAGS_MAX
