"""Who listens: one who hears an account's events and resumes, and pages that follow what is new."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from payd.actors.feed import Listener, Update
from payd.core.errors import StoreUnavailable
from payd.web.call import Request
from payd.web.dispatch import known_caller
from payd.web.feed import Feeds
from tests.crash.shoppers import Ledger

if TYPE_CHECKING:
    from random import Random

    from tests.simulation.world import Life, World

PAGE: Final = 20
FOLLOWED_MAX_S: Final = 60.0
BETWEEN_PAGES_S: Final = 2.0
AGAIN_S: Final = 0.1


class _Message(msgspec.Struct):
    cursor: str
    event: msgspec.Raw


async def follow_account(world: World) -> None:
    """Hear every event of the account, from each house where the last one ended."""
    while True:
        life = await world.life()
        with life.hears(), suppress(StoreUnavailable):
            await _listen(world, life)
        await trio.sleep(AGAIN_S)


async def _listen(world: World, life: Life) -> None:
    ledger = world.ledger
    request = Request.from_head("GET", "/v1/feed", b"", [(b"api-key", world.at.key.encode())])
    source = await _feeds(life).authenticate(request)
    place = await source.start(ledger.cursor)
    while True:
        news = trio.Event()
        listener = Listener(news.set)
        source.feed.subscribe(source.account_id, listener)
        try:
            rows = await source.events_after(place, PAGE)
            for seq, message in rows:
                if life.dead.is_set():
                    return
                place = seq
                said = msgspec.json.decode(message, type=_Message)
                ledger.cursor = said.cursor
                ledger.heard.append(bytes(said.event))
            if not rows:
                await news.wait()
        finally:
            source.feed.unsubscribe(source.account_id, listener)


async def follow_newest(world: World, rng: Random) -> None:
    """A page of the payment that was created last, for a while, and then of another one."""
    while True:
        life = await world.life()
        if payment_id := world.ledger.newest:
            patience = trio.move_on_after(rng.random() * FOLLOWED_MAX_S)
            with life.hears(), suppress(StoreUnavailable), patience:
                await _look(world.ledger, life, payment_id)
        await trio.sleep(rng.random() * BETWEEN_PAGES_S)


async def _look(ledger: Ledger, life: Life, payment_id: str) -> None:
    feeds = _feeds(life)
    page = _Page(ledger, life, payment_id)
    feed = feeds.payment_feed(payment_id)
    assert feed is not None
    feed.subscribe(payment_id, page)
    try:
        snapshot = await feeds.snapshot(payment_id)
        assert snapshot is not None, f"{payment_id} was acknowledged and is gone"
        page.push(Update(*snapshot))
        await trio.sleep_forever()
    finally:
        feed.unsubscribe(payment_id, page)


class _Page:
    """A reader of one payment."""

    def __init__(self, ledger: Ledger, life: Life, payment_id: str) -> None:
        self._ledger, self._life, self._payment_id = ledger, life, payment_id

    def push(self, update: Update) -> None:
        """What a page is shown."""
        if not self._life.dead.is_set():
            shown = msgspec.json.decode(update.payload)
            self._ledger.frames.add((self._payment_id, shown["version"], shown["status"]))

    def close(self, code: int) -> None:
        """Nothing to do."""


def _feeds(life: Life) -> Feeds:
    return Feeds(life.house, partial(known_caller, life.house, gateway=False))
