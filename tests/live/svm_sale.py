"""A sale on a bare node: a buyer pays a merchant, and what the node shows of it."""

from __future__ import annotations

from typing import Any, Final

from solders.pubkey import Pubkey

from tests.live.solana import BUYER, MERCHANT, USDC_MINT, LocalSolana, keypair, pay_token, pubkey

LEVELS: Final = ("processed", "confirmed", "finalized")


async def pay(solana: LocalSolana, amount: int = 25, *more: Any) -> str:
    """A transfer of USDC from the buyer to the merchant, which landed."""
    instructions = [*more, pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, amount)]
    return await solana.send(instructions, keypair(BUYER))


async def listed(solana: LocalSolana, key: Pubkey, **asked: Any) -> list[str]:
    """The ids of confirmed transactions that name an account, newest first."""
    found = await solana.rpc("getSignaturesForAddress", str(key), {"commitment": "confirmed", **asked})
    return [one["signature"] for one in found]


async def merchants(solana: LocalSolana) -> list[int]:
    """What the merchant has in USDC, by commitment."""
    return [await solana.tokens(pubkey(MERCHANT), USDC_MINT, commitment=level) for level in LEVELS]
