"""A whole house under a seed: its lives and deaths, people at its doors, network, disk and clock.

Nothing waits for real and nothing is left to the machine: the same seed is the same history, step by step.

Source: DESIGN.md, "1. What payd is for".
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

import msgspec
import structlog
import trio
from trio.abc import Instrument
from trio.testing import memory_stream_pair

from payd.actors.maintenance import EVERY_S, Maintenance
from payd.actors.supervisor import keep_running
from payd.config import Config, load
from payd.core.errors import OutcomeUnknown, StoreUnavailable
from payd.core.ids import Realm as RealmName
from payd.server import open_house
from payd.web.house import House, Realm
from tests.crash.aftermath import Aftermath, all_details, all_events, come_to_rest
from tests.crash.endpoint_diary import EndpointDiary, Mark
from tests.crash.process import Furnished, environment, furnish
from tests.crash.rows import read_rows
from tests.crash.shoppers import ClockMover, Ledger, Shopper
from tests.receiver import Receiver
from tests.shop import START_MS
from tests.simulation.asking import Door, newest_event
from tests.simulation.chance import Chance
from tests.simulation.chance import run as run_by_chance
from tests.simulation.disk import DEATHS, REFUSALS, Disk, Fault, under
from tests.simulation.endpoint_keeper import EndpointKeeper
from tests.simulation.followers import follow_account, follow_newest
from tests.simulation.hooks import HOOK, Hooks
from tests.simulation.key_keeper import KeyKeeper
from tests.simulation.restores import Restores

SHOPPERS: Final = 3
PAGES: Final = 2
LIVES_MAX: Final = 5
COMMITS_MAX: Final = 60
# Virtual, as all that follow: who shops takes its time.
LIFE_MAX_S: Final = 600.0
HEAR_MAX_S: Final = 60.0
KEEP_DAYS: Final = 30
BATCH: Final = 5
# So many houses are brought back from backups; in the others what people set is changed.
GO_BACK: Final = 0.4
# The log's own deeds are no part of a history.
LOUD: Final = ("error", "critical", "exception")

Chore = Callable[[], Awaitable[None]]
"""What a house does for ever."""


class SlowShopper(Shopper):
    """Has all the time of the world, which is virtual."""

    pause_max_s = 20.0
    glimpse_s = 0.4


class SlowClockMover(ClockMover):
    """Moves the clock now and then."""

    pause_max_s = 90.0


class Steps(Instrument):
    """Counts task steps, and does something after some: so a death comes at any await."""

    def __init__(self) -> None:
        self.taken = 0
        self._left = 0
        self._then: Callable[[], None] = lambda: None

    def after(self, count: int, then: Callable[[], None]) -> None:
        """Have something happen so many steps from now, in place of what was to happen before."""
        self._left, self._then = count, then

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Trio calls it."""
        self.taken += 1
        self._left -= 1
        if self._left == 0:
            self._then()


