"""What the description says of the server itself, and which paths are not described, and why."""

from __future__ import annotations

from typing import Any, Final

from payd.core.errors import NotFound
from payd.core.version import VERSIONS
from payd.web import health
from payd.web.openapi import fields as names
from payd.web.openapi.operation import Media, Operation, Operations

TAG: Final = "Service"

OPERATIONS: Final[Operations] = {
    "GET /versions": Operation(
        id="Version_list",
        tag=TAG,
        summary="List the versions of this API",
        words="A preview may still change; only a header asks for it.",
        answers={200: health.Versions},
    ),
    "GET /openapi/{version}.json": Operation(
        id="OpenApi_get",
        tag=TAG,
        summary="Read this description",
        words="OpenAPI 3.1 of one version.",
        path={"version": names.one_of(*VERSIONS)},
        answers={200: dict[str, Any]},
        refusals=(NotFound,),
    ),
    "GET /livez": Operation(
        id="Health_live",
        tag=TAG,
        summary="Ask whether the process lives",
        words="It answers, so it does.",
        answers={200: health.Health},
    ),
    "GET /readyz": Operation(
        id="Health_ready",
        tag=TAG,
        summary="Ask whether the server can work",
        words="503 with the reasons when it cannot; `degraded` is ready.",
        answers={200: health.Health, 503: health.Health},
    ),
    "GET /metrics": Operation(
        id="Metrics_get",
        tag=TAG,
        summary="Read the metrics",
        words="For Prometheus, from this machine or with the token of `[metrics]`; others find nothing here.",
        answers={200: Media(("text/plain",), "# TYPE payd_up gauge\npayd_up 1.0\n")},
        refusals=(NotFound,),
    ),
}

NOT_DESCRIBED: Final[dict[str, str]] = {
    "GET /v1/payments/{id}/feed": "a websocket, for which OpenAPI has no word; the tag Feeds tells of it",
    "GET /v1/feed": "a websocket, too",
    "GET /docs": "a page",
    "GET /docs/{version}": "a page",
    "POST /canary/{realm}": "the server's own, for itself",
    "GET /pay/{id}": "the buyer's page",
    "GET /pay/{id}/status": "a part of it",
    "POST /pay/{id}/funds": "a part of it",
    "POST /pay/{id}/cancel": "a part of it",
    "POST /pay/{id}/simulate": "a part of it",
    "GET /collect/{id}": "the page that asks buyers for details",
    "POST /collect/{id}": "a part of it",
    "GET /static/{name}": "a file of a page",
    "GET /logo/{name}": "a picture, which others link to",
}
"""The paths that the description leaves out, each with the reason."""
