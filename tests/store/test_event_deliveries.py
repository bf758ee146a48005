"""Events by how their deliveries stand."""

from __future__ import annotations

from functools import partial

from payd.store.db import Database, Tx
from payd.store.endpoints import delete_endpoint
from payd.store.event_deliveries import events_by_delivery
from tests.store.test_deliveries import happen, register
from tests.store.test_events import plan_of


async def end(db: Database, delivery_id: str, state: str) -> None:
    def step(tx: Tx) -> None:
        tx.execute("UPDATE deliveries SET state = ? WHERE id = ?", (state, delivery_id))

    await db.write(step)


def ids(db: Database, state: str, account_id: str = "acct_1") -> list[str]:
    return [one.event.id for one in db.point(lambda tx: events_by_delivery(tx, account_id, state, limit=9))]


async def test_each_state_has_its_own_events_newest_first(realm_db: Database) -> None:
    await happen(realm_db, 0)  # nobody is told
    await register(realm_db, "acct_1", "ep_1")
    await register(realm_db, "acct_2", "ep_2")
    for number in range(1, 6):
        await happen(realm_db, number)
    await happen(realm_db, 9, account_id="acct_2")
    for number, state in ((1, "failed"), (2, "succeeded"), (3, "failed"), (4, "cancelled")):
        await end(realm_db, f"dlv_{number}", state)

    assert ids(realm_db, "failed") == ["evt_3", "evt_1"]
    assert ids(realm_db, "succeeded") == ["evt_2"]
    assert ids(realm_db, "cancelled") == ["evt_4"]
    assert ids(realm_db, "pending") == ["evt_5"]
    assert ids(realm_db, "pending", "acct_2") == ["evt_9"]
    assert ids(realm_db, "failed", "acct_2") == []


async def test_an_event_stands_as_its_newest_delivery_does(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1)
    await happen(realm_db, 2)
    await end(realm_db, "dlv_1", "failed")
    await end(realm_db, "dlv_2", "failed")
    await realm_db.write(delete_endpoint, account_id="acct_1", now_ms=0, actor="test")
    await register(realm_db, "acct_1", "ep_2")

    def again(tx: Tx) -> None:
        tx.execute(
            "INSERT INTO deliveries (id, message_id, account_id, endpoint_id, event_seq, event_type,"
            " payment_id, kind, state, created_at_ms) SELECT 'dlv_new', 'msg_new', account_id, 'ep_2',"
            " event_seq, event_type, payment_id, kind, 'succeeded', 0 FROM deliveries WHERE id = 'dlv_1'"
        )

    await realm_db.write(again)
    assert ids(realm_db, "failed") == ["evt_2"]
    assert ids(realm_db, "succeeded") == ["evt_1"]
    await end(realm_db, "dlv_new", "failed")
    assert ids(realm_db, "failed") == ["evt_1", "evt_2"], "once, and the newest delivery first"


async def test_pages_follow_each_other_and_filters_hold(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(5):
        await happen(realm_db, number)
        await end(realm_db, f"dlv_{number}", "failed")

    first = realm_db.point(lambda tx: events_by_delivery(tx, "acct_1", "failed", limit=2))
    rest = realm_db.point(
        lambda tx: events_by_delivery(tx, "acct_1", "failed", before_seq=first[-1].seq, limit=9)
    )
    assert [one.event.id for one in first + rest] == ["evt_4", "evt_3", "evt_2", "evt_1", "evt_0"]
    assert first[0].event.body == b"{}"
    [one] = realm_db.point(lambda tx: events_by_delivery(tx, "acct_1", "failed", payment_id="pay_3", limit=9))
    assert one.event.id == "evt_3"
    for type_, count in (("payment.created", 5), ("payment.failed", 0)):
        asked = partial(events_by_delivery, account_id="acct_1", state="failed", event_type=type_, limit=9)
        found = realm_db.point(asked)
        assert len(found) == count
    # None of these payments has a merchant.
    nobody = realm_db.point(
        lambda tx: events_by_delivery(tx, "acct_1", "failed", merchants={"mrch_1"}, limit=9)
    )
    assert nobody == []


async def test_a_page_is_read_from_an_index_in_its_order(realm_db: Database) -> None:
    plan = plan_of(realm_db, lambda tx: events_by_delivery(tx, "acct_1", "failed", limit=9))
    assert "SEARCH o USING INDEX deliveries_by_state (account_id=? AND state=? AND seq<?)" in plan
    assert "SEARCH n USING COVERING INDEX delivery_of_event (event_seq=?)" in plan
    assert "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)" in plan
    assert "SCAN" not in plan
    assert "TEMP B-TREE" not in plan


async def test_a_payments_events_are_found_by_the_payment(realm_db: Database) -> None:
    plan = plan_of(
        realm_db, lambda tx: events_by_delivery(tx, "acct_1", "failed", payment_id="pay_1", limit=9)
    )
    assert "(payment_id=?)" in plan
    assert "SCAN" not in plan
