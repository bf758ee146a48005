"""A feed from a cursor of long ago: who missed what was forgotten meanwhile is told, and nobody else."""

from __future__ import annotations

import pytest
import trio

from payd.core.errors import InvalidParams
from payd.store.clock import newest_event_seq
from payd.store.retention import prune_events
from payd.web.feed_cursor import FeedCursor, read_feed_cursor
from tests.shop import Shop
from tests.web.test_feed import created_after, listener


async def forget(shop: Shop) -> None:
    """Forget what happened until now, as with age; the newest event of all stays."""
    await trio.sleep(1)
    await shop.realm.db.write(prune_events, 0, shop.realm.clock.now_ms(), 500)


async def place_of(shop: Shop) -> str:
    """The cursor behind all that there is now, as a listener is told it."""
    feed = await listener(shop)
    return dict(await feed.greeting(await feed.start(None)))["feed-cursor"]


async def test_a_cursor_behind_which_events_were_forgotten_is_refused_and_another_named(shop: Shop) -> None:
    await shop.pay()
    cursor = await place_of(shop)
    await trio.sleep(1)
    await shop.pay()
    last = await shop.pay()
    await forget(shop)
    with pytest.raises(InvalidParams, match="forgotten") as refused:
        await created_after(shop, cursor)
    assert refused.value.details["after"] in str(refused.value)
    assert await created_after(shop, refused.value.details["after"]) == [last]


async def test_another_event_at_the_place_of_the_cursor_does_not_hide_it(shop: Shop) -> None:
    """As it may be after a backup was restored."""
    await shop.pay()
    cursor = read_feed_cursor(await place_of(shop))
    await trio.sleep(1)
    for _ in range(2):
        await shop.pay()
    await forget(shop)
    newest = shop.realm.db.point(newest_event_seq)
    with pytest.raises(InvalidParams, match="forgotten"):
        await created_after(shop, str(FeedCursor(newest, cursor.at_ms)))


async def test_a_change_that_was_forgotten_counts_as_much(shop: Shop) -> None:
    payment = await shop.pay()
    cursor = await place_of(shop)
    await trio.sleep(1)
    assert (await shop.call("POST", f"/v1/payments/{payment}/cancel")).status == 200
    await pay_other(shop)
    await forget(shop)
    with pytest.raises(InvalidParams, match="forgotten"):
        await created_after(shop, cursor)


async def test_a_listener_of_a_quiet_shop_misses_nothing_and_is_not_refused(shop: Shop) -> None:
    await shop.pay()
    cursor = await place_of(shop)
    await pay_other(shop)
    await forget(shop)
    assert await created_after(shop, cursor) == []
    new = await shop.pay()
    assert await created_after(shop, cursor) == [new]
    await pay_other(shop)
    place = await place_of(shop)
    await pay_other(shop)
    await forget(shop)
    assert await created_after(shop, place) == [], "also where the event of its cursor was another's"


async def pay_other(shop: Shop) -> None:
    """A payment of the other account."""
    merchant_id = await shop.new_merchant(key=shop.other_key)
    body = {"referenceId": "O", "amount": {"unit": "iso4217/USD", "value": "2500"}}
    made = await shop.call("POST", "/v1/payments", body, key=shop.other_key, merchant_id=merchant_id)
    assert made.status == 201
