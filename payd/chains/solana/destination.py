"""Whether an asset can be paid to an address, by what the chain has there: a wallet, or nothing yet.

Tokens that go to the address of a token account, a mint or a program are lost, or nobody's for long. A token
that nobody would be offered is told of when a merchant asks for it, not when no buyer comes.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from solders.pubkey import Pubkey

from payd.chains.asking import answered, read, unavailable
from payd.chains.assets import Asset
from payd.chains.rpc import Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.accounts import decode_holding, decode_mint
from payd.chains.solana.answers import Account, decode_accounts, decode_clock
from payd.chains.solana.asking import account_calls
from payd.chains.solana.keys import CLOCK, SYSTEM, TOKEN_PROGRAMS, token_account
from payd.chains.solana.mints import mint_key, mint_problem, program_of

IS_PROGRAM: Final = "the address is a program; give the wallet that shall receive it"
IS_MINT: Final = "the address is a token's mint; give the wallet that shall receive it"
IS_TOKEN_ACCOUNT: Final = "the address is a token account of {}; give the wallet itself, which is that one"
NOT_OFFERED: Final = "{} cannot be paid with: {}"
NOT_ITS_OWN: Final = "the wallet's token account for {} belongs to somebody else"
CLOSED: Final = "the wallet cannot be paid in {}: {}"
IS_NO_WALLET: Final = "the address belongs to the program {}, and is no wallet that can be paid to"


async def destination_problem(rpc: Rpc, address: Pubkey, row: Asset | None = None) -> str | None:
    """What is wrong with an address as a wallet to be paid to; None if it is one, or there is nothing yet.

    Args:
        rpc: The chain's nodes.
        address: Where to.
        row: What in; None: SOL, of which no more has to be known.

    Raises:
        ChainUnavailable: No node answers.
    """
    token = () if row is None or row.kind != "spl" else _places_of(row, address)
    [call] = account_calls([address, *token])
    [result] = await read(rpc, [call])
    try:
        _, [account, *others] = decode_accounts(answered(result), 1 + len(token))
        words = None if account is None else account_problem(account)
        if words is not None or row is None or not others:
            return words
        return _token_problem(row, address, *others)
    except BadAnswer as bad:
        raise unavailable(bad) from bad


def _places_of(row: Asset, address: Pubkey) -> tuple[Pubkey, ...]:
    mint = mint_key(row)
    return mint, CLOCK, token_account(address, mint, program_of(row))


def _token_problem(
    row: Asset, address: Pubkey, mint: Account | None, clock: Account | None, holding: Account | None
) -> str | None:
    """Why nobody would be offered to pay this token there.

    Raises:
        BadAnswer: There is no clock.
    """
    if clock is None:
        raise BadAnswer("it has no clock")
    if words := mint_problem(row, mint, decode_clock(clock.data).epoch):
        return NOT_OFFERED.format(row.symbol, words)
    if holding is None or (holding.owner == SYSTEM and not holding.data):
        return None
    try:
        held = decode_holding(holding.owner, holding.data)
    except BadAnswer:
        return NOT_ITS_OWN.format(row.symbol)
    if held.owner != address:
        return NOT_ITS_OWN.format(row.symbol)
    words = held.problem()
    return None if words is None else CLOSED.format(row.symbol, words)


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
