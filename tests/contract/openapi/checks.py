"""What Schemathesis checks besides its own: loaded by it, through the `hooks` of its configuration."""

from __future__ import annotations

from typing import Any

import schemathesis

# What JSON Schema has no word for.
BEYOND = (
    "Each id once.",
    "stands in this request twice.",
    " is required.",
    "not both.",
    "Only the fault delay has one.",
    "At most 7d.",
    "At most 1d.",
    "got a number",  # 1.0 is an integer to JSON Schema; payd takes whole numbers without a point
)


@schemathesis.check
def check_body_that_fits_its_schema(ctx: Any, response: Any, case: Any) -> None:
    """A body that fits its schema is never told that it misses it."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    told = response.json()
    if told["code"] == "params_validation":
        assert all(issue["message"].endswith(BEYOND) for issue in told["issues"]), response.text
