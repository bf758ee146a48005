"""What we may pay for others on Solana: reserved in the step that stores what we sign, and signed in it.

A transaction that we signed first can be brought to the chain by whoever has the buyer's signature. So its
cost counts from before anybody sees it until it has landed or cannot any more.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

import msgspec
import structlog
from solders.pubkey import Pubkey
from solders.signature import Signature

from payd.chains.solana.fee_payer import FeePayer
from payd.chains.solana.terms import Terms
from payd.core.errors import InvalidState, QuoteExpired, RateLimited
from payd.store.builds import (
    Build,
    builds_of_buyer,
    count_opening,
    find_build,
    hash_message,
    insert_build,
    reserved_on_builds,
    spent_on_builds,
    spent_on_payment,
)
from payd.store.db import Database, Tx

DAY_MS: Final = 24 * 3600 * 1000
# Whoever has the link of a payment can ask for accounts that are not theirs, whose signature is never seen:
# those end with their blockhashes, after some 90 seconds. And for accounts of theirs, which they empty then:
# those land, fail, and cost us their fees. So many of both take no budget from other payments.
PAID_PER_PAYMENT_MAX: Final = 16
# Each of them reserves the rent of the account, which is more than a hundred fees: no merchant without one
# takes the day's budget from all others. The first that lands opens it for everybody.
OUT_PER_OPENING_MAX: Final = 8
RETRY_AFTER_S: Final = 60

OWN_SOL: Final = "Pay from an account with a little SOL for the network fee, or try again later."
SPENT: Final = f"What this server pays for others in network fees is used up for today. {OWN_SOL}"
SPENT_ON_BUYER: Final = f"This server has paid network fees for this account often enough today. {OWN_SOL}"
SPENT_ON_PAYMENT: Final = f"This payment was prepared for too many accounts, or too often. {OWN_SOL}"
SPENT_ON_OPENING: Final = (
    "The first payments to this account in this asset are still on their way. Wait a minute and try again."
)
PURSE_EMPTY: Final = f"This server has no SOL left to pay network fees for others. {OWN_SOL}"
ENDED: Final = "The prepared transaction is too old. Ask for options again."

log = structlog.get_logger("payd.chains")


class Purse(msgspec.Struct, frozen=True):
    """What the fee payer has.

    Attributes:
        lamports: By the chain.
        keep: What has to stay, or the account could not go on.
    """

    lamports: int
    keep: int

    def has(self, cost: int) -> bool:
        """Whether there is so much that need not stay."""
        return cost + self.keep <= self.lamports


class Budget:
    """What we may pay for on one chain.

    Args:
        terms: What the operator set.
        db: The realm's store.
        fee_payer: The key.
    """

    def __init__(self, terms: Terms, db: Database, fee_payer: FeePayer) -> None:
        self._terms = terms
        self._db = db
        self._fee_payer = fee_payer

    @property
    def address(self) -> Pubkey:
        """Who pays."""
        return self._fee_payer.address

    async def sign(self, build: Build, message: bytes, purse: Purse, now_ms: int) -> bytes:
        """Reserve what a transaction may cost us, store it as handed out, and sign it: all of it or nothing.

        Args:
            build: To be stored; its `cost` is what it costs at most, and its `tx_id` is filled in.
            message: What is signed; of one that is out already, the signature is given once more.
            purse: What the fee payer has.
            now_ms: Unix milliseconds.

        Returns:
            The signature, 64 bytes.

        Raises:
            RateLimited: It may not be paid for now.
            InvalidState: There is no SOL for it.
            QuoteExpired: It is not out any more.
        """
        assert build.message_hash == hash_message(message)
        return await self._db.write(
            _reserve_and_sign, self._terms, self._fee_payer, build, message, purse, now_ms
        )


def _reserve_and_sign(
    tx: Tx, terms: Terms, fee_payer: FeePayer, build: Build, message: bytes, purse: Purse, now_ms: int
) -> bytes:
    stored = find_build(tx, build.message_hash)
    if stored is None:
        check_budget(tx, terms, build, purse, now_ms)
    elif stored.state != "out" or stored.tx_id is None:
        raise QuoteExpired(ENDED)
    signature = fee_payer.sign(message)
    tx_id = str(Signature.from_bytes(signature))
    insert_build(tx, msgspec.structs.replace(build, tx_id=tx_id))
    return signature


def check_budget(tx: Tx, terms: Terms, build: Build, purse: Purse, now_ms: int) -> None:
    """Refuse what may not be paid for.

    Raises:
        RateLimited: It may not be paid for now.
        InvalidState: There is no SOL for it.
    """
    chain, since_ms = build.chain, now_ms - DAY_MS
    out = reserved_on_builds(tx, chain)
    if spent_on_builds(tx, chain, since_ms).cost + build.cost > terms.spend_per_day:
        _refuse(build, "budget", SPENT)
    if builds_of_buyer(tx, chain, build.buyer, since_ms, build.payment_id) >= terms.relays_per_buyer:
        _refuse(build, "buyer", SPENT_ON_BUYER)
    if spent_on_payment(tx, chain, build.payment_id).count >= PAID_PER_PAYMENT_MAX:
        _refuse(build, "payment", SPENT_ON_PAYMENT)
    if build.opens is not None and count_opening(tx, chain, build.opens) >= OUT_PER_OPENING_MAX:
        _refuse(build, "opening", SPENT_ON_OPENING)
    if not purse.has(out.cost + build.cost):
        log.warning("sponsor.empty", chain=chain, lamports=purse.lamports, reserved=out.cost)
        raise InvalidState(PURSE_EMPTY)


def _refuse(build: Build, why: str, words: str) -> None:
    log.info("sponsor.refused", chain=build.chain, payment=build.payment_id, why=why)
    raise RateLimited(words, details={"retryAfterS": RETRY_AFTER_S})
