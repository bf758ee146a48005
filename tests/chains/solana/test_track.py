"""The notes of a commitment come back as they were stored, and say what the wire shows."""

from __future__ import annotations

from payd.chains.following import commitment, recipient_of
from payd.chains.solana.track import Track, read_track
from payd.core.option import Quote
from payd.core.payment import FundsCommitted, Payment, transition

CHAIN = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
USDC = f"{CHAIN}/token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
SHOP = f"{CHAIN}:3emsAVdmGKERbHjmGfQ6oZ1e35dkf5iYcS6U4CPKFVaa"
BUYER = f"{CHAIN}:7S3P4HxJpyyigGzodYwHtCxZyUQe9JiBMHyRWXArAaKv"
QUOTE = Quote("opt_1", "pay_l1", USDC, BUYER, 25_000_000, SHOP, (), 0, 900_000, 24_500_000)
TRACK = Track(USDC, SHOP, "24500000", b"\1" * 32, "confirmed", "5sig", 300)


def test_the_notes_come_back_as_they_were() -> None:
    payment = Payment("pay_l1", "acct_1", "mrch_1", "order-1", "USD", 2500, 0, 900_000, 0)
    moved = transition(payment, FundsCommitted(commitment(QUOTE, TRACK, 5, buyer=BUYER)), 5).payment

    assert read_track(moved) == TRACK


def test_what_leaves_the_buyer_and_what_reaches_the_merchant_are_told_apart() -> None:
    made = commitment(QUOTE, TRACK, 5, buyer=BUYER)

    assert (made.option_amount.value, made.settlement_amount.value) == ("25000000", "24500000")
    assert (made.chain, made.buyer) == (CHAIN, BUYER)
    assert recipient_of(QUOTE) == SHOP