class Life:
    """A house from its start to its death."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.dead = trio.Event()
        self.scope = trio.CancelScope()
        self.house: House
        self.nursery: trio.Nursery
        self._listeners: set[trio.CancelScope] = set()

    def die(self) -> None:
        """What is on the disk now is all that is left; nobody hears anything more of this life."""
        self.disk.leave()
        self.dead.set()
        self.scope.cancel()
        for listener in self._listeners:
            listener.cancel()

    @contextmanager
    def hears(self) -> Iterator[trio.CancelScope]:
        """What is done within ends with this life."""
        with trio.CancelScope() as scope:
            self._listeners.add(scope)
            try:
                yield scope
            finally:
                self._listeners.discard(scope)


class World:
    """What goes on while houses come and go.

    Args:
        folder: Each life has a folder in it.
        seed: Of all that is left to chance.
        at: What the first house was furnished with.
        steps: Counts.
        nursery: Of the world.

    Attributes:
        ledger: What people were told.
        diary: What became of the webhook endpoint.
        hooks: The merchant's receivers.
        faults: What the disks did.
        complaints: What houses logged as an error.
        calm: Whether nothing goes wrong any more.
        goes_back: Whether its house is brought back from backups, and nobody changes what is in them.
        realm: The name of the one that people use.
        steps_max: A life of this many steps has seen some fifty requests.
        gaps_s: Nobody lives for so long, or less.
        jumps_ms: By how much the machine's clock is set at times.
    """

    realm: RealmName = "test"
    steps_max = 6000
    gaps_s: tuple[float, ...] = (0.1, 5.0, 600.0, 86_400.0)
    jumps_ms: tuple[int, ...] = (-600_000, -2000, 3000, 7_200_000)

    def __init__(self, folder: Path, seed: int, at: Furnished, steps: Steps, nursery: trio.Nursery) -> None:
        self.at = at
        self.nursery = nursery
        self.ledger = Ledger()
        self.chance = Chance(seed)
        self.hooks = Hooks(nursery, self.chance, self.realm_ms)
        self.diary = EndpointDiary(arrivals=self.hooks.arrivals)
        self.faults: list[Fault] = []
        self.complaints: list[dict[str, Any]] = []
        self.calm = False
        self._folder = folder
        self.config = load(None, environment(folder))
        self._steps = steps
        self._rng = self.chance.of("lives")
        self._doors = 0
        self._life: Life | None = None
        self._up = trio.Event()
        self._skew_ms = 0
        self._realm_ms = START_MS
        self._keeper = EndpointKeeper(self, self.chance.of("endpoint"))
        self.goes_back = self.chance.of("kind").random() < GO_BACK
        self._crowd = trio.CancelScope()
        self._restores = Restores(
            folder / "backups", self.ledger, self.hooks.arrivals, self.chance.of("backups")
        )
        self.began_s = trio.current_time()

    def config_of(self, _number: int) -> Config:
        """What a life's house is told."""
        return self.config

    def wall_ms(self) -> int:
        """The machine's clock, which is set now and then."""
        return START_MS + round((trio.current_time() - self.began_s) * 1000) + self._skew_ms

    def realm_ms(self) -> int:
        """The realm's clock, which people move; while no house answers, what it showed last."""
        if self._life is not None:
            self._realm_ms = self._life.house.realms[self.realm].clock.now_ms()
        return self._realm_ms

    async def mark(self) -> Mark:
        """This moment, in a house that answers."""
        life = await self.life()
        path = life.disk.folder / f"{self.realm}.db"
        return Mark(trio.current_time(), newest_event(path), self.realm_ms())

    def set_clock(self, ahead_ms: int) -> None:
        """Set the machine's clock to so much more than the true time."""
        self._skew_ms = ahead_ms

    def cut_power(self) -> None:
        """End the house that answers, unless nothing goes wrong any more."""
        if self._life is not None and not self.calm:
            self._life.die()

    @property
    def is_up(self) -> bool:
        """Whether a house answers."""
        return self._life is not None and not self._life.dead.is_set()

    async def life(self) -> Life:
        """The house that answers, once one does."""
        while self._life is None or not self.is_up:
            await self._up.wait()
        return self._life

    def door(self, cuts: float = 0.0) -> Door:
        """For one client; `cuts` as `Door` takes it."""
        self._doors += 1
        return Door(self, self.chance.of(f"door{self._doors}"), cuts)

    def folder_of(self, number: int) -> Path:
        """Where a life's files are."""
        return self._folder / f"life{number}"

    async def live(self, shop: Chore, calm: trio.Event) -> None:
        """People who shop, and those who look after the house, until all is calm and nothing is half done."""
        async with trio.open_nursery() as people:
            people.start_soon(shop)
            if not self.goes_back:
                people.start_soon(self._keeper.run, calm)
                people.start_soon(KeyKeeper(self, self.chance.of("keys")).run, calm)

    async def replay_all(self, path: Path) -> None:
        """Have all sent that was not delivered; what was at rest before is in the diary."""
        if self.goes_back:
            return
        self.diary.at_rest = read_rows(path)
        self.diary.arrived_before_rest = len(self.diary.arrivals)
        await self._keeper.replay_all()

    async def go_through(self, lives: int, calm: trio.Event) -> None:
        """So many lives that end in a death, then one without a fault, until cancelled."""
        for number in range(lives):
            await self._live(number)
            await trio.sleep(self._rng.choice(self.gaps_s) * self._rng.random())
            if self._rng.random() < 0.3:
                self.set_clock(self._skew_ms + self._rng.choice(self.jumps_ms))
            heir = self.folder_of(number + 1)
            if self.goes_back and self._restores.bring_back(heir, self.realm, self.wall_ms()):
                self._crowd.cancel()
        self.become_calm()
        calm.set()
        await self._live(lives)

    async def keep_open(self, shop: Callable[[str], Awaitable[None]]) -> None:
        """Have people shop until they are done; after a restore others, as these know what is not there.

        Args:
            shop: Has them come, under names that begin so, and returns once they are done.
        """
        for times in count():
            with trio.CancelScope() as self._crowd:
                await shop("" if times == 0 else f"{times} times restored, ")
            if not self._crowd.cancelled_caught:
                return

    def become_calm(self) -> None:
        """From now on nothing goes wrong."""
        self.calm = True
        self.hooks.be_good()

    async def _live(self, number: int) -> None:
        rng = Random(self._rng.random())
        disk = Disk(self.folder_of(number), self.folder_of(number + 1), rng, lambda: life.die())
        life = Life(disk)
        if not self.calm:
            self._plan(life, rng)
        config = replace(self.config_of(number), data_dir=disk.folder)
        try:
            with under(disk), in_small_batches(), life.scope:
                async with (
                    open_house(config, inline=True, wall=self.wall_ms, entropy=rng.randbytes) as life.house,
                    trio.open_nursery() as life.nursery,
                ):
                    try:
                        await self._serve(life)
                    finally:
                        self._life = None
        except* (StoreUnavailable, OutcomeUnknown):  # a house that finds its disk sick does not start
            if not disk.happened:
                raise
            disk.leave()
        self._steps.after(0, lambda: None)
        self.faults += disk.happened

    def _plan(self, life: Life, rng: Random) -> None:
        """How this life ends, and what goes wrong before."""
        if rng.random() < 0.5:
            self._steps.after(rng.randrange(1, self.steps_max), life.die)
        else:
            life.disk.faults[rng.randrange(1, COMMITS_MAX)] = rng.choice(DEATHS)
        if rng.random() < 0.3:
            life.disk.faults.setdefault(rng.randrange(1, COMMITS_MAX), rng.choice(REFUSALS))

    async def _serve(self, life: Life) -> None:
        """What a server starts for a realm, and its doors, until the end."""
        realm = life.house.realms[self.realm]
        realm.deliveries.http.dial = partial(self._dial_hook, life)
        realm.deliveries.house_http.dial = partial(self._dial_hook, life)
        await life.nursery.start(realm.deliveries.run)
        for chore in self.chores(life, realm):
            life.nursery.start_soon(keep_running, "chore", chore)
        self._life = life
        up, self._up = self._up, trio.Event()
        up.set()
        if not self.calm:
            if self.goes_back:
                life.nursery.start_soon(self._restores.back_up, life)
            await trio.sleep(LIFE_MAX_S)
            life.die()
        await trio.sleep_forever()

    def chores(self, life: Life, realm: Realm) -> list[Chore]:
        """What is done in a house that nobody asks for."""
        maintenance = Maintenance(realm.db, realm.clock, KEEP_DAYS, KEEP_DAYS)

        async def forget() -> None:
            """At once: no life here is as long as `Maintenance.run` waits for its clock."""
            while True:
                await maintenance.run_once()
                await trio.sleep(EVERY_S)

        chores: list[Chore] = [realm.payments.tending.deadlines.run, forget]
        if realm.advance is not None:
            chores.append(realm.advance.run)
        return chores

    async def _dial_hook(self, life: Life, address: str, port: int) -> trio.abc.Stream:
        return await self.dial(life, self.hooks.at[address], address, port)

    async def dial(self, life: Life, receiver: Receiver, _address: str, _port: int) -> trio.abc.Stream:
        """A connection to somebody outside, over which nothing goes after the death."""
        await trio.lowlevel.checkpoint()
        ours, theirs = memory_stream_pair()
        self.nursery.start_soon(receiver.serve, theirs)
        return trio.StapledStream(Outgoing(ours.send_stream, life), ours.receive_stream)


