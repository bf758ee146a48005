"""The shape of results."""

from __future__ import annotations

import base64

import pytest

from payd.chains.simulated_results import RESULT_CHARS_MAX, decode_results, fits
from payd.chains.simulated_solana import TRANSACTION_BYTES_MAX
from payd.core.errors import InvalidParams
from payd.core.option import Result, WalletRpc

SIGN = WalletRpc("eip155:1", "eth_signTypedData_v4", [])
SEND = WalletRpc("eip155:1", "eth_sendTransaction", [])
MESSAGE = WalletRpc("eip155:1", "personal_sign", [])
SOLANA = WalletRpc("solana:x", "solana_signTransaction", [])


def result(*data: object) -> Result:
    return Result("walletRpc", list(data))


def test_results_are_decoded_each_by_its_action() -> None:
    text = base64.b64encode(b"\x01\x02").decode()

    assert decode_results([SEND, SOLANA], [result("0xABcd"), result(text)]) == (b"\xab\xcd", b"\x01\x02")


def test_the_refusal_names_the_result() -> None:
    with pytest.raises(InvalidParams, match=r"results\[1\]"):
        decode_results([SEND, SEND], [result("0xab"), result(7)])


def test_the_longest_signed_transaction_is_not_too_long_to_decode() -> None:
    text = base64.b64encode(bytes(TRANSACTION_BYTES_MAX)).decode()

    assert len(text) <= RESULT_CHARS_MAX
    assert decode_results([SOLANA], [result(text)]) == (bytes(TRANSACTION_BYTES_MAX),)


@pytest.mark.parametrize("action", [SIGN, MESSAGE])
def test_signatures_have_65_bytes(action: WalletRpc) -> None:
    assert [size for size in range(100) if fits(action, bytes(size))] == [65]


def test_a_transaction_hash_has_32_bytes() -> None:
    assert [size for size in range(100) if fits(SEND, bytes(size))] == [32]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_solana_transaction_has_its_signatures_and_something_signed(count: int) -> None:
    assert fits(SOLANA, bytes([count]) + bytes(64 * count) + b"m")
    assert not fits(SOLANA, bytes([count]) + bytes(64 * count))
    assert not fits(SOLANA, bytes([count + 1]) + bytes(64 * count) + b"m")


def test_a_solana_transaction_fits_a_packet() -> None:
    assert fits(SOLANA, b"\x01" + bytes(TRANSACTION_BYTES_MAX - 1))
    assert not fits(SOLANA, b"\x01" + bytes(TRANSACTION_BYTES_MAX))


@pytest.mark.parametrize(
    "wrong",
    [
        b"\x00" + bytes(200),  # no signature
        b"\x01" + bytes(64),  # a signature of nothing
        b"\x02" + bytes(65),  # two announced, one there
        b"\xff\xff\xff",  # no length at all
    ],
)
def test_what_is_no_signed_transaction_does_not_fit(wrong: bytes) -> None:
    assert not fits(SOLANA, wrong)


@pytest.mark.parametrize("text", ["0xabc", "abcd", "0x", "0xzz", "0x" + "11" * 2000, "AAé=", "0x00\n"])
@pytest.mark.parametrize("action", [SIGN, SEND, MESSAGE])
def test_what_is_not_hex_is_unusable(action: WalletRpc, text: str) -> None:
    with pytest.raises(InvalidParams):
        decode_results([action], [result(text)])


@pytest.mark.parametrize("text", ["AA=A", "A", "0x11111", "é", "", "A" * 4096])
def test_what_is_not_base64_is_unusable_on_solana(text: str) -> None:
    with pytest.raises(InvalidParams):
        decode_results([SOLANA], [result(text)])
