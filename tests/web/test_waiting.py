"""Long polls: held until the status differs, answered in time, and never in anybody's way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from payd.web.limits import POLLS_PER_PAYMENT_MAX
from payd.web.waiting import wait_for_change
from tests.shop import BUYER, SIGNATURE, Got, Shop

PATHS = (
    "/v1/payments/{}/status",
    "/v1/merchant/payment/{}/status",
    "/v1/gateway/payment/{}/status",
)


async def poll(shop: Shop, payment: str, wait: str = "30000", path: str = PATHS[0]) -> tuple[Got, float]:
    """The answer, and how long it took."""
    started = trio.current_time()
    found = await shop.call("GET", f"{path.format(payment)}?maxPollMs={wait}", merchant_id=shop.merchant_id)
    return found, trio.current_time() - started


def nothing_is_held(shop: Shop) -> bool:
    limits = shop.house.limits.polls
    return (limits.held, len(limits), len(shop.house.held), len(shop.realm.payment_feed)) == (0, 0, 0, 0)


@pytest.mark.parametrize("path", PATHS)
async def test_a_poll_returns_when_the_status_changes(shop: Shop, path: str) -> None:
    payment = await shop.pay()
    answers: list[tuple[Got, float]] = []

    async def wait() -> None:
        answers.append(await poll(shop, payment, path=path))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(3)
        await shop.call("POST", f"/v1/payments/{payment}/cancel", {})
    ((found, took),) = answers
    assert found.body["status"] in ("cancelled", "failed")
    assert found.body["isFinal"]
    assert took == pytest.approx(3, abs=0.1)
    assert nothing_is_held(shop)


@pytest.mark.parametrize("path", PATHS)
async def test_a_poll_returns_when_its_time_is_over(shop: Shop, path: str) -> None:
    payment = await shop.pay()
    found, took = await poll(shop, payment, "2000", path)
    assert found.body["status"] in ("requires_action", "pending")
    assert took == pytest.approx(2, abs=0.1)
    assert nothing_is_held(shop)


async def test_what_moved_before_it_is_waited_for_is_answered_at_once(shop: Shop) -> None:
    payment_id = await shop.pay()
    before = shop.realm.payments.find(payment_id)
    await shop.call("POST", f"/v1/payments/{payment_id}/cancel", {})
    call: Any = SimpleNamespace(house=shop.house, realm=shop.realm)
    began_s = trio.current_time()
    found = await wait_for_change(call, before, 30_000)
    assert (found.is_final, trio.current_time() - began_s) == (True, 0)
    assert nothing_is_held(shop)


async def test_a_poll_is_held_for_55_seconds_at_most(shop: Shop) -> None:
    _, took = await poll(shop, await shop.pay(), "600000")
    assert took == pytest.approx(55, abs=0.1)


async def test_a_final_payment_and_no_wait_are_answered_at_once(shop: Shop) -> None:
    payment = await shop.pay()
    for wait in ("0", ""):
        assert (await poll(shop, payment, wait))[1] == 0
    for to in ("succeeded", "failed", "cancelled", "expired"):
        final = await shop.pay()
        await shop.call("POST", f"/v1/test/payments/{final}/simulate", {"to": to})
        found, took = await poll(shop, final)
        assert (found.body["status"], took) == (to, 0)


@pytest.mark.parametrize("wait", ["-1", "1.5", "x", "1e3", "NaN", "+5", "0x10"])
async def test_a_wait_that_is_no_whole_number_is_refused_on_every_path(shop: Shop, wait: str) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    for path in PATHS:
        found, _ = await poll(shop, payment, wait, path)
        assert (found.status, found.code) == (400, "invalid_params")
    found = await shop.confirm(payment, option["id"], SIGNATURE, query=f"?maxPollMs={wait}")
    assert (found.status, found.code) == (400, "invalid_params")
    assert await shop.status(payment) == "requires_action"


async def test_a_change_before_the_poll_counts_from_the_status_on_arrival(shop: Shop) -> None:
    payment = await shop.pay()
    await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "processing"})
    found, took = await poll(shop, payment, "5000")
    assert found.body["status"] == "processing"
    assert took == pytest.approx(5, abs=0.1)


async def test_a_confirm_waits_from_its_own_effect_on(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    started = trio.current_time()
    found = await shop.confirm(payment, option["id"], SIGNATURE, query="?maxPollMs=500")
    assert (found.body["status"], found.body["isFinal"], found.body["pollInMs"]) == (
        "processing",
        False,
        1000,
    )
    assert trio.current_time() - started == pytest.approx(0.5, abs=0.05)


async def test_a_settlement_is_no_change_of_status_and_a_final_payment_is_not_waited_for(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.confirm(payment, option["id"], SIGNATURE, query="?maxPollMs=30000")
    found, took = await poll(shop, payment)
    assert (found.body["status"], took) == ("succeeded", 0)


async def test_four_polls_a_payment_are_held_and_the_fifth_is_answered_at_once(shop: Shop) -> None:
    payment, other = await shop.pay(), await shop.pay()
    took: list[float] = []

    async def wait() -> None:
        took.append((await poll(shop, payment, "10000"))[1])

    async with trio.open_nursery() as nursery:
        for _ in range(POLLS_PER_PAYMENT_MAX):
            nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked(0)
        assert (await poll(shop, payment, "10000"))[1] == 0
        assert (await poll(shop, other, "1000"))[1] == pytest.approx(1, abs=0.1)
    assert took == pytest.approx([10] * 4, abs=0.1)
    assert nothing_is_held(shop)


async def test_beyond_the_polls_in_all_everybody_is_answered_at_once(shop: Shop) -> None:
    shop.house.limits.polls.total_max = 1
    one, two = await shop.pay(), await shop.pay()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(poll, shop, one, "5000")
        await trio.testing.wait_all_tasks_blocked(0)
        assert (await poll(shop, two, "5000"))[1] == 0


async def test_at_stop_every_held_poll_is_answered_and_later_ones_at_once(shop: Shop) -> None:
    payment = await shop.pay()
    answers: list[Any] = []

    async def wait() -> None:
        answers.append(await poll(shop, payment))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(wait)
        await trio.sleep(1)
        shop.house.release_polls()
    assert [found.body["status"] for found, _ in answers] == ["requires_action"] * 3
    assert all(took == pytest.approx(1, abs=0.1) for _, took in answers)
    assert (await poll(shop, payment))[1] == 0
    assert nothing_is_held(shop)


async def test_a_client_that_hangs_up_leaves_nothing_behind(shop: Shop) -> None:
    payment = await shop.pay()
    with trio.move_on_after(1):
        await poll(shop, payment)
    assert nothing_is_held(shop)


async def test_a_poll_on_expiry_returns_with_it(shop: Shop) -> None:
    payment = await shop.pay(expiresAt=shop.realm.clock.now_ms() // 1000 + 5)
    found, took = await poll(shop, payment)
    assert found.body["status"] == "expired"
    assert took == pytest.approx(5, abs=1.1)
