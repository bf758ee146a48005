"""Where clients and operators ask a house under a seed: slow, torn, asked twice, and gone with it."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio

from payd.core.errors import PaydError
from payd.web.call import Answer
from payd.web.commands import run_command
from payd.web.errors import error_answer
from payd.web.house import House
from tests.crash.client import Answered, Lost
from tests.shop import knock

if TYPE_CHECKING:
    from tests.simulation.world import Life, World

# Virtual: nobody waits longer for an answer.
PATIENCE_S: Final = 600.0
# A request is done by then, and so is what it has begun.
CUT_STEPS_MAX: Final = 60


class Door:
    """Where one client asks: slow, torn, asked twice, and gone with the house.

    Args:
        world: Where.
        rng: Draws.
        cuts: How often the power is cut while the house is at what was asked, or soon after.
    """

    def __init__(self, world: World, rng: Random, cuts: float = 0.0) -> None:
        self._world = world
        self._rng = rng
        self._cuts = cuts

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answered:
        """One request to the house that answers, once one does. Raises `Lost`."""
        sent = headers or {}
        life = await self._world.life()
        data = b"" if body is None else msgspec.json.encode(body)
        asked = partial(knock, life.house, method, path, sent, data)
        return await self._ask(life, asked, f"{method} {path}", method == "GET" or "idempotency-key" in sent)

    async def operate(self, command: str, **args: Any) -> Answered:
        """One command of an operator, as a request. Raises `Lost`."""
        life = await self._world.life()
        sent = msgspec.json.encode({"mode": self._world.realm, **args})
        return await self._ask(life, partial(_commanded, life.house, command, sent), command, False)

    async def _ask(
        self, life: Life, asked: Callable[[], Awaitable[Answer]], what: str, may_repeat: bool
    ) -> Answered:
        rng = self._rng
        if self._world.calm:
            return await _answer(life, asked)
        await trio.sleep(rng.random() * 0.2)
        if rng.random() < 0.05 and may_repeat and not life.dead.is_set():
            life.nursery.start_soon(asked)
        if self._cuts and rng.random() < self._cuts:
            self._world.nursery.start_soon(self._cut, life, rng.randrange(1, CUT_STEPS_MAX))
        with trio.move_on_after(rng.random() * 0.3 if rng.random() < 0.05 else PATIENCE_S):
            answered = await _answer(life, asked)
            await trio.sleep(rng.random() * 0.1)
            if not life.dead.is_set():
                return answered
        raise Lost(what)

    async def _cut(self, life: Life, steps: int) -> None:
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        if not life.dead.is_set():
            self._world.cut_power()

    async def close(self) -> None:
        """Nothing is kept."""
        await trio.lowlevel.checkpoint()


async def _answer(life: Life, asked: Callable[[], Awaitable[Answer]]) -> Answered:
    """What the house says, in a task of its own. Who leaves takes that along; a sick disk's word is none."""
    said: list[Answer] = []
    done = trio.Event()
    handling = trio.CancelScope()

    async def handle() -> None:
        try:
            with handling:
                said.append(await asked())
        finally:
            done.set()

    if life.dead.is_set():
        raise Lost("dead")
    life.nursery.start_soon(handle)
    try:
        await done.wait()
    finally:
        handling.cancel()
    if life.dead.is_set() or not said or (said[0].status >= 500 and life.disk.happened):
        raise Lost("no answer")
    return Answered(said[0].status, dict(said[0].headers), said[0].body)


async def _commanded(house: House, command: str, args: bytes) -> Answer:
    """A command's result as an answer."""
    try:
        return Answer.json(await run_command(house, command, args))
    except PaydError as refused:
        return error_answer(refused, command, house.base_url)


def newest_event(path: Path) -> int:
    """The number of the newest event in a realm's file."""
    db = sqlite3.connect(path)
    try:
        [(seq,)] = db.execute("SELECT coalesce(max(seq), 0) FROM events")
    finally:
        db.close()
    return int(seq)
