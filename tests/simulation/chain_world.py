"""The live realm of a house under a seed, on whatever chain: its nodes, what buyers leave, and its end."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import trio
from trio.testing import memory_stream_pair

from payd.config import Config, load
from payd.server import open_house
from payd.store.keys import SCOPES
from payd.web.commands import run_command
from payd.web.house import House, Realm
from tests.crash.aftermath import Aftermath, moody
from tests.crash.destinations import Destinations, read_destinations
from tests.crash.live_truths import LiveAftermath
from tests.crash.process import Furnished, environment
from tests.receiver import Does, Received, Receiver
from tests.shop import START_MS
from tests.simulation.chance import Chance
from tests.simulation.chance import run as run_by_chance
from tests.simulation.disk import Fault
from tests.simulation.door import connect, plain_webhooks, relaying
from tests.simulation.followers import follow_account, follow_newest
from tests.simulation.hooks import HOOK
from tests.simulation.moods import Mischief, Moody
from tests.simulation.relayed import RELAYER_KEY
from tests.simulation.settings import NO_DELAY, NOTIFIED, Settings
from tests.simulation.shopkeeper import Shopkeeper
from tests.simulation.world import PAGES, Chore, Life, Steps, World, digest_of, heard, look_back

LIVES_MAX: Final = 4
BUYERS: Final = 3
REST_LOOK_S: Final = 120.0
# In so many of the houses that are brought back from backups, what is in them is changed as well.
CHANGED_TOO: Final = 0.7
# What a house says of chains that turn and of nodes that lie.
EXPECTED: Final = frozenset(
    {
        "chain.history_gone",
        "chain.other_history",
        "chain.reorg_after_success",
        "chain.transaction_skipped",
        "request.failed",  # a 503 while no node answers; any other failure is a problem of its own
        "rpc.other_chain",
    }
)


class ChainWorld(World):
    """A world whose house takes payments on a chain.

    Attributes:
        trouble: What goes wrong until all is calm.
        rest_max_s: What nobody waits for any more.
        is_changed: Whether merchants change where they are paid.
        holds_back: Whether changes of destinations are, in some of its lives.
        notices: What the operator was told.
    """

    realm = "live"
    steps_max = 30_000
    # A chain that goes on for a day is long to read.
    gaps_s = (0.1, 5.0, 600.0, 7200.0)
    # Quotes are by the machine's clock, blocks by the chain's: payd allows for two minutes between them.
    jumps_ms = (-20_000, -2000, 3000, 20_000)
    trouble: Mischief[Any]
    rest_max_s: float

    def __init__(
        self,
        folder: Path,
        seed: int,
        at: Furnished,
        steps: Steps,
        nursery: trio.Nursery,
        settings: Sequence[Settings],
        template: str,
    ) -> None:
        super().__init__(folder, seed, at, steps, nursery)
        self._turning = trio.CancelScope()
        self._of: list[tuple[Moody, Receiver]] = []
        self._settings = settings
        self._template = template
        self.ledger.changes.began_s = self.began_s
        self.is_changed = not self.goes_back or self.chance.of("goes back changed").random() < CHANGED_TOO
        self.holds_back = any(one.values["delay"] != NO_DELAY for one in settings)
        self.notices: list[Received] = []
        mood = moody(self.chance.of("notified"))

        def hear(notice: Received) -> Does:
            return Does() if self.calm else mood(notice)

        self.hooks.at[NOTIFIED] = Receiver(nursery, hear, received=self.notices)

    def set_clock(self, ahead_ms: int) -> None:
        """As in any world; who waits for a change that is held back knows."""
        super().set_clock(ahead_ms)
        self.ledger.changes.times.set_clock(ahead_ms, self.ledger.changes.now_s())

    def config_of(self, number: int) -> Config:
        """What the operator has written by then."""
        settings = self._settings[number]
        path = self._folder / f"payd{number}.toml"
        path.write_text(settings.text(self._template))
        return load(path, environment(self._folder))

    async def _live(self, number: int) -> None:
        """With what the operator has written; while no chain stands there, nothing that was offered ends."""
        settings, changes = self._settings[number], self.ledger.changes
        self.trouble.serve([self._of[place][0] for place in settings.nodes])
        self.believe(self.config_of(number))
        if number > 0:
            self.trouble.happened.update(settings.happened(self._settings[number - 1]))
        before = offered_and_expired(self.folder_of(number) / "live.db")
        changes.served.change(settings.is_served, changes.now_s())
        changes.delay_s.change(int(settings.values["delay"]), changes.now_s())
        changes.delay_s.done(changes.now_s())
        try:
            await super()._live(number)
        finally:
            changes.times.down(changes.now_s())
            changes.served.done(changes.now_s())
        if not settings.is_served:
            after = offered_and_expired(self.folder_of(number + 1) / "live.db")
            changes.expired_unread += sorted(after - before)

    def believe(self, config: Config) -> None:
        """How deep what has happened is believed from now on."""
        raise NotImplementedError

    def put_up(self, nodes: Collection[Moody]) -> None:
        """Have a house reach these, by their places."""
        self._of = [(node, Receiver(self.nursery, node)) for node in nodes]

    def chores(self, life: Life, realm: Realm) -> list[Chore]:
        """What is done in a house that nobody asks for; its nodes may not know any more what was before."""
        if not self.calm and realm.live_chains:
            self.trouble.begin()
        chores = super().chores(life, realm)
        if self.holds_back:
            self.ledger.changes.times.up(self.ledger.changes.now_s())
            chores.append(realm.settlement_changes.run)
        for one in realm.live_chains:
            connect(one.rpc, partial(self._dial_node, life))
            chores.append(one.watcher.run)
            if one.relayer is not None:
                chores.append(one.relayer.run)
        return chores

    async def _dial_node(self, life: Life, place: int) -> trio.abc.Stream:
        _, receiver = self._of[place]
        # What is kept of each request is of no use here.
        receiver.received.clear()
        return await self.dial(life, receiver, "", 0)

    def become_calm(self) -> None:
        """From now on the nodes are well."""
        super().become_calm()
        self._turning.cancel()
        for node, _ in self._of:
            node.be_good()

    async def turn(self) -> None:
        """What goes wrong with the chain and its nodes, until all is calm."""
        with self._turning:
            await self.trouble.make()

    async def go_on(self) -> None:
        """Blocks, for ever."""
        raise NotImplementedError

    async def shop(self, calm: trio.Event) -> None:
        """People, until all is calm and what they began is finished."""
        raise NotImplementedError

    async def rest(self, path: Path) -> None:
        """Wait until nothing is left to be done, or until nobody waits for that any more."""
        with trio.move_on_after(self.rest_max_s):
            while True:
                await trio.sleep(REST_LOOK_S)
                if _is_at_rest(path):
                    return

    def left(self, common: Aftermath, path: Path) -> LiveAftermath:
        """What is left, of this file among all."""
        raise NotImplementedError

    def destinations(self, path: Path) -> Destinations:
        """Where merchants are paid by this file, and what the operator heard of it."""
        heard = {one.body for one in self.notices}
        return read_destinations(path, heard if self.holds_back else None)

    def true_s(self) -> int:
        """The time by the chain's clock, which nobody sets."""
        return START_MS // 1000 + round(trio.current_time() - self.began_s)


