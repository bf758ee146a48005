"""The API's own handlers, asked from inside: for pages and commands, by the same rules as for a key.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from payd.core.version import DEFAULT
from payd.entropy import new_id
from payd.web.auth import Caller
from payd.web.call import JSON_TYPE, Call, Request
from payd.web.house import House
from payd.web.routes import match_route

Query: TypeAlias = Mapping[str, str | int | None]
"""Parameters of a query, each with one value; None is none."""


async def ask_api(
    house: House,
    caller: Caller,
    method: str,
    path: str,
    body: Any = None,
    query: Query | None = None,
    *,
    merchant_id: str | None = None,
    idempotency_key: str = "",
) -> Any:
    """What a handler of the API answers; whether the caller may ask is for who calls to know.

    Args:
        house: The house.
        caller: As whom: the realm, the account, and who the audit says it was.
        method: Upper case.
        path: With its ids, each percent-decoded.
        body: Bytes go as they are, anything else as JSON; None is no body.
        query: Its parameters.
        merchant_id: What the header `Merchant-Id` would say.
        idempotency_key: A fresh one where it is empty.

    Raises:
        PaydError: It is refused.
    """
    request_id = new_id("req_", house.realms["test"].clock.real_ms(), house.entropy)
    headers = {"idempotency-key": idempotency_key or request_id}
    if merchant_id is not None:
        headers["merchant-id"] = merchant_id
    if body is not None and not isinstance(body, bytes):
        headers["content-type"] = JSON_TYPE
    encoded = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
    values = {name: [str(value)] for name, value in (query or {}).items() if value is not None}
    request = Request(method, path, values, headers, encoded, client_ip=caller.actor)
    route, params = match_route(method, path)
    assert route is not None, f"{method} {path} is no route"
    call = Call(request, params, request_id, house, caller, caller.realm, DEFAULT, merchant_id)
    answer = await route.handler(call)
    return msgspec.json.decode(answer.body) if answer.body else None
