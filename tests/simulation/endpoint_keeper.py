"""Who looks after a merchant's webhook endpoint, as in a dashboard, while the house dies again and again.

Nobody else touches the endpoint, so that after each answer it is known how it is.

Source: DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

import trio

from payd.core.endpoint import EVENT_TYPES, SECRETS_MAX
from tests.crash.client import Answered, Lost
from tests.crash.endpoint_diary import (
    BEFORE_ALL,
    TOKEN,
    Act,
    AskedJob,
    KnownSecret,
    Mark,
    Sent,
    Shape,
    Span,
    shape_of,
)
from tests.crash.shoppers import Caller
from tests.simulation.hooks import HOOK, HOOKS, ILL

if TYPE_CHECKING:
    from tests.simulation.world import World

PAUSE_MAX_S: Final = 6.0
# How often one act follows the other at once.
HASTE: Final = 0.2
# Whoever changes something sees the power cut more often than others.
CUTS: Final = 0.004
# And most often where the house goes on by itself with what was begun.
LONG_CUTS: Final = 0.1
ENDPOINT: Final = "/v1/webhooks/endpoint"
# What a replay reaches back to, and more than all lives take.
REACH_S: Final = 11 * 86_400
LISTED: Final = 20
JOB_LOOK_S: Final = 1.0
# Nobody waits for a job any more.
JOB_MAX_S: Final = 1800.0
# Longer than all attempts take; with the rest, lives are still shorter than a replay reaches back.
WAIT: Final = "30h"
WAITS_MAX: Final = 2
# How what a job has queued may end.
ENDS: Final = ("done", "failed", "takenBack")
# An endpoint that is off is mostly switched on next.
ON_AGAIN: Final = 0.5

Way = Callable[[], Awaitable[None]]


class EndpointKeeper(Caller):
    """Changes the endpoint, one act after the other, and keeps the world's diary of it."""

    def __init__(self, world: World, rng: Random) -> None:
        super().__init__(partial(world.door, CUTS), world.at, world.ledger, rng)
        self._world = world
        self._doors = (self._door, world.door(LONG_CUTS))
        self._diary = world.diary
        self._acts = 0
        self._waits_left = WAITS_MAX if world.realm == "test" else 0
        self._answered: list[tuple[str, Any, str]] = []
        """Path, body and key of what was done under a key, oldest first."""
        self._ways: Sequence[Way] = (
            self._switch_off,
            self._switch_off,
            self._switch,
            self._rotate,
            self._reveal,
            self._move,
            self._move,
            self._choose,
            self._test,
            self._resend,
            self._resend,
            self._replay,
            self._replay,
            self._cancel_job,
            self._make_anew,
            self._read,
            self._repeat,
            self._wait,
        )

    async def live(self, until: trio.Event) -> None:
        await self._look_first()
        while not until.is_set():
            if self.rng.random() > HASTE:
                await trio.sleep(self.rng.random() * PAUSE_MAX_S)
            shape = self._diary.shape
            if (shape is None or shape.state != "enabled") and self.rng.random() < ON_AGAIN:
                await self._switch_on()
            else:
                await self.rng.choice(self._ways)()
            await self._check()
        await self._switch_on()
        await self._put("put", HOOK, EVENT_TYPES)
        await self._check()

    async def replay_all(self) -> None:
        """Have all sent that was not delivered, and wait until it is; what was replayed before has ended."""
        for job in self._diary.jobs:
            shown = await self._job(job.id)
            if shown.body["state"] == "running" or shown.body["queued"] != sum(map(shown.body.get, ENDS)):
                self.refuse(shown, "job at rest")
        for kind in ("replay-missing", "recover"):
            started = await self.insist("POST", f"/v1/webhooks/{kind}", {"since": self._since()})
            if started.status != 202:
                self.refuse(started, kind)
                continue
            with trio.move_on_after(JOB_MAX_S):
                while (await self._job(started.body["id"])).body["state"] == "running":
                    await trio.sleep(JOB_LOOK_S)

    @contextmanager
    def _long(self) -> Iterator[None]:
        """What is asked within is begun when it is answered."""
        self._door = self._doors[1]
        try:
            yield
        finally:
            self._door = self._doors[0]

    async def _look_first(self) -> None:
        """The endpoint that was there before anybody touched it."""
        found = await self.insist("GET", ENDPOINT)
        shape = shape_of(found.body, None)
        self._diary.acts.append(Act("begin", BEFORE_ALL, shape.id, shape))
        self._diary.secrets.append(KnownSecret(self.at.secret, shape.id, BEFORE_ALL))

    async def _check(self) -> None:
        """What was answered is so, whatever died meanwhile."""
        found = await self.insist("GET", ENDPOINT)
        before = self._diary.shape
        token = None if before is None else before.token
        shown = shape_of(found.body, token) if found.status == 200 else None
        if shown != before or found.status not in (200, 404):
            self.ledger.problems.append(f"the endpoint is {shown}, and was {before}")

    async def _span_since(self, begun: Mark) -> Span:
        return Span(begun, await self._world.mark())

    def _note(self, what: str, span: Span, endpoint_id: str, shape: Shape | None) -> None:
        self._diary.acts.append(Act(what, span, endpoint_id, shape))

    async def _under_key(self, path: str, body: Any = None) -> Answered:
        """Ask once, with or without a second time; if it was done, it may be asked once more much later."""
        self._acts += 1
        key = f"act {self._acts}"
        asked = 2 if self.rng.random() < 0.2 else 1
        answers = [await self.insist("POST", path, body, idempotency_key=key) for _ in range(asked)]
        if answers[0].status < 300:
            self.ledger.answers[key] = [one.raw for one in answers]
            self._answered.append((path, body, key))
        elif {one.status for one in answers} != {answers[0].status}:
            self.refuse(answers[-1], f"{path} again")
        return answers[0]

    async def _repeat(self) -> None:
        """Ask again what was answered long ago: it is answered as it was then, and nothing is done."""
        if self._answered:
            path, body, key = self.rng.choice(self._answered)
            again = await self.insist("POST", path, body, idempotency_key=key)
            self.ledger.answers[key].append(again.raw)

    async def _switch_on(self) -> None:
        shape = self._diary.shape
        if shape is None:
            await self._put("put", self.rng.choice(HOOKS), self._some_events())
        else:
            is_resumed = shape.state == "paused" and self.rng.random() < 0.6
            await self._act("resume" if is_resumed else "enable")

    async def _switch_off(self) -> None:
        await self._act(self.rng.choice(("pause", "pause", "disable")))

    async def _switch(self) -> None:
        """Any switch, also one that is refused or changes nothing."""
        await self._act(self.rng.choice(("pause", "resume", "enable", "disable")))

    async def _act(self, what: str) -> None:
        before = self._diary.shape
        begun = await self._world.mark()
        answered = await self._under_key(f"{ENDPOINT}/{what}")
        span = await self._span_since(begun)
        if before is None:
            wanted = 404
        else:
            wanted = 409 if before.state == "disabled" and what in ("pause", "resume") else 200
        if answered.status != wanted:
            self.refuse(answered, f"{what} of {before}")
        elif before is not None and wanted == 200:
            self._note(what, span, before.id, shape_of(answered.body, before.token))
            if what == "enable" and before.state == "disabled":
                await self._count_missed(answered.body)

    async def _count_missed(self, enabled: Any) -> None:
        """What was said to be missed is what a replay would send, as long as none does."""
        asked = {"since": enabled["missedSince"], "preview": True}
        counted = await self.insist("POST", "/v1/webhooks/replay-missing", asked)
        if counted.status == 400:  # the clock was set back, and it is in the future
            return
        if counted.status != 200 or counted.body["matched"] != enabled["missedEvents"]:
            self.refuse(counted, f"{enabled['missedEvents']} missed")

    async def _put(self, what: str, url: str, events: Sequence[str]) -> None:
        """Change the endpoint, or register one; who lost the answer with the secret asks for it."""
        before = self._diary.shape
        begun = await self._world.mark()
        token = None if before is None else before.token
        body: dict[str, Any] = {"url": url, "events": list(events)}
        if self.rng.random() < 0.3:
            token = self.rng.choice((None, f"{begun.at_s}"))
            body["headers"] = {} if token is None else {TOKEN: token}
        answered = await self.insist("PUT", ENDPOINT, body)
        span = await self._span_since(begun)
        if answered.status != 200:
            self.refuse(answered, f"{what} of {before}")
            return
        shape = shape_of(answered.body, token)
        is_other = before is not None and before.id != shape.id
        if is_other or (shape.url, shape.events, shape.token) != (url, tuple(events), token):
            self.refuse(answered, f"{what} of {before}")
        self._note(what, span, shape.id, shape)
        if before is None:
            secret = answered.body.get("secret") or (await self._revealed()).body["secret"]
            self._diary.secrets.append(KnownSecret(secret, shape.id, span))

    async def _move(self) -> None:
        shape = self._diary.shape
        if shape is not None:
            await self._put("move", self.rng.choice(HOOKS), shape.events)

    async def _choose(self) -> None:
        shape = self._diary.shape
        if shape is not None:
            await self._put("choose", shape.url, self._some_events())

    def _some_events(self) -> tuple[str, ...]:
        if self.rng.random() < 0.5:
            return EVENT_TYPES
        return tuple(self.rng.sample(EVENT_TYPES, self.rng.randrange(1, len(EVENT_TYPES))))

    async def _make_anew(self) -> None:
        """Delete the endpoint, and register another one after a while."""
        before = self._diary.shape
        if before is None:
            return
        begun, lost = await self._world.mark(), self.ledger.lost
        with self._long():
            deleted = await self.insist("DELETE", ENDPOINT)
        span = await self._span_since(begun)
        was_done = deleted.status == 404 and self.ledger.lost > lost
        if not was_done and (deleted.status, deleted.body.get("id")) != (200, before.id):
            self.refuse(deleted, f"delete of {before}")
        self._note("delete", span, before.id, None)
        if self.rng.random() < 0.7:
            await trio.sleep(self.rng.random() * PAUSE_MAX_S)
            await self._switch_on()

    async def _rotate(self) -> None:
        """Whether a rotation whose answer was lost was done says the secret that is there."""
        shape = self._diary.shape
        if shape is None:
            return
        begun = await self._world.mark()
        try:
            answered = await self.ask("POST", f"{ENDPOINT}/rotate")
        except Lost:
            answered = await self._revealed()
        span = await self._span_since(begun)
        if answered.status != 200:
            if (answered.status, answered.body["code"]) != (400, "invalid_state") or self._few_secrets():
                self.refuse(answered, "rotate")
            return
        value, current = answered.body["secret"], self._diary.secrets[-1]
        if value != current.value:
            current.replaced = span
            self._diary.secrets.append(KnownSecret(value, shape.id, span))

    def _few_secrets(self) -> bool:
        """Whether too few secrets were ever there to refuse one more."""
        endpoint_id = self._diary.secrets[-1].endpoint_id
        return sum(one.endpoint_id == endpoint_id for one in self._diary.secrets) < SECRETS_MAX

    async def _revealed(self) -> Answered:
        return await self.insist("POST", f"{ENDPOINT}/reveal")

    async def _reveal(self) -> None:
        if self._diary.shape is None:
            return
        shown = await self._revealed()
        if shown.status != 200 or shown.body["secret"] != self._diary.secrets[-1].value:
            self.refuse(shown, "reveal")

    async def _test(self) -> None:
        shape = self._diary.shape
        begun, lost = await self._world.mark(), self.ledger.lost
        answered = await self._under_key(f"{ENDPOINT}/test", {"type": self.rng.choice(EVENT_TYPES)})
        self._diary.tests_lost += self.ledger.lost - lost
        span = await self._span_since(begun)
        if answered.status != (404 if shape is None else 200):
            self.refuse(answered, f"test of {shape}")
        elif shape is not None:
            sent = Sent(answered.body["deliveryId"], shape.id, span, answered.body["status"])
            self._diary.tests.append(sent)

    async def _resend(self) -> None:
        shape = self._diary.shape
        listed = await self._list()
        if not listed:
            return
        chosen = self.rng.choice(listed)
        begun = await self._world.mark()
        answered = await self._under_key(f"/v1/webhooks/deliveries/{chosen['id']}/resend")
        span = await self._span_since(begun)
        if chosen["eventId"] is None:
            wanted = 404
        else:
            is_on = shape is not None and (chosen["endpointState"], shape.state) == ("enabled", "enabled")
            wanted = 200 if is_on else 409
        if answered.status != wanted:
            self.refuse(answered, f"resend of {chosen} to {shape}")
        elif shape is not None and wanted == 200:
            made = [one for one in answered.body["attemptLog"] if one["trigger"] == "manual"]
            if not made or (answered.body["state"] != "succeeded" and (made[-1]["status"] or 0) // 100 == 2):
                self.refuse(answered, "resend")
                return
            self._diary.resends.append(Sent(chosen["id"], shape.id, span, made[-1]["status"]))

    async def _list(self) -> list[dict[str, Any]]:
        state = self.rng.choice(("", "&state=failed", "&state=cancelled", "&state=pending"))
        listed = await self.insist("GET", f"/v1/webhooks/deliveries?limit={LISTED}{state}")
        if listed.status != 200:
            self.refuse(listed, "deliveries")
        found: list[dict[str, Any]] = listed.body["data"]
        return found

    def _since(self) -> int:
        return self._world.realm_ms() // 1000 - REACH_S

    async def _replay(self) -> None:
        shape = self._diary.shape
        kind = self.rng.choice(("replay-missing", "recover"))
        begun = await self._world.mark()
        with self._long():
            started = await self._under_key(f"/v1/webhooks/{kind}", {"since": self._since()})
        span = await self._span_since(begun)
        wanted = 404 if shape is None else 202 if shape.state == "enabled" else 409
        if started.status != wanted:
            self.refuse(started, f"{kind} of {shape}")
        elif shape is not None and wanted == 202:
            self._diary.jobs.append(AskedJob(started.body["id"], kind, shape.id, span))

    async def _wait(self) -> None:
        """Let what fails fail for good, where the clock can be moved."""
        shape = self._diary.shape
        if self._waits_left and shape is not None and ILL in shape.url:
            self._waits_left -= 1
            await self.insist("POST", "/v1/test/clock", {"advance": WAIT})

    async def _job(self, job_id: str) -> Answered:
        found = await self.insist("GET", f"/v1/webhooks/jobs/{job_id}")
        if found.status != 200:
            self.refuse(found, f"job {job_id}")
        return found

    async def _cancel_job(self) -> None:
        """That of the newest job, which may have ended."""
        if self._diary.jobs:
            newest = self._diary.jobs[-1]
            begun = await self._world.mark()
            with self._long():
                cancelled = await self.insist("POST", f"/v1/webhooks/jobs/{newest.id}/cancel")
            newest.cancelled = await self._span_since(begun)
            if cancelled.status != 200:
                self.refuse(cancelled, f"cancel of {newest}")

    async def _read(self) -> None:
        """As the page of webhooks does."""
        for one in (await self._list())[:3]:
            shown = await self.insist("GET", f"/v1/webhooks/deliveries/{one['id']}")
            if shown.status != 200 or len(shown.body["attemptLog"]) < one["attempts"]:
                self.refuse(shown, f"delivery {one}")
        for job in self._diary.jobs[-1:]:
            await self._job(job.id)
