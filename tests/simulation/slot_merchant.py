"""A merchant on Solana under a seed whose token accounts are closed, frozen, or given away for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Final

import trio
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from payd.chains.solana.keys import token_account
from tests.live.solana import (
    ISSUER,
    MERCHANT,
    MINTS,
    OPERATOR,
    STRANGER,
    create_holding,
    keypair,
    pay_token,
    pubkey,
)
from tests.simulation.slot_buyers import transaction
from tests.simulation.slots import Slots

# From one such thing to the next, and how long it lasts.
PAUSE_MAX_S: Final = 150.0
LASTS_MAX_S: Final = 60.0
# What is sent may be lost, or come to nothing because a payment was faster, and a fork takes what mended it.
AGAIN_S: Final = 5.0
GOOD_MIN: Final = 5

MERCHANT_TROUBLES: Final = frozenset(
    {"merchant closes an account", "merchant's account is frozen", "merchant's account is handed over"}
)
"""All that happens, by name."""

Way = Callable[[Pubkey, Pubkey], Awaitable[None]]


class SlotMerchant:
    """Has all of it happen to one token account after the other, and makes each good again.

    Args:
        chain: Where.
        rng: When, and what.
        happened: Counts it, by name.
    """

    def __init__(self, chain: Slots, rng: Random, happened: Counter[str]) -> None:
        self._chain = chain
        self._rng = rng
        self._happened = happened
        self._ways: tuple[Way, ...] = (self._close, self._freeze, self._hand_over, self._lose)

    async def live(self) -> None:
        """Until all is calm; what is begun is made good."""
        while True:
            await trio.sleep(self._rng.random() * PAUSE_MAX_S)
            if self._chain.is_calm:
                return
            mint, program = self._rng.choice(list(MINTS.items()))
            await self._rng.choice(self._ways)(mint, program)

    async def _close(self, mint: Pubkey, program: Pubkey) -> None:
        """With what is in it taken to somebody else first; it is made anew."""
        self._happened["merchant closes an account"] += 1
        self._send([*self._empties(MERCHANT, mint, program), _closed(MERCHANT, mint, program)])
        await self._lasts()
        await self._create(mint, program)

    async def _freeze(self, mint: Pubkey, program: Pubkey) -> None:
        self._happened["merchant's account is frozen"] += 1
        self._send([_by_issuer(10, mint, program)], ISSUER)
        await self._lasts()
        await self._until(
            lambda: (self._held(mint, program) or {}).get("state") == "initialized",
            lambda: self._send([_by_issuer(11, mint, program)], ISSUER),
        )

    async def _hand_over(self, mint: Pubkey, program: Pubkey) -> None:
        """With what is in it, and it is given back."""
        self._happened["merchant's account is handed over"] += 1
        self._send([_given(MERCHANT, STRANGER, mint, program)])
        await self._lasts()
        await self._take_back(mint, program)

    async def _lose(self, mint: Pubkey, program: Pubkey) -> None:
        """It is given away, and its new owner closes it; it is made anew."""
        self._happened["merchant's account is handed over"] += 1
        self._send([_given(MERCHANT, STRANGER, mint, program)])
        await self._lasts()
        closes = _closed(STRANGER, mint, program)
        self._send([*self._empties(STRANGER, mint, program), closes], STRANGER)
        await self._lasts()
        await self._create(mint, program)
        await self._take_back(mint, program)

    async def _create(self, mint: Pubkey, program: Pubkey) -> None:
        merchant = pubkey(MERCHANT)
        await self._until(
            lambda: self._held(mint, program) is not None,
            lambda: self._send([create_holding(merchant, merchant, mint, program)]),
        )

    async def _take_back(self, mint: Pubkey, program: Pubkey) -> None:
        await self._until(
            lambda: (self._held(mint, program) or {}).get("owner") != str(pubkey(STRANGER)),
            lambda: self._send([_given(STRANGER, MERCHANT, mint, program)], STRANGER),
        )

    async def _lasts(self) -> None:
        await trio.sleep(self._rng.random() * LASTS_MAX_S)

    async def _until(self, is_good: Callable[[], bool], mend: Callable[[], None]) -> None:
        """Mend something until it is good and stays so."""
        good = 0
        while good < GOOD_MIN:
            good = good + 1 if is_good() else 0
            if good == 0:
                mend()
            await trio.sleep(AGAIN_S)

    def _empties(self, place: int, mint: Pubkey, program: Pubkey) -> list[Instruction]:
        """What takes all out of the account, whose owner is this one now."""
        held = self._held(mint, program)
        if held is None:
            return []
        amount, source = int(held["tokenAmount"]["amount"]), _place(mint, program)
        return [pay_token(pubkey(place), pubkey(OPERATOR), mint, amount, program=program, source=source)]

    def _held(self, mint: Pubkey, program: Pubkey) -> dict[str, Any] | None:
        account = self._chain.account(_place(mint, program))
        return None if account is None or not account.data else self._chain.holding(account)

    def _send(self, instructions: Sequence[Instruction], payer: int = MERCHANT) -> None:
        fresh = Hash.from_string(self._chain.at("confirmed").hash)
        self._chain.send(transaction(instructions, keypair(payer), fresh=fresh))


def _place(mint: Pubkey, program: Pubkey) -> Pubkey:
    """Where payments in a token come to."""
    return token_account(pubkey(MERCHANT), mint, program)


def _by_issuer(what: int, mint: Pubkey, program: Pubkey) -> Instruction:
    """Freeze the account (10), or thaw it (11)."""
    accounts = [
        AccountMeta(_place(mint, program), is_signer=False, is_writable=True),
        AccountMeta(mint, is_signer=False, is_writable=False),
        AccountMeta(pubkey(ISSUER), is_signer=True, is_writable=False),
    ]
    return Instruction(program, bytes([what]), accounts)


def _given(owner: int, to: int, mint: Pubkey, program: Pubkey) -> Instruction:
    """Give the account to somebody, with what is in it."""
    accounts = [
        AccountMeta(_place(mint, program), is_signer=False, is_writable=True),
        AccountMeta(pubkey(owner), is_signer=True, is_writable=False),
    ]
    return Instruction(program, bytes([6, 2, 1]) + bytes(pubkey(to)), accounts)


def _closed(owner: int, mint: Pubkey, program: Pubkey) -> Instruction:
    """Close the account, whoever has it now."""
    accounts = [
        AccountMeta(_place(mint, program), is_signer=False, is_writable=True),
        AccountMeta(pubkey(owner), is_signer=False, is_writable=True),
        AccountMeta(pubkey(owner), is_signer=True, is_writable=False),
    ]
    return Instruction(program, b"\x09", accounts)
