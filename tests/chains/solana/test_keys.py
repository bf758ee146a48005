"""Addresses that follow from others, against one that the token program's own documentation shows."""

from __future__ import annotations

from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address

from payd.chains.solana.keys import TOKEN, TOKEN_2022, token_account

OWNER = Pubkey.from_string("3emsAVdmGKERbHjmGfQ6oZ1e35dkf5iYcS6U4CPKFVaa")
MINT = Pubkey.from_string("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")


def test_a_token_account_is_where_the_library_has_it() -> None:
    assert token_account(OWNER, MINT, TOKEN) == get_associated_token_address(OWNER, MINT)
    assert token_account(OWNER, MINT, TOKEN_2022) == get_associated_token_address(OWNER, MINT, TOKEN_2022)


def test_each_program_has_its_own() -> None:
    assert token_account(OWNER, MINT, TOKEN) != token_account(OWNER, MINT, TOKEN_2022)
