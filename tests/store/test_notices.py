"""A notice is owed to the house's own endpoint, and to nobody while that is off."""

from __future__ import annotations

from payd.core.endpoint import NOTIFY
from payd.core.notice import DESTINATION_CHANGED, Moved
from payd.core.signature import key_of
from payd.entropy import new_id
from payd.store.db import Database
from payd.store.deliveries import (
    FRESH,
    endpoints_with_pending,
    list_deliveries,
    load_due_work,
    pending_heads,
)
from payd.store.endpoints import endpoint_of_id, get_endpoint, put_house_endpoint
from payd.store.notices import Notices, notify_secret, owe_moved
from payd.store.seal import Seal
from tests.store.test_deliveries import register

NOTICES = Notices(True, new_id)
URL = "https://ops.example/alert?token=1"


async def owe(db: Database) -> bool:
    await register(db, "acct_1", "ep_1")
    return await db.write(NOTICES.owe, "endpoint.warning", db.point(get_endpoint, "acct_1"), 1000, 500, None)


async def test_it_is_due_at_once_with_its_bytes(realm_db: Database) -> None:
    await realm_db.write(put_house_endpoint, NOTIFY, URL, b"sealed", 0)
    assert await owe(realm_db)

    [row] = realm_db.point(lambda tx: list_deliveries(tx, NOTIFY, limit=10))
    assert (row.event_type, row.state, row.next_at_ms) == ("endpoint.warning", "pending", 1000)
    assert realm_db.point(endpoints_with_pending) == [NOTIFY]
    assert [head.id for head in realm_db.point(pending_heads, NOTIFY, FRESH, 9)] == [row.id]
    work = realm_db.point(load_due_work, NOTIFY, [row.id], 1000)[row.id]
    assert work.endpoint.url == URL
    assert b'"live":true' in work.body
    assert b'"endpoint_id":"ep_1"' in work.body


async def test_without_an_address_nothing_is_owed(realm_db: Database) -> None:
    assert not await owe(realm_db)
    assert realm_db.point(lambda tx: list_deliveries(tx, NOTIFY, limit=10)) == []


async def test_the_address_of_the_house_follows_the_configuration_and_keeps_what_is_owed(
    realm_db: Database,
) -> None:
    await realm_db.write(put_house_endpoint, NOTIFY, URL, b"one", 0)
    await owe(realm_db)
    await realm_db.write(put_house_endpoint, NOTIFY, "https://other.example/", b"two", 1)
    [row] = realm_db.point(lambda tx: list_deliveries(tx, NOTIFY, limit=10))
    work = realm_db.point(load_due_work, NOTIFY, [row.id], 1000)[row.id]
    assert work.endpoint.url == "https://other.example/"

    await realm_db.write(put_house_endpoint, NOTIFY, None, b"two", 2)
    endpoint = realm_db.point(endpoint_of_id, NOTIFY)
    assert endpoint is not None
    assert endpoint.state == "disabled"
    assert not await owe(realm_db), "nobody is there to hear it, and nothing piles up"


def test_the_secret_stays_the_same_as_long_as_the_seal_key_does() -> None:
    one, other = notify_secret(Seal(bytes(32))), notify_secret(Seal(b"\1" * 32))
    assert one == notify_secret(Seal(bytes(32))) != other
    assert len(key_of(one)) == 32


async def test_a_change_of_a_destination_is_owed_like_any_notice(realm_db: Database) -> None:
    moved = Moved("crypto_1", "mrch_1", "acct_1", "asset", "old", "new", "usr_1")
    assert not await realm_db.write(owe_moved, DESTINATION_CHANGED, moved, new_id, 1000)
    await realm_db.write(put_house_endpoint, NOTIFY, URL, b"sealed", 0)
    assert await realm_db.write(owe_moved, DESTINATION_CHANGED, moved, new_id, 1000)
    [row] = realm_db.point(lambda tx: list_deliveries(tx, NOTIFY, limit=10))
    assert row.event_type == "destination.changed"