class Outgoing(trio.abc.SendStream):
    """What a house sends, as long as it lives."""

    def __init__(self, stream: trio.abc.SendStream, life: Life) -> None:
        self._stream = stream
        self._life = life

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As the stream does. Raises trio.BrokenResourceError after the death."""
        if self._life.dead.is_set():
            raise trio.BrokenResourceError("the house is dead")
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """As the stream does."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """As the stream does."""
        await self._stream.aclose()


class History(msgspec.Struct, frozen=True):
    """What a seed came to.

    Attributes:
        left: What is left.
        steps: Task steps.
        faults: What the disks did.
        digest: Of everything that people were told and that is stored: the same seed, the same digest.
    """

    left: Aftermath
    steps: int
    faults: tuple[Fault, ...]
    digest: str


def simulate(folder: Path, seed: int) -> History:
    """The whole history of a seed, in an empty folder."""
    steps = Steps()
    return run_by_chance(partial(_simulate, folder, seed, steps), seed, steps)


async def _simulate(folder: Path, seed: int, steps: Steps) -> History:
    at = await furnish(folder, HOOK, wall=lambda: START_MS, entropy=Random(seed).randbytes)
    async with trio.open_nursery() as nursery:
        world = World(folder, seed, at, steps, nursery)
        shutil.move(folder / "data", world.folder_of(0))
        lives = world.chance.of("number of lives").randrange(1, LIVES_MAX + 1)
        calm = trio.Event()
        with heard(world):
            nursery.start_soon(follow_account, world)
            for number in range(PAGES):
                nursery.start_soon(follow_newest, world, world.chance.of(f"page{number}"))
            nursery.start_soon(world.go_through, lives, calm)
            await world.live(partial(_shop, world, calm), calm)
            await come_to_rest(world.door(), at)
            path = world.folder_of(lives) / "test.db"
            await world.replay_all(path)
            left = await look_back(world, seed, lives, path)
            nursery.cancel_scope.cancel()
    return History(left, steps.taken, tuple(world.faults), digest_of(left))


async def look_back(world: World, seed: int, lives: int, path: Path) -> Aftermath:
    """What is left at the end of the last life, whose file this is: what was told, heard and stored."""
    door = world.door()
    events = await all_events(door, world.at)
    details = await all_details(door, world.at, world.ledger)
    with trio.move_on_after(HEAR_MAX_S):
        while len(set(world.ledger.heard)) < len(events):  # after a restore some come again
            await trio.sleep(1)
    rows = read_rows(path)
    return Aftermath(
        seed=seed,
        at=world.at,
        ledger=world.ledger,
        received=[one.received for one in world.hooks.arrivals if one.merchant_id in rows.merchants],
        events=events,
        details=details,
        rows=rows,
        exit_code=0,
        deaths=lives,
        ready_after_s=[],
        complaints=[] if world.faults else world.complaints,
        diary=None if world.goes_back else world.diary,
    )


async def _shop(world: World, calm: trio.Event) -> None:
    """People, until all is calm and what they began is finished."""

    async def come(before: str) -> None:
        async with trio.open_nursery() as shop:
            for number in range(SHOPPERS):
                name = f"{before}shopper{number}"
                shopper = SlowShopper(name, world.door, world.at, world.ledger, world.chance.of(name))
                shop.start_soon(shopper.run, calm)
            mover = SlowClockMover(world.door, world.at, world.ledger, world.chance.of(f"{before}clock"))
            shop.start_soon(mover.run, calm)

    await world.keep_open(come)


@contextmanager
def in_small_batches() -> Iterator[None]:
    """Replays and cancellations take many steps here, too, where less is owed than elsewhere."""
    with (
        patch("payd.store.webhook_jobs.BATCH_ROWS_MAX", BATCH),
        patch("payd.store.endpoints.CANCEL_BATCH_MAX", BATCH),
    ):
        yield


@contextmanager
def heard(world: World, expected: Collection[str] = ()) -> Iterator[None]:
    """Keep what houses log as an error while they live, unless it is expected; let go of the rest."""

    def keep(_logger: Any, level: str, said: Any) -> Any:
        if level in LOUD and world.is_up and said.get("event") not in expected:
            world.complaints.append({"level": level, **said})
        raise structlog.DropEvent

    was = structlog.get_config()
    structlog.configure(processors=[keep], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**was)


def digest_of(left: Aftermath) -> str:
    """Of everything that people were told and that is stored."""
    told = (left.ledger.answers, left.ledger.heard, sorted(left.ledger.frames), left.details)
    received = [(one.at_s, one.headers, one.body) for one in left.received]
    stored = (left.rows.payments, left.rows.events, left.rows.deliveries, left.rows.attempts)
    return sha256(msgspec.json.encode((told, received, stored))).hexdigest()
