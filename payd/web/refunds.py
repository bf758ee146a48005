"""Refunds that merchants make from their own wallets: checked on the chain, and recorded once.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from payd.core.errors import InvalidParams, Issue, ParamsValidation, PaymentNotSucceeded
from payd.core.payment import Payment
from payd.core.status import Status

if TYPE_CHECKING:
    from payd.web.house import Realm

NOTE_MAX: Final = 1000
TX_ID_MAX: Final = 128


def check_words(tx_id: str | None, note: str | None) -> None:
    """Refuse what cannot be kept.

    Raises:
        ParamsValidation: One is too long, or no transaction's id.
    """
    issues = []
    if tx_id is not None and not (1 <= len(tx_id) <= TX_ID_MAX and tx_id.isprintable()):
        issues.append(Issue("txId", f"1 to {TX_ID_MAX} printable characters."))
    if note is not None and len(note) > NOTE_MAX:
        issues.append(Issue("note", f"At most {NOTE_MAX} characters."))
    if issues:
        raise ParamsValidation.of(*issues)


async def check_refund(realm: Realm, payment: Payment, tx_id: str | None) -> None:
    """Refuse a refund that is none; with `tx_id`, after a look at the payment's chain.

    Raises:
        PaymentNotSucceeded: Nothing was paid that could be paid back.
        InvalidParams: The transaction pays nothing back, or the chain is not configured any more.
        ChainUnavailable: No node answers.
    """
    if payment.status is not Status.SUCCEEDED:
        raise PaymentNotSucceeded(
            f"The payment is {payment.status.value}; only a succeeded one can be refunded."
        )
    if tx_id is None:
        return
    assert payment.processing is not None, "a succeeded payment was paid with something"
    chain = realm.payments.chain_of(payment.processing.chain)
    if chain is None:
        raise InvalidParams("The payment's chain is not configured, so txId cannot be checked. Leave it out.")
    problem = await chain.refund_problem(payment, tx_id)
    if problem is not None:
        raise InvalidParams(problem)
