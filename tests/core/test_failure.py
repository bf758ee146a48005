"""Every reason that payd itself gives for a failure has a kind, and the words of others go by their code."""

from __future__ import annotations

import pytest
from solders.message import Message

from payd.chains.solana.failures import NO_FUNDS, failure_words
from payd.core import failure
from payd.core.failure import DECLINED, NOT_BROUGHT, kind_of
from payd.core.payment import PaymentFailed

EMPTY = Message([])


@pytest.mark.parametrize(
    ("reason", "code", "kind"),
    [
        (failure.SIMULATED, DECLINED, "simulated"),
        (failure.MISALIGNED, DECLINED, "misaligned"),
        (failure.TAKEN_BACK, DECLINED, "taken_back"),
        (failure.REPLACED, DECLINED, "replaced"),
        (failure.REVERTED, "broadcast_failed", "reverted"),
        (failure.PAID_NOTHING, "broadcast_failed", "unpaid"),
        (f"{NOT_BROUGHT}the relayer has no gas", "broadcast_failed", "not_brought"),
        (f"{NOT_BROUGHT}None", "broadcast_failed", "not_brought"),
        (failure_words("AccountInUse", EMPTY), "broadcast_failed", "reverted"),
        (f"{failure.REFUSED}{NO_FUNDS}. Nothing was paid.", "broadcast_failed", "no_funds"),
        ("insufficient_funds", DECLINED, "declined"),
        ("something new", "broadcast_failed", "broadcast"),
        ("", "a code of tomorrow", "broadcast"),
    ],
)
def test_a_reason_has_the_kind_that_its_buyer_is_told(reason: str, code: str, kind: str) -> None:
    assert kind_of(reason, code) == kind


def test_a_failure_without_a_code_counts_as_declined() -> None:
    trigger = PaymentFailed("no")
    assert kind_of(trigger.reason, trigger.code) == "declined"
