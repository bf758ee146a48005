"""Deliveries of a realm: one actor for each endpoint that is owed something, replay jobs, and sends by hand.

Source: SPEC.md, "Delivery rules"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

import structlog
import trio

from payd.actors.attempts import Poster, WebhookRules
from payd.actors.lane import Lane
from payd.actors.supervisor import RESTART, in_background, keep_running
from payd.clock import Clock
from payd.core.endpoint import RESPONSE_DEADLINE_S, Endpoint
from payd.core.errors import EndpointDisabled, InternalError, InvalidParams, RateLimited
from payd.core.event import sample_event
from payd.entropy import Entropy, new_id
from payd.net.dns import DnsFailed
from payd.net.http import DNS_DEADLINE_S, Client, Target
from payd.store.attempts import AttemptEnd, Recorded, record_attempt, record_test
from payd.store.db import Database
from payd.store.deliveries import Work, check_resend, endpoints_with_pending, load_work, next_due_ms
from payd.store.seal import Seal
from payd.store.webhook_jobs import advance_job, running_jobs

__all__ = ["Deliveries", "TestResult", "WebhookRules"]

log = structlog.get_logger("payd.deliveries")

T = TypeVar("T")

# A realm's requests in flight: each holds a socket and some 50 kB.
IN_FLIGHT_MAX: Final = 256
# Sends by hand at once to one endpoint: a person looks at each.
BY_HAND_MAX: Final = 4
# Finds what a wake-up missed and what a jump of the wall clock made due.
POLL_S: Final = 30.0
# An endpoint's actor that ran this long starts over with short delays.
STEADY_S: Final = 60.0


class TestResult(NamedTuple):
    """How a test delivery ended; `status` is None when there was no answer."""

    delivery_id: str
    status: int | None
    error_class: str | None
    duration_ms: int
    body: bytes


class Deliveries:
    """Sends what a realm owes to its endpoints.

    `run` it in a nursery, `wake` it after every commit that owes something, `stop` it to end in order.

    Args:
        db: The realm's database.
        clock: The realm's clock; due times follow it, `webhook-timestamp` and deadlines do not.
        http: Such as `actors.attempts.webhook_client` makes; its idle connections are closed when `run` ends.
        seal: Opens the endpoints' secrets.
        entropy: For ids and jitter.
        rules: What endpoints may be.
        config_key: The realm's table in the configuration, such as `webhooks.test`, for refusals.
        user_agent: The header's value.
        jitter: Whether retries are spread; without it the schedule is exact.
    """

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        http: Client,
        seal: Seal,
        entropy: Entropy,
        rules: WebhookRules,
        config_key: str,
        user_agent: str,
        jitter: bool = True,
    ) -> None:
        self.rules = rules
        self._db = db
        self._clock = clock
        self.http = http
        self._entropy = entropy
        self._config_key = config_key
        self._poster = Poster(
            db=db,
            clock=clock,
            http=http,
            seal=seal,
            entropy=entropy,
            rules=rules,
            user_agent=user_agent,
            jitter=jitter,
        )
        self._gate = trio.CapacityLimiter(IN_FLIGHT_MAX)
        self._lanes: dict[str, Lane] = {}
        self._nursery: trio.Nursery | None = None
        self._stopping = False
        self._moved = trio.Event()
        self._poll_now = trio.Event()
        self._jobs_wanted = trio.Event()
        self._job_at_work = False
        self._by_hand: dict[str, set[trio.CancelScope]] = {}
        db.on_reload(self._look)

    @property
    def in_flight(self) -> int:
        """How many deliveries are being sent or wait for the realm's limit."""
        return sum(lane.in_flight for lane in self._lanes.values()) + sum(map(len, self._by_hand.values()))

    @property
    def busy(self) -> bool:
        """Whether anything is being sent or queued."""
        return self.in_flight > 0 or self._job_at_work

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send until `stop`; what was in flight in an earlier process is due and sent again."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(keep_running, "deliveries.poll", self._poll)
                nursery.start_soon(keep_running, "deliveries.jobs", self._jobs)
                task_status.started()
        finally:
            self._nursery = None
            with trio.CancelScope(shield=True):
                await self.http.aclose()

    async def stop(self) -> None:
        """Start nothing more, let what is in flight end for at most 15 s, and end `run`."""
        self._stopping = True
        for lane in self._lanes.values():
            lane.stopping = True
            lane.wake()
        with trio.move_on_after(RESPONSE_DEADLINE_S):
            while self.busy:
                await self._moved.wait()
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def wake(self, endpoint_id: str) -> None:
        """Look at what this endpoint is owed; call it after the commit. Before `run` it does nothing."""
        if self._nursery is None or self._stopping:
            return
        lane = self._lanes.get(endpoint_id)
        if lane is not None:
            lane.wake()
            return
        self._lanes[endpoint_id] = self._lane(endpoint_id)
        self._nursery.start_soon(self._keep, endpoint_id)

    def wake_jobs(self) -> None:
        """Look at the replay jobs; call it after the commit that started one."""
        self._job_at_work = self._nursery is not None
        self._jobs_wanted.set()

    def drop(self, endpoint_id: str) -> None:
        """Cancel what is in flight to an endpoint; call it after the commit that deleted it."""
        if endpoint_id in self._lanes:
            self._lanes[endpoint_id].scope.cancel()
        for scope in self._by_hand.get(endpoint_id, ()):
            scope.cancel()

    def next_due_ms(self) -> int | None:
        """When the realm's next attempt is due, in the realm's time; None when nothing is owed."""
        return self._db.point(next_due_ms)

    async def drained(self, now_ms: int) -> None:
        """Return when nothing is in flight and everything that was due by `now_ms` has had its attempt."""
        await trio.lowlevel.checkpoint()
        while self.busy or ((due_ms := self.next_due_ms()) is not None and due_ms <= now_ms):
            await self._moved.wait()

    async def resend(self, account_id: str, delivery_id: str) -> None:
        """Send one delivery once more now, and wait for the end of that attempt.

        A success settles the delivery and takes back its next retry; a failure changes nothing.

        Raises:
            NotFound, EndpointDisabled, InvalidParams: As `store.deliveries.check_resend`.
            RateLimited: `BY_HAND_MAX` sends to this endpoint are under way.

        Source: SPEC.md, "Delivery rules".
        """
        endpoint_id = self._db.point(check_resend, account_id, delivery_id, self._clock.now_ms())
        await self._hand(endpoint_id, partial(self._resend, delivery_id))

    async def send_test(self, endpoint: Endpoint, event_type: str) -> TestResult:
        """Send an event with sample data, once, to an endpoint in any state, and wait for its end.

        Raises:
            RateLimited: `BY_HAND_MAX` sends to this endpoint are under way.

        Source: SPEC.md, "Events".
        """
        return await self._hand(endpoint.id, partial(self._test, endpoint, event_type))

    async def check_address(self, url: str) -> None:
        """Return when the host of a checked URL may be called, as far as that can be told now.

        A host that does not resolve now passes: its addresses are asked about before every attempt.

        Raises:
            InvalidParams: Plain http, or an address that is not public; the message names the key to set.
        """
        target = Target.of(url)
        if target.scheme == "http" and not self.rules.allow_http:
            if self._config_key.endswith(".live"):
                raise InvalidParams("The url must begin with https://.")
            words = f"set allow_http = true in [{self._config_key}] to allow http."
            raise InvalidParams(f"The url must begin with https://; {words}")
        addresses: list[str] = []
        with trio.move_on_after(DNS_DEADLINE_S):
            try:
                addresses = await self.http.resolve(target.host)
            except DnsFailed as failed:
                log.warning("webhook.unresolved", host=target.host, problem=str(failed))
        if not all(self.rules.may_call(address) for address in addresses):
            words = f"add its network to allow_networks in [{self._config_key}] to allow it."
            raise InvalidParams(f"The url's host has an address that is not public; {words}")

    def open_secret(self, sealed: bytes, endpoint_id: str) -> str:
        """The `whsec_…` in a stored secret. Raises `SealBroken` if another key sealed it."""
        return self._poster.open_secret(sealed, endpoint_id)

    def _tick(self) -> None:
        moved, self._moved = self._moved, trio.Event()
        moved.set()

    def _look(self) -> None:
        self._poll_now.set()
        self._jobs_wanted.set()

    async def _poll(self) -> None:
        while True:
            self._poll_now = trio.Event()
            for endpoint_id in await self._db.look(endpoints_with_pending):
                self.wake(endpoint_id)
            self._jobs_wanted.set()
            await self.http.close_unfit()
            with trio.move_on_after(POLL_S):
                await self._poll_now.wait()

    def _lane(self, endpoint_id: str) -> Lane:
        return Lane(
            endpoint_id,
            db=self._db,
            clock=self._clock,
            attempt=self._attempt,
            gate=self._gate,
            ended=self._tick,
            retire=lambda: self._retire(endpoint_id),
        )

    def _retire(self, endpoint_id: str) -> None:
        self._lanes.pop(endpoint_id, None)
        self._tick()

    async def _keep(self, endpoint_id: str) -> None:
        """Run an endpoint's actor to its end; start it again, later and later, when it crashes."""
        failures = 0
        while (lane := self._lanes.get(endpoint_id)) is not None:
            problem: Exception | None = None
            started_s = trio.current_time()
            try:
                with lane.scope:
                    await lane.run()
            except Exception as crash:
                problem = crash
            if problem is None and not lane.scope.cancelled_caught:
                return
            if self._stopping:
                self._retire(endpoint_id)
                return
            self._lanes[endpoint_id] = self._lane(endpoint_id)
            self._tick()
            if problem is not None:
                failures = 1 if trio.current_time() - started_s >= STEADY_S else failures + 1
                delay_s = RESTART.delay_s(failures)
                log.error("webhook.restarts", endpoint_id=endpoint_id, delay_s=delay_s, exc_info=problem)
                await trio.sleep(delay_s)

    async def _attempt(self, work: Work, trigger: str) -> tuple[str | None, Recorded]:
        end = await self._poster.post(work.endpoint, work.message_id, work.body, trigger)
        recorded = await self._db.write(record_attempt, work.delivery_id, end)
        _log_attempt(work.delivery_id, work.message_id, work.endpoint, work.event_type, end, recorded)
        return end.error_class, recorded

    async def _jobs(self) -> None:
        while True:
            self._jobs_wanted = trio.Event()
            jobs = await self._db.look(running_jobs)
            self._job_at_work = bool(jobs)
            for job_id, endpoint_id in jobs:
                await self._job(job_id, endpoint_id)
            self._job_at_work = self._jobs_wanted.is_set()
            self._tick()
            await self._jobs_wanted.wait()

    async def _job(self, job_id: str, endpoint_id: str) -> None:
        more = True
        while more and not self._stopping:
            now_ms = self._clock.now_ms()
            fresh_id = partial(new_id, at_ms=now_ms, entropy=self._entropy)
            more = await self._db.write(advance_job, job_id, now_ms, fresh_id)
            self.wake(endpoint_id)

    async def _hand(self, endpoint_id: str, send: Callable[[], Awaitable[T]]) -> T:
        if self._nursery is None or self._stopping:
            raise InternalError("The server is stopping.")
        scopes = self._by_hand.setdefault(endpoint_id, set())
        if len(scopes) >= BY_HAND_MAX:
            words = f"{BY_HAND_MAX} sends to this endpoint are under way; wait for one to end."
            raise RateLimited(words, details={"retryAfterS": RESPONSE_DEADLINE_S})

        async def scoped() -> T:
            try:
                with scope:
                    async with self._gate:
                        return await send()
            finally:
                scopes.discard(scope)
                if not scopes:
                    self._by_hand.pop(endpoint_id, None)
                self._tick()
            raise EndpointDisabled("The endpoint was deleted meanwhile.")

        scope = trio.CancelScope()
        scopes.add(scope)
        return await in_background(self._nursery, scoped)

    async def _resend(self, delivery_id: str) -> None:
        work = self._db.point(load_work, delivery_id)
        assert work is not None, "a delivery is never removed within the reach of a resend"
        await self._attempt(work, "manual")
        self.wake(work.endpoint.id)

    async def _test(self, endpoint: Endpoint, event_type: str) -> TestResult:
        now_ms = self._clock.now_ms()
        delivery_id, message_id, event_id, payment_id, merchant_id = (
            new_id(prefix, now_ms, self._entropy) for prefix in ("dlv_", "msg_", "evt_", "pay_t", "mrch_")
        )
        body = sample_event(
            event_type, event_id=event_id, payment_id=payment_id, merchant_id=merchant_id, now_ms=now_ms
        )
        end = await self._poster.post(endpoint, message_id, body, "test")
        await self._db.write(
            record_test,
            delivery_id=delivery_id,
            message_id=message_id,
            endpoint=endpoint,
            event_type=event_type,
            body=body,
            end=end,
        )
        _log_attempt(delivery_id, message_id, endpoint, event_type, end, None)
        return TestResult(delivery_id, end.status, end.error_class, end.duration_ms, end.body)


def _log_attempt(
    delivery_id: str,
    message_id: str,
    endpoint: Endpoint,
    event_type: str,
    end: AttemptEnd,
    recorded: Recorded | None,
) -> None:
    log.info(
        "webhook.attempt",
        delivery_id=delivery_id,
        message_id=message_id,
        endpoint_id=endpoint.id,
        event_type=event_type,
        trigger=end.trigger,
        status=end.status,
        error_class=end.error_class,
        duration_ms=end.duration_ms,
        n=recorded.n if recorded else 1,
        state=recorded.state if recorded else None,
        next_at_ms=recorded.next_at_ms if recorded else None,
    )
    if recorded is not None and recorded.disabled:
        log.warning(
            "webhook.endpoint_disabled",
            endpoint_id=endpoint.id,
            account_id=endpoint.account_id,
            failing_since_ms=recorded.endpoint.failing_since_ms,
        )
