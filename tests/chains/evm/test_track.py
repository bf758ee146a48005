"""Notes of a commitment: what is kept of it, and the fee as it was signed."""

from __future__ import annotations

import msgspec

from payd.chains.evm.track import Told, Track, read_track
from payd.chains.following import commitment, recipient_of
from payd.core.option import Quote
from payd.core.payment import FundsCommitted, Payment, transition
from tests.chains.evm.json import BUYER, SHOP, TOKEN, TX_HASH

ASSET = f"eip155:8453/erc20:{TOKEN}"
QUOTE = Quote("opt_1", "pay_1", ASSET, f"eip155:8453:{BUYER}", 1000, f"eip155:8453:{SHOP.upper()}", (), 0, 1)
QUOTE = msgspec.structs.replace(QUOTE, destination="eip155:8453:0x" + SHOP[2:].upper())
PAYMENT = Payment("pay_1", "acct_1", "mrch_1", "R", "USD", 1, 0, 900_000, 0)
TRACK = Track(
    asset=ASSET,
    recipient=f"eip155:8453:{SHOP}",
    value=str(2**256 - 1),
    bindings=(b"\1" * 32, b"\2" * 32),
    depth="safe",
    told=Told(TX_HASH, BUYER, 7),
)


def test_notes_come_back_from_the_payment_as_they_were_made_with_numbers_of_any_size() -> None:
    processing = commitment(QUOTE, TRACK, 5, buyer=QUOTE.account)
    payment = transition(PAYMENT, FundsCommitted(processing), 5).payment

    assert read_track(payment) == TRACK
    assert processing.settlement_amount.value == str(2**256 - 1)
    assert processing.option_amount.value == "1000"
    assert (processing.chain, processing.buyer) == ("eip155:8453", QUOTE.account)


def test_the_recipient_is_written_in_the_one_spelling_that_transfers_have() -> None:
    assert recipient_of(QUOTE) == f"eip155:8453:{SHOP}"
