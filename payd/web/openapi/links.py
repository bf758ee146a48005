"""Where an answer leads: which operations take what it says, as OpenAPI links.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

Links = dict[str, Schema]
"""By the operation that a link leads to."""


def _to(*operations: str, **parameters: str) -> Links:
    """Links to operations that take the same parameters; without any, they follow in time alone."""
    taken = {"parameters": parameters} if parameters else {}
    return {operation: {"operationId": operation, **taken} for operation in operations}


def _payment(at: str) -> Links:
    """What can be done with a payment whose id is there."""
    return {
        **_to(
            "Payment_get",
            "Payment_status",
            "Payment_cancel",
            "MerchantPayment_status",
            "GatewayPayment_get",
            "GatewayPayment_options",
            "GatewayPayment_status",
            "GatewayPayment_cancel",
            "TestPayment_simulate",
            id=at,
        ),
        **_to("Delivery_list", "Event_list", paymentId=at),
    }


_DELIVERY: Final = _to("Delivery_get", id="$response.body#/deliveryId")
_JOB: Final = _to("Job_get", "Job_cancel", id="$response.body#/id")
_ENDPOINT: Final = _to("WebhookEndpoint_get", "WebhookEndpoint_test", "Fault_create", "Delivery_list")
_DESTINATION: Final = {
    "merchantId": "$request.path.merchantId",
    "id": "$response.body#/settlements/0/id",
}

LINKS: Final[dict[str, Links]] = {
    "Merchant_create": _to(
        "Merchant_get",
        "Merchant_update",
        "Merchant_delete",
        "Settlement_list",
        "CryptoSettlement_create",
        merchantId="$response.body#/merchant/id",
    ),
    "CryptoSettlement_create": {
        **_to("CryptoSettlement_update", "CryptoSettlement_delete", **_DESTINATION),
        **_to("Settlement_list", merchantId="$request.path.merchantId"),
        **_to("Payment_create", **{"Merchant-Id": "$request.path.merchantId"}),
    },
    "Payment_create": _payment("$response.body#/paymentId"),
    "MerchantPayment_create": _payment("$response.body#/paymentId"),
    "Scenario_run": _payment("$response.body#/paymentId"),
    "TestClock_advance": _to("TestClock_get"),
    "Fault_create": _to("Fault_end", id="$response.body#/id"),
    "WebhookEndpoint_put": _ENDPOINT,
    "WebhookEndpoint_test": _DELIVERY,
    "Sample_send": _DELIVERY,
    "Delivery_recover": _JOB,
    "Event_replay": _JOB,
    "Event_get": _to("Payment_get", id="$response.body#/paymentId"),
}
"""By the operation that answers; of the answer with its highest status below 300."""
