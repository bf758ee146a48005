"""The relayer's key signs what it is told, for one chain, and shows itself to nobody."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest
from eth_account import Account
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_keys.constants import SECPK1_N
from hexbytes import HexBytes
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.evm.codec import COUNT_MAX, UINT256_MAX, keccak256, to_data
from payd.chains.evm.signer import Signer
from tests.chains.evm.json import TOKEN

KEY = bytes(31) + b"\7"
SIGNER = Signer(KEY)
counts = st.integers(0, COUNT_MAX)


def test_the_address_is_that_of_the_key() -> None:
    assert SIGNER.address == Account.from_key(KEY).address.lower()


@given(st.integers(1, COUNT_MAX), counts, st.binary(max_size=200), counts, st.integers(0, UINT256_MAX))
def test_every_field_of_the_transaction_is_what_was_asked_for(
    chain_id: int, nonce: int, data: bytes, gas: int, value: int
) -> None:
    signed = SIGNER.sign(chain_id, nonce, TOKEN, data, gas, max_fee=900, tip=7, value=value)

    read = TypedTransaction.from_bytes(HexBytes(signed.raw)).as_dict()
    r, s = int(read.pop("r")), int(read.pop("s"))
    assert read.pop("v") in (0, 1)
    assert read == {
        "type": 2,
        "chainId": chain_id,
        "nonce": nonce,
        "to": bytes.fromhex(TOKEN[2:]),
        "value": value,
        "data": data,
        "gas": gas,
        "maxFeePerGas": 900,
        "maxPriorityFeePerGas": 7,
        "accessList": (),
    }
    assert 0 < r < SECPK1_N
    assert 0 < s <= SECPK1_N // 2, "tokens refuse a high s"


@given(st.integers(1, 2**53), counts, st.binary(max_size=200))
def test_the_transaction_is_of_the_signer_and_its_hash_is_known(
    chain_id: int, nonce: int, data: bytes
) -> None:
    signed = SIGNER.sign(chain_id, nonce, TOKEN, data, gas=100_000, max_fee=900, tip=7)
    assert signed.hash == to_data(keccak256(signed.raw))
    assert Account.recover_transaction(signed.raw).lower() == SIGNER.address


def test_the_same_transaction_is_signed_with_the_same_bytes() -> None:
    both = [SIGNER.sign(8453, 3, TOKEN, b"\1", 100_000, 900, 7) for _ in range(2)]
    assert both[0] == both[1]
    assert SIGNER.sign(8453, 3, TOKEN, b"\1", 100_000, 1013, 8).hash != both[0].hash


@pytest.mark.parametrize(
    "numbers",
    [
        {"chain_id": 0},
        {"nonce": -1},
        {"nonce": COUNT_MAX + 1},
        {"gas": COUNT_MAX + 1},
        {"max_fee": UINT256_MAX + 1},
        {"tip": -1},
        {"tip": 901},
        {"value": -1},
        {"value": UINT256_MAX + 1},
    ],
)
def test_a_transaction_that_no_chain_takes_is_not_signed(numbers: dict[str, int]) -> None:
    asked = {"chain_id": 8453, "nonce": 3, "gas": 100_000, "max_fee": 900, "tip": 7, "value": 0, **numbers}
    with pytest.raises(ValueError):
        SIGNER.sign(to=TOKEN, data=b"", **asked)


@pytest.mark.parametrize("to", ["", "0x", TOKEN[:-1], "payd.eth"])
def test_a_transaction_goes_to_an_address(to: str) -> None:
    with pytest.raises(ValueError):
        SIGNER.sign(8453, 3, to, b"", 100_000, 900, 7)


@pytest.mark.parametrize("key", [b"", bytes(32), b"\xff" * 32, KEY + b"\0", KEY[1:]])
def test_what_is_no_key_signs_nothing(key: bytes) -> None:
    with pytest.raises(ValueError):
        Signer(key)


def test_the_key_is_neither_shown_nor_copied() -> None:
    assert repr(SIGNER) == f"Signer({SIGNER.address})"
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            copied(SIGNER)


def test_who_signs_nothing_imports_no_library_for_it() -> None:
    code = "import sys, payd.chains.evm.signer, payd.chains.keystore; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"eth_account", "eth_keyfile", "eth_utils"} & set(run.stdout.split())
