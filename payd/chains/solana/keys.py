"""The programs that payments on Solana name, and the addresses that follow from others.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from solders.pubkey import Pubkey

SYSTEM: Final = Pubkey.from_string("11111111111111111111111111111111")
TOKEN: Final = Pubkey.from_string("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022: Final = Pubkey.from_string("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
ASSOCIATED_TOKEN: Final = Pubkey.from_string("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
MEMO: Final = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
MEMO_V1: Final = Pubkey.from_string("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo")
COMPUTE_BUDGET: Final = Pubkey.from_string("ComputeBudget111111111111111111111111111111")
LIGHTHOUSE: Final = Pubkey.from_string("L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95")
CLOCK: Final = Pubkey.from_string("SysvarC1ock11111111111111111111111111111111")

TOKEN_PROGRAMS: Final = (TOKEN, TOKEN_2022)

# Each costs 25 microseconds to find, and one question for options asks for thousands, most of them again.
_KEPT_MAX: Final = 4096


@lru_cache(maxsize=_KEPT_MAX)
def token_account(owner: Pubkey, mint: Pubkey, program: Pubkey) -> Pubkey:
    """The associated token account: where a wallet holds a token unless it chose another place.

    Args:
        owner: The wallet.
        mint: The token.
        program: The one of `TOKEN_PROGRAMS` that the mint belongs to.
    """
    seeds = [bytes(owner), bytes(program), bytes(mint)]
    return Pubkey.find_program_address(seeds, ASSOCIATED_TOKEN)[0]
