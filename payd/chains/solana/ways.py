"""How an account can pay an amount on Solana: who pays the network, what is created, or why it cannot.

Decided from a look at the accounts, for an offer as for what a wallet is then to sign. Nothing is asked of an
account that it cannot pay, and nothing is sent to where its owner would not have it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from solders.pubkey import Pubkey

from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.accounts import Holding, Mint, decode_holding, decode_mint
from payd.chains.solana.answers import U64_MAX, Account, decode_clock
from payd.chains.solana.binding import reference_of
from payd.chains.solana.build import Wanted, lamports_max, unit_limit_for
from payd.chains.solana.due import Due
from payd.chains.solana.facts import At, Steady, TokenAccount, Wallet
from payd.chains.solana.keys import CLOCK, SYSTEM

NO_TOKEN: Final = "The token is not what this server knows it to be."
NOT_PAYABLE: Final = "The token cannot be paid with now: {}."
NOT_A_WALLET: Final = "The merchant's address is not that of a wallet."
NOT_THE_MERCHANTS: Final = (
    "The merchant's token account does not belong to the merchant any more. Pay in another way."
)
MERCHANT_CLOSED: Final = "The merchant cannot be paid in this token now: {}."
BUYER_NO_WALLET: Final = "This account is not that of a wallet which can sign and pay."
BUYER_NO_HOLDING: Final = "This account has no token account of its own for this token."
BUYER_CLOSED: Final = "This account cannot pay with this token now: {}."
TOO_LITTLE: Final = "This account does not hold enough for this payment any more."
NO_SOL: Final = "This account has too little SOL for the network fee of this payment."
TOO_SMALL: Final = (
    "The merchant's wallet does not exist on the blockchain yet, and this is too little to open it with."
)
OPERATOR_CLOSED: Final = "What was agreed cannot be paid any more. Ask for options again."
TOO_MUCH: Final = "No transfer can carry this amount."


class Seen(msgspec.Struct, frozen=True):
    """What there is of what `places_of` names.

    Attributes:
        accounts: None: there is no such account.
        wallet_rent: Lamports without which no wallet exists.
        holding_rent: Lamports that a new token account has to hold; 0 for SOL.
        unit_price: Micro-lamports that a unit of compute costs.
    """

    accounts: Mapping[At, Account | None]
    wallet_rent: int
    holding_rent: int
    unit_price: int

    def lamports(self, wallet: Pubkey) -> int:
        """What a wallet has."""
        account = self.accounts[Wallet(wallet)]
        return 0 if account is None else account.lamports


class Cannot(msgspec.Struct, frozen=True):
    """It cannot be paid so; the words say why."""

    words: str


class Way(msgspec.Struct, frozen=True):
    """It can.

    Attributes:
        wanted: The transaction.
        cost: What it costs who pays its fee, in lamports, at most.
        rent: What of that the merchant's new token account takes.
    """

    wanted: Wanted
    cost: int
    rent: int = 0


def places_of(due: Due) -> tuple[At, ...]:
    """The accounts that decide."""
    found: list[At] = [Wallet(due.buyer), Wallet(due.destination)]
    if due.token is None:
        return (*found, *(() if due.operator is None else (Wallet(due.operator),)))
    owners = [due.buyer, due.destination, *(() if due.operator is None else (due.operator,))]
    return (
        *found,
        Steady(due.token[0]),
        Steady(CLOCK),
        *(TokenAccount(due.holding_of(one)) for one in owners),
    )


def price_place(due: Due) -> Pubkey:
    """The account that whoever pays the merchant in this asset writes to."""
    return due.destination if due.token is None else due.holding_of(due.destination)


def mint_of(due: Due, accounts: Mapping[At, Account | None]) -> Mint | None:
    """The mint as the chain has it; None where there is none, or it is another program's."""
    assert due.token is not None
    mint, program = due.token
    account = accounts[Steady(mint)]
    if account is None or account.owner != program:
        return None
    try:
        return decode_mint(account.owner, account.data)
    except BadAnswer:
        return None


def way(due: Due, seen: Seen, sponsor: Pubkey | None) -> Way | Cannot:
    """How the account pays, or why it cannot.

    Args:
        due: What is to be paid.
        seen: What there is.
        sponsor: Our fee payer, if we would pay for it; SOL itself is never sponsored.
    """
    words = taking_problem(due, seen) or _paying_problem(due, seen)
    if words is not None:
        return Cannot(words)
    if due.fee and not can_take_fee(due, seen):
        return Cannot(OPERATOR_CLOSED)
    own = _way(due, seen, due.buyer)
    if _has_sol(due, seen, own.cost):
        return own
    if due.token is None or sponsor is None:
        return Cannot(NO_SOL)
    return _way(due, seen, sponsor)


