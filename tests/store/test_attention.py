"""What an account's rows ask to be looked at, up to a number, and no further back than can be mended."""

from __future__ import annotations

from payd.core.attention import REACH_MS
from payd.core.transfer import Kind
from payd.store.attention import COUNT_MAX, NAMED_MAX, account_matters
from payd.store.db import Database, Tx
from payd.store.deliveries import REPLAY, NewDelivery, insert_deliveries
from payd.store.merchants import Merchant, delete_merchant, insert_merchant
from payd.store.settlements import Settlement, insert_settlement
from payd.store.transfers import Transfer
from tests.inserts import insert_transfer
from tests.ledger import BUYER, CHAIN, START_MS, USDC, sell
from tests.store.test_deliveries import register

ASTRAY: tuple[Kind, ...] = ("late", "partial", "surplus", "unmatched", "unmatched")
NOW_MS = START_MS + 30_000


def transfer(tx: Tx, number: int, kind: Kind, *, account: str = "acct_1", at_ms: int = START_MS) -> None:
    insert_transfer(
        tx, Transfer(account, None, CHAIN, f"0x{number}", 0, USDC, "5", BUYER, BUYER, kind, at_ms)
    )


def merchant(tx: Tx, number: int, account: str = "acct_1", status: str = "active") -> None:
    insert_merchant(tx, Merchant(f"mrch_{number}", account, f"Shop {number}", "a@b.test", None, status, 1000))


def said(db: Database, account: str = "acct_1", now_ms: int = NOW_MS) -> list[tuple[str, str, int]]:
    return [(one.topic, one.subject, one.count) for one in db.point(account_matters, account, now_ms)]


async def test_an_account_where_all_is_well_has_nothing_to_look_at(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await realm_db.write(sell, "succeeded")
    await realm_db.write(merchant, 1)
    await realm_db.write(insert_settlement, Settlement("c", "mrch_1", USDC, USDC, BUYER, 1000))
    await realm_db.write(transfer, 1, "matched")

    assert said(realm_db) == []


async def test_everything_that_went_wrong_is_there(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    sold = await realm_db.write(sell)
    await realm_db.write(merchant, 1)

    def go_wrong(tx: Tx) -> None:
        tx.execute("UPDATE endpoints SET failing_since_ms = 7 WHERE id = 'ep_1'")
        tx.execute("UPDATE deliveries SET state = 'failed', next_at_ms = NULL")
        tx.execute("UPDATE payments SET parked_at_ms = 9")
        merchant(tx, 2)
        delete_merchant(tx, "acct_1", "mrch_2", 5)
        merchant(tx, 3, status="inactive")
        merchant(tx, 4, "acct_2")
        insert_settlement(tx, Settlement("c", "mrch_4", USDC, USDC, BUYER, 1000))
        for number, kind in enumerate(ASTRAY):
            transfer(tx, number, kind)

    await realm_db.write(go_wrong)

    assert said(realm_db) == [
        ("endpoint_failing", "ep_1", 1),
        ("deliveries_failed", "", 1),
        ("transfers_late", "", 1),
        ("transfers_partial", "", 1),
        ("transfers_surplus", "", 1),
        ("transfers_unmatched", "", 2),
        ("payment_parked", sold.id, 1),
        ("merchant_without_destination", "mrch_1", 1),
    ]
    assert said(realm_db, "acct_2") == []
    late = NOW_MS + REACH_MS
    assert {topic for topic, _, _ in said(realm_db, now_ms=late)} == {
        "endpoint_failing",
        "payment_parked",
        "merchant_without_destination",
    }


async def test_what_a_new_endpoint_received_was_not_given_up(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await realm_db.write(sell)

    def give_up(tx: Tx) -> None:
        tx.execute("UPDATE deliveries SET state = 'failed', next_at_ms = NULL")
        tx.execute("UPDATE endpoints SET state = 'deleted'")

    def replay(tx: Tx) -> None:
        seq, kind, payment = tx.execute("SELECT event_seq, event_type, payment_id FROM deliveries").fetchone()
        new = NewDelivery("dlv_2", "msg_2", "acct_1", "ep_2", seq, kind, payment, REPLAY, NOW_MS)
        insert_deliveries(tx, [new])

    def receive(tx: Tx) -> None:
        tx.execute("UPDATE deliveries SET state = 'succeeded', next_at_ms = NULL WHERE id = 'dlv_2'")

    await realm_db.write(give_up)
    await register(realm_db, "acct_1", "ep_2")
    await realm_db.write(replay)
    assert said(realm_db) == [("deliveries_failed", "", 1)]
    await realm_db.write(receive)
    assert said(realm_db) == []


async def test_many_are_counted_up_to_a_number_and_named_up_to_another(realm_db: Database) -> None:
    def many(tx: Tx) -> None:
        for number in range(COUNT_MAX + 5):
            transfer(tx, number, "unmatched")
        for number in range(NAMED_MAX + 3):
            merchant(tx, number)
        merchant(tx, 77, status="inactive")

    await realm_db.write(many)
    first, *merchants = realm_db.point(account_matters, "acct_1", NOW_MS)

    assert (first.count, first.is_more) == (COUNT_MAX, True)
    assert [one.subject for one in merchants] == [f"mrch_{number}" for number in range(NAMED_MAX)]
