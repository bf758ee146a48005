"""What ties a transfer to its payment: nothing of the payment's id can be read from it."""

from __future__ import annotations

from payd.chains.solana.binding import memo_of, reference_key, reference_of, refund_reference_of

REFERENCE = "619ab4363bda459183f700b7c744dd315ed4ec5798a6e1f08de8d7b7c392c43f"
MEMO = "dcc6953e1d19e9240b47ddeba6a40e1489e36a269bdf60c02e3f605076f402be"


def test_a_payment_has_one_reference_and_one_memo() -> None:
    reference = reference_of("pay_l1")

    assert reference == reference_of("pay_l1")
    assert bytes(reference_key("pay_l1")) == reference
    assert (len(reference), len(memo_of(reference))) == (32, 64)


def test_no_two_payments_share_them() -> None:
    assert reference_of("pay_l1") != reference_of("pay_l2")
    assert memo_of(reference_of("pay_l1")) != memo_of(reference_of("pay_l2"))


def test_the_memo_does_not_show_the_reference_nor_either_the_id() -> None:
    reference = reference_of("pay_l1")

    assert memo_of(reference) != reference.hex()
    assert b"pay_l1" not in reference
    assert "pay_l1" not in memo_of(reference)


def test_what_was_handed_out_once_is_the_same_for_ever() -> None:
    assert reference_of("pay_l1").hex() == REFERENCE
    assert memo_of(reference_of("pay_l1")) == MEMO


def test_what_pays_back_is_bound_to_nothing_that_is_paid() -> None:
    assert refund_reference_of("pay_l1") not in (reference_of("pay_l1"), refund_reference_of("pay_l2"))
    assert len(refund_reference_of("pay_l1")) == 32
    assert b"pay_l1" not in refund_reference_of("pay_l1")
