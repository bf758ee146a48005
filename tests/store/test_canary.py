"""The canary's deliveries: those that have ended make room, those that wait are few."""

from __future__ import annotations

from payd.core.endpoint import CANARY
from payd.entropy import new_id
from payd.store.attempts import AttemptEnd, record_attempt
from payd.store.canary import WAITING_MAX, send_canary
from payd.store.db import Database
from payd.store.deliveries import list_deliveries, load_work
from payd.store.endpoints import put_house_endpoint
from payd.store.notices import Notices
from tests.store.test_deliveries import happen, register

FAILED = AttemptEnd("auto", 0, 10, 500, "http_status", 10, None, b"")
TAKEN = AttemptEnd("auto", 0, 10, 204, None, 10, None, b"")


async def send(db: Database, number: int) -> bool:
    return await db.write(
        send_canary, delivery_id=f"dlv_c{number}", message_id=f"msg_c{number}", body=b"{}", now_ms=number
    )


async def test_one_is_kept_whatever_became_of_the_one_before(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1)
    await realm_db.write(record_attempt, "dlv_1", TAKEN, Notices(False, new_id))
    await realm_db.write(put_house_endpoint, CANARY, "http://127.0.0.1:1/canary/test", b"sealed", 0)
    for number in range(3):
        assert await send(realm_db, number)
        await realm_db.write(record_attempt, f"dlv_c{number}", FAILED, Notices(False, new_id))
    assert await send(realm_db, 3)

    assert [row.id for row in realm_db.point(lambda tx: list_deliveries(tx, CANARY, limit=10))] == ["dlv_c3"]
    assert realm_db.point(lambda tx: tx.execute("SELECT delivery_id FROM attempts").fetchall()) == [
        ("dlv_1",)
    ]
    assert len(realm_db.point(lambda tx: list_deliveries(tx, "acct_1", limit=10))) == 1


async def test_one_that_is_being_sent_is_left_alone_and_they_do_not_pile_up(realm_db: Database) -> None:
    await realm_db.write(put_house_endpoint, CANARY, "http://127.0.0.1:1/canary/test", b"sealed", 0)
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1)
    assert [await send(realm_db, number) for number in range(12)] == [True] * WAITING_MAX + [False] * 2
    assert len(realm_db.point(lambda tx: list_deliveries(tx, CANARY, limit=100))) == WAITING_MAX


async def test_it_has_one_attempt(realm_db: Database) -> None:
    await realm_db.write(put_house_endpoint, CANARY, "http://127.0.0.1:1/canary/test", b"sealed", 0)
    await send(realm_db, 1)
    recorded = await realm_db.write(record_attempt, "dlv_c1", FAILED, Notices(False, new_id))

    assert (recorded.state, recorded.next_at_ms) == ("failed", None)
    work = realm_db.point(load_work, "dlv_c1")
    assert work is not None
    assert work.kind == "canary"


async def test_switched_off_nothing_is_owed(realm_db: Database) -> None:
    assert not await send(realm_db, 1)
    assert realm_db.point(lambda tx: list_deliveries(tx, CANARY, limit=10)) == []
