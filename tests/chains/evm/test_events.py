"""Events of tokens: which log tells of a transfer, and which only looks like it."""

from __future__ import annotations

import pytest

from payd.chains.evm.answers import Log, decode_log
from payd.chains.evm.codec import keccak256, word_of_address, word_of_uint
from payd.chains.evm.events import (
    AUTHORIZATION_USED,
    TRANSFER,
    decode_transfer,
    decode_used_authorization,
)
from tests.chains.evm.json import BUYER, SHOP, TOKEN, log_json, transfer_log, used_log

NONCE = bytes(range(32))


def log(topics: list[bytes], data: bytes) -> Log:
    return decode_log(log_json(TOKEN, topics, data))


def test_the_topics_are_the_hashes_of_the_events() -> None:
    assert keccak256(b"Transfer(address,address,uint256)") == TRANSFER
    assert keccak256(b"AuthorizationUsed(address,bytes32)") == AUTHORIZATION_USED


def test_a_transfer_is_read() -> None:
    transfer = decode_transfer(decode_log(transfer_log(BUYER, SHOP, 2**256 - 1)))
    assert transfer == (TOKEN, BUYER, SHOP, 2**256 - 1)


def test_a_used_authorization_is_read() -> None:
    assert decode_used_authorization(decode_log(used_log(BUYER, NONCE))) == (TOKEN, BUYER, NONCE)


@pytest.mark.parametrize(
    "odd",
    [
        log([TRANSFER, word_of_address(BUYER), word_of_address(SHOP), word_of_uint(5)], b""),
        log([TRANSFER, word_of_address(BUYER), word_of_address(SHOP)], b""),
        log([TRANSFER, word_of_address(BUYER), word_of_address(SHOP)], bytes(64)),
        log([TRANSFER, word_of_address(BUYER)], bytes(32)),
        log([TRANSFER, word_of_address(BUYER), word_of_address(SHOP), bytes(32)], bytes(32)),
        log([TRANSFER, b"\1" * 32, word_of_address(SHOP)], word_of_uint(5)),
        log([TRANSFER, word_of_address(BUYER), b"\1" * 32], word_of_uint(5)),
        log([keccak256(b"Approval(address,address,uint256)"), *[bytes(32)] * 2], word_of_uint(5)),
        log([], word_of_uint(5)),
        decode_log(used_log(BUYER, NONCE)),
    ],
    ids=[
        "of a token that is not fungible",
        "without a value",
        "with more than a value",
        "with a topic too few",
        "with a topic too many",
        "from more than an address",
        "to more than an address",
        "an approval",
        "anonymous",
        "a used authorization",
    ],
)
def test_another_event_is_no_transfer(odd: Log) -> None:
    assert decode_transfer(odd) is None


@pytest.mark.parametrize(
    "odd",
    [
        log([AUTHORIZATION_USED, word_of_address(BUYER), NONCE], bytes(32)),
        log([AUTHORIZATION_USED, word_of_address(BUYER)], NONCE),
        log([AUTHORIZATION_USED, b"\1" * 32, NONCE], b""),
        log([keccak256(b"AuthorizationCanceled(address,bytes32)"), word_of_address(BUYER), NONCE], b""),
        log([keccak256(b"AuthorizationAlreadyUsed(address,bytes32)"), word_of_address(BUYER), NONCE], b""),
        log([], b""),
        decode_log(transfer_log(BUYER, SHOP, 5)),
    ],
    ids=[
        "with data",
        "nonce in data",
        "of no address",
        "cancelled",
        "used before",
        "anonymous",
        "a transfer",
    ],
)
def test_another_event_is_no_used_authorization(odd: Log) -> None:
    assert decode_used_authorization(odd) is None
