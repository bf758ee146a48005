"""One attempt from beginning to end: post, record, tell.

Source: SPEC.md, "Delivery rules"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import structlog
import trio

from payd.actors.faults import Faults, without_request
from payd.actors.poster import Poster
from payd.clock import Clock
from payd.core.endpoint import CANARY, NOTIFY, Endpoint, EndpointState, Secret
from payd.core.event import iso_ms, sample_event
from payd.core.fault import Fault
from payd.core.notice import render_notice
from payd.core.retry import ATTEMPTS_MAX
from payd.entropy import Entropy, new_id
from payd.store.attempts import (
    AttemptEnd,
    Recorded,
    Trigger,
    record_attempt,
    record_interrupted,
    record_successes,
    record_test,
)
from payd.store.db import Database, Tx
from payd.store.deliveries import FRESH, Work
from payd.store.endpoints import SealedSecret, endpoint_of_id, secrets_of
from payd.store.notices import Notices

# The log entry of a request that a deletion cuts off may hold up the end of its actor this long.
LAST_WRITE_S: Final = 2.0


class TestResult(NamedTuple):
    """How a test delivery ended."""

    delivery_id: str
    end: AttemptEnd


Also: TypeAlias = Callable[[Tx], None]
"""What is written in the step that logs an attempt."""

Keep: TypeAlias = Callable[[Tx, TestResult], None]
"""The same of a test."""


class Attempts:
    """Makes attempts of one realm.

    Args:
        db: The realm's database.
        clock: The realm's clock.
        poster: Sends.
        entropy: For ids.
        notices: Writes what the operator is told of endpoints.
        wake: Has an endpoint's actor look at what it is owed.
        faults: What is done to attempts on purpose; None where nothing ever is.
    """

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        poster: Poster,
        entropy: Entropy,
        notices: Notices,
        wake: Callable[[str], None],
        faults: Faults | None = None,
    ) -> None:
        self._faults = faults
        self._db = db
        self._clock = clock
        self._poster = poster
        self._entropy = entropy
        self._notices = notices
        # One for all: those that come at the same moment are known by it.
        self._record_successes = partial(record_successes, notices=notices)
        self._stats = poster.stats
        self._wake = wake
        self._unanswered: Counter[str] = Counter()
        # Bound once: an unbound one is made anew for every line, at a fifth of the line's cost.
        self._log = structlog.get_logger("payd.deliveries").bind()

    def open_all(self, secrets: Iterable[SealedSecret], endpoint_id: str) -> list[Secret]:
        """As `Poster.open_all`."""
        return self._poster.open_all(secrets, endpoint_id)

    async def make(
        self,
        work: Work,
        trigger: Trigger,
        taken: Callable[[], None] | None = None,
        also: Also | None = None,
    ) -> tuple[AttemptEnd, Recorded]:
        """Make one attempt and draw its consequences.

        Args:
            work: What is sent, and where to.
            trigger: Why.
            taken: Called once the receiver has taken it, before that is on the disk. After anything else the
                store may have its endpoint paused, and is waited for.
            also: What is written with the consequences.

        Returns:
            How it ended, and what the store made of it.

        Raises:
            SealBroken: The endpoint's secret was sealed with another key.
            StoreUnavailable, OutcomeUnknown: It was made, and may not be recorded: it will be made again.
        """
        if self._faults is None or (fault := await self._faults.take(work, trigger)) is None:
            made = await self._make(work, trigger, taken=taken, also=also)
        elif fault.kind == "duplicate":
            made = await self._make(work, trigger, also=also)
            await self._make(work, trigger, fault)
        else:
            made = await self._make(work, trigger, fault, also=also)
        if self._faults is not None:
            await self._faults.release(work)
        return made

    async def _make(
        self,
        work: Work,
        trigger: Trigger,
        fault: Fault | None = None,
        *,
        taken: Callable[[], None] | None = None,
        also: Also | None = None,
    ) -> tuple[AttemptEnd, Recorded]:
        started_ms, endpoint_id = self._clock.now_ms(), work.endpoint.id
        self._unanswered[endpoint_id] += 1
        try:
            end = await self._end_of(work, trigger, fault)
        except trio.Cancelled:
            await self._interrupted(work, trigger, started_ms, fault)
            raise
        finally:
            self._unanswered[endpoint_id] -= 1
            if not (others := self._unanswered[endpoint_id]):
                del self._unanswered[endpoint_id]
        if taken is not None and end.error_class is None:
            taken()
        if trio.current_effective_deadline() == -math.inf:
            # Cut off as the answer came: it counts.
            with trio.move_on_after(LAST_WRITE_S, shield=True):
                await self._record(work.delivery_id, end, others > 0, also)
            await trio.lowlevel.checkpoint_if_cancelled()
        recorded = await self._record(work.delivery_id, end, others > 0, also)
        if fault is not None:
            self._stats.fault(fault.kind)
        elif work.endpoint.id != CANARY:
            self._stats.attempt(trigger, end.error_class, end.duration_ms)
        # The first that was ever logged: what was held back on purpose is late by no fault of ours.
        is_first = work.attempts == 0 and recorded.n == 1 and fault is None and trigger == "auto"
        if is_first and work.kind == "event" and work.priority == FRESH:
            self._stats.first_attempt(end.at_ms - work.created_at_ms)
        self._tell(work.delivery_id, work.message_id, work.event_type, end, recorded)
        return end, recorded

    async def _end_of(self, work: Work, trigger: Trigger, fault: Fault | None) -> AttemptEnd:
        """How the request ended, or how it ended without one."""
        if fault is not None:
            end = without_request(fault, trigger, self._clock.now_ms())
            if end is not None:
                return end
        return await self._poster.post(
            work.endpoint,
            work.secrets,
            work.message_id,
            work.body,
            trigger,
            None if fault is None else fault.kind,
        )

    async def _record(self, delivery_id: str, end: AttemptEnd, others: bool, also: Also | None) -> Recorded:
        """What the store makes of an attempt; `others`: more are under way to the same endpoint.

        Answers to one endpoint's requests come close together: one commit for all of them costs half.
        """
        by_schedule = end.trigger in ("auto", "replay") and also is None
        if by_schedule and end.error_class is None and end.fault is None:
            asked = delivery_id, end
            return await self._db.write_together(None, self._record_successes, asked, hurry=not others)
        write = self._db.write_in_company if others and end.trigger != "manual" else self._db.write
        if also is None:
            return await write(record_attempt, delivery_id, end, self._notices)

        def step(tx: Tx) -> Recorded:
            recorded = record_attempt(tx, delivery_id, end, self._notices)
            also(tx)
            return recorded

        return await write(step)

    async def _interrupted(self, work: Work, trigger: Trigger, started_ms: int, fault: Fault | None) -> None:
        """Log a request that a deletion cut off; one that the server's end cuts off is made again."""
        endpoint = self._db.point(endpoint_of_id, work.endpoint.id)
        if endpoint is None or endpoint.state is not EndpointState.DELETED:
            return
        with trio.move_on_after(LAST_WRITE_S, shield=True):
            now_ms, kind = self._clock.now_ms(), None if fault is None else fault.kind
            await self._db.write(record_interrupted, work.delivery_id, trigger, started_ms, now_ms, kind)

    def _tell(
        self, delivery_id: str, message_id: str, event_type: str, end: AttemptEnd, recorded: Recorded
    ) -> None:
        """Log an attempt, and what it did to its endpoint."""
        endpoint = recorded.endpoint
        is_last = recorded.state == "failed" and end.trigger in ("auto", "replay")
        log = self._log
        say = log.debug if endpoint.id == CANARY else log.warning if is_last else log.info
        say(
            "webhook.attempt",
            delivery_id=delivery_id,
            message_id=message_id,
            endpoint_id=endpoint.id,
            event_type=event_type,
            trigger=end.trigger,
            n=recorded.n,
            of=None if end.trigger == "test" else ATTEMPTS_MAX,
            status=end.status,
            error_class=end.error_class,
            fault=end.fault,
            duration_ms=end.duration_ms,
            state=recorded.state,
            next_at=None if recorded.next_at_ms is None else iso_ms(recorded.next_at_ms),
        )
        if recorded.notice is None:
            return
        self._stats.noticed(recorded.notice.removeprefix("endpoint."))
        self._wake(NOTIFY)
        since_ms = endpoint.failing_since_ms
        log.warning(
            recorded.notice,
            endpoint_id=endpoint.id,
            account_id=endpoint.account_id,
            host=urlsplit(endpoint.url).netloc,  # the rest of it may hold a secret
            failing_since=None if since_ms is None else iso_ms(since_ms),
            last_status=end.status,
            last_error_class=end.error_class,
        )

    async def test(self, endpoint: Endpoint, event_type: str, keep: Keep | None = None) -> TestResult:
        """Send an event with sample data, once; to the house's own endpoint a sample notice.

        It goes where the endpoint is by now, as for who waited until it could be sent. `keep` is written with
        the log of it.
        """
        endpoint = self._db.point(endpoint_of_id, endpoint.id) or endpoint
        now_ms = self._clock.now_ms()
        delivery_id, message_id, event_id, payment_id, merchant_id = (
            new_id(prefix, now_ms, self._entropy) for prefix in ("dlv_", "msg_", "evt_", "pay_t", "mrch_")
        )
        if endpoint.id == NOTIFY:
            body = render_notice(
                "notify.test", endpoint, event_id=event_id, live=self._notices.live, now_ms=now_ms
            )
        else:
            body = sample_event(
                event_type, event_id=event_id, payment_id=payment_id, merchant_id=merchant_id, now_ms=now_ms
            )
        end = await self._poster.post(
            endpoint, self._db.point(secrets_of, endpoint.id), message_id, body, "test"
        )
        result = TestResult(delivery_id, end)

        def step(tx: Tx) -> Recorded:
            recorded = record_test(
                tx,
                delivery_id=delivery_id,
                message_id=message_id,
                endpoint=endpoint,
                event_type=event_type,
                body=body,
                end=end,
                notices=self._notices,
            )
            if keep is not None:
                keep(tx, result)
            return recorded

        recorded = await self._db.write(step)
        self._stats.attempt("test", end.error_class, end.duration_ms)
        self._tell(delivery_id, message_id, event_type, end, recorded)
        return result
