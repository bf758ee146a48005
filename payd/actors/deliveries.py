"""Deliveries of a realm: one actor for each endpoint that is owed something, replay jobs, and sends by hand.

Source: SPEC.md, "Delivery rules"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias, TypeVar

import structlog
import trio

from payd.actors.attempts import Also, Attempts, Keep, TestResult
from payd.actors.backlog import look_back
from payd.actors.faults import Faults
from payd.actors.lane import Lane
from payd.actors.poster import Poster
from payd.actors.supervisor import RESTART, STEADY_S, in_background, keep_running
from payd.clock import Clock
from payd.core.endpoint import RESPONSE_DEADLINE_S, Endpoint, EndpointState, Secret
from payd.core.errors import EndpointDisabled, InternalError, InvalidParams, RateLimited
from payd.entropy import Entropy, new_id
from payd.net.addresses import is_never_called
from payd.net.dns import DNS_DEADLINE_S, DnsFailed
from payd.net.http import Target
from payd.store.db import Database
from payd.store.deliveries import (
    astray,
    bring_back,
    check_resend,
    endpoints_with_pending,
    load_work,
    next_due_ms,
)
from payd.store.endpoints import SealedSecret, endpoint_of_id
from payd.store.notices import Notices
from payd.store.webhook_jobs import advance_job, running_jobs

log = structlog.get_logger("payd.deliveries")

T = TypeVar("T")

Begins: TypeAlias = Callable[[], Awaitable[object]]

# A realm's requests in flight: each holds a socket and some 50 kB.
IN_FLIGHT_MAX: Final = 256
# The part of what others leave that one endpoint may hold: alone ten, and sixty slow ones three each.
SHARE: Final = 24
# A wall clock that lost as much against the monotonic one since the last look was set, and not slewed.
SET_BACK_MS: Final = 1000
# Brought back in one step after the wall clock was set back.
ASTRAY_MAX: Final = 500
# Sends by hand at once to one endpoint: a person looks at each.
BY_HAND_MAX: Final = 4
# Finds what a wake-up missed and what a jump of the wall clock made due.
POLL_S: Final = 30.0
# Without a look for this long, something is wrong with whoever looks.
POLL_LATE_S: Final = 120.0


class Deliveries:
    """Sends what a realm owes to its endpoints.

    `run` it in a nursery, `wake` it after every commit that owes something, `stop` it to end in order.

    Args:
        db: The realm's database.
        clock: The realm's clock; due times follow it, `webhook-timestamp` and deadlines do not.
        poster: Makes the requests; its clients' idle connections are closed when `run` ends.
        entropy: For ids.
        notices: Writes what the operator is told of endpoints.
        config_key: The realm's table in the configuration, such as `webhooks.test`, for refusals.
        injects: Whether developers may have faults made on purpose; never where deliveries are real.

    Attributes:
        faults: What is done on purpose; None where nothing ever is.
        http: The client for accounts' endpoints.
        house_http: The client for the house's own.
        rules: What endpoints may be.
        stats: What was done since the start.
    """

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        poster: Poster,
        entropy: Entropy,
        notices: Notices,
        config_key: str,
        injects: bool = False,
    ) -> None:
        self.faults = Faults(db, clock, self.wake) if injects else None
        self.http, self.house_http = poster.http, poster.house_http
        self.rules, self.stats = poster.rules, poster.stats
        self._db = db
        self._clock = clock
        self._entropy = entropy
        self._draw_jitter = poster.draw_jitter
        self._config_key = config_key
        self._attempts = Attempts(
            db=db,
            clock=clock,
            poster=poster,
            entropy=entropy,
            notices=notices,
            wake=self.wake,
            faults=self.faults,
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
        self._polled_s: float | None = None
        self._wall_ahead_ms: int | None = None
        db.on_reload(self._look)

    @property
    def in_flight(self) -> int:
        """How many deliveries are being sent or wait for the realm's limit."""
        return sum(lane.in_flight for lane in self._lanes.values()) + sum(map(len, self._by_hand.values()))

    @property
    def busy(self) -> bool:
        """Whether anything is being sent, recorded or queued."""
        return any(lane.claimed for lane in self._lanes.values()) or bool(self._by_hand) or self._job_at_work

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send until `stop`; what was in flight in an earlier process is due and sent again."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery, self._polled_s = nursery, trio.current_time()
                nursery.start_soon(keep_running, "deliveries.poll", self._poll)
                nursery.start_soon(keep_running, "deliveries.jobs", self._jobs)
                task_status.started()
        finally:
            self._nursery = None
            with trio.CancelScope(shield=True):
                await self.http.aclose()
                await self.house_http.aclose()

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
        """Look at an endpoint and what it is owed; call it after the commit. Before `run` it does nothing."""
        if (lane := self._lane_at_work(endpoint_id)) is not None:
            lane.wake()

    def note_owed(self, endpoint_id: str) -> None:
        """As `wake`, where nothing but a fresh delivery was added."""
        if (lane := self._lane_at_work(endpoint_id)) is not None:
            lane.note_owed()

    def _lane_at_work(self, endpoint_id: str) -> Lane | None:
        """An endpoint's actor; None if there was none, and one begins now, or none may any more."""
        if self._nursery is None or self._stopping:
            return None
        if (lane := self._lanes.get(endpoint_id)) is not None:
            return lane
        self._lanes[endpoint_id] = self._lane(endpoint_id)
        self._nursery.start_soon(self._keep, endpoint_id)
        return None

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

    def next_due_ms(self, after_ms: int = -1) -> int | None:
        """When the realm's next attempt after this is due, in the realm's time; None when nothing is owed."""
        return self._db.point(next_due_ms, after_ms)

    def problems(self) -> list[str]:
        """What keeps deliveries from being made though their receivers work, in words.

        Source: DESIGN.md, "12. Operations".
        """
        found = list(self.stats.backlog.overdue) if self.stats.backlog else []
        if self._polled_s is not None and (silent_s := trio.current_time() - self._polled_s) > POLL_LATE_S:
            found.append(f"nobody has looked for due webhooks for {silent_s:.0f} s")
        return found

    @property
    def broken(self) -> int:
        """How many deliveries break on this side, such as by a seal key that is another one."""
        return sum(lane.broken for lane in self._lanes.values())

    async def drained(self, now_ms: int) -> None:
        """Return when everything that was due by `now_ms` has had its attempt, and no job or person sends.

        What falls due later is not waited for: where much happens, something is in flight at any moment.
        """
        await trio.lowlevel.checkpoint()
        while self._owes_by(now_ms):
            await self._moved.wait()

    def _owes_by(self, now_ms: int) -> bool:
        if self._job_at_work or self._by_hand:
            return True
        if any(lane.is_sending_due_by(now_ms) for lane in self._lanes.values()):
            return True
        due_ms = self.next_due_ms()
        return due_ms is not None and due_ms <= now_ms

    async def resend(
        self,
        account_id: str,
        delivery_id: str,
        begins: Begins = trio.lowlevel.checkpoint,
        also: Also | None = None,
    ) -> None:
        """Send one delivery once more now, and wait for the end of that attempt.

        A success settles the delivery and takes back its next retry; a failure changes nothing.

        Args:
            account_id: Whose.
            delivery_id: Which.
            begins: Run first, also when the caller has gone; nothing is sent if it raises.
            also: More to write in the step that logs the attempt.

        Raises:
            NotFound, EndpointDisabled, InvalidParams: As `store.deliveries.check_resend`.
            RateLimited: `BY_HAND_MAX` sends to this endpoint are under way.
            Exception: What `begins` raised.

        Source: SPEC.md, "Delivery rules".
        """
        endpoint_id = self._db.point(check_resend, account_id, delivery_id, self._clock.now_ms())
        await self._hand(endpoint_id, begins, partial(self._resend, delivery_id, also))

    async def send_test(
        self,
        endpoint: Endpoint,
        event_type: str,
        begins: Begins = trio.lowlevel.checkpoint,
        keep: Keep | None = None,
    ) -> TestResult:
        """Send an event with sample data, once, to an endpoint in any state, and wait for its end.

        Args:
            endpoint: Which.
            event_type: Of the sample.
            begins: As of `resend`.
            keep: More to write in the step that logs the test.

        Raises:
            EndpointDisabled: It was deleted meanwhile.
            RateLimited: `BY_HAND_MAX` sends to this endpoint are under way.
            Exception: What `begins` raised.

        Source: SPEC.md, "Events".
        """
        return await self._hand(endpoint.id, begins, partial(self._attempts.test, endpoint, event_type, keep))

    async def check_address(self, url: str) -> None:
        """Return when the host of a checked URL may be called, as far as that can be told now.

        A host that does not resolve now passes, as any does while there is no socket to ask with: its
        addresses are asked about before every attempt.

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
        if any(is_never_called(address) for address in addresses):
            raise InvalidParams(
                "The url's host has an address that payd never calls, such as cloud metadata."
            )
        with suppress(OSError):
            if not all(self.rules.may_call(address) for address in addresses):
                words = f"add its network to allow_networks in [{self._config_key}] to allow it."
                raise InvalidParams(f"The url's host has an address that is not public; {words}")

    def open_all(self, secrets: Iterable[SealedSecret], endpoint_id: str) -> list[Secret]:
        """As `Poster.open_all`."""
        return self._attempts.open_all(secrets, endpoint_id)

    def _tick(self) -> None:
        moved, self._moved = self._moved, trio.Event()
        moved.set()

    def _look(self) -> None:
        self._poll_now.set()
        self._jobs_wanted.set()

    async def _poll(self) -> None:
        while True:
            self._poll_now = trio.Event()
            await self._look_at_the_wall()
            for endpoint_id in await self._db.look(endpoints_with_pending):
                self.wake(endpoint_id)
            self._jobs_wanted.set()
            await self.http.close_unfit()
            await self.house_http.close_unfit()
            self.stats.backlog = await look_back(self._db, self._clock.now_ms(), self._lanes)
            self._polled_s = trio.current_time()
            with trio.move_on_after(POLL_S):
                await self._poll_now.wait()

    async def _look_at_the_wall(self) -> None:
        """Bring back what waits too long, if the wall clock was set back since the last look.

        At the start, too: nobody knows what happened before.
        """
        ahead_ms = self._clock.real_ms() - round(trio.current_time() * 1000)
        if self._wall_ahead_ms is None or ahead_ms < self._wall_ahead_ms - SET_BACK_MS:
            await self._bring_back()
        self._wall_ahead_ms = ahead_ms

    async def _bring_back(self) -> None:
        """After the wall clock was set back, nothing waits until the time that it showed before."""
        while heads := await self._db.look(astray, self._clock.now_ms(), ASTRAY_MAX):
            await self._db.write(bring_back, heads, self._clock.now_ms())
            log.warning("webhook.clock_set_back", deliveries=len(heads))

    def _lane(self, endpoint_id: str) -> Lane:
        return Lane(
            endpoint_id,
            db=self._db,
            clock=self._clock,
            attempt=self._attempts.make,
            gate=self._gate,
            share=self._share,
            jitter=self._draw_jitter,
            ended=self._tick,
            retire=lambda: self._retire(endpoint_id),
        )

    def _share(self, own: int) -> int:
        """How much of the realm's limit an endpoint that holds `own` may hold: less, the more others hold.

        So a crowd of slow receivers leaves places free for one that is not. It is never nothing.
        """
        others = self._gate.borrowed_tokens - own
        return max(1, (IN_FLIGHT_MAX - others) // SHARE)

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

    async def _jobs(self) -> None:
        """Do a batch of each replay job in turn: a long one keeps no other waiting."""
        while True:
            self._jobs_wanted = trio.Event()
            jobs = [] if self._stopping else await self._db.look(running_jobs)
            self._job_at_work = bool(jobs)
            for job_id, endpoint_id in jobs:
                await self._advance(job_id, endpoint_id)
            if not jobs:
                self._job_at_work = self._jobs_wanted.is_set()
                self._tick()
                await self._jobs_wanted.wait()

    async def _advance(self, job_id: str, endpoint_id: str) -> None:
        now_ms = self._clock.now_ms()
        fresh_id = partial(new_id, at_ms=now_ms, entropy=self._entropy)
        await self._db.write(advance_job, job_id, now_ms, fresh_id)
        self.wake(endpoint_id)

    async def _hand(self, endpoint_id: str, begins: Begins, send: Callable[[], Awaitable[T]]) -> T:
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
                        if not self._is_deleted(endpoint_id):
                            await begins()
                        # Once more: while it began, the deletion may have come, and the secrets be gone.
                        if not self._is_deleted(endpoint_id):
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

    def _is_deleted(self, endpoint_id: str) -> bool:
        endpoint = self._db.point(endpoint_of_id, endpoint_id)
        return endpoint is None or endpoint.state is EndpointState.DELETED

    async def _resend(self, delivery_id: str, also: Also | None) -> None:
        work = self._db.point(load_work, delivery_id)
        assert work is not None, "a delivery is never removed within the reach of a resend"
        await self._attempts.make(work, "manual", also=also)
        self.wake(work.endpoint.id)
