"""Signatures as wallets hand them over, and code as accounts have it."""

from __future__ import annotations

import coincurve
import pytest
from eth_keys.datatypes import PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.evm.signature import (
    address_of_key,
    delegation_of,
    is_6492,
    normalise_signature,
    recover_signer,
)

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
KEY = coincurve.PrivateKey(bytes(31) + b"\7")
ADDRESS = PrivateKey(bytes(31) + b"\7").public_key.to_address()

digests = st.binary(min_size=32, max_size=32)


def signed(digest: bytes) -> bytes:
    """r, s and v with v 27 or 28."""
    raw = KEY.sign_recoverable(digest, hasher=None)
    return raw[:64] + bytes([raw[64] + 27])


def compact(signature: bytes) -> bytes:
    """EIP-2098: the parity in the highest bit of s."""
    s = int.from_bytes(signature[32:64], "big") | (signature[64] - 27) << 255
    return signature[:32] + s.to_bytes(32, "big")


def mirrored(signature: bytes) -> bytes:
    """The other signature of the same message by the same key."""
    s = ORDER - int.from_bytes(signature[32:64], "big")
    return signature[:32] + s.to_bytes(32, "big") + bytes([55 - signature[64]])


@given(digests)
def test_every_form_of_a_signature_is_the_same_signature(digest: bytes) -> None:
    signature = signed(digest)
    low_v = signature[:64] + bytes([signature[64] - 27])
    for form in (signature, low_v, compact(signature)):
        assert normalise_signature(form) == signature
        assert recover_signer(digest, form) == ADDRESS


@given(st.binary(max_size=200))
def test_normalising_twice_changes_nothing_more(signature: bytes) -> None:
    once = normalise_signature(signature)
    assert normalise_signature(once) == once


@given(st.binary(max_size=200).filter(lambda one: len(one) not in (64, 65)))
def test_the_bytes_of_a_smart_wallet_are_left_alone(signature: bytes) -> None:
    assert normalise_signature(signature) == signature
    assert recover_signer(bytes(32), signature) is None


@given(digests)
def test_the_mirrored_signature_is_of_the_same_key(digest: bytes) -> None:
    assert recover_signer(digest, mirrored(signed(digest))) == ADDRESS


@given(digests, digests.filter(any))
def test_of_another_message_it_is_not_the_signature(digest: bytes, other: bytes) -> None:
    if digest != other:
        assert recover_signer(other, signed(digest)) != ADDRESS


@given(digests, st.binary(min_size=65, max_size=65))
def test_any_65_bytes_are_somebodys_signature_or_nobodys(digest: bytes, signature: bytes) -> None:
    found = recover_signer(digest, signature)
    assert found is None or (found != ADDRESS and len(found) == 42)


@pytest.mark.parametrize(
    "signature",
    [
        bytes(64) + b"\x1b",
        ORDER.to_bytes(32, "big") + bytes(31) + b"\1\x1b",
        signed(bytes(32))[:64] + b"\x1d",
        signed(bytes(32))[:64] + b"\x02",
    ],
    ids=["zeros", "r beyond the order", "v 29", "v 2"],
)
def test_what_no_key_makes_is_nobodys(signature: bytes) -> None:
    assert recover_signer(bytes(32), signature) is None


def test_an_address_is_that_of_its_key() -> None:
    assert address_of_key(KEY.public_key) == ADDRESS


def test_a_wrapped_signature_of_a_wallet_that_is_not_deployed_is_known_by_its_end() -> None:
    assert is_6492(b"factory and more" + bytes.fromhex("6492" * 16))
    assert not is_6492(bytes.fromhex("6492" * 16) + b"\0")
    assert not is_6492(signed(bytes(32)))


def test_a_delegated_account_points_to_the_contract_that_acts_for_it() -> None:
    pointer = bytes.fromhex("ef0100") + bytes(range(20))
    assert delegation_of(pointer) == "0x" + bytes(range(20)).hex()
    for code in (b"", pointer[:-1], pointer + b"\0", b"\xef\x00\x00" + bytes(20), bytes(23)):
        assert delegation_of(code) is None
