"""A token that is not what its row says, or cannot be paid with, is told of in words."""

from __future__ import annotations

import struct

import msgspec
import pytest
from solders.pubkey import Pubkey

from payd.chains.solana.answers import Account
from payd.chains.solana.extensions import Kind
from payd.chains.solana.keys import SYSTEM, TOKEN, TOKEN_2022
from payd.chains.solana.mints import NO_MINT, mint_key, mint_problem, program_of
from tests.chains.solana.scene import PYUSD_ROW, USDC_ROW
from tests.chains.solana.vm import PYUSD_EXTENSIONS
from tests.live.solana import PYUSD_MINT, USDC_MINT, extension, mint_data

EPOCH = 7


def account(owner: Pubkey, data: bytes) -> Account:
    return Account(lamports=10**9, owner=owner, data=data, is_executable=False)


def test_a_row_says_where_its_mint_is_and_whose() -> None:
    assert (mint_key(USDC_ROW), program_of(USDC_ROW)) == (USDC_MINT, TOKEN)
    assert (mint_key(PYUSD_ROW), program_of(PYUSD_ROW)) == (PYUSD_MINT, TOKEN_2022)


def test_tokens_that_are_what_their_rows_say_are_fine() -> None:
    assert mint_problem(USDC_ROW, account(TOKEN, mint_data()), EPOCH) is None
    pyusd = account(TOKEN_2022, mint_data(extensions=PYUSD_EXTENSIONS))
    assert mint_problem(PYUSD_ROW, pyusd, EPOCH) is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, NO_MINT),
        (account(TOKEN_2022, mint_data()), "of another program than its row says: token_2022 = true"),
        (account(SYSTEM, b""), "it is no token, but an account of 1111"),
        (account(TOKEN, b"\0" * 9), "no mint: 9 bytes"),
        (account(TOKEN, mint_data(decimals=9)), "it has 9 decimals, and 6 in its row"),
    ],
    ids=["nothing", "of the other program", "a wallet", "something else", "other decimals"],
)
def test_what_is_not_what_its_row_says_is_told(found: Account | None, words: str) -> None:
    assert words in str(mint_problem(USDC_ROW, found, EPOCH))


def test_a_token_that_cannot_be_paid_with_is_told() -> None:
    hook = extension(Kind.TRANSFER_HOOK, bytes(32) + bytes(USDC_MINT))
    found = account(TOKEN_2022, mint_data(extensions=hook))
    assert str(mint_problem(PYUSD_ROW, found, EPOCH)).startswith("the token ")
    row = msgspec.structs.replace(PYUSD_ROW, token_2022=False)
    assert "token_2022 = true" in str(mint_problem(row, found, EPOCH))


def test_a_fee_that_is_over_by_the_chains_epoch_is_none() -> None:
    older, newer = struct.pack("<QQH", 0, 10**9, 100), struct.pack("<QQH", EPOCH, 0, 0)
    found = account(
        TOKEN_2022, mint_data(extensions=extension(Kind.TRANSFER_FEE_CONFIG, bytes(72) + older + newer))
    )
    assert mint_problem(PYUSD_ROW, found, EPOCH) is None
    assert mint_problem(PYUSD_ROW, found, EPOCH - 1) == "the token takes a fee of each transfer"
