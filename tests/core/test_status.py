"""The states of a payment and their words."""

from __future__ import annotations

import pytest

from payd.core.status import FINAL, Status, merchant_word


def test_the_words_are_those_of_the_webhooks() -> None:
    words = ["requires_action", "processing", "succeeded", "failed", "expired", "cancelled"]

    assert [str(status) for status in Status] == words


def test_a_payment_that_waits_or_is_on_its_way_is_not_final() -> None:
    assert set(Status) - FINAL == {Status.REQUIRES_ACTION, Status.PROCESSING}


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (Status.REQUIRES_ACTION, "pending"),
        (Status.PROCESSING, "processing"),
        (Status.SUCCEEDED, "succeeded"),
        (Status.FAILED, "failed"),
        (Status.EXPIRED, "expired"),
        (Status.CANCELLED, "failed"),
    ],
)
def test_the_merchant_paths_know_five_words(status: Status, word: str) -> None:
    assert merchant_word(status) == word


def test_a_final_state_has_a_final_word_on_the_merchant_paths() -> None:
    assert {merchant_word(status) for status in FINAL} == {"succeeded", "failed", "expired"}
