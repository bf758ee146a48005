"""A transaction that a shop handed out, whatever people make of it, and what they have afterwards."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx
from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import Message
from solders.pubkey import Pubkey

from payd.chains.solana.build import fee_of, split, unsigned, with_signature
from payd.chains.solana.fee_payer import fee_payer_from
from tests.chains.solana.tampering import instructions_of, put_together
from tests.live.chain import RELAYER, account
from tests.live.solana import (
    BUYER,
    BUYER_2,
    ISSUER,
    MERCHANT,
    MERCHANT_2,
    MINTS,
    OPERATOR,
    POOR,
    STRANGER,
    USDC,
    LocalSolana,
    keypair,
    pubkey,
)
from tests.live.solana_street import FEE_PAYER, SolanaStreet

PEOPLE: Final = (BUYER, BUYER_2, MERCHANT, MERCHANT_2, OPERATOR, STRANGER, ISSUER, POOR)

Wealth = dict[tuple[Pubkey, Pubkey | None], int]
"""What each of them has, by token; None: SOL."""


async def wealth(chain: LocalSolana) -> Wealth:
    """What everybody has on a chain."""
    found: Wealth = {}
    for owner in (*(pubkey(place) for place in PEOPLE), FEE_PAYER):
        found[owner, None] = await chain.lamports(owner)
        for mint, program in MINTS.items():
            found[owner, mint] = await chain.tokens(owner, mint, program)
    return found


def gains(before: Wealth, after: Wealth) -> Wealth:
    """What has changed, and by how much."""
    return {key: after[key] - had for key, had in before.items() if after[key] != had}


def as_text(raw: bytes) -> str:
    """As a wallet gives it."""
    return base64.b64encode(raw).decode()


@dataclass(frozen=True)
class Handed:
    """A payment's transaction as a buyer's wallet got it.

    Attributes:
        raw: Signed by us where we pay the network's fee.
        had: What everybody had when it was handed out.
    """

    street: SolanaStreet
    payment_id: str
    option: dict[str, Any]
    place: int
    raw: bytes
    had: Wealth

    @property
    def message(self) -> bytes:
        """What is to be signed."""
        return split(self.raw)[1]

    @property
    def payer(self) -> Pubkey:
        """Who pays the network's fee."""
        return Message.from_bytes(self.message).account_keys[0]

    @property
    def is_sponsored(self) -> bool:
        """Whether that is us."""
        return self.payer == FEE_PAYER

    @property
    def fee(self) -> int:
        """What the network takes for it."""
        return fee_of(self.message)

    @property
    def instructions(self) -> list[Instruction]:
        """What it does."""
        return instructions_of(self.message)

    def signed(self) -> str:
        """As an honest wallet gives it back."""
        return as_text(signed_by_all(self.raw))

    def with_instructions(
        self, instructions: Sequence[Instruction], payer: Pubkey | None = None, blockhash: str | None = None
    ) -> str:
        """Another transaction in its place, signed by everybody who has to but us."""
        fresh = Message.from_bytes(self.message).recent_blockhash
        known = fresh if blockhash is None else Hash.from_string(blockhash)
        return as_text(signed_by_all(unsigned(put_together(instructions, payer or self.payer, known))))

    async def confirm(self, *results: str) -> httpx.Response:
        """Give results for the option."""
        return await self.street.confirm(self.payment_id, self.option, *results)

    async def refused(self, result: str, *codes: str) -> str:
        """The words with which a result is refused; the payment is open as before, and nobody lost a thing.

        Args:
            result: As the wallet gives it.
            codes: One of which the answer has.
        """
        told = await self.confirm(result)
        assert 400 <= told.status_code < 500, told.text
        said = told.json()
        assert said["code"] in (codes or ("invalid_params", "invalid_signature")), told.text
        assert await self.street.status(self.payment_id) == "requires_action"
        return str(said["message"])

    async def is_paid(self, result: str | None = None) -> Wealth:
        """Confirm, as an honest wallet does if no result is named, and wait; gives what has changed since."""
        told = await self.confirm(result or self.signed())
        assert (told.status_code, told.json()["status"]) == (200, "processing"), told.text
        await self.street.until(self.payment_id, "settled", mining=True)
        return gains(self.had, await wealth(self.street.chain))


async def hand_out(street: SolanaStreet, asset: str = USDC, place: int = BUYER, **payment: Any) -> Handed:
    """A fresh payment's transaction, for the account at this place."""
    payment_id = await street.payment(**payment)
    option = await street.option(payment_id, asset, place)
    return await hand_out_again(street, payment_id, option, place)


async def hand_out_again(
    street: SolanaStreet, payment_id: str, option: dict[str, Any], place: int = BUYER
) -> Handed:
    """The transaction behind an option that was shown before."""
    had = await wealth(street.chain)
    return Handed(street, payment_id, option, place, await street.handed_out(option, place), had)


def signed_by_all(raw: bytes) -> bytes:
    """The transaction with the signatures of all people who have to sign; ours stays as it is."""
    message = split(raw)[1]
    keys = Message.from_bytes(message).signer_keys()
    for place in PEOPLE:
        if pubkey(place) in keys:
            raw = with_signature(raw, pubkey(place), bytes(keypair(place).sign_message(message)))
    return raw


def signed_by_us(raw: bytes) -> bytes:
    """The transaction with our signature, as if we had been asked."""
    fee_payer = fee_payer_from(bytes(account(RELAYER).key))
    return with_signature(raw, FEE_PAYER, fee_payer.sign(split(raw)[1]))
