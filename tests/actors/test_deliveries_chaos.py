"""Whatever merchants, receivers, clocks and restarts do together: in the end every event has arrived.

A short run has fewer seeds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from random import Random
from typing import Final, get_args

import pytest
import trio
from structlog.testing import capture_logs

from payd.clock import Clock
from payd.core.endpoint import REPLAY_REACH_MS, Endpoint, EndpointState
from payd.core.errors import PaydError
from payd.core.fault import FAULT_KINDS, Fault
from payd.entropy import new_id
from payd.store.db import Database
from payd.store.endpoints import delete_endpoint, find_endpoint, put_endpoint
from payd.store.faults import add_fault, end_faults
from payd.store.webhook_jobs import Kind, cancel_job, list_jobs, start_job
from tests.outbox import ACCOUNT, Outbox, open_outbox
from tests.receiver import Does, Received
from tests.short import IS_SHORT
from tests.virtual_wall import VirtualWall

LIVES: Final = 2
STEPS: Final = 30
HOSTS: Final = ("a.test", "b.test")
# Few, so that events of one payment meet.
PAYMENTS: Final = 40
SKEWS_S: Final = (-7200, -600, -5, 5, 3600)
REFUSALS: Final = (
    Does(status=500),
    Does(status=503, headers=(("retry-after", "30"),)),
    Does(status=429, headers=(("retry-after", "99999"),)),
    Does(status=302),
    Does(hangs=True),
    Does(resets=True),
    Does(drips=True),
    Does(raw=b"nothing that is HTTP\r\n\r\n"),
    Does(delay_s=16),
)


class Chaos:
    """Some lives of a realm's deliveries, over one database."""

    def __init__(self, db: Database, random: Random) -> None:
        self.db = db
        self.random = random
        self.moods = Random(random.random())  # of receivers, who are asked in any order
        self.skew_ms = 0
        wall = VirtualWall()
        self.clock = Clock(lambda: wall() + self.skew_ms)
        self.refuses = 0.3
        self.is_slow = False
        self.happened: list[str] = []
        self.received: list[list[Received]] = []
        self.outbox: Outbox
        self._numbers = count(1)

    async def live(self, outbox: Outbox) -> None:
        """A life up to its end; the first begins with an endpoint, and the others with what is left."""
        self.outbox, outbox._numbers = outbox, self._numbers
        self.received += [outbox.host(name, self.answer).received for name in HOSTS]
        await self.register()

    def answer(self, _received: Received) -> Does:
        """What a receiver does in its mood."""
        if self.is_slow:
            return Does(status=500, delay_s=2)
        if self.moods.random() < self.refuses:
            return self.moods.choice(REFUSALS)
        return Does(delay_s=self.moods.choice((0, 0, 0.01, 1, 5)) if self.refuses else 0)

    @property
    def endpoint(self) -> Endpoint | None:
        return self.db.point(find_endpoint, ACCOUNT)

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    async def step(self) -> None:
        """Something happens, and then some time goes by."""
        often = (self.happen, self.happen, self.happen_often, self.resume, self.enable)
        acts: tuple[Callable[[], Awaitable[None]], ...] = (
            *often,
            *often,
            self.disable,
            self.pause,
            self.replace,
            self.move,
            self.replay,
            self.replay,
            self.start_over,
            self.start_over,
            self.end_replay,
            self.resend,
            self.test,
            self.inject,
            self.clear,
            self.change_mood,
            self.set_clock,
            self.advance,
        )
        await _if_it_may(self.random.choice(acts))
        await trio.sleep(self.random.choice((0, 0, 0, 1, 3, 20, 60)) * self.random.random())

    async def happen(self) -> None:
        payment = f"pay_t{self.random.randrange(PAYMENTS)}"
        kind = self.random.choice(("payment.created", "payment.processing", "payment.succeeded"))
        self.happened.append(await self.outbox.happen(kind, payment_id=payment))

    async def happen_often(self) -> None:
        for _ in range(self.random.choice((5, 15, 30))):
            await self.happen()

    async def disable(self) -> None:
        await self.outbox.switch("disable")

    async def enable(self) -> None:
        await self.outbox.switch("enable")

    async def pause(self) -> None:
        await self.outbox.switch("pause")

    async def resume(self) -> None:
        await self.outbox.switch("resume")

    async def register(self) -> None:
        if self.endpoint is None:
            await self.outbox.register(self.random.choice(HOSTS))

    async def replace(self) -> None:
        gone = await self.db.write(delete_endpoint, account_id=ACCOUNT, now_ms=self.now_ms, actor="test")
        self.outbox.deliveries.drop(gone.id)
        self.outbox.deliveries.wake(gone.id)
        await trio.sleep(self.random.random())
        await self.register()

    async def move(self) -> None:
        before = self.endpoint
        assert before is not None
        endpoint, _ = await self.db.write(
            put_endpoint,
            account_id=ACCOUNT,
            url=f"http://{self.random.choice(HOSTS)}/hook",
            events=before.events,
            fresh_id="",
            sealed=b"",
            now_ms=self.now_ms,
            actor="test",
        )
        self.outbox.deliveries.wake(endpoint.id)

    async def replay(self) -> None:
        kind: Kind = self.random.choice(get_args(Kind))
        await self.start(kind, self.random.choice((0, 3_600_000, REPLAY_REACH_MS)))

    async def start(self, kind: Kind, back_ms: int) -> None:
        await self.db.write(
            start_job,
            job_id=new_id("job_", self.now_ms),
            account_id=ACCOUNT,
            kind=kind,
            since_ms=self.now_ms - back_ms,
            now_ms=self.now_ms,
        )
        self.outbox.deliveries.wake_jobs()

    async def start_over(self) -> None:
        """What is due again, and was looked ahead to, is cancelled and replayed within a moment."""
        self.is_slow = True
        await self.happen_often()
        await trio.sleep(30)
        self.clock.move_to_offset(self.clock.offset_ms + 600_000)
        await trio.sleep(1)
        await self.disable()
        await self.enable()
        await self.start("replay-missing", REPLAY_REACH_MS)
        await trio.sleep(20)
        self.is_slow = False

    async def end_replay(self) -> None:
        if jobs := self.db.point(list_jobs, ACCOUNT):
            await self.db.write(cancel_job, ACCOUNT, self.random.choice(jobs).id)
            self.outbox.deliveries.wake_jobs()

    async def resend(self) -> None:
        if rows := self.outbox.rows():
            one = self.random.choice(rows).id
            self.beside(lambda: self.outbox.deliveries.resend(ACCOUNT, one))

    async def test(self) -> None:
        if (endpoint := self.endpoint) is not None:
            self.beside(lambda: self.outbox.deliveries.send_test(endpoint, "payment.created"))

    def beside(self, send: Callable[[], Awaitable[object]]) -> None:
        """Somebody waits for this, and others go on."""
        self.outbox.nursery.start_soon(_if_it_may, send)

    async def inject(self) -> None:
        endpoint, kind = self.endpoint, self.random.choice(FAULT_KINDS)
        assert endpoint is not None
        number = self.random.choice((None, 1, 5))
        until_ms = self.now_ms + 600_000 if number is None else None
        delay_ms = 30_000 if kind == "delay" else None
        fault = Fault(
            new_id("flt_", self.now_ms),
            endpoint.id,
            kind,
            delay_ms,
            (),
            None,
            number,
            number,
            until_ms,
            self.now_ms,
        )
        await self.db.write(add_fault, fault)
        assert self.outbox.deliveries.faults is not None
        self.outbox.deliveries.faults.forget()

    async def clear(self) -> None:
        if (endpoint := self.endpoint) is not None:
            await self.db.write(end_faults, endpoint.id, None, self.now_ms)
            assert self.outbox.deliveries.faults is not None
            self.outbox.deliveries.faults.forget()
            self.outbox.deliveries.wake(endpoint.id)

    async def change_mood(self) -> None:
        self.refuses = self.random.choice((0.05, 0.3, 0.5, 0.9, 1.0))

    async def set_clock(self) -> None:
        self.skew_ms += self.random.choice(SKEWS_S) * 1000

    async def advance(self) -> None:
        self.clock.move_to_offset(self.clock.offset_ms + self.random.randrange(6 * 3_600_000))

    async def end(self) -> None:
        """All is well for long enough, and what was never received is replayed."""
        self.refuses, self.is_slow = 0, False
        await self.register()
        endpoint = self.endpoint
        assert endpoint is not None
        await (self.resume() if endpoint.state is EndpointState.PAUSED else self.enable())
        await self.clear()
        # What hangs has an end, and whoever looks now and then has looked.
        await trio.sleep(100)
        await self.outbox.advance(48 * 3600)
        assert [row for row in self.outbox.rows() if row.state == "pending"] == []
        for kind in get_args(Kind):
            await self.start(kind, REPLAY_REACH_MS)
            await trio.sleep(100)
            await self.outbox.drained()


async def _if_it_may(act: Callable[[], Awaitable[object]]) -> None:
    """Do it, unless that is refused as things are."""
    try:
        await act()
    except PaydError:
        return


@pytest.mark.parametrize("seed", range(3 if IS_SHORT else 8))
async def test_in_the_end_every_event_has_arrived(realm_db: Database, seed: int) -> None:
    chaos = Chaos(realm_db, random := Random(seed))  # a seed, and no secret
    delivered: set[str | None] = set()
    with capture_logs() as logs:
        for life in range(LIVES):
            async with open_outbox(realm_db, clock=chaos.clock) as outbox:
                await chaos.live(outbox)
                for _ in range(STEPS):
                    await chaos.step()
                if life + 1 < LIVES and random.random() < 0.5:
                    await outbox.deliveries.stop()
                if life + 1 == LIVES:
                    await chaos.end()
                    delivered = {row.event_id for row in outbox.rows() if row.state == "succeeded"}
                    assert not outbox.deliveries.busy

    arrived = {one.event for received in chaos.received for one in received}
    assert set(chaos.happened) <= delivered & arrived
    assert [line for line in logs if line["log_level"] == "error"] == []
