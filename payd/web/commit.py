"""Write, then tell: for handlers whose commit somebody else must hear of.

Source: DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from payd.web.call import Call

T = TypeVar("T")


async def write_and_tell(call: Call, write: Callable[[], Awaitable[T]], tell: Callable[[T], None]) -> T:
    """Write, and tell the deliveries of it: also when the client leaves in between.

    Returns:
        What was written.
    """

    async def work() -> T:
        written = await write()
        tell(written)
        return written

    return await call.realm.payments.in_background(work)
