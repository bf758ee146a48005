"""The outbox: what is owed, in which order, and what may be sent again."""

from __future__ import annotations

import sqlite3
from functools import partial

import pytest

from payd.core.endpoint import ALL, REPLAY_REACH_MS
from payd.core.errors import EndpointDisabled, InvalidParams, NotFound
from payd.core.event import iso_ms
from payd.core.retry import JITTER_MAX_S, RETRY_AFTER_EXTRA_MAX_S, RETRY_DELAYS_S
from payd.entropy import new_id
from payd.store.attempts import AttemptEnd, record_attempt
from payd.store.db import Database, Tx
from payd.store.deliveries import (
    FRESH,
    REPLAY,
    NewDelivery,
    Overdue,
    astray,
    bring_back,
    check_resend,
    count_owed,
    endpoints_with_pending,
    find_delivery,
    insert_deliveries,
    list_deliveries,
    load_due_work,
    load_work,
    next_due_ms,
    overdue,
    pending_heads,
    postpone,
    requeue,
)
from payd.store.endpoints import Act, delete_endpoint, put_endpoint, switch_endpoint
from payd.store.notices import Notices
from payd.store.outbox import NewEvent, put_out
from tests.store.test_events import plan_of


async def register(db: Database, account_id: str, endpoint_id: str, events: tuple[str, ...] = ALL) -> None:
    await db.write(
        put_endpoint,
        account_id=account_id,
        url="https://a.test/",
        events=events,
        fresh_id=endpoint_id,
        sealed=b"sealed",
        now_ms=0,
        actor="test",
    )


async def happen(
    db: Database, number: int, *, account_id: str = "acct_1", payment_id: str | None = None, now_ms: int = 0
) -> str | None:
    """An event of a payment of its own, or of this one; the endpoint that is owed it."""
    event = NewEvent(
        id=f"evt_{number}",
        account_id=account_id,
        payment_id=payment_id or f"pay_{number}",
        version=number,
        type="payment.created",
        created_at_ms=now_ms,
        body=b"{}",
        delivery_id=f"dlv_{number}",
        message_id=f"msg_{number}",
    )
    return (await db.write(put_out, [event]))[0]


async def test_of_more_than_one_statement_takes_those_that_wait_are_counted(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(3):
        await happen(realm_db, number)
    await realm_db.write(lambda tx: tx.execute("UPDATE deliveries SET state = 'failed' WHERE id = 'dlv_1'"))

    def count(tx: Tx) -> int:
        # What SQLite is built with: some builds take more.
        tx.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)
        return count_owed(tx, [f"dlv_{number}" for number in range(40_000)])

    assert realm_db.point(count) == 2


async def test_nothing_is_owed_without_an_enabled_endpoint_that_wants_the_type(realm_db: Database) -> None:
    assert await happen(realm_db, 1) is None
    await register(realm_db, "acct_1", "ep_1", ("payment.settled",))
    assert await happen(realm_db, 2) is None
    await register(realm_db, "acct_1", "ep_1")
    assert await happen(realm_db, 3) == "ep_1"
    await realm_db.write(switch_endpoint, account_id="acct_1", act="pause", now_ms=0, actor="test")
    assert await happen(realm_db, 5) == "ep_1", "what is on hold is sent when it goes on"
    await realm_db.write(switch_endpoint, account_id="acct_1", act="disable", now_ms=0, actor="test")
    assert await happen(realm_db, 4) is None


