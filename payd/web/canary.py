"""Our own door as a receiver: where the canary arrives.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from payd.core.errors import NotFound
from payd.web.call import Answer, Call


async def arrive(call: Call) -> Answer:
    """POST /canary/{realm}: 204 for a canary of this server; to everybody else it is not there."""
    headers = call.request.headers
    for name, realm in call.house.realms.items():
        if name == call.params["realm"] and realm.canary.arrive(
            message_id=headers.get("webhook-id", ""),
            timestamp=headers.get("webhook-timestamp", ""),
            signature=headers.get("webhook-signature", ""),
            body=call.request.body,
        ):
            return Answer(204)
    raise NotFound(f"There is nothing at {call.request.path[:200]}.")
