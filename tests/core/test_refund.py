"""What a wallet is asked to send back: what was paid, in what, to whom."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.errors import InvalidParams, PaymentNotSucceeded
from payd.core.payment import open_payment, transition
from payd.core.refund import Repayment, repayment, repayment_of
from tests.ledger import BUYER, CHAIN, USDC, triggers_to
from tests.shop import SOLANA, SOLANA_WALLET, USDC_BASE, USDC_SOLANA
from tests.store.test_payments import payment


@pytest.mark.parametrize("state", ["succeeded", "settled"])
def test_all_that_was_paid_goes_back_to_who_paid(state: str) -> None:
    moved = open_payment(payment(1))
    for trigger in triggers_to(state, asset=USDC_BASE, tx_id="0x1", reason=""):
        moved = transition(moved.payment, trigger, 2000)

    assert repayment_of(moved.payment) == Repayment(CHAIN, USDC, 1_000_000, BUYER.lower())


@pytest.mark.parametrize("state", ["requires_action", "processing", "failed", "expired", "cancelled"])
def test_what_was_not_paid_is_not_paid_back(state: str) -> None:
    moved = open_payment(payment(1))
    for trigger in triggers_to(state, tx_id="0x1", reason=""):
        moved = transition(moved.payment, trigger, 2000)

    with pytest.raises(PaymentNotSucceeded):
        repayment_of(moved.payment)


def test_a_buyer_whom_nobody_knows_must_be_asked() -> None:
    moved = open_payment(payment(1))
    for trigger in triggers_to("succeeded", tx_id="0x1", reason=""):
        moved = transition(moved.payment, trigger, 2000)
    assert moved.payment.processing is not None
    stranger = msgspec.structs.replace(moved.payment.processing, buyer=None)

    with pytest.raises(InvalidParams, match="ask the buyer"):
        repayment_of(msgspec.structs.replace(moved.payment, processing=stranger))


def test_a_transfer_goes_back_where_it_came_from() -> None:
    back = repayment(USDC_SOLANA, 7, f"{SOLANA}:{SOLANA_WALLET}")
    assert back == Repayment(SOLANA, USDC_SOLANA, 7, f"{SOLANA}:{SOLANA_WALLET}")
