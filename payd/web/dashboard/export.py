"""A list of payments as CSV: the same filter, every row once, and never more than a page of it in memory.

Times are ISO 8601 UTC; each amount stands there twice, in smallest units for programs and as a decimal number
for people. What was paid, taken as a fee and received is there once a payment has succeeded: no sum over
these columns counts money that did not come. What was paid back is told by when, by which transaction and in
the merchant's words: it may be less than came, and nobody but the merchant knows how much.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

import msgspec

from payd.core.csv import line
from payd.core.event import iso_ms
from payd.core.money import AmountWire, format_units
from payd.core.payment import Payment
from payd.core.status import Status
from payd.store.db import Tx
from payd.store.ledger import newest_seq
from payd.store.merchants import named_merchants
from payd.store.payments import PaymentFilter, list_payments
from payd.store.refunds import Refund, refunds_of

if TYPE_CHECKING:
    from payd.web.house import Realm
    from payd.web.schema import Words

# Rows in one read: others' lists wait for it a millisecond or two, and every request while they are written.
PAGE: Final = 100

COLUMNS: Final = (
    "payment_id",
    "reference_id",
    "merchant_id",
    "merchant_name",
    "status",
    "created_at",
    "updated_at",
    "expires_at",
    "currency",
    "amount_minor",
    "amount",
    "paid_asset",
    "paid_symbol",
    "paid_units",
    "paid",
    "fee_units",
    "fee",
    "received_units",
    "received",
    "network",
    "buyer",
    "tx_id",
    "succeeded_at",
    "settled_at",
    "settled_tx_id",
    "failure_code",
    "failure_reason",
    "cancellation_reason",
    "refunded_at",
    "refund_tx_id",
    "refund_note",
)


async def export_payments(realm: Realm, words: Words, chosen: PaymentFilter) -> AsyncGenerator[bytes, None]:
    """The header and a record for each payment of the filter, a page at a time.

    What is created while it runs is not in it. A payment that moves meanwhile is in it as it is when its page
    is read.

    Raises:
        StoreUnavailable: The realm cannot be read, or the filter finds too little among too much.
    """
    chosen = msgspec.structs.replace(chosen, until_seq=await realm.db.read(newest_seq))
    yield line(COLUMNS)
    after: tuple[int, int] | None = None
    while True:
        rows, names, refunds = await realm.db.read(_page, chosen, after)
        yield b"".join(
            line(cells(one, names.get(one.merchant_id, ""), refunds.get(one.id), words)) for _, one in rows
        )
        if len(rows) < PAGE:
            return
        seq, last = rows[-1]
        after = (last.created_at_ms if chosen.sort_by == "date" else last.value, seq)


def cells(payment: Payment, merchant_name: str, refund: Refund | None, words: Words) -> tuple[str, ...]:
    """The record of one payment, in the order of `COLUMNS`."""
    processing, settled = payment.processing, payment.settled
    came = processing if payment.status is Status.SUCCEEDED else None
    paid = None if came is None else came.option_amount
    fee = None if came is None or came.fee is None else came.fee.total_amount
    received = None if came is None else came.settlement_amount
    return (
        payment.id,
        payment.reference_id,
        payment.merchant_id,
        merchant_name,
        payment.status.value,
        iso_ms(payment.created_at_ms),
        iso_ms(payment.updated_at_ms),
        iso_ms(payment.expires_at_ms),
        payment.currency,
        *_both(payment.amount, words),
        "" if paid is None else paid.unit.partition("/")[2],
        "" if paid is None else words.display(paid.unit).asset_symbol,
        *_both(paid, words),
        *_both(fee, words),
        *_both(received, words),
        "" if processing is None else processing.chain,
        (processing.buyer or "") if processing is not None else "",
        (payment.success.tx_id or "") if payment.success is not None else "",
        "" if payment.success is None else iso_ms(payment.success.succeeded_at_ms),
        "" if settled is None else iso_ms(settled.settled_at_ms),
        (settled.tx_id or "") if settled is not None else "",
        "" if payment.failed is None else payment.failed.code,
        "" if payment.failed is None else payment.failed.reason,
        "" if payment.cancelled is None else payment.cancelled.reason,
        "" if refund is None else iso_ms(refund.at_ms),
        (refund.tx_id or "") if refund is not None else "",
        (refund.note or "") if refund is not None else "",
    )


def _both(amount: AmountWire | None, words: Words) -> tuple[str, str]:
    """Smallest units, and the decimal number: empty where nobody knows the asset's decimals."""
    if amount is None:
        return "", ""
    known = words.known(amount.unit)
    return amount.value, "" if known is None else format_units(int(amount.value), known.decimals)


def _page(
    tx: Tx, chosen: PaymentFilter, after: tuple[int, int] | None
) -> tuple[list[tuple[int, Payment]], dict[str, str], dict[str, Refund]]:
    rows = list_payments(tx, chosen, after, PAGE)
    merchants = named_merchants(tx, sorted({one.merchant_id for _, one in rows}))
    names = {merchant_id: name for merchant_id, (name, _) in merchants.items()}
    return rows, names, refunds_of(tx, [one.id for _, one in rows])
