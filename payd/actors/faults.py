"""Which deliveries are touched on purpose. Nobody's are, unless a developer asked for it: that costs a look.

Source: DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from payd.clock import Clock
from payd.core.fault import HELD, INJECTED, WORDS, Fault, held_until_ms
from payd.store.attempts import AttemptEnd, Trigger
from payd.store.db import Database
from payd.store.deliveries import Work
from payd.store.faults import endpoints_with_faults, release_held, take_fault

log = structlog.get_logger("payd.faults")


class Faults:
    """The faults of a realm's endpoints. Rows are the truth; memory says which endpoints have any.

    Args:
        db: The realm's database.
        clock: The realm's clock.
        wake: Has an endpoint's actor look at what it is owed.
    """

    def __init__(self, db: Database, clock: Clock, wake: Callable[[str], None]) -> None:
        self._db = db
        self._clock = clock
        self._wake = wake
        self._touched: set[str] | None = None
        db.on_reload(self.forget)

    def forget(self) -> None:
        """Look anew before the next attempt which endpoints have any: after the commit that changed some."""
        self._touched = None

    def _has_some(self, endpoint_id: str) -> bool:
        if self._touched is None:
            self._touched = self._db.point(endpoints_with_faults, self._clock.now_ms())
        return endpoint_id in self._touched

    async def take(self, work: Work, trigger: Trigger) -> Fault | None:
        """The fault that touches this attempt, which is counted; None for nearly all."""
        if not self._has_some(work.endpoint.id) or trigger != "auto" or work.kind != "event":
            return None
        fault = await self._db.write(take_fault, work.delivery_id, self._clock.now_ms())
        if fault is None:
            self.forget()
        else:
            log.info("webhook.fault", fault=fault.kind, fault_id=fault.id, delivery_id=work.delivery_id)
        return fault

    async def release(self, work: Work) -> None:
        """After an attempt: what waits for a later delivery to overtake it is due."""
        if self._has_some(work.endpoint.id) and await self._db.write(
            release_held, work.endpoint.id, work.delivery_id, self._clock.now_ms()
        ):
            self._wake(work.endpoint.id)


def without_request(fault: Fault, trigger: Trigger, now_ms: int) -> AttemptEnd | None:
    """How an attempt ends for which a fault lets no request be made; None if one is to be made."""
    if fault.kind != "drop" and fault.kind not in HELD:
        return None
    return AttemptEnd(
        trigger=trigger,
        at_ms=now_ms,
        ended_at_ms=now_ms,
        status=None,
        error_class=INJECTED,
        duration_ms=0,
        remote_ip=None,
        body=b"",
        error=WORDS[fault.kind],
        fault=fault.kind,
        held_until_ms=held_until_ms(fault, now_ms) if fault.kind in HELD else None,
    )
