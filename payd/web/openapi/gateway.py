"""What the description says of the gateway, which wallets talk to, and of Solana Pay."""

from __future__ import annotations

from typing import Any, Final

from payd.core.errors import (
    ChainUnavailable,
    InvalidParams,
    InvalidSignature,
    InvalidState,
    NotFound,
    PaymentExpired,
    QuoteExpired,
    RouteExpired,
)
from payd.web import gateway, solana_pay
from payd.web.accounts import AccountsIn
from payd.web.openapi import fields as names
from payd.web.openapi.operation import (
    MAX_POLL,
    NO_PAYMENT,
    PAYMENT_PATH,
    Operation,
    Operations,
    Param,
)
from payd.web.schema import PaymentCancelledOut

TAG: Final = "Gateway"
SOLANA_TAG: Final = "Solana Pay"

GATEWAY_PATH: Final = {
    "id": {
        "type": "string",
        "minLength": 1,
        "description": "The payment's id; wallet kits may send its percent-encoded link instead.",
    }
}
_SOLANA_REFUSALS: Final = (*NO_PAYMENT, NotFound, InvalidParams, InvalidState, PaymentExpired)
_ASSET: Final = Param("asset", "To be paid in this asset; CAIP-19.", names.ASSET)

OPERATIONS: Final[Operations] = {
    "GET /v1/gateway/payment/{id}": Operation(
        id="GatewayPayment_get",
        tag=TAG,
        summary="Read what is to be paid",
        words="What a buyer is shown.",
        path=GATEWAY_PATH,
        answers={200: gateway.PaymentInfo},
        refusals=NO_PAYMENT,
    ),
    "POST /v1/gateway/payment/{id}/options": Operation(
        id="GatewayPayment_options",
        tag=TAG,
        summary="Ask how to pay",
        words=(
            "The buyer's accounts on all chains, as a list or as `accounts`. Ids of options are stable:"
            " asking again takes nothing back. `options` is null when nothing is to be done any more."
        ),
        path=GATEWAY_PATH,
        query=(Param("includePaymentInfo", "With `info`.", {"type": "boolean", "default": False}),),
        body=list[str] | AccountsIn,
        answers={200: gateway.OptionsOut},
        refusals=(*NO_PAYMENT, PaymentExpired, ChainUnavailable),
    ),
    "POST /v1/gateway/payment/{id}/fetch": Operation(
        id="GatewayPayment_fetch",
        tag=TAG,
        summary="Resolve a build action",
        words="The calls behind it, all of which are to be done, in their order.",
        path=GATEWAY_PATH,
        body=gateway.FetchIn,
        answers={200: gateway.ActionsOut},
        refusals=(*NO_PAYMENT, PaymentExpired, QuoteExpired, RouteExpired, InvalidState, ChainUnavailable),
    ),
    "POST /v1/gateway/payment/{id}/confirm": Operation(
        id="GatewayPayment_confirm",
        tag=TAG,
        summary="Send what the wallet did",
        words=(
            "A result for each action, in the order of the actions; else the payment fails. The same results"
            " are accepted again in every state. A signature that does not verify leaves the payment open. So"
            " does a transaction that was reverted: `details.reason` is `reverted`, and it can be paid again."
        ),
        path=GATEWAY_PATH,
        query=(MAX_POLL,),
        body=gateway.ConfirmIn,
        answers={200: gateway.GatewayStatus},
        refusals=(
            *NO_PAYMENT,
            PaymentExpired,
            QuoteExpired,
            RouteExpired,
            InvalidState,
            InvalidSignature,
            ChainUnavailable,
        ),
    ),
    "GET /v1/gateway/payment/{id}/status": Operation(
        id="GatewayPayment_status",
        tag=TAG,
        summary="Poll a payment's status",
        words="As a wallet reads it: what does not apply is left out.",
        path=GATEWAY_PATH,
        query=(MAX_POLL,),
        answers={200: gateway.GatewayStatus},
        refusals=NO_PAYMENT,
    ),
    "POST /v1/gateway/payment/{id}/cancel": Operation(
        id="GatewayPayment_cancel",
        tag=TAG,
        summary="Cancel as the buyer",
        words="Only while nothing was paid: from `requires_action`.",
        path=GATEWAY_PATH,
        body=dict[str, Any],
        body_optional=True,
        answers={200: PaymentCancelledOut},
        refusals=(*NO_PAYMENT, InvalidState),
    ),
    "GET /v1/solana-pay/{id}": Operation(
        id="SolanaPay_get",
        tag=SOLANA_TAG,
        summary="Read who asks",
        words="The first request of a transaction request. Live mode; there is no key but the payment's id.",
        path=PAYMENT_PATH,
        query=(_ASSET,),
        answers={200: solana_pay.PayeeOut},
        refusals=_SOLANA_REFUSALS,
    ),
    "POST /v1/solana-pay/{id}": Operation(
        id="SolanaPay_create",
        tag=SOLANA_TAG,
        summary="Ask for the transaction",
        words="In the first of the merchant's assets that the account can pay in, unless `asset` says which.",
        path=PAYMENT_PATH,
        query=(_ASSET,),
        body=solana_pay.AccountIn,
        answers={200: solana_pay.TransactionToSign},
        refusals=(*_SOLANA_REFUSALS, QuoteExpired, RouteExpired, ChainUnavailable),
    ),
    "GET /v1/solana-pay/{id}/links": Operation(
        id="SolanaPay_links",
        tag=SOLANA_TAG,
        summary="List transfer links",
        words="For wallets that take no transaction requests. A link holds as long as its `expiresAt`.",
        path=PAYMENT_PATH,
        answers={200: solana_pay.LinksOut},
        refusals=(*_SOLANA_REFUSALS, ChainUnavailable),
    ),
}
