"""What is said of each route, in one table; and which parameters a query may have.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from functools import cache
from typing import Final

from payd.web.openapi import gateway, merchants, payments, sandbox, service, webhooks
from payd.web.openapi.operation import Operations
from payd.web.routes import Route

OPERATIONS: Final[Operations] = {
    **merchants.OPERATIONS,
    **payments.OPERATIONS,
    **gateway.OPERATIONS,
    **webhooks.OPERATIONS,
    **sandbox.OPERATIONS,
    **service.OPERATIONS,
}
"""What is said of each route; `service.NOT_DESCRIBED` has the others."""


def name_of(route: Route) -> str:
    """What a route is called in the tables of operations."""
    return f"{route.method} {route.path}"


@cache
def parameters_of(route: Route) -> tuple[str, ...]:
    """The parameters that its query may have."""
    return tuple(one.name for one in OPERATIONS[name_of(route)].query)
