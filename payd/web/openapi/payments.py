"""What the description says of payments, as their merchants see them."""

from __future__ import annotations

from typing import Any, Final

from payd.core.errors import (
    AlreadyRefunded,
    ChainUnavailable,
    InvalidParams,
    InvalidState,
    NotFound,
    PaymentNotSucceeded,
)
from payd.core.status import Status
from payd.web import payments, simulation, transfers
from payd.web.openapi import fields as names
from payd.web.openapi.operation import (
    CURSOR,
    MAX_POLL,
    NO_PAYMENT,
    PAYMENT_PATH,
    Operation,
    Operations,
    Param,
    limit,
)
from payd.web.schema import (
    CreatePayment,
    MerchantPaymentStatus,
    PaymentCancelledOut,
    PaymentCreated,
    PaymentCreatedBoth,
    PaymentDetail,
    PaymentPage,
    PaymentRead,
    PaymentStatus,
    TransferPage,
)

TAG: Final = "Payments"
OLDER_TAG: Final = "Payments, in older words"
TEST_TAG: Final = "Test mode"

CREATE: Final = (
    "An amount in a currency, and the merchant's own reference. Send the buyer to `gatewayUrl`. Without an"
    " `Idempotency-Key`, a request that is sent twice makes two payments."
)


def _list(one: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": one, "maxItems": 100}


_INSTANT: Final[dict[str, Any]] = {"type": "string", "format": "date-time"}

LISTED: Final = (
    Param("startTs", "Created then or later; RFC 3339, with a time zone.", _INSTANT),
    Param(
        "endTs",
        "Created before then. A payment has its time a moment before it is stored: who fetches what is new,"
        " window by window, ends the last one a minute ago.",
        _INSTANT,
    ),
    Param("status", "One or more.", _list(names.one_of(*(status.value for status in Status)))),
    Param("merchantId", "One or more.", _list({"type": "string", "pattern": "^[^,]+$"})),
    Param("asset", "What was paid with; CAIP-19.", names.ASSET),
    Param("network", "What it was paid on, one or more; CAIP-2.", _list(names.CHAIN)),
    Param("referenceId", "How the merchant's reference begins.", {"type": "string", "maxLength": 255}),
    Param(
        "currency",
        "What was asked for; ISO 4217.",
        {"type": "string", "pattern": f"^({names.CURRENCY})$"},
    ),
    Param(
        "sortBy", "`amount` needs one `currency`: amounts are not converted.", names.one_of("date", "amount")
    ),
    Param("sortDir", "Which end comes first.", names.one_of("asc", "desc") | {"default": "desc"}),
    CURSOR,
    limit(payments.LIST_MAX, payments.LIST_DEFAULT),
)

OPERATIONS: Final[Operations] = {
    "POST /v1/payments": Operation(
        id="Payment_create",
        tag=TAG,
        summary="Create a payment",
        words=CREATE,
        body=CreatePayment,
        answers={201: PaymentCreatedBoth},
    ),
    "GET /v1/payments": Operation(
        id="Payment_list",
        tag=TAG,
        summary="List payments",
        words="The newest first, unless the query says otherwise.",
        query=LISTED,
        answers={200: PaymentPage},
    ),
    "GET /v1/payments/{id}": Operation(
        id="Payment_get",
        tag=TAG,
        summary="Read a payment",
        words="With every transfer that was seen for it, what its buyer was asked for, and a refund.",
        path=PAYMENT_PATH,
        answers={200: PaymentRead},
        refusals=NO_PAYMENT,
    ),
    "GET /v1/payments/{id}/status": Operation(
        id="Payment_status",
        tag=TAG,
        summary="Poll a payment's status",
        words="Ask with `maxPollMs` until `isFinal`, or wait for `pollInMs` between two requests.",
        path=PAYMENT_PATH,
        query=(MAX_POLL,),
        answers={200: PaymentStatus},
        refusals=NO_PAYMENT,
    ),
    "POST /v1/payments/{id}/cancel": Operation(
        id="Payment_cancel",
        tag=TAG,
        summary="Cancel a payment",
        words="Only while nothing was paid: from `requires_action`.",
        path=PAYMENT_PATH,
        body=dict[str, Any],
        body_optional=True,
        answers={200: PaymentCancelledOut},
        refusals=(*NO_PAYMENT, InvalidState),
    ),
    "POST /v1/payments/{id}/match": Operation(
        id="Payment_match",
        tag=TAG,
        summary="Count a transaction for a payment",
        words=(
            "Live mode: a transaction that the buyer says paid, and that was not found by itself. The chain"
            " decides what it was; the answer says what that is, and the same one again is harmless."
        ),
        path=PAYMENT_PATH,
        body=transfers.MatchIn,
        answers={200: transfers.Matched},
        refusals=(*NO_PAYMENT, NotFound, ChainUnavailable),
    ),
    "GET /v1/transfers": Operation(
        id="Transfer_list",
        tag=TAG,
        summary="List transfers",
        words="What chains showed, the newest first: also what came late, was too little, or paid nothing.",
        query=(
            Param("matched", "`false`: what paid for nothing.", {"type": "boolean"}),
            CURSOR,
            limit(transfers.LIST_MAX, transfers.LIST_DEFAULT),
        ),
        answers={200: TransferPage},
    ),
    "POST /v1/refunds": Operation(
        id="Refund_create",
        tag=TAG,
        summary="Record a refund",
        words="One that the merchant made from its own wallet. With `txId`, the chain is asked about it.",
        body=payments.RecordRefund,
        answers={200: payments.RefundRecorded},
        refusals=(*NO_PAYMENT, PaymentNotSucceeded, AlreadyRefunded, ChainUnavailable),
    ),
    "POST /v1/merchant/payment": Operation(
        id="MerchantPayment_create",
        tag=OLDER_TAG,
        summary="Create a payment",
        words=CREATE,
        body=CreatePayment,
        answers={201: PaymentCreated},
    ),
    "GET /v1/merchant/payment/{id}/status": Operation(
        id="MerchantPayment_status",
        tag=OLDER_TAG,
        summary="Poll a payment's status",
        words="`pending` is `requires_action`; a cancelled payment reads `failed`.",
        path=PAYMENT_PATH,
        query=(MAX_POLL,),
        answers={200: MerchantPaymentStatus},
        refusals=NO_PAYMENT,
    ),
    "POST /v1/test/payments/{id}/simulate": Operation(
        id="TestPayment_simulate",
        tag=TEST_TAG,
        summary="Play buyer and chain",
        words="Moves a test payment; each step on the way is a version and a webhook of its own.",
        path=PAYMENT_PATH,
        body=simulation.SimulateIn,
        answers={200: PaymentDetail},
        refusals=(*NO_PAYMENT, InvalidState),
    ),
    "GET /v1/test/clock": Operation(
        id="TestClock_get",
        tag=TEST_TAG,
        summary="Read the test clock",
        words="The time of test mode, and how far the newest advance is.",
        answers={200: simulation.ClockOut},
    ),
    "POST /v1/test/clock": Operation(
        id="TestClock_advance",
        tag=TEST_TAG,
        summary="Advance the test clock",
        words="What is due on the way happens in the order of time; `job` says when it is done.",
        body=simulation.ClockIn,
        answers={202: simulation.ClockOut},
        refusals=(InvalidParams,),
    ),
}
