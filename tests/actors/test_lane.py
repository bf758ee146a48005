"""One endpoint's actor, with attempts that a test ends by hand."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from payd.actors.lane import IN_FLIGHT_MAX, SPREAD_MAX_S, STORE_CHECK_S
from payd.core.endpoint import EndpointState
from payd.core.errors import StoreUnavailable
from payd.store.db import Database, Tx
from payd.store.deliveries import count_pending, load_due_work, postpone, requeue
from payd.store.endpoints import switch_endpoint
from tests.actors.lane_bench import Bench, open_bench
from tests.store.test_deliveries import happen


@pytest.fixture
async def bench(realm_db: Database) -> Bench:
    """A lane that does not run yet, and its endpoint."""
    return await open_bench(realm_db)


async def test_a_lane_that_is_owed_nothing_retires_at_once(bench: Bench) -> None:
    await bench.lane.run()

    assert bench.retired


async def test_it_takes_the_next_when_one_ends_and_retires_after_the_last(bench: Bench) -> None:
    for number in range(IN_FLIGHT_MAX + 2):
        await happen(bench.db, number, now_ms=bench.clock.now_ms())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        assert bench.lane.in_flight == len(bench.started) == IN_FLIGHT_MAX
        bench.ends["dlv_3"].set()
        await bench.settle()
        assert bench.started[-1] == "dlv_10"
        while bench.lane.in_flight:
            for event in bench.ends.values():
                event.set()
            await bench.settle()

    assert bench.retired
    assert sorted(bench.started) == sorted(f"dlv_{number}" for number in range(IN_FLIGHT_MAX + 2))


async def test_what_is_owed_while_it_works_is_seen_after_a_wake(bench: Bench) -> None:
    await happen(bench.db, 1, now_ms=bench.clock.now_ms())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        await happen(bench.db, 2, now_ms=bench.clock.now_ms())
        await bench.settle()
        assert bench.started == ["dlv_1"]
        bench.lane.wake()
        await bench.settle()
        assert bench.started == ["dlv_1", "dlv_2"]
        nursery.cancel_scope.cancel()


async def test_what_is_added_is_seen_at_once_where_there_is_room(bench: Bench) -> None:
    await happen(bench.db, 1, now_ms=bench.clock.now_ms())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        await happen(bench.db, 2, now_ms=bench.clock.now_ms())
        bench.lane.note_owed()
        await bench.settle()
        assert bench.started == ["dlv_1", "dlv_2"]
        nursery.cancel_scope.cancel()


async def test_who_is_full_does_not_look_at_what_is_added_until_there_is_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(IN_FLIGHT_MAX):
        await happen(bench.db, number, now_ms=bench.clock.now_ms())
    looks: list[str] = []

    def look() -> EndpointState:
        looks.append("state")
        return EndpointState.ENABLED

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        assert bench.lane.is_full
        monkeypatch.setattr(bench.lane, "_state", look)
        await happen(bench.db, IN_FLIGHT_MAX, now_ms=bench.clock.now_ms())
        bench.lane.note_owed()
        await bench.settle()
        assert looks == []
        bench.lane.wake()
        await bench.settle()
        assert looks == ["state"]
        bench.ends["dlv_0"].set()
        await bench.settle()
        assert bench.started[-1] == f"dlv_{IN_FLIGHT_MAX}"
        nursery.cancel_scope.cancel()


async def test_a_replay_waits_behind_what_is_fresh(bench: Bench) -> None:
    await happen(bench.db, 1, now_ms=bench.clock.now_ms())

    def cancel(tx: Tx) -> None:
        tx.execute("UPDATE deliveries SET state = 'cancelled'")

    await bench.db.write(cancel)
    await bench.db.write(requeue, "dlv_1", 0)
    bench.lane.limit = 1
    await happen(bench.db, 2, now_ms=bench.clock.now_ms())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        bench.ends["dlv_2"].set()
        await bench.settle()
        assert bench.started == ["dlv_2", "dlv_1"]
        nursery.cancel_scope.cancel()


async def test_what_breaks_here_is_put_off_longer_each_time_and_keeps_its_budget(bench: Bench) -> None:
    await happen(bench.db, 1, now_ms=bench.clock.now_ms())
    bench.crashes.extend([RuntimeError("one"), RuntimeError("two"), RuntimeError("three")])
    started_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.attempts(4)
        assert trio.current_time() - started_s == pytest.approx(1 + 2 + 4, abs=0.2)
        bench.ends["dlv_1"].set()

    (attempts, state) = bench.db.point(
        lambda tx: tx.execute("SELECT attempts, state FROM deliveries").fetchone()
    )
    assert (attempts, state) == (1, "succeeded")


async def test_what_breaks_here_for_a_day_is_said_some_times_and_not_each_minute(bench: Bench) -> None:
    await happen(bench.db, 1, now_ms=bench.clock.now_ms())
    bench.crashes.extend(RuntimeError("the seal is another one") for _ in range(2000))
    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.lane.run)
            await trio.sleep(24 * 3600)
            nursery.cancel_scope.cancel()

    assert len(bench.started) > 1400
    said = [line["failures"] for line in logs if line["log_level"] == "error"]
    assert said == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


async def test_what_broke_here_and_is_owed_no_more_counts_no_more(bench: Bench) -> None:
    await happen(bench.db, 1, now_ms=bench.clock.now_ms())
    await happen(bench.db, 2, now_ms=bench.clock.now_ms())
    bench.crashes.append(RuntimeError("one"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.attempts(2)
        assert bench.lane.broken == 1
        # Such as by a resend by hand.
        await bench.db.write(lambda tx: tx.execute("UPDATE deliveries SET state = 'succeeded'"))
        assert bench.lane.broken == 0
        nursery.cancel_scope.cancel()


async def test_nothing_is_sent_while_the_store_takes_no_writes(bench: Bench) -> None:
    await happen(bench.db, 1, now_ms=bench.clock.now_ms())
    bench.db._failure = "the disk is full"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await trio.sleep(60)
        assert bench.started == []
        bench.db._failure = None
        await bench.attempts(1)
        bench.ends["dlv_1"].set()

    assert bench.retired


async def test_it_slows_down_after_three_timeouts_and_speeds_up_by_doubling(bench: Bench) -> None:
    limits = []
    for error_class in [
        "timeout_connect",
        "timeout_response",
        "timeout_response",
        "http_status",
        None,
        None,
        None,
        None,
    ]:
        bench.lane._pace(error_class, None)
        limits.append(bench.lane.limit)

    assert limits == [10, 10, 1, 1, 2, 4, 8, 10]


@pytest.mark.parametrize(
    ("error_class", "status", "limit"),
    [
        ("connection_refused", None, 1),
        ("connection_reset", None, 1),
        ("dns_error", None, 1),
        ("network_unreachable", None, 1),
        ("system_error", None, 1),
        ("http_status", 429, 1),
        ("http_status", 503, 1),
        ("http_status", 500, IN_FLIGHT_MAX),  # there, and it answers: a fault of one event's handling
        ("redirect", 302, IN_FLIGHT_MAX),
        ("tls_error", None, IN_FLIGHT_MAX),
    ],
)
async def test_a_receiver_that_is_away_is_asked_with_one_request_at_a_time(
    bench: Bench, error_class: str, status: int | None, limit: int
) -> None:
    for _ in range(3):
        bench.lane._pace(error_class, status)

    assert bench.lane.limit == limit


async def test_timeouts_that_an_answer_interrupts_do_not_slow_it_down(bench: Bench) -> None:
    for error_class in ["timeout_response", "timeout_response", "http_status"] * 3:
        bench.lane._pace(error_class, None)

    assert bench.lane.limit == IN_FLIGHT_MAX


async def test_after_our_downtime_it_begins_with_one_request_and_doubles(bench: Bench) -> None:
    for number in range(40):
        await happen(bench.db, number)  # due since 1970
    in_flight = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        for _ in range(5):
            await bench.settle()
            in_flight.append(bench.lane.in_flight)
            for event in list(bench.ends.values()):
                event.set()
        nursery.cancel_scope.cancel()

    assert in_flight == [1, 2, 8, 10, 10]  # two successes double twice


async def test_what_is_fresh_begins_with_all_it_may(bench: Bench) -> None:
    for number in range(40):
        await happen(bench.db, number, now_ms=bench.clock.now_ms() - 20_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        assert bench.lane.in_flight == IN_FLIGHT_MAX
        assert bench.lane.is_full
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("due_ago_s", "waits_s"), [(20, 0.0), (40, SPREAD_MAX_S / 2)])
async def test_after_our_downtime_and_only_then_it_begins_at_a_moment_of_its_own(
    bench: Bench, due_ago_s: int, waits_s: float
) -> None:
    await happen(bench.db, 1, now_ms=bench.clock.now_ms() - due_ago_s * 1000)
    bench.jitter = 0.5
    started_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.attempts(1)
        assert trio.current_time() - started_s == pytest.approx(waits_s)
        nursery.cancel_scope.cancel()


async def test_what_happens_meanwhile_does_not_end_that_wait_and_a_stop_does(bench: Bench) -> None:
    await happen(bench.db, 1)
    bench.jitter = 1.0
    started_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        bench.lane.wake()
        await trio.sleep(SPREAD_MAX_S / 2)
        assert bench.started == []
        bench.lane.stopping = True
        bench.lane.wake()

    assert trio.current_time() - started_s == pytest.approx(SPREAD_MAX_S / 2)
    assert bench.retired
    assert bench.started == []


async def test_it_takes_no_more_than_its_share_and_more_when_that_grows(bench: Bench) -> None:
    for number in range(40):
        await happen(bench.db, number, now_ms=bench.clock.now_ms())
    bench.share = 3
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        assert bench.lane.in_flight == 3
        assert bench.lane.is_full
        bench.share = 100
        bench.ends[bench.started[0]].set()
        await bench.settle()
        assert bench.lane.in_flight == IN_FLIGHT_MAX
        nursery.cancel_scope.cancel()


async def test_on_hold_it_finishes_what_is_in_flight_and_takes_nothing_more(bench: Bench) -> None:
    for number in range(IN_FLIGHT_MAX + 5):
        await happen(bench.db, number, now_ms=bench.clock.now_ms())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        await bench.db.write(switch_endpoint, account_id="acct_1", act="pause", now_ms=0, actor="test")
        bench.lane.wake()
        for event in bench.ends.values():
            event.set()

    assert bench.retired
    assert len(bench.started) == IN_FLIGHT_MAX
    assert bench.db.point(count_pending) == 5


async def test_a_stopping_lane_takes_nothing_more_and_retires(bench: Bench) -> None:
    for number in range(IN_FLIGHT_MAX + 5):
        await happen(bench.db, number, now_ms=bench.clock.now_ms())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        bench.lane.stopping = True
        bench.lane.wake()
        for event in bench.ends.values():
            event.set()

    assert bench.retired
    assert len(bench.started) == IN_FLIGHT_MAX


async def test_what_cannot_even_be_put_off_waits_its_time_and_harms_no_other_delivery(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await happen(bench.db, 1, now_ms=bench.clock.now_ms())
    await happen(bench.db, 2, now_ms=bench.clock.now_ms())
    bench.crashes.append(RuntimeError("one"))
    write = bench.db.write

    async def full(step: Any, *args: Any, **more: Any) -> Any:
        if step is postpone:
            raise StoreUnavailable("The store is behind.")
        return await write(step, *args, **more)

    monkeypatch.setattr(bench.db, "write", full)
    started_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        assert sorted(bench.started) == ["dlv_1", "dlv_2"]
        await bench.attempts(3)
        assert trio.current_time() - started_s == pytest.approx(1, abs=0.1)
        for event in bench.ends.values():
            event.set()

    assert bench.retired
    assert bench.started[2] == bench.started[0]


async def test_nothing_more_is_sent_while_its_end_could_not_be_recorded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(IN_FLIGHT_MAX + 2):
        await happen(bench.db, number, now_ms=bench.clock.now_ms())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.attempts(IN_FLIGHT_MAX)
        with monkeypatch.context() as broken:
            broken.setattr(Database, "healthy", False)
            for event in list(bench.ends.values()):
                event.set()
            await trio.sleep(3 * STORE_CHECK_S)
            assert len(bench.started) == IN_FLIGHT_MAX
        await bench.attempts(IN_FLIGHT_MAX + 2)
        for event in bench.ends.values():
            event.set()

    assert bench.retired


async def test_what_is_claimed_in_one_moment_is_looked_up_in_one_go(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(IN_FLIGHT_MAX + 5):
        await happen(bench.db, number, now_ms=bench.clock.now_ms())
    looked_up: list[int] = []
    point = bench.db.point

    def watched(query: Any, *args: Any) -> Any:
        if query is load_due_work:
            looked_up.append(len(args[1]))
        return point(query, *args)

    monkeypatch.setattr(bench.db, "point", watched)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        bench.recorded = trio.Event()  # no commit comes in between
        for event in list(bench.ends.values()):
            event.set()
        await bench.settle()
        assert len(bench.started) == IN_FLIGHT_MAX + 5
        assert looked_up == [IN_FLIGHT_MAX, 5]
        nursery.cancel_scope.cancel()


async def test_what_was_looked_up_before_a_commit_is_not_sent_after_it(bench: Bench) -> None:
    for number in range(3):
        await happen(bench.db, number, now_ms=bench.clock.now_ms())
    bench.lane._gate = trio.CapacityLimiter(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        assert (bench.lane.in_flight, len(bench.started)) == (3, 1)
        await bench.db.write(switch_endpoint, account_id="acct_1", act="pause", now_ms=0, actor="test")
        bench.ends[bench.started[0]].set()
        await bench.settle()
        assert len(bench.started) == 1

    assert bench.db.point(count_pending) == 2


async def test_what_cannot_be_looked_up_now_is_sent_later_and_cuts_off_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        await happen(bench.db, number, now_ms=bench.clock.now_ms())
    gate = bench.lane._gate = trio.CapacityLimiter(1)
    point, failures = bench.db.point, 0

    def unreadable(query: Any, *args: Any) -> Any:
        nonlocal failures
        if query is load_due_work and len(bench.started) == 1 and failures < 2:
            failures += 1
            raise StoreUnavailable("The store cannot be read at the moment.")
        return point(query, *args)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.lane.run)
        await bench.settle()
        # A commit in between, so that what was looked up no longer holds.
        await bench.db.write(lambda tx: tx.execute("UPDATE clock SET job_events = job_events"))
        monkeypatch.setattr(bench.db, "point", unreadable)
        gate.total_tokens = 2
        await bench.attempts(2)
        for event in bench.ends.values():
            event.set()

    assert failures == 2
    assert sorted(bench.started) == ["dlv_0", "dlv_1"], "each once"
    assert bench.db.point(count_pending) == 0
