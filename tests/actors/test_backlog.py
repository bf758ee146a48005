"""What is owed and how late it is, and when that is this server's own fault."""

from __future__ import annotations

import trio

from payd.actors.backlog import OVERDUE_S, look_back
from payd.actors.deliveries import POLL_S
from payd.actors.webhook_stats import Backlog
from payd.store.db import Database
from tests.outbox import Outbox, make_outbox, open_outbox
from tests.receiver import Does, always


async def look(outbox: Outbox) -> Backlog:
    return await look_back(outbox.db, outbox.clock.now_ms(), outbox.deliveries._lanes)


async def test_nothing_owed_is_nothing_late(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test")
        await outbox.register("a.test")
        await outbox.happen()
        await outbox.drained()

        assert await look(outbox) == Backlog(0, 0.0, {"enabled": 1, "paused": 0, "disabled": 0})


async def test_what_nobody_sends_is_late_and_after_two_minutes_a_problem(realm_db: Database) -> None:
    async with trio.open_nursery() as nursery:
        outbox = make_outbox(realm_db, nursery)  # nobody sends: it does not run
        await outbox.register("a.test")
        for _ in range(3):
            await outbox.happen()
        await trio.sleep(OVERDUE_S)
        soon = await look(outbox)
        await trio.sleep(2)
        late = await look(outbox)

        assert (soon.pending, soon.overdue) == (3, ())
        assert late.overdue == ("webhooks to 1 working endpoints wait to be sent, for 122 s now",)


async def test_a_backlog_that_is_sent_as_fast_as_each_endpoints_share_allows_is_no_problem(
    realm_db: Database,
) -> None:
    """After an hour's downtime the server is at work, and to keep callers from it would help nobody."""
    async with trio.open_nursery() as nursery:
        outbox = make_outbox(realm_db, nursery)
        for account_id in ("acct_1", "acct_2", "acct_3", "acct_4", "acct_5"):
            outbox.host(f"{account_id}.test", always(Does(delay_s=10)))
            await outbox.register(f"{account_id}.test", account_id)
            for _ in range(50):
                await outbox.happen(account_id=account_id)
        outbox.clock.move_to_offset(outbox.clock.offset_ms + 3_600_000)
        await nursery.start(outbox.deliveries.run)
        await trio.sleep(POLL_S + 1)
        found = await look(outbox)

        assert found.overdue == ()
        nursery.cancel_scope.cancel()


async def test_a_receiver_that_fails_or_is_busy_is_late_and_no_fault_of_ours(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("slow.test", always(Does(delay_s=14)))
        outbox.host("dead.test", always(Does(hangs=True)))
        await outbox.register("slow.test", "acct_slow")
        await outbox.register("dead.test", "acct_dead")
        for number in range(200):
            await outbox.happen(payment_id=f"pay_a{number}", account_id="acct_slow")
            await outbox.happen(payment_id=f"pay_b{number}", account_id="acct_dead")
        await trio.sleep(200)
        found = await look(outbox)

        assert 180 < found.failing_s < 200
        assert found.overdue == ()
        assert outbox.deliveries.problems() == []


async def test_what_waits_on_hold_is_not_late(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test")
        await outbox.register("a.test")
        await outbox.switch("pause")
        await outbox.happen()
        await trio.sleep(1000)
        found = await look(outbox)

        assert (found.pending, found.overdue) == (1, ())
        assert found.endpoints == {"enabled": 0, "paused": 1, "disabled": 0}


async def test_it_is_looked_at_again_and_again(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        outbox.host("a.test", always(Does(status=500)))
        await outbox.register("a.test")
        await outbox.happen()
        await trio.sleep(POLL_S + 1)

        assert outbox.deliveries.stats.backlog is not None
        assert outbox.deliveries.stats.backlog.pending == 1


async def test_a_look_that_never_comes_back_is_a_problem(realm_db: Database) -> None:
    async with open_outbox(realm_db) as outbox:
        await trio.sleep(1)
        looking = trio.Event()

        async def hang(*_args: object) -> None:
            looking.set()
            await trio.sleep_forever()

        outbox.db.look = hang  # type: ignore[assignment, method-assign]
        await looking.wait()
        await trio.sleep(100)
        assert outbox.deliveries.problems() == ["nobody has looked for due webhooks for 130 s"]
