"""The copying of merchants' logos from their `iconUrl`, so that no buyer's browser ever asks another host.

A wish is a row that is stored with the merchant; what is due is read from the rows, after a start as at any
other time. Addresses are strangers' words: they are called as webhooks are, with the same rules.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

from typing import Final, NamedTuple

import structlog
import trio

from payd.actors.pictures import Pictures
from payd.clock import RECHECK_S, Clock
from payd.core.advice import advice, words_for
from payd.core.errors import PaydError
from payd.core.picture import BYTES_MAX, TOO_LARGE
from payd.core.url import is_https_url
from payd.net.http import Client, Reply, Target
from payd.store.db import Database
from payd.store.logos import Owed, copies_due, count_failing, keep_copy, next_copy_ms, record_failure

log = structlog.get_logger("payd.logos")

# One that hangs holds up those beside it for two deadlines at most.
AT_ONCE_MAX: Final = 8
# Real seconds for the picture itself, once the answer has begun.
BODY_WAIT_S: Final = 15.0
ACCEPT: Final = "image/webp, image/png, image/jpeg, image/avif"

# What the same address says again in a minute.
_FINAL: Final = frozenset({"blocked_address"})


class Problem(NamedTuple):
    """Why there is no copy, in words, and whether another try could change it."""

    words: str
    is_final: bool


class Logos:
    """The copies of one realm.

    Args:
        db: The realm's database.
        clock: The realm's clock; copies go by real time, as the hosts they come from do.
        http: Such as the client of the realm's webhooks, which refuses what these may not call.
        pictures: Makes logos of what comes.
        user_agent: The header's value.

    Attributes:
        pictures: See above.
        copied: How many were copied since the start.
        failed: How many tries failed since.
    """

    def __init__(
        self, *, db: Database, clock: Clock, http: Client, pictures: Pictures, user_agent: str
    ) -> None:
        self.pictures = pictures
        self.copied = 0
        self.failed = 0
        self._db = db
        self._clock = clock
        self._http = http
        self._headers = (("user-agent", user_agent), ("accept", ACCEPT), ("connection", "close"))
        self._bell = trio.Event()

    def wake(self) -> None:
        """There is something new to copy."""
        self._bell.set()

    async def run(self) -> None:
        """Copy what is due, for ever."""
        while True:
            self._bell = trio.Event()
            await self.run_once()
            due_ms = self._db.point(next_copy_ms)
            left_s = RECHECK_S if due_ms is None else (due_ms - self._clock.real_ms()) / 1000
            with trio.move_on_after(max(0, min(left_s, RECHECK_S))):
                await self._bell.wait()

    async def run_once(self) -> int:
        """Try every copy that is due now; returns how many tries that were."""
        tried = 0
        while due := self._db.point(copies_due, self._clock.real_ms(), AT_ONCE_MAX):
            async with trio.open_nursery() as nursery:
                for owed in due:
                    nursery.start_soon(self._copy, owed)
            tried += len(due)
        return tried

    def failing(self) -> int:
        """How many merchants' logos could not be copied at the last try."""
        return self._db.point(count_failing)

    async def _copy(self, owed: Owed) -> None:
        found = await self._fetch(owed.source_url)
        if isinstance(found, bytes):
            if await self._db.write(keep_copy, owed, found):
                self.copied += 1
                log.info("logo.copied", merchant_id=owed.merchant_id, size=len(found))
            return
        self.failed += 1
        now_ms = self._clock.real_ms()
        logo = await self._db.write(record_failure, owed, found.words, now_ms, is_final=found.is_final)
        if logo is not None:
            log.warning(
                "logo.not_copied",
                merchant_id=owed.merchant_id,
                problem=found.words,
                failures=logo.failures,
                given_up=logo.due_at_ms is None,
            )

    async def _fetch(self, url: str) -> bytes | Problem:
        """The logo at an address, or why there is none."""
        if not is_https_url(url):
            return Problem("iconUrl is not an https address.", True)
        try:
            target = Target.of(url)
            reply = await self._http.send(
                "GET", target, self._headers, body_bytes_max=BYTES_MAX, body_wait_s=BODY_WAIT_S
            )
            problem = problem_of(reply)
            return await self.pictures.draw(reply.body, patient=True) if problem is None else problem
        except PaydError as refusal:
            return Problem(refusal.message, True)


def problem_of(reply: Reply) -> Problem | None:
    """What keeps an answer from being a picture, as far as its frame says."""
    if reply.status is None:
        error_class = reply.error_class or ""
        words = [f"The picture could not be fetched: {words_for(error_class)}."]
        if error_class in _FINAL:
            words.append(advice(None, error_class) or "")
        return Problem(" ".join(words), error_class in _FINAL)
    if 300 <= reply.status <= 399:
        words_moved = "which is not followed. Set iconUrl to the address of the picture itself."
        return Problem(f"The address answers with a redirect ({reply.status}), {words_moved}", True)
    if not 200 <= reply.status <= 299:
        return Problem(f"The address answers {reply.status} and no picture.", False)
    if not reply.is_whole and len(reply.body) >= BYTES_MAX:
        return Problem(TOO_LARGE, True)
    if not reply.is_whole:
        return Problem(f"The picture did not arrive within {BODY_WAIT_S:g} s.", False)
    return None