def nodes_of(rng: Random) -> int:
    """How many nodes a chain has."""
    return rng.choice((1, 2, 3))


async def furnish_live(
    folder: Path, seed: int, text: str, settled: Mapping[str, str], node: Moody | None = None
) -> Furnished:
    """Make a data directory with what is needed to be paid.

    Args:
        folder: Where.
        seed: Of its ids and keys.
        text: payd.toml.
        settled: Destinations by asset.
        node: Whom destinations are looked at through, where they are.
    """
    (folder / "data").mkdir(mode=0o700)
    (folder / "data" / "payd.toml").write_text(text)
    config = load(None, environment(folder))
    async with (
        open_house(config, inline=True, wall=lambda: START_MS, entropy=Random(seed).randbytes) as house,
        trio.open_nursery() as nursery,
    ):
        if node is not None:
            receiver = Receiver(nursery, node)

            async def dial(_place: int) -> trio.abc.Stream:
                await trio.lowlevel.checkpoint()
                ours, theirs = memory_stream_pair()
                nursery.start_soon(receiver.serve, theirs)
                return ours

            for one in house.realms["live"].live_chains:
                connect(one.rpc, dial)

        async def do(command: str, **args: Any) -> dict[str, Any]:
            return await _do(house, command, **args)

        await do("account.create", name="main")
        key = (await do("key.create", mode="live", scopes=list(SCOPES)))["apiKey"]
        merchant = (await do("merchant.create", mode="live", name="Shop", email="shop@example.com"))["id"]
        for asset, to in settled.items():
            await do("destination.add", mode="live", merchant=merchant, asset=asset, destination=to)
        secret = (await do("webhook.set", mode="live", url=HOOK))["secret"]
        nursery.cancel_scope.cancel()
    return Furnished(folder, key, merchant, secret)


