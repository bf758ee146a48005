"""Whether a token is what its row says, and can be paid with: what merchants and operators are told of it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

from solders.pubkey import Pubkey

from payd.chains.assets import Asset
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.accounts import decode_mint
from payd.chains.solana.answers import Account
from payd.chains.solana.keys import TOKEN, TOKEN_2022, TOKEN_PROGRAMS
from payd.core.caip import parse_asset

NO_MINT: Final = "there is no such mint"


def mint_key(row: Asset) -> Pubkey:
    """The mint of a token's row."""
    return Pubkey.from_string(parse_asset(row.asset).reference)


def program_of(row: Asset) -> Pubkey:
    """The token program that a row says it is of."""
    return TOKEN_2022 if row.token_2022 else TOKEN


def mint_problem(row: Asset, account: Account | None, epoch: int) -> str | None:
    """Why a token is not offered, whoever would pay with it; None if it is.

    Args:
        row: Of the token.
        account: What is at its mint; None: nothing.
        epoch: The chain's.
    """
    if account is None:
        return NO_MINT
    if account.owner != program_of(row):
        if account.owner in TOKEN_PROGRAMS:
            says = "true" if account.owner == TOKEN_2022 else "false"
            return f"it is a token of another program than its row says: token_2022 = {says}"
        return f"it is no token, but an account of {account.owner}"
    try:
        mint = decode_mint(account.owner, account.data)
    except BadAnswer as bad:
        return str(bad)
    if mint.decimals != row.decimals:
        return f"it has {mint.decimals} decimals, and {row.decimals} in its row"
    return mint.problem(epoch)
