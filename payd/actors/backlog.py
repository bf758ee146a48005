"""What is owed and how late it is, for the metrics page and for readiness; looked at now and then.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from payd.actors.lane import Lane
from payd.actors.webhook_stats import Backlog
from payd.store.db import Database
from payd.store.deliveries import count_pending, overdue
from payd.store.endpoints import count_endpoints

# What a working receiver was to have so long ago keeps the server from being ready.
OVERDUE_S: Final = 120


async def look_back(db: Database, now_ms: int, lanes: Mapping[str, Lane]) -> Backlog:
    """Count what is owed at `now_ms`, the realm's time.

    What is due counts as late whatever holds it back. It keeps the server from being ready only where it
    could be sent: to a receiver that works and is not busy with as much as it takes, or as its share allows.
    """
    claimed = {each for lane in lanes.values() for each in lane.claimed}
    late = await db.look(overdue, now_ms, claimed)
    counts = await db.look(count_endpoints, now_ms)
    stuck_s = [
        (now_ms - each.due_at_ms) // 1000
        for each in late
        if each.is_healthy and not _is_full(lanes.get(each.endpoint_id))
    ]
    words: tuple[str, ...] = ()
    if max(stuck_s, default=0) > OVERDUE_S:
        words = (f"webhooks to {len(stuck_s)} working endpoints wait to be sent, for {max(stuck_s)} s now",)
    return Backlog(
        pending=await db.look(count_pending),
        failing_s=counts.failing_ms / 1000,
        endpoints=counts.by_state,
        overdue=words,
    )


def _is_full(lane: Lane | None) -> bool:
    return lane is not None and lane.is_full
