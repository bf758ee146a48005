"""Whether an address can be paid to, by what the chain has there: a wallet, or nothing yet.

Tokens that go to the address of a token account, a mint or a program are lost, or nobody's for long.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from solders.pubkey import Pubkey

from payd.chains.asking import answered, read, unavailable
from payd.chains.rpc import Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.accounts import decode_holding, decode_mint
from payd.chains.solana.answers import Account, decode_accounts
from payd.chains.solana.asking import account_calls
from payd.chains.solana.keys import SYSTEM, TOKEN_PROGRAMS

IS_PROGRAM: Final = "the address is a program; give the wallet that shall receive it"
IS_MINT: Final = "the address is a token's mint; give the wallet that shall receive it"
IS_TOKEN_ACCOUNT: Final = "the address is a token account of {}; give the wallet itself, which is that one"
IS_NO_WALLET: Final = "the address belongs to the program {}, and is no wallet that can be paid to"


async def destination_problem(rpc: Rpc, address: Pubkey) -> str | None:
    """What is wrong with an address as a wallet to be paid to; None if it is one, or there is nothing yet.

    Raises:
        ChainUnavailable: No node answers.
    """
    [call] = account_calls([address])
    [result] = await read(rpc, [call])
    try:
        _, [account] = decode_accounts(answered(result), 1)
    except BadAnswer as bad:
        raise unavailable(bad) from bad
    return None if account is None else account_problem(account)


def account_problem(account: Account) -> str | None:
    """The same of an account whole."""
    if account.is_executable:
        return IS_PROGRAM
    if account.owner in TOKEN_PROGRAMS:
        with suppress(BadAnswer):
            return IS_TOKEN_ACCOUNT.format(decode_holding(account.owner, account.data).owner)
        with suppress(BadAnswer):
            decode_mint(account.owner, account.data)
            return IS_MINT
    if account.owner != SYSTEM or account.data:
        return IS_NO_WALLET.format(account.owner)
    return None