async def test_what_is_owed_is_found_by_due_time_and_priority(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(4):
        await happen(realm_db, number, now_ms=10 * number)
    await realm_db.write(postpone, "dlv_0", 35)

    heads = realm_db.point(pending_heads, "ep_1", FRESH, 10)
    assert [(head.id, head.next_at_ms) for head in heads] == [
        ("dlv_1", 10),
        ("dlv_2", 20),
        ("dlv_3", 30),
        ("dlv_0", 35),
    ]
    assert realm_db.point(pending_heads, "ep_1", REPLAY, 10) == []
    assert realm_db.point(next_due_ms) == 10
    assert realm_db.point(next_due_ms, 10) == 20


async def test_what_is_put_off_is_never_due_sooner_than_it_was(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 0, now_ms=40)
    await realm_db.write(postpone, "dlv_0", 35)

    assert realm_db.point(next_due_ms) == 40


async def test_the_due_query_reads_its_index_in_order(realm_db: Database) -> None:
    def plan(tx: Tx) -> str:
        rows = tx.execute(
            "EXPLAIN QUERY PLAN SELECT id, payment_id, attempts, next_at_ms FROM deliveries"
            " WHERE state = 'pending' AND endpoint_id = ? AND priority = ? ORDER BY next_at_ms, seq LIMIT ?",
            ("ep_1", 0, 10),
        )
        return " ".join(str(row[-1]) for row in rows)

    words = realm_db.point(plan)
    assert "deliveries_due" in words
    assert "TEMP B-TREE" not in words


async def test_every_endpoint_that_is_owed_something_is_found(realm_db: Database) -> None:
    for number in range(5):
        await register(realm_db, f"acct_{number}", f"ep_{number}")
    assert realm_db.point(endpoints_with_pending) == []
    for number in (1, 3):
        await happen(realm_db, number, account_id=f"acct_{number}")
        await happen(realm_db, 10 + number, account_id=f"acct_{number}")

    assert realm_db.point(endpoints_with_pending) == ["ep_1", "ep_3"]


async def test_what_is_due_next_is_the_earliest_of_all_endpoints_but_those_on_hold(
    realm_db: Database,
) -> None:
    for number, now_ms in ((1, 30), (2, 20), (3, 10), (4, 0)):
        await register(realm_db, f"acct_{number}", f"ep_{number}")
        await happen(realm_db, number, account_id=f"acct_{number}", now_ms=now_ms)
    await realm_db.write(switch_endpoint, account_id="acct_3", act="pause", now_ms=0, actor="test")
    ended = "UPDATE deliveries SET state = 'succeeded', next_at_ms = NULL WHERE id = 'dlv_4'"
    await realm_db.write(lambda tx: tx.execute(ended).rowcount)

    assert realm_db.point(endpoints_with_pending) == ["ep_1", "ep_2"]
    assert realm_db.point(next_due_ms) == 20
    assert realm_db.point(next_due_ms, 20) == 30


async def test_what_is_overdue_is_what_nobody_sends_with_the_oldest_of_each_endpoint(
    realm_db: Database,
) -> None:
    for account_id, endpoint_id in (("acct_1", "ep_1"), ("acct_2", "ep_2")):
        await register(realm_db, account_id, endpoint_id)
    for number, now_ms in enumerate((10, 20)):
        await happen(realm_db, number, now_ms=now_ms)
    await happen(realm_db, 3, account_id="acct_2", now_ms=30)
    await realm_db.write(lambda tx: tx.execute("UPDATE endpoints SET failing_since_ms = 1 WHERE id = 'ep_2'"))

    first, second, failing = Overdue("ep_1", 10, True), Overdue("ep_1", 20, True), Overdue("ep_2", 30, False)
    assert realm_db.point(overdue, 31, ()) == [first, failing]
    assert realm_db.point(overdue, 30, ()) == [first], "what is due now is not late"
    assert realm_db.point(overdue, 31, {"dlv_0"}) == [second, failing]
    assert realm_db.point(overdue, 31, {"dlv_0", "dlv_1", "dlv_3"}) == []


async def test_what_is_sent_by_hand_is_the_delivery_that_was_asked_for(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in (1, 2):
        await happen(realm_db, number)

    works = [realm_db.point(load_work, f"dlv_{number}") for number in (1, 2, 3)]
    assert [work and work.message_id for work in works] == ["msg_1", "msg_2", None]


async def test_work_is_due_only_while_it_is_pending_and_its_endpoint_enabled(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1, now_ms=10)

    assert realm_db.point(load_due_work, "ep_1", ["dlv_1"], 9) == {}
    work = realm_db.point(load_due_work, "ep_1", ["dlv_1"], 10)["dlv_1"]
    assert (work.message_id, work.body, work.endpoint.id) == ("msg_1", b"{}", "ep_1")
    assert [secret.sealed for secret in work.secrets] == [b"sealed"]
    assert realm_db.point(load_due_work, "ep_none", ["dlv_1"], 20) == {}
    acts: list[tuple[Act, int]] = [("pause", 0), ("resume", 1), ("disable", 0)]
    for act, due in acts:
        await realm_db.write(switch_endpoint, account_id="acct_1", act=act, now_ms=11, actor="test")
        assert len(realm_db.point(load_due_work, "ep_1", ["dlv_1"], 20)) == due, act


async def test_what_a_deleted_endpoint_was_owed_is_owed_no_more_and_no_other_loses_any(
    realm_db: Database,
) -> None:
    for number, account_id in enumerate(("acct_1", "acct_2"), start=1):
        await register(realm_db, account_id, f"ep_{number}")
        await happen(realm_db, number, account_id=account_id, now_ms=10)

    await realm_db.write(delete_endpoint, account_id="acct_1", now_ms=20, actor="test")

    assert [head.id for head in realm_db.point(pending_heads, "ep_1", FRESH, 9)] == []
    assert [head.id for head in realm_db.point(pending_heads, "ep_2", FRESH, 9)] == ["dlv_2"]
    assert realm_db.point(load_due_work, "ep_2", ["dlv_1", "dlv_2"], 20).keys() == {"dlv_2"}


async def test_what_a_clock_that_was_ahead_put_off_too_far_waits_one_step_of_the_schedule(
    realm_db: Database,
) -> None:
    now_ms, longest_ms = 1_000_000, (RETRY_DELAYS_S[2] + RETRY_AFTER_EXTRA_MAX_S + JITTER_MAX_S) * 1000
    for number, account_id in enumerate(("acct_1", "acct_1", "acct_1", "acct_2")):
        await register(realm_db, account_id, f"ep_{account_id}")
        await happen(realm_db, number, account_id=account_id)
    for number, more_ms in enumerate((1, 0, 9, 1)):
        await put_off(realm_db, f"dlv_{number}", now_ms + longest_ms + more_ms)
    await realm_db.write(lambda tx: tx.execute("UPDATE deliveries SET state = 'failed' WHERE id = 'dlv_2'"))

    heads = realm_db.point(astray, now_ms, 9)
    assert sorted(head.id for head in heads) == ["dlv_0", "dlv_3"]
    assert len(realm_db.point(astray, now_ms, 1)) == 1
    await realm_db.write(bring_back, [*heads, heads[0]._replace(id="dlv_2")], now_ms)

    rows = await realm_db.read(
        lambda tx: dict(tx.execute("SELECT id, next_at_ms FROM deliveries").fetchall())
    )
    back_ms = now_ms + RETRY_DELAYS_S[2] * 1000
    far_ms = now_ms + longest_ms
    assert rows == {"dlv_0": back_ms, "dlv_1": far_ms, "dlv_2": far_ms + 9, "dlv_3": back_ms}


async def test_what_was_made_by_a_clock_that_was_ahead_and_never_sent_is_sent_now(
    realm_db: Database,
) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1, now_ms=1001)
    assert realm_db.point(astray, 1001, 9) == []
    heads = realm_db.point(astray, 1000, 9)
    assert [head.id for head in heads] == ["dlv_1"]
    await realm_db.write(bring_back, heads, 1000)

    assert realm_db.point(next_due_ms) == 1000


async def test_what_is_held_back_on_purpose_is_not_put_off_too_far(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1)
    held = AttemptEnd("auto", 1000, 1000, None, "injected_fault", 0, None, b"", fault="delay")
    notices = Notices(False, new_id)
    await realm_db.write(record_attempt, "dlv_1", held._replace(held_until_ms=10**9), notices)
    assert realm_db.point(astray, 1000, 9) == []
    assert [head.id for head in realm_db.point(astray, 999, 9)] == ["dlv_1"], "the clock was set back since"
    failed = AttemptEnd("auto", 1001, 1001, 500, "http_status", 0, None, b"")
    await realm_db.write(record_attempt, "dlv_1", failed, notices)
    await realm_db.write(lambda tx: tx.execute("UPDATE deliveries SET next_at_ms = 1000000000"))

    assert [head.id for head in realm_db.point(astray, 2000, 9)] == ["dlv_1"], "it was sent since"


async def put_off(db: Database, delivery_id: str, next_at_ms: int) -> None:
    """After two attempts."""
    values = (next_at_ms, delivery_id)
    await db.write(
        lambda tx: tx.execute("UPDATE deliveries SET attempts = 2, next_at_ms = ? WHERE id = ?", values)
    )


async def test_work_is_looked_up_by_its_id_however_much_is_owed(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(3):
        await happen(realm_db, number)

    plans: list[str] = []

    def watch(tx: Tx) -> None:
        tx.set_trace_callback(plans.append)
        load_due_work(tx, "ep_1", ["dlv_0", "dlv_2"], 10)
        tx.set_trace_callback(None)

    realm_db.point(watch)
    query = next(text for text in plans if "coalesce(d.body" in text)
    steps = realm_db.point(lambda tx: [row[-1] for row in tx.execute(f"EXPLAIN QUERY PLAN {query}")])
    assert "SEARCH d USING INDEX sqlite_autoindex_deliveries_1 (id=?)" in steps
    assert realm_db.point(load_due_work, "ep_1", ["dlv_0", "dlv_2"], 10).keys() == {"dlv_0", "dlv_2"}


@pytest.mark.parametrize("state", ["failed", "cancelled"])
async def test_a_requeued_delivery_comes_last_and_an_ended_one_stays(realm_db: Database, state: str) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in (1, 2):
        await happen(realm_db, number)

    def end(tx: Tx) -> None:
        tx.execute(
            "UPDATE deliveries SET state = ?, reason = 'why', attempts = 8, next_at_ms = NULL"
            " WHERE id = 'dlv_1'",
            (state,),
        )
        tx.execute("UPDATE deliveries SET state = 'succeeded', next_at_ms = NULL WHERE id = 'dlv_2'")

    await realm_db.write(end)
    for number in (1, 2):
        await realm_db.write(requeue, f"dlv_{number}", 50)

    [head] = realm_db.point(pending_heads, "ep_1", REPLAY, 10)
    assert (head.id, head.attempts, head.next_at_ms) == ("dlv_1", 0, 50)
    rows = realm_db.point(lambda tx: list_deliveries(tx, "acct_1", limit=9))
    assert [(row.state, row.reason) for row in rows] == [("succeeded", None), ("pending", None)]


async def test_a_page_begins_behind_the_last_one(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    for number in range(3):
        await happen(realm_db, number)
    seen: list[str] = []
    before_seq: int | None = None
    page = partial(list_deliveries, account_id="acct_1", limit=1)
    while rows := realm_db.point(partial(page, before_seq=before_seq)):
        seen += [row.id for row in rows]
        before_seq = rows[-1].seq

    assert seen == ["dlv_2", "dlv_1", "dlv_0"]


async def test_who_may_resend_what(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1)

    assert realm_db.point(check_resend, "acct_1", "dlv_1", REPLAY_REACH_MS) == "ep_1"
    with pytest.raises(NotFound):
        realm_db.point(check_resend, "acct_2", "dlv_1", 0)
    with pytest.raises(InvalidParams):
        realm_db.point(check_resend, "acct_1", "dlv_1", REPLAY_REACH_MS + 1)


async def test_a_resend_that_its_endpoint_stands_in_the_way_of_says_the_way_out(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1, now_ms=12_345)
    ways_out: dict[Act, str] = {"pause": "endpoint/resume first", "disable": "endpoint/enable first"}
    for act, words in ways_out.items():
        await realm_db.write(switch_endpoint, account_id="acct_1", act=act, now_ms=0, actor="test")
        with pytest.raises(EndpointDisabled, match=words):
            realm_db.point(check_resend, "acct_1", "dlv_1", 0)
    await realm_db.write(delete_endpoint, account_id="acct_1", now_ms=0, actor="test")
    with pytest.raises(EndpointDisabled, match=f"replay-missing since {iso_ms(12_345)}"):
        realm_db.point(check_resend, "acct_1", "dlv_1", 0)


async def test_a_delivery_is_found_by_each_id_that_its_receiver_knows(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1)
    await happen(realm_db, 2)
    for name in ("dlv_2", "msg_2", "evt_2"):
        found = realm_db.point(find_delivery, "acct_1", name)
        assert found is not None
        assert (found.id, found.message_id, found.endpoint_state) == ("dlv_2", "msg_2", "enabled")
        assert realm_db.point(find_delivery, "acct_2", name) is None
    for name in ("dlv_9", "msg_9", "evt_9", "msg_", "evt", ""):
        assert realm_db.point(find_delivery, "acct_1", name) is None


async def test_of_an_event_that_was_owed_twice_the_newest_delivery_is_found(realm_db: Database) -> None:
    await register(realm_db, "acct_1", "ep_1")
    await happen(realm_db, 1)
    first = realm_db.point(find_delivery, "acct_1", "evt_1")
    assert first is not None
    assert first.event_seq is not None
    await realm_db.write(delete_endpoint, account_id="acct_1", now_ms=20, actor="test")
    await register(realm_db, "acct_1", "ep_2")
    again = NewDelivery(
        "dlv_9", "msg_9", "acct_1", "ep_2", first.event_seq, "payment.created", "pay_1", REPLAY, 0
    )
    await realm_db.write(insert_deliveries, [again])

    found = realm_db.point(find_delivery, "acct_1", "evt_1")
    assert found is not None
    assert found.id == "dlv_9"


@pytest.mark.parametrize(
    ("name", "search"),
    [
        ("dlv_1", "SEARCH d USING INDEX sqlite_autoindex_deliveries_1 (id=?)"),
        ("msg_1", "SEARCH d USING INDEX deliveries_of_message (message_id=?)"),
        ("evt_1", "SEARCH d USING INDEX delivery_of_event (event_seq=?)"),
    ],
)
async def test_a_delivery_is_found_without_a_walk_through_all(
    realm_db: Database, name: str, search: str
) -> None:
    plan = plan_of(realm_db, lambda tx: find_delivery(tx, "acct_1", name))

    assert plan.partition(" / ")[0] == search
    assert "SCAN" not in plan


async def test_a_page_of_one_state_is_read_from_an_index_in_its_order(realm_db: Database) -> None:
    plan = plan_of(realm_db, lambda tx: list_deliveries(tx, "acct_1", state="failed", limit=9))

    by_state = "deliveries_by_state (account_id=? AND state=? AND seq<?)"
    assert f"SEARCH deliveries USING COVERING INDEX {by_state}" in plan
    assert "TEMP B-TREE" not in plan
