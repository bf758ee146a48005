"""What the description says of the webhook endpoint, its deliveries, and events."""

from __future__ import annotations

from typing import Final

from payd.core.errors import EndpointDisabled, InvalidParams, InvalidState, NotFound
from payd.web import deliveries, events, webhooks
from payd.web.openapi import fields as names
from payd.web.openapi.operation import CURSOR, Operation, Operations, Param, limit
from payd.web.schema import Deleted

TAG: Final = "Webhook endpoint"
DELIVERIES_TAG: Final = "Deliveries and events"

NONE: Final = (NotFound,)
_PAYMENT: Final = Param("paymentId", "Only of this payment.", {"type": "string"})
_PAGE: Final = (_PAYMENT, CURSOR, limit(events.PAGE_MAX, events.PAGE_DEFAULT))
_DELIVERY_PATH: Final = {
    "id": names.identifier("dlv_", "msg_", "evt_")
    | {"description": "The delivery's own id, its `webhook-id`, or its event's id."}
}
_JOB_PATH: Final = {"id": names.identifier("job_")}


def _switch(act: str, summary: str, words: str, *also: type[EndpointDisabled]) -> Operation:
    return Operation(
        id=f"WebhookEndpoint_{act}",
        tag=TAG,
        summary=summary,
        words=words,
        answers={200: webhooks.EndpointOut},
        refusals=(*NONE, *also),
    )


def _job(id: str, summary: str, words: str) -> Operation:
    return Operation(
        id=id,
        tag=DELIVERIES_TAG,
        summary=summary,
        words=f"{words} At most 14 days back. With `preview`, only the count.",
        body=deliveries.StartJob,
        answers={200: deliveries.PreviewOut, 202: deliveries.JobOut},
        refusals=(NotFound, EndpointDisabled),
    )


OPERATIONS: Final[Operations] = {
    "GET /v1/webhooks/endpoint": Operation(
        id="WebhookEndpoint_get",
        tag=TAG,
        summary="Read the endpoint",
        words="There is one for each mode.",
        answers={200: webhooks.EndpointOut},
        refusals=NONE,
    ),
    "PUT /v1/webhooks/endpoint": Operation(
        id="WebhookEndpoint_put",
        tag=TAG,
        summary="Register or change the endpoint",
        words="The answer has the `secret` when the endpoint is new.",
        body=webhooks.PutEndpoint,
        answers={200: webhooks.EndpointOut},
    ),
    "DELETE /v1/webhooks/endpoint": Operation(
        id="WebhookEndpoint_delete",
        tag=TAG,
        summary="Delete the endpoint",
        words="At once and for good; what it is owed is not sent.",
        answers={200: Deleted},
        refusals=NONE,
    ),
    "POST /v1/webhooks/endpoint/rotate": Operation(
        id="WebhookEndpoint_rotate",
        tag=TAG,
        summary="Rotate the secret",
        words="The answer has the new `secret`; the old one signs along for 24 hours. An `Idempotency-Key` is"
        " passed over here, as no answer is kept that holds a secret: who lost it asks `reveal`.",
        answers={200: webhooks.EndpointOut},
        refusals=(*NONE, InvalidState),
    ),
    "POST /v1/webhooks/endpoint/reveal": _switch(
        "reveal", "Show the secret", "It is written to the audit log."
    ),
    "POST /v1/webhooks/endpoint/enable": _switch(
        "enable",
        "Enable the endpoint",
        "After it was disabled. `missedEvents` is how many events `replay-missing` would send.",
    ),
    "POST /v1/webhooks/endpoint/disable": _switch(
        "disable", "Disable the endpoint", "What it is owed is cancelled."
    ),
    "POST /v1/webhooks/endpoint/pause": _switch(
        "pause", "Pause the endpoint", "Events wait for it.", EndpointDisabled
    ),
    "POST /v1/webhooks/endpoint/resume": _switch(
        "resume", "Resume the endpoint", "What waited is sent now.", EndpointDisabled
    ),
    "POST /v1/webhooks/endpoint/test": Operation(
        id="WebhookEndpoint_test",
        tag=TAG,
        summary="Send a test event",
        words="One request, with sample data; the answer says what the endpoint said, and under an"
        " `Idempotency-Key` says it again.",
        body=webhooks.SendTest,
        answers={200: webhooks.TestOut},
        refusals=(*NONE, EndpointDisabled),
    ),
    "GET /v1/webhooks/deliveries": Operation(
        id="Delivery_list",
        tag=DELIVERIES_TAG,
        summary="List deliveries",
        words="The newest first.",
        query=(Param("state", "Only these.", names.one_of(*events.DELIVERY_STATES)), *_PAGE),
        answers={200: deliveries.DeliveryPage},
    ),
    "GET /v1/webhooks/deliveries/{id}": Operation(
        id="Delivery_get",
        tag=DELIVERIES_TAG,
        summary="Read a delivery",
        words="With the newest of its attempts, at most 50.",
        path=_DELIVERY_PATH,
        answers={200: deliveries.DeliveryDetail},
        refusals=NONE,
    ),
    "POST /v1/webhooks/deliveries/{id}/resend": Operation(
        id="Delivery_resend",
        tag=DELIVERIES_TAG,
        summary="Send a delivery again",
        words="One attempt now; the answer is the delivery after it. At most 14 days back.",
        path=_DELIVERY_PATH,
        answers={200: deliveries.DeliveryDetail},
        refusals=(*NONE, InvalidParams, EndpointDisabled),
    ),
    "POST /v1/webhooks/recover": _job(
        "Delivery_recover", "Send what failed again", "A job over all that failed for good since then."
    ),
    "POST /v1/webhooks/replay-missing": _job(
        "Event_replay",
        "Send what was never received",
        "A job over all events that the endpoint never received.",
    ),
    "GET /v1/webhooks/jobs": Operation(
        id="Job_list",
        tag=DELIVERIES_TAG,
        summary="List jobs",
        words="The newest, newest first.",
        answers={200: deliveries.JobList},
    ),
    "GET /v1/webhooks/jobs/{id}": Operation(
        id="Job_get",
        tag=DELIVERIES_TAG,
        summary="Read a job",
        words="How far it is.",
        path=_JOB_PATH,
        answers={200: deliveries.JobOut},
        refusals=NONE,
    ),
    "POST /v1/webhooks/jobs/{id}/cancel": Operation(
        id="Job_cancel",
        tag=DELIVERIES_TAG,
        summary="Cancel a job",
        words="What it queued and was not sent is taken back.",
        path=_JOB_PATH,
        answers={200: deliveries.JobOut},
        refusals=NONE,
    ),
    "GET /v1/events": Operation(
        id="Event_list",
        tag=DELIVERIES_TAG,
        summary="List events",
        words="What happened, the newest first, whether or not an endpoint received it."
        " `delivery=failed` is what the endpoint did not take, for reconciliation.",
        query=(
            Param("type", "Only these.", names.EVENT_TYPE),
            Param(
                "delivery",
                "Only events whose newest delivery is in this state, the newest delivery first; what was owed"
                " to no endpoint is in none. A `cursor` goes on with the same state.",
                names.one_of(*events.DELIVERY_STATES),
            ),
            *_PAGE,
        ),
        answers={200: events.EventPage},
    ),
    "GET /v1/events/{id}": Operation(
        id="Event_get",
        tag=DELIVERIES_TAG,
        summary="Read an event",
        words="`envelope` is the webhook's body.",
        path={"id": names.identifier("evt_")},
        answers={200: events.EventOut},
        refusals=NONE,
    ),
}
