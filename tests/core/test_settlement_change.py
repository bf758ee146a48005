"""When the change of a destination takes effect: now, after the whole delay, or when it was to anyway."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.settlement_change import SettlementChange, is_same_account, takes_effect_at_ms

OLD = "eip155:8453:0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
NEW = "eip155:8453:0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
THIRD = "eip155:8453:0x90F79bf6EB2c4f870365E785982E1f101E93b906"
SOLANA = "solana:mainnet:7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV"


def waiting(destination: str = NEW, due_at_ms: int = 5000) -> SettlementChange:
    return SettlementChange("crypto_1", "mrch_1", "acct_1", destination, "usr_1", 0, due_at_ms)


@pytest.mark.parametrize(
    ("pending", "wanted", "delay_ms", "due_ms"),
    [
        (None, NEW, 0, 1000),
        (None, NEW, 9000, 10_000),
        (None, OLD, 9000, 1000),
        (None, OLD.lower(), 9000, 1000),
        (waiting(), NEW, 9000, 5000),
        (waiting(), NEW.lower(), 9000, 5000),
        (waiting(), NEW, 100, 1100),
        (waiting(), NEW, 0, 1000),
        (waiting(due_at_ms=500), NEW, 9000, 1000),
        (waiting(), THIRD, 9000, 10_000),
        (waiting(), OLD, 9000, 1000),
    ],
    ids=[
        "no delay",
        "the whole delay",
        "no change",
        "another spelling is no change",
        "asked for again it does not wait anew",
        "nor in another spelling",
        "a shorter delay holds from the request on",
        "none any more",
        "overdue",
        "another one waits the whole delay, however long this one has",
        "back to where it goes",
    ],
)
def test_a_change_takes_effect(
    pending: SettlementChange | None, wanted: str, delay_ms: int, due_ms: int
) -> None:
    assert takes_effect_at_ms(OLD, pending, wanted, now_ms=1000, delay_ms=delay_ms) == due_ms


@given(st.integers(0, 10**9), st.integers(1, 10**9), st.integers(0, 10**9))
def test_no_address_is_ever_paid_before_somebody_waited_for_that_very_one(
    now_ms: int, delay_ms: int, due_at_ms: int
) -> None:
    for pending in (None, waiting(THIRD, due_at_ms)):
        assert takes_effect_at_ms(OLD, pending, NEW, now_ms=now_ms, delay_ms=delay_ms) == now_ms + delay_ms
    again = takes_effect_at_ms(OLD, waiting(NEW, due_at_ms), NEW, now_ms=now_ms, delay_ms=delay_ms)
    assert now_ms <= again <= now_ms + delay_ms


def test_capitals_are_a_spelling_on_evm_chains_alone() -> None:
    assert is_same_account(OLD, OLD.lower())
    assert not is_same_account(SOLANA, SOLANA.lower())
    assert is_same_account(SOLANA, SOLANA.replace("mainnet", "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"))