def taking_problem(due: Due, seen: Seen) -> str | None:
    """Why the merchant cannot be paid so, whoever pays; None if nothing is wrong."""
    if not 0 < due.amount <= U64_MAX or not 0 <= due.fee < due.amount:
        return TOO_MUCH
    if not _is_wallet(seen.accounts[Wallet(due.destination)]):
        return NOT_A_WALLET
    if due.token is None:
        opens = due.amount - due.fee + seen.lamports(due.destination) >= seen.wallet_rent
        return None if opens else TOO_SMALL
    mint = mint_of(due, seen.accounts)
    if mint is None or mint.decimals != due.row.decimals:
        return NO_TOKEN
    if words := mint.problem(_epoch(seen)):
        return NOT_PAYABLE.format(words)
    return _destination_problem(due, seen)


def needs_account(due: Due, seen: Seen) -> bool:
    """Whether the merchant's token account has to be created first."""
    return due.token is not None and _is_unused(seen.accounts[TokenAccount(due.holding_of(due.destination))])


def can_take_fee(due: Due, seen: Seen) -> bool:
    """Whether the operator has a place for a fee in the asset; it is never created for one."""
    if due.operator is None:
        return False
    if due.token is None:
        wallet = seen.accounts[Wallet(due.operator)]
        return _is_wallet(wallet) and due.fee + seen.lamports(due.operator) >= seen.wallet_rent
    holding = _holding(due, seen, due.operator)
    return holding is not None and holding.owner == due.operator and holding.problem() is None


def _way(due: Due, seen: Seen, fee_payer: Pubkey) -> Way:
    mint, program = due.token or (None, None)
    wanted = Wanted(
        reference=reference_of(due.payment.id),
        buyer=due.buyer,
        fee_payer=fee_payer,
        mint=mint,
        program=program,
        decimals=due.row.decimals,
        legs=due.legs,
        create=(due.destination,) if needs_account(due, seen) else (),
        unit_price=seen.unit_price,
    )
    wanted = msgspec.structs.replace(wanted, unit_limit=unit_limit_for(wanted))
    rent = seen.holding_rent if wanted.create else 0
    return Way(wanted, lamports_max(wanted, seen.holding_rent), rent)


def _has_sol(due: Due, seen: Seen, cost: int) -> bool:
    """Whether the buyer can pay the network, and keeps enough SOL to exist, or none at all."""
    left = seen.lamports(due.buyer) - cost - (due.amount if due.token is None else 0)
    return left == 0 or left >= seen.wallet_rent


def _paying_problem(due: Due, seen: Seen) -> str | None:
    """Why the account cannot pay, but for the network's fee."""
    # Off the curve no key signs: the account is a program's.
    if not due.buyer.is_on_curve() or not _is_wallet(seen.accounts[Wallet(due.buyer)]):
        return BUYER_NO_WALLET
    if due.token is None:
        return None if seen.lamports(due.buyer) >= due.amount else TOO_LITTLE
    holding = _holding(due, seen, due.buyer)
    if holding is None or holding.owner != due.buyer:
        return BUYER_NO_HOLDING
    if words := holding.problem():
        return BUYER_CLOSED.format(words)
    return None if holding.amount >= due.amount else TOO_LITTLE


def _destination_problem(due: Due, seen: Seen) -> str | None:
    """Why tokens cannot go to the merchant's token account; None if it takes them, or is not there yet."""
    if needs_account(due, seen):
        return None
    holding = _holding(due, seen, due.destination)
    # The owner of a token account can hand it to somebody else.
    if holding is None or holding.owner != due.destination:
        return NOT_THE_MERCHANTS
    words = holding.problem()
    return None if words is None else MERCHANT_CLOSED.format(words)


def _holding(due: Due, seen: Seen, owner: Pubkey) -> Holding | None:
    """The token account at the place that follows from an owner; whose it is stands in it."""
    assert due.token is not None
    mint, program = due.token
    account = seen.accounts[TokenAccount(due.holding_of(owner))]
    if account is None or account.owner != program:
        return None
    try:
        holding = decode_holding(account.owner, account.data)
    except BadAnswer:
        return None
    return holding if holding.mint == mint else None


def _epoch(seen: Seen) -> int | None:
    account = seen.accounts[Steady(CLOCK)]
    try:
        return None if account is None else decode_clock(account.data).epoch
    except BadAnswer:
        return None


def _is_wallet(account: Account | None) -> bool:
    """Whether an account is that of a wallet, or none yet; only its first byte of data may have been read."""
    return account is None or (account.owner == SYSTEM and not account.data and not account.is_executable)


def _is_unused(account: Account | None) -> bool:
    """Whether a token account can be created there; somebody may have sent SOL to the place before."""
    return account is None or (account.owner == SYSTEM and not account.data)
