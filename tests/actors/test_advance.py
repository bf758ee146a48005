"""The test clock: work runs in time order, and no restart takes time back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from payd.actors.advance import Advance
from payd.core.errors import OutcomeUnknown
from payd.core.event import iso_ms
from payd.entropy import new_id
from payd.store.clock import OFFSET_MAX_MS, get_clock, move_clock, start_clock_job
from tests.receiver import Does, always
from tests.shop import BUYER, SIGNATURE, START_MS, Shop, open_shop
from tests.web.hooked import open_hooked

JOB = new_id("job_", 0)


async def done(shop: Shop) -> int:
    """Wait for the job's end and give the number of its events."""
    assert shop.realm.advance is not None
    while (state := shop.realm.advance.state()).state == "running":
        await trio.sleep(0.05)
    return state.events


async def test_the_clock_moves_and_what_falls_due_happens_at_its_own_time(shop: Shop) -> None:
    first, second = await shop.pay(), await shop.pay(expiresAt=START_MS // 1000 + 3600)
    await shop.call("POST", "/v1/test/clock", {"advance": "1d"})

    assert await done(shop) == 2
    assert shop.realm.clock.offset_ms == 86_400_000
    events = await shop.call("GET", "/v1/events?type=payment.expired")
    told = {event["paymentId"]: event["createdAt"] for event in events.body["data"]}
    assert told[first] < iso_ms(START_MS + 905_000)
    assert iso_ms(START_MS + 3_600_000) <= told[second] < iso_ms(START_MS + 3_605_000)


async def test_the_clock_is_where_it_was_stored_also_when_nobody_knew_that_it_was(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, in_doubt = shop.realm.db, iter([True])
    write = db.write

    async def store(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        found = await write(step, *args, **kwargs)
        if step is move_clock and not db.point(get_clock).running and next(in_doubt, False):
            raise OutcomeUnknown("disk I/O error")
        return found

    monkeypatch.setattr(db, "write", store)
    advance = shop.realm.advance
    assert advance is not None
    await db.write(start_clock_job, JOB, 3_600_000)
    with pytest.raises(OutcomeUnknown):
        await advance.run()
    assert shop.realm.clock.offset_ms == 0
    with trio.move_on_after(1):
        await advance.run()
    assert shop.realm.clock.offset_ms == 3_600_000


async def test_a_chain_of_due_work_runs_to_its_end_on_the_way(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.confirm(payment, option["id"], SIGNATURE)
    await shop.call("POST", "/v1/test/clock", {"advance": "10s"})

    assert await done(shop) == 2
    detail = await shop.call("GET", f"/v1/payments/{payment}")
    assert detail.body["settlement"]["settled"] is True


async def test_a_job_ends_though_something_is_always_being_sent(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(delay_s=5))) as hooked, trio.open_nursery() as nursery:
        await hooked.register()

        async def sell_all_day() -> None:
            while True:
                await hooked.shop.pay()
                await trio.sleep(2)

        nursery.start_soon(sell_all_day)
        await trio.sleep(10)
        await hooked.shop.call("POST", "/v1/test/clock", {"advance": "60s"})
        with trio.fail_after(600):
            await done(hooked.shop)

        assert hooked.shop.realm.deliveries.busy
        assert hooked.shop.realm.clock.offset_ms == 60_000
        nursery.cancel_scope.cancel()


async def test_a_job_that_a_restart_interrupted_is_finished(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        payment = await shop.pay()
        # Stored, and the process ends before anything took effect.
        await shop.realm.db.write(start_clock_job, JOB, 3_600_000)

    async with open_shop(tmp_path / "data") as later:
        assert await done(later) >= 1
        assert later.realm.clock.offset_ms == 3_600_000
        assert later.realm.payments.find(payment).status.value == "expired"


async def test_a_job_that_a_restart_interrupted_in_its_last_step_is_done_when_its_work_is(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    realm, worked = shop.realm, trio.Event()
    await realm.db.write(start_clock_job, JOB, 3_600_000)
    await realm.db.write(move_clock, 3_600_000)

    async def idle_until(now_ms: int) -> None:
        await worked.wait()

    monkeypatch.setattr(realm.payments.tending, "idle_until", idle_until)
    later = Advance(realm.db, realm.clock, realm.payments, realm.deliveries, shop.house.entropy)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(later.run)
        await wait_all_tasks_blocked()
        assert later.state().state == "running"
        worked.set()
        await wait_all_tasks_blocked()
        assert later.state().state == "done"
        nursery.cancel_scope.cancel()


async def test_the_offset_survives_a_restart(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        await shop.call("POST", "/v1/test/clock", {"advance": "5000s"})
        await done(shop)

    async with open_shop(tmp_path / "data") as later:
        assert later.realm.clock.offset_ms == 5_000_000
        assert later.realm.clock.now_ms() - later.realm.clock.real_ms() == 5_000_000


async def test_a_second_advance_lengthens_the_job_that_runs(shop: Shop) -> None:
    await shop.realm.db.write(start_clock_job, JOB, 1000)
    started = await shop.call("POST", "/v1/test/clock", {"advance": "2s"})
    await done(shop)

    assert started.body["job"]["id"] == JOB
    assert shop.realm.db.point(get_clock).offset_ms == 3000


async def test_a_repeated_request_with_a_key_advances_the_clock_once(shop: Shop) -> None:
    first = await shop.call("POST", "/v1/test/clock", {"advance": "1h"}, idempotency_key="k")
    again = await shop.call("POST", "/v1/test/clock", {"advance": "1h"}, idempotency_key="k")
    await done(shop)

    assert first.raw == again.raw
    assert shop.realm.clock.offset_ms == 3_600_000


async def test_a_job_is_running_until_everything_that_fell_due_is_done(shop: Shop) -> None:
    payment = await shop.pay()
    await shop.call("POST", "/v1/test/clock", {"advance": "15m"})
    assert shop.realm.advance is not None
    while shop.realm.clock.offset_ms < 900_000:
        await trio.sleep(0.001)
        if shop.realm.advance.state().state == "done":
            assert shop.realm.clock.offset_ms == 900_000
    await done(shop)

    assert await shop.status(payment) == "expired"


async def test_a_client_that_leaves_does_not_take_the_job_along(shop: Shop) -> None:
    await shop.leave("POST", "/v1/test/clock", {"advance": "1h"})
    await trio.sleep(1)

    assert shop.realm.clock.offset_ms == 3_600_000
    assert await done(shop) == 0


async def test_a_job_whose_wake_up_was_missed_is_found(shop: Shop) -> None:
    await trio.sleep(1)
    await shop.realm.db.write(start_clock_job, JOB, 5000)
    await trio.sleep(31)

    assert shop.realm.clock.offset_ms == 5000


async def test_an_advance_beyond_the_end_is_refused_and_the_clock_goes_on(shop: Shop) -> None:
    await shop.realm.db.write(start_clock_job, JOB, OFFSET_MAX_MS)
    refused = await shop.call("POST", "/v1/test/clock", {"advance": "1s"})
    assert shop.realm.advance is not None
    shop.realm.advance._wanted.set()
    await done(shop)

    assert (refused.status, refused.code) == (400, "invalid_params")
    assert (await shop.call("GET", "/v1/test/clock")).body["now"].startswith("3025-")
    assert await shop.pay()
