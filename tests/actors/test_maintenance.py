"""Chores: what is forgotten is old, and nothing else is touched."""

from __future__ import annotations

from payd.actors.maintenance import ANSWERS_KEPT_MS, Maintenance
from tests.shop import Shop


async def test_an_idempotency_key_is_remembered_for_thirty_days_and_then_new_again(shop: Shop) -> None:
    body = {"merchantName": "A", "merchantEmail": "a@b.example"}
    first = await shop.call("POST", "/v1/merchants", body, idempotency_key="k")
    chores = Maintenance(shop.realm.db, shop.realm.clock)

    shop.realm.clock.move_to_offset(ANSWERS_KEPT_MS - 60_000)
    assert await chores.run_once() == 0
    replay = await shop.call("POST", "/v1/merchants", body, idempotency_key="k")
    assert replay.raw == first.raw

    shop.realm.clock.move_to_offset(ANSWERS_KEPT_MS + 60_000)
    assert await chores.run_once() >= 1
    fresh = await shop.call("POST", "/v1/merchants", body, idempotency_key="k")
    assert fresh.body["merchant"]["id"] != first.body["merchant"]["id"]
