"""A delivery to ourselves, each minute: that it arrives proves the whole way from the outbox to a receiver.

It goes the way of every other delivery: a row, its endpoint's actor, a signature, a connection to our door.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import structlog
import trio

from payd.clock import Clock
from payd.core.endpoint import CANARY
from payd.core.event import iso_ms
from payd.core.signature import SECRET_BYTES, SignatureRefused, make_secret, verify
from payd.entropy import Entropy, new_id
from payd.store.canary import send_canary
from payd.store.db import Database
from payd.store.endpoints import put_house_endpoint
from payd.store.seal import Seal

log = structlog.get_logger("payd.canary")

EVERY_S: Final = 60.0
# An attempt ends within 15 s; one that waits longer for its turn is late, too.
LATE_S: Final = 45.0
# So many in a row that did not come back keep the server from being ready.
MISSED_MAX: Final = 3

Report = Callable[[bool, int, float], None]
"""Told whether it arrived, after how many milliseconds, and when, by Trio's clock."""


class Canary:
    """The canary of one realm.

    Args:
        db: The realm's database.
        clock: The realm's clock.
        seal: Seals the secret, as every endpoint's is.
        entropy: For the secret and ids.
        wake: Has an endpoint's actor look at what it is owed.
        report: Told how each one ended.
    """

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        seal: Seal,
        entropy: Entropy,
        wake: Callable[[str], None],
        report: Report,
    ) -> None:
        self._db = db
        self._clock = clock
        self._seal = seal
        self._entropy = entropy
        self._wake = wake
        self._report = report
        self._secret = make_secret(entropy(SECRET_BYTES))
        self._awaited: str | None = None
        self._arrived = trio.Event()
        self._missed = 0

    async def run(self, url: str | None) -> None:
        """Send one each minute to `url`, our own door, for ever; None: have it off."""
        sealed = self._seal.seal(self._secret.encode("ascii"), CANARY)
        await self._db.write(put_house_endpoint, CANARY, url, sealed, self._clock.now_ms())
        self._wake(CANARY)
        while True:
            if url is not None:
                await self.run_once()
            await trio.sleep(EVERY_S)

    async def run_once(self) -> bool:
        """Send one and wait for it; whether it arrived."""
        if not self._db.healthy:
            return False  # the store says for itself what is wrong with it
        started_s, now_ms = trio.current_time(), self._clock.now_ms()
        message_id = new_id("msg_", now_ms, self._entropy)
        self._awaited, self._arrived = message_id, trio.Event()
        with trio.move_on_after(LATE_S):
            await self._db.write(
                send_canary,
                delivery_id=new_id("dlv_", now_ms, self._entropy),
                message_id=message_id,
                body=msgspec.json.encode({"type": "canary", "created_at": iso_ms(now_ms)}),
                now_ms=now_ms,
            )
            self._wake(CANARY)
            await self._arrived.wait()
        ok, ended_s = self._arrived.is_set(), trio.current_time()
        self._missed = 0 if ok else self._missed + 1
        self._report(ok, round((ended_s - started_s) * 1000), ended_s)
        if not ok:
            log.warning("canary.missing", message_id=message_id, missed=self._missed, after_s=LATE_S)
        return ok

    def arrive(self, *, message_id: str, timestamp: str, signature: str, body: bytes) -> bool:
        """Take what came to our own door; whether it is a canary of ours."""
        try:
            verify(
                self._secret,
                message_id=message_id,
                timestamp=timestamp,
                signature=signature,
                body=body,
                now_s=self._clock.real_ms() // 1000,
            )
        except SignatureRefused:
            return False
        if message_id == self._awaited:
            self._arrived.set()
        return True

    def problems(self) -> list[str]:
        """What is wrong, in words."""
        if self._missed < MISSED_MAX:
            return []
        return [f"the last {self._missed} webhooks to payd itself did not arrive"]
