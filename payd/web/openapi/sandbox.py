"""What the description says of faults on purpose, samples and scenarios.

Source: DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

from typing import Final

from payd.core.endpoint import EVENT_TYPES
from payd.core.errors import EndpointDisabled, InvalidState, NotFound, PaymentExpired, PaymentNotFound
from payd.core.scenario import SCENARIOS
from payd.web import faults, samples, scenarios, webhooks
from payd.web.openapi import fields as names
from payd.web.openapi.operation import NO_PAYMENT, Operation, Operations, Param
from payd.web.openapi.payments import TEST_TAG as TAG

_VERSION: Final = Param("apiVersion", "Of the payload.", names.one_of(*samples.VERSIONS))

OPERATIONS: Final[Operations] = {
    "GET /v1/test/webhooks/inject": Operation(
        id="Fault_list",
        tag=TAG,
        summary="List faults",
        words="Those of the endpoint, the newest first, also those that are over.",
        answers={200: faults.FaultList},
        refusals=(NotFound,),
    ),
    "POST /v1/test/webhooks/inject": Operation(
        id="Fault_create",
        tag=TAG,
        summary="Have deliveries go wrong on purpose",
        words="For the next `deliveries`, 1 unless it says so, or `for` a time. The attempt log names it.",
        body=faults.InjectIn,
        answers={201: faults.FaultOut},
        refusals=(*NO_PAYMENT, NotFound, InvalidState),
    ),
    "DELETE /v1/test/webhooks/inject": Operation(
        id="Fault_endAll",
        tag=TAG,
        summary="End all faults",
        words="What is held back goes now. The answer has those that this ended.",
        answers={200: faults.FaultList},
        refusals=(NotFound,),
    ),
    "DELETE /v1/test/webhooks/inject/{id}": Operation(
        id="Fault_end",
        tag=TAG,
        summary="End a fault",
        words="What it holds back goes now.",
        path={"id": names.identifier("flt_")},
        answers={200: faults.FaultList},
        refusals=(NotFound,),
    ),
    "GET /v1/test/webhooks/samples": Operation(
        id="Sample_list",
        tag=TAG,
        summary="List sample events",
        words="One of each type: what its webhook looks like.",
        query=(_VERSION,),
        answers={200: samples.SampleList},
    ),
    "GET /v1/test/webhooks/samples/{type}": Operation(
        id="Sample_get",
        tag=TAG,
        summary="Read a sample event",
        words="`envelope` is the body of such a webhook.",
        path={"type": names.one_of(*EVENT_TYPES)},
        query=(_VERSION,),
        answers={200: samples.SampleOut},
        refusals=(NotFound,),
    ),
    "POST /v1/test/webhooks/send": Operation(
        id="Sample_send",
        tag=TAG,
        summary="Send a sample event",
        words="As `POST /v1/webhooks/endpoint/test`: one request; the answer says what the endpoint said.",
        body=webhooks.SendTest,
        answers={200: webhooks.TestOut},
        refusals=(NotFound, EndpointDisabled),
    ),
    "GET /v1/test/scenarios": Operation(
        id="Scenario_list",
        tag=TAG,
        summary="List scenarios",
        words="What each does, and which events your receiver gets of it.",
        answers={200: scenarios.ScenarioList},
    ),
    "POST /v1/test/scenarios/{name}": Operation(
        id="Scenario_run",
        tag=TAG,
        summary="Run a scenario",
        words="Makes a payment, or takes one that waits for its buyer, and drives it through the API's own"
        " steps; the key needs the scope `payments:write` beside `test`. An event type is a name, too. Under"
        " an `Idempotency-Key`, one that was cut off goes on with the same payment.",
        body=scenarios.RunScenario,
        body_optional=True,
        path={"name": names.one_of(*(one.name for one in SCENARIOS), *EVENT_TYPES)},
        answers={201: scenarios.RunOut},
        refusals=(NotFound, PaymentNotFound, InvalidState, PaymentExpired, EndpointDisabled),
    ),
}