async def _do(house: House, command: str, **args: Any) -> dict[str, Any]:
    made = await run_command(house, command, msgspec.json.encode(args))
    found: dict[str, Any] = msgspec.to_builtins(made)
    return found


class LiveHistory(msgspec.Struct, frozen=True):
    """What a seed came to, in the live realm.

    Attributes:
        left: What is left.
        steps: Task steps.
        faults: What the disks did.
        happened: What else did, by name.
        digest: Of everything that people were told and that is stored: the same seed, the same digest.
    """

    left: LiveAftermath
    steps: int
    faults: tuple[Fault, ...]
    happened: dict[str, int]
    digest: str


def run_live(
    simulate: Callable[[Path, int, Steps], Awaitable[LiveHistory]], folder: Path, seed: int
) -> LiveHistory:
    """Run a history by chance, with webhooks and a relayer as in any live realm."""
    steps = Steps()
    with plain_webhooks(), relaying(RELAYER_KEY):
        return run_by_chance(partial(simulate, folder, seed, steps), seed, steps)


def lives_of(chance: Chance) -> int:
    """How many end in a death."""
    return chance.of("number of lives").randrange(1, LIVES_MAX + 1)


async def live_through(
    seed: int, at: Furnished, steps: Steps, make: Callable[[trio.Nursery], Awaitable[ChainWorld]]
) -> LiveHistory:
    """A world's whole history."""
    async with trio.open_nursery() as nursery:
        world = await make(nursery)
        shutil.move(at.folder / "data", world.folder_of(0))
        lives = lives_of(world.chance)
        calm = trio.Event()
        with heard(world, EXPECTED):
            nursery.start_soon(world.go_on)
            nursery.start_soon(world.turn)
            nursery.start_soon(follow_account, world)
            for number in range(PAGES):
                nursery.start_soon(follow_newest, world, world.chance.of(f"page{number}"))
            nursery.start_soon(world.go_through, lives, calm)
            await world.live(partial(world.shop, calm), calm)
            path = world.folder_of(lives) / "live.db"
            await world.rest(path)
            await world.replay_all(path)
            common = await look_back(world, seed, lives, path)
            nursery.cancel_scope.cancel()
    left = world.left(common, path)
    return LiveHistory(
        left, steps.taken, tuple(world.faults), dict(world.trouble.happened), digest_of(common)
    )


def offered_and_expired(path: Path) -> set[str]:
    """Payments that somebody could pay, and that have ended by their time."""
    db = sqlite3.connect(path)
    try:
        found = db.execute(
            "SELECT id FROM payments p WHERE status = 'expired'"
            " AND EXISTS (SELECT 1 FROM options o WHERE o.payment_id = p.id)"
        )
        return {one for (one,) in found}
    finally:
        db.close()


def _is_at_rest(path: Path) -> bool:
    db = sqlite3.connect(path)
    try:
        [open_ones] = db.execute(
            "SELECT (SELECT count(*) FROM payments WHERE status IN ('requires_action', 'processing'))"
            " + (SELECT count(*) FROM payments p WHERE status = 'succeeded' AND NOT EXISTS"
            " (SELECT 1 FROM events e WHERE e.payment_id = p.id AND e.type = 'payment.settled'))"
            " + (SELECT count(*) FROM deliveries WHERE state = 'pending')"
            " + (SELECT count(*) FROM transfers WHERE awaits IS NOT NULL AND block_hash IS NOT NULL)"
        ).fetchone()
    finally:
        db.close()
    return bool(open_ones == 0)


async def shop_with(
    world: ChainWorld, calm: trio.Event, keeper: Shopkeeper, shopper: Callable[[str, Random], Any]
) -> None:
    """So many buyers, each made from a name and its draws, and who has the shops that they go to."""

    async def come(before: str) -> None:
        keeper.recall()
        async with trio.open_nursery() as shop:
            if world.is_changed:
                shop.start_soon(keeper.run, calm)
            for number in range(BUYERS):
                name = f"{before}buyer{number}"
                shop.start_soon(shopper(name, world.chance.of(name)).run, calm)

    await world.keep_open(come)
