"""What is to be paid on Solana: by whom, to whom, in what, and the part of it that the operator takes.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

import msgspec
from solders.pubkey import Pubkey

from payd.chains.assets import Asset, AssetBook
from payd.chains.solana.build import Leg
from payd.chains.solana.keys import SYSTEM, token_account
from payd.chains.solana.mints import mint_key, program_of
from payd.chains.solana.terms import Terms
from payd.core.caip import AccountId, AssetId, account_problem, canonical_chain, parse_account
from payd.core.payment import Payment

NOBODY: Final = SYSTEM
"""Who pays by a link that anybody may follow: an address that no key has."""


class Due(msgspec.Struct, frozen=True):
    """What is to be paid, by whom and to whom.

    Attributes:
        payment: What it is for.
        row: The asset.
        token: Its mint and that one's program; None for SOL.
        buyer: Who pays.
        destination: Whose wallet is paid.
        operator: Who gets a fee, if there is one.
        amount: What leaves the buyer, in smallest units.
        fee: The operator's part of it.
    """

    payment: Payment
    row: Asset
    token: tuple[Pubkey, Pubkey] | None
    buyer: Pubkey
    destination: Pubkey
    operator: Pubkey | None
    amount: int = 0
    fee: int = 0

    def holding_of(self, owner: Pubkey) -> Pubkey:
        """Where an owner has the token."""
        assert self.token is not None, "SOL is in the wallet itself"
        return token_account(owner, *self.token)

    @property
    def legs(self) -> tuple[Leg, ...]:
        """Who gets what, the merchant first."""
        merchant = Leg(self.destination, self.amount - self.fee)
        if not self.fee:
            return (merchant,)
        assert self.operator is not None, "a fee is somebody's"
        return (merchant, Leg(self.operator, self.fee))


def due_of(
    terms: Terms, book: AssetBook, payment: Payment, asset: AssetId, account: AccountId, destination: str
) -> Due | None:
    """What is asked for, still without an amount; None if nothing can come of it.

    Args:
        terms: What the operator set.
        book: Assets.
        payment: What it is for.
        asset: As the merchant wrote it.
        account: Who pays, as the wallet writes it; the address of `NOBODY` for whoever follows a link.
        destination: CAIP-10 of who is paid.
    """
    row, paid = book.find(asset), parse_account(destination)
    if row is None or any(canonical_chain(one.chain) != terms.chain for one in (asset, account, paid)):
        return None
    if account_problem(account) is not None or account_problem(paid) is not None:
        return None
    token = None
    if row.kind == "spl":
        token = mint_key(row), program_of(row)
    elif row.kind != "native":
        return None
    buyer, merchant = Pubkey.from_string(account.address), Pubkey.from_string(paid.address)
    mint = None if token is None else token[0]
    if buyer in (merchant, mint, terms.fee_payer) or merchant in (mint, terms.fee_payer):
        return None
    operator = None if terms.fee is None else Pubkey.from_string(terms.fee.address)
    return Due(payment, row, token, buyer, merchant, None if operator in (buyer, merchant) else operator)
