"""Guards of wallets: which instructions of Lighthouse may be added."""

from __future__ import annotations

import pytest
from solders.pubkey import Pubkey

from payd.chains.solana.guards import ASSERTIONS, guard_problem
from tests.chains.solana.vm import BUYER, MERCHANT, PAYER

ACCOUNTS = [BUYER.pubkey(), MERCHANT.pubkey(), Pubkey.default()]


@pytest.mark.parametrize("kind", ASSERTIONS)
def test_an_assertion_may_be_added(kind: int) -> None:
    assert guard_problem(bytes([kind, 0, 1]), ACCOUNTS[: ASSERTIONS[kind]], PAYER.pubkey()) is None


@pytest.mark.parametrize("kind", [0, 1, 16, 18, 255])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_what_writes_closes_calls_or_is_unknown_may_not(kind: int, count: int) -> None:
    assert guard_problem(bytes([kind]), ACCOUNTS[:count], None) == "a guard that was added is no assertion"


def test_an_empty_instruction_may_not() -> None:
    assert guard_problem(b"", ACCOUNTS[:1], None) == "a guard that was added is no assertion"


@pytest.mark.parametrize("kind", ASSERTIONS)
def test_an_assertion_names_what_it_reads_and_nothing_else(kind: int) -> None:
    for count in {0, 1, 2, 3} - {ASSERTIONS[kind]}:
        assert "other accounts" in (guard_problem(bytes([kind]), ACCOUNTS[:count], None) or "")


@pytest.mark.parametrize("accounts", [[PAYER.pubkey(), BUYER.pubkey()], [BUYER.pubkey(), PAYER.pubkey()]])
def test_a_guard_does_not_name_the_fee_payer_if_it_is_ours(accounts: list[Pubkey]) -> None:
    assert "fee payer" in (guard_problem(b"\x04", accounts, PAYER.pubkey()) or "")
    assert guard_problem(b"\x04", accounts, None) is None
