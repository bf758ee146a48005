"""Legacy messages of Solana, read back by the rules of the format."""

from __future__ import annotations

import base64

import base58
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.simulated_solana import (
    TRANSACTION_BYTES_MAX,
    SplToken,
    compact_u16,
    decode_key,
    read_compact_u16,
    token_account,
    transfer_transaction,
)

BUYER = base58.b58decode("7v91N7iZ9mNicL8WfG6cgSCKyRXydQjLh6UYBWwm6y1Q")
SHOP = base58.b58decode("2wmVCSfPxGPjrnMMn7rchp4uaeoTqN39mXFC2zhPdri9")
USDC = base58.b58decode("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")
TOKEN = base58.b58decode("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022 = base58.b58decode("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
MEMO = base58.b58decode("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
SYSTEM = bytes(32)
TAG = bytes(range(32))
BLOCKHASH = bytes(range(100, 132))


class Reader:
    """Reads a legacy transaction to its last byte."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0
        self.signatures = [self.take(64) for _ in range(self.length())]
        self.header = tuple(self.take(3))
        self.keys = [self.take(32) for _ in range(self.length())]
        self.blockhash = self.take(32)
        self.instructions = [
            (
                self.keys[self.take(1)[0]],
                [self.keys[i] for i in self.take(self.length())],
                self.take(self.length()),
            )
            for _ in range(self.length())
        ]
        assert self._at == len(raw)

    def take(self, count: int) -> bytes:
        part = self._raw[self._at : self._at + count]
        assert len(part) == count
        self._at += count
        return part

    def length(self) -> int:
        found = read_compact_u16(self._raw[self._at :])
        assert found is not None
        self._at += found[1]
        return found[0]

    def signs(self, key: bytes) -> bool:
        return self.keys.index(key) < self.header[0]

    def writes(self, key: bytes) -> bool:
        index = self.keys.index(key)
        signers, read_only_signers, read_only_others = self.header
        if index < signers:
            return index < signers - read_only_signers
        return index < len(self.keys) - read_only_others


def read(token: SplToken | None, shop: bytes = SHOP) -> Reader:
    text = transfer_transaction(BUYER, shop, 10_000_000, token, tag=TAG, blockhash=BLOCKHASH)
    return Reader(base64.b64decode(text, validate=True))


def test_lamports_go_from_the_buyer_to_the_destination_with_reference_and_memo() -> None:
    transaction = read(None)

    assert transaction.instructions == [
        (SYSTEM, [BUYER, SHOP, TAG], bytes.fromhex("020000008096980000000000")),
        (MEMO, [], TAG.hex().encode()),
    ]
    assert transaction.blockhash == BLOCKHASH


@pytest.mark.parametrize(("token_2022", "program"), [(False, TOKEN), (True, TOKEN_2022)])
def test_tokens_go_between_the_token_accounts_and_state_their_decimals(
    token_2022: bool, program: bytes
) -> None:
    transaction = read(SplToken(USDC, 6, token_2022=token_2022))
    source, target = token_account(BUYER, USDC, program), token_account(SHOP, USDC, program)

    assert transaction.instructions == [
        (program, [source, USDC, target, BUYER, TAG], bytes.fromhex("0c809698000000000006")),
        (MEMO, [], TAG.hex().encode()),
    ]
    assert transaction.writes(source)
    assert transaction.writes(target)
    assert not transaction.writes(USDC)


@pytest.mark.parametrize("token", [None, SplToken(USDC, 6)])
@pytest.mark.parametrize("shop", [SHOP, BUYER])
def test_the_buyer_alone_signs_and_pays_the_fee(token: SplToken | None, shop: bytes) -> None:
    transaction = read(token, shop)

    assert transaction.signatures == [bytes(64)]
    assert transaction.keys[0] == BUYER
    assert transaction.header[:2] == (1, 0)
    assert [transaction.signs(key) for key in transaction.keys] == [True] + [False] * (
        len(transaction.keys) - 1
    )
    assert transaction.writes(BUYER)
    assert not transaction.writes(TAG)
    assert not transaction.writes(MEMO)


def test_no_key_stands_twice() -> None:
    transaction = read(None, BUYER)

    assert len(set(transaction.keys)) == len(transaction.keys)


def test_a_transaction_leaves_room_in_a_packet_for_what_wallets_add() -> None:
    text = transfer_transaction(BUYER, SHOP, 2**64 - 1, SplToken(USDC, 6), tag=TAG, blockhash=BLOCKHASH)

    assert len(base64.b64decode(text)) < TRANSACTION_BYTES_MAX / 2


def test_the_token_account_is_the_one_that_solanas_own_library_derives() -> None:
    found = base58.b58encode(token_account(BUYER, USDC, TOKEN)).decode()

    assert found == "FhuKYUwrnqLokQ3Ne8LqkiWz8XRPfGTuZdYvwAGytLPb"


@pytest.mark.parametrize(("value", "written"), [(0, "00"), (127, "7f"), (128, "8001"), (16384, "808001")])
def test_lengths_are_written_as_solana_writes_them(value: int, written: str) -> None:
    assert compact_u16(value).hex() == written


@given(st.integers(0, 2**16 - 1), st.binary(max_size=3))
def test_a_written_length_reads_back_whatever_follows(value: int, rest: bytes) -> None:
    written = compact_u16(value)

    assert read_compact_u16(written + rest) == (value, len(written))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80\x80", b"\x80\x80\x80\x00", b"\xff\xff\x04"])
def test_what_is_no_length_reads_as_none(data: bytes) -> None:
    assert read_compact_u16(data) is None


@pytest.mark.parametrize("text", ["", "short", "0OIl", "é", "1" * 33])
def test_what_is_no_key_reads_as_none(text: str) -> None:
    assert decode_key(text) is None
