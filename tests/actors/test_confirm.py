"""Confirm: one effect, whatever repeats, races or lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing

from payd.actors.turns import INBOX_MAX
from payd.chains.base import Accepted, Misaligned, Unseen, Verdict
from payd.chains.simulated import SimulatedChain
from payd.core.option import Quote, Result
from payd.core.payment import FundsCommitted, Payment
from payd.core.relay import RelayJob
from payd.store.options import HINTS_STORED_MAX, HINTS_UNKNOWN_MAX
from payd.store.transfers import Transfer, match_transfers
from tests.shop import APPROVES, BUYER, SIGNATURE, TX_HASH, USDC_BASE, Shop


async def hints(shop: Shop, payment: str) -> list[str]:
    rows = await shop.realm.db.read(
        lambda tx: tx.execute("SELECT hash FROM hints WHERE payment_id = ?", (payment,)).fetchall()
    )
    return [told for (told,) in rows]


async def test_a_confirmed_payment_is_processing_then_succeeded_then_settled(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]

    confirmed = await shop.confirm(payment, option["id"], SIGNATURE)
    assert (confirmed.status, confirmed.body["status"]) == (200, "processing")

    await trio.sleep(1.5)
    assert await shop.status(payment) == "succeeded"

    await trio.sleep(1.5)
    detail = await shop.call("GET", f"/v1/payments/{payment}")
    assert detail.body["settlement"]["settled"] is True
    assert detail.body["info"]["txId"] == f"test:{payment}"
    assert [one["kind"] for one in detail.body["transfers"]] == ["matched"]


async def test_the_same_results_are_accepted_again_in_every_later_state(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    seen = []
    for _ in range(4):
        found = await shop.confirm(payment, option["id"], SIGNATURE)
        seen.append((found.status, found.body["status"]))
        await trio.sleep(1.1)
    assert seen == [(200, "processing"), (200, "succeeded"), (200, "succeeded"), (200, "succeeded")]


async def test_other_results_after_the_first_are_refused_and_change_nothing(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.confirm(payment, option["id"], SIGNATURE)

    other = await shop.confirm(payment, option["id"], "0x" + "22" * 64 + "1c")

    assert (other.status, other.code) == (400, "invalid_state")
    assert await shop.status(payment) == "processing"


async def test_two_confirms_at_the_same_moment_have_one_effect(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    answers: list[Any] = []

    async def one() -> None:
        answers.append(await shop.confirm(payment, option["id"], SIGNATURE))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(one)

    assert {answer.status for answer in answers} == {200}
    events = await shop.call("GET", f"/v1/events?paymentId={payment}")
    assert [event["type"] for event in events.body["data"]] == ["payment.processing", "payment.created"]


async def test_a_cancel_that_races_a_confirm_ends_in_exactly_one_of_the_two(shop: Shop) -> None:
    for first in ("cancel", "confirm"):
        payment = await shop.pay()
        option = (await shop.options(payment, [BUYER]))[0]
        answers: dict[str, Any] = {}

        async def cancel(payment: str = payment, answers: dict[str, Any] = answers) -> None:
            answers["cancel"] = await shop.call("POST", f"/v1/payments/{payment}/cancel", {})

        async def confirm(
            payment: str = payment, answers: dict[str, Any] = answers, option: Any = option
        ) -> None:
            answers["confirm"] = await shop.confirm(payment, option["id"], SIGNATURE)

        async with trio.open_nursery() as nursery:
            for work in (cancel, confirm) if first == "cancel" else (confirm, cancel):
                nursery.start_soon(work)

        status = await shop.status(payment)
        if status == "cancelled":
            assert answers["cancel"].status == 200
            assert (answers["confirm"].status, answers["confirm"].body["status"]) == (200, "cancelled")
        else:
            assert status == "processing"
            assert answers["confirm"].status == 200
            assert (answers["cancel"].status, answers["cancel"].code) == (400, "invalid_state")


async def test_a_confirm_goes_on_when_its_client_hangs_up(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(shop.confirm, payment, option["id"], SIGNATURE)
        await trio.testing.wait_all_tasks_blocked(0)
        nursery.cancel_scope.cancel()

    await trio.sleep(0.1)
    assert await shop.status(payment) == "processing"


async def test_a_bad_signature_leaves_the_payment_open(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, ["eip155:8453:0x0000000000000000000000000000000000000002"]))[0]

    refused = await shop.confirm(payment, option["id"], SIGNATURE)

    assert (refused.status, refused.code) == (422, "invalid_signature")
    assert await shop.status(payment) == "requires_action"
    again = (await shop.options(payment, [APPROVES]))[0]
    assert (await shop.confirm(payment, again["id"], SIGNATURE)).status == 200


async def test_an_unknown_option_and_unusable_data_leave_the_payment_open(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]

    unknown = await shop.confirm(payment, "opt_nobody", SIGNATURE)
    unusable = await shop.confirm(payment, option["id"], "not hex")

    assert (unknown.status, unknown.code) == (400, "invalid_params")
    assert (unusable.status, unusable.code) == (400, "invalid_params")
    assert await shop.status(payment) == "requires_action"


async def test_results_of_another_length_fail_the_payment(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]

    failed = await shop.confirm(payment, option["id"], SIGNATURE, SIGNATURE)

    assert (failed.status, failed.body["status"], failed.body["isFinal"]) == (200, "failed", True)
    later = await shop.confirm(payment, option["id"], SIGNATURE)
    assert (later.status, later.body["status"], later.body["isFinal"]) == (200, "failed", True)


async def test_results_in_another_order_fail_the_payment_though_there_are_as_many_as_actions(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]

    async def check(self: SimulatedChain, *_: object) -> Verdict:
        return Misaligned()

    monkeypatch.setattr(SimulatedChain, "check", check)
    failed = await shop.confirm(payment, option["id"], SIGNATURE)

    assert (failed.status, failed.body["status"], failed.body["isFinal"]) == (200, "failed", True)


async def test_misaligned_results_for_an_option_never_handed_out_fail_nothing(shop: Shop) -> None:
    payment = await shop.pay()

    refused = await shop.confirm(payment, "opt_nobody", SIGNATURE, SIGNATURE)

    assert refused.status == 400
    assert await shop.status(payment) == "requires_action"


async def test_an_option_of_another_payment_is_unknown(shop: Shop) -> None:
    one, two = await shop.pay(), await shop.pay()
    option = (await shop.options(one, [BUYER]))[0]

    assert (await shop.confirm(two, option["id"], SIGNATURE)).code == "invalid_params"
    assert await shop.status(two) == "requires_action"


async def test_a_confirm_after_expiry_is_gone_but_its_hash_is_kept(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await trio.sleep(901)

    late = await shop.confirm(payment, option["id"], TX_HASH)

    assert (late.status, late.code) == (410, "payment_expired")
    assert await hints(shop, payment) == [TX_HASH]


async def test_a_confirm_of_a_cancelled_payment_says_cancelled(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.call("POST", f"/v1/gateway/payment/{payment}/cancel", {})

    found = await shop.confirm(payment, option["id"], SIGNATURE)

    assert (found.status, found.body["status"], found.body["isFinal"]) == (200, "cancelled", True)


async def test_a_held_confirm_returns_when_the_payment_succeeds(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    started = trio.current_time()

    found = await shop.confirm(payment, option["id"], SIGNATURE, query="?maxPollMs=30000")

    assert found.body["status"] == "succeeded"
    assert 1.0 <= trio.current_time() - started < 2.0


async def test_a_check_that_breaks_keeps_the_hashes(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]

    async def broken(*_: object) -> Verdict:
        raise OSError("the node is away")

    chain: Any = shop.realm.payments.chains[0]
    chain.check = broken
    assert (await shop.confirm(payment, option["id"], TX_HASH)).status == 500
    assert await hints(shop, payment) == [TX_HASH]
    assert await shop.status(payment) == "requires_action"


async def test_a_check_that_a_node_keeps_waiting_is_a_503_and_leaves_the_payment_open(
    shop: Shop, autojump_clock: trio.testing.MockClock
) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    chain: Any = shop.realm.payments.chains[0]

    async def waits(*_: object) -> None:
        await trio.sleep_forever()

    check, chain.check = chain.check, waits

    answer = await shop.confirm(payment, option["id"], SIGNATURE)

    assert (answer.status, "retry-after" in dict(answer.headers)) == (503, True)
    assert await shop.status(payment) == "requires_action"
    chain.check = check
    assert (await shop.confirm(payment, option["id"], SIGNATURE)).status == 200


async def test_hashes_for_unknown_options_leave_room_for_a_buyers(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    for number in range(HINTS_STORED_MAX + 1):
        await shop.confirm(payment, "opt_nobody", f"0x{number:064x}")
    await shop.call("POST", f"/v1/gateway/payment/{payment}/cancel", {})

    assert (await shop.confirm(payment, option["id"], TX_HASH)).body["status"] == "cancelled"
    assert TX_HASH in await hints(shop, payment)
    assert len(await hints(shop, payment)) == HINTS_UNKNOWN_MAX + 1


async def test_results_that_fail_a_payment_keep_their_hashes_when_there_is_no_room(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    for number in range(HINTS_STORED_MAX):
        await shop.confirm(payment, option["id"], f"0x{number:064x}")

    assert (await shop.confirm(payment, option["id"], TX_HASH, TX_HASH)).body["status"] == "failed"
    assert TX_HASH in await hints(shop, payment)


async def test_a_removed_destination_stays_gone_when_its_asset_is_registered_again(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    listed = await shop.call("GET", f"/v1/merchants/{shop.merchant_id}/settlements")
    settlement = listed.body["crypto"][0]["id"]
    await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{settlement}")
    await shop.register(shop.merchant_id, USDC_BASE, BUYER)

    gone = await shop.confirm(payment, option["id"], SIGNATURE)

    assert (gone.status, gone.code) == (409, "route_expired")
    assert await shop.status(payment) == "requires_action"


async def test_a_changed_destination_does_not_stop_a_signature_for_the_old_one(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    listed = await shop.call("GET", f"/v1/merchants/{shop.merchant_id}/settlements")
    path = f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{listed.body['crypto'][0]['id']}"
    assert (await shop.call("PUT", path, {"destination": BUYER})).status == 200

    assert (await shop.confirm(payment, option["id"], SIGNATURE)).status == 200


async def test_a_merchant_that_is_gone_stops_new_signatures(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    assert (await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}")).status == 200

    gone = await shop.confirm(payment, option["id"], SIGNATURE)

    assert (gone.status, gone.code) == (409, "route_expired")


async def test_a_removed_destination_stops_new_signatures(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    listed = await shop.call("GET", f"/v1/merchants/{shop.merchant_id}/settlements")
    settlement = listed.body["crypto"][0]["id"]
    await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{settlement}")

    gone = await shop.confirm(payment, option["id"], SIGNATURE)

    assert (gone.status, gone.code) == (409, "route_expired")
    assert await shop.status(payment) == "requires_action"


async def test_a_flood_of_confirms_during_the_check_does_not_refuse_the_good_one(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    chain = shop.realm.payments.chains[0]
    real_check = chain.check
    answers: list[Any] = []

    async def slow(*args: Any) -> Any:
        await trio.sleep(1)
        return await real_check(*args)

    async def good() -> None:
        answers.append(await shop.confirm(payment, option["id"], SIGNATURE))

    monkeypatch.setattr(chain, "check", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(good)
        await trio.sleep(0.5)
        for number in range(INBOX_MAX):
            nursery.start_soon(shop.confirm, payment, f"opt_{number}", SIGNATURE)

    assert (answers[0].status, answers[0].body["status"]) == (200, "processing")


def unseen(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """No node shows what wallets tell of."""

    async def check(payment: Payment, quote: Quote, results: Sequence[Result], now_ms: int) -> Verdict:
        return Unseen()

    monkeypatch.setattr(shop.realm.payments.chains[0], "check", check)


async def test_a_hash_that_no_node_shows_yet_is_kept_and_leaves_the_payment_open(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    unseen(shop, monkeypatch)

    told = await shop.confirm(payment, option["id"], TX_HASH)

    assert (told.status, told.body["status"], told.body["isFinal"]) == (200, "requires_action", False)
    assert await hints(shop, payment) == [TX_HASH]
    assert (await shop.call("POST", f"/v1/payments/{payment}/cancel")).status == 200


@pytest.mark.parametrize("told_first", [True, False])
async def test_a_wallet_that_tells_what_the_chain_showed_before_hears_that_all_is_well(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, told_first: bool
) -> None:
    payment_id = await shop.pay()
    option = (await shop.options(payment_id, [BUYER]))[0]
    payments, simulated = shop.realm.payments, shop.realm.payments.chains[0]
    assert isinstance(simulated, SimulatedChain)
    if told_first:
        unseen(shop, monkeypatch)
        await shop.confirm(payment_id, option["id"], TX_HASH)
    else:
        await shop.realm.db.write(match_transfers, [seen_transfer(payment_id)])
    processing = simulated.simulated_processing(
        payments.find(payment_id), USDC_BASE, BUYER, payments.clock.now_ms()
    )
    await payments.ask(payment_id, lambda actor: actor.move(FundsCommitted(processing)))

    again = await shop.confirm(payment_id, option["id"], TX_HASH)
    other = await shop.confirm(payment_id, option["id"], "0x" + "cd" * 32)
    signed = await shop.confirm(payment_id, option["id"], SIGNATURE)

    assert (again.status, again.body["status"]) == (200, "processing")
    assert (other.status, other.code) == (400, "invalid_state")
    assert (signed.status, signed.code) == (400, "invalid_state"), "it tells of no transaction"


def seen_transfer(payment_id: str) -> Transfer:
    return Transfer(
        account_id=None,
        payment_id=payment_id,
        chain="eip155:8453",
        tx_id=TX_HASH,
        log_index=0,
        asset=USDC_BASE.lower(),
        value="25000000",
        sender=BUYER,
        recipient=BUYER,
        kind="matched",
        seen_at_ms=1,
    )


async def test_a_commitment_and_what_the_relayer_owes_are_stored_together_and_it_is_woken(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = await shop.pay()
    option = (await shop.options(payment_id, [BUYER]))[0]
    payments, simulated = shop.realm.payments, shop.realm.payments.chains[0]
    assert isinstance(simulated, SimulatedChain)
    processing = simulated.simulated_processing(payments.find(payment_id), USDC_BASE, BUYER, 1)
    job = RelayJob("eip155:8453", BUYER, "0x" + "11" * 20, b"call", 7)

    async def check(payment: Payment, quote: Quote, results: Sequence[Result], now_ms: int) -> Verdict:
        return Accepted(processing, job)

    monkeypatch.setattr(simulated, "check", check)
    woken: list[str] = []
    monkeypatch.setattr(payments, "_tell", replace(payments._tell, relay=woken.append))

    await shop.confirm(payment_id, option["id"], SIGNATURE)

    rows = shop.realm.db.point(
        lambda tx: tx.execute(
            "SELECT payment_id, chain, buyer, target, data, valid_until_s, state FROM relay_jobs"
        ).fetchall()
    )
    assert rows == [(payment_id, "eip155:8453", BUYER, "0x" + "11" * 20, b"call", 7, "queued")]
    assert woken == ["eip155:8453"]
    assert await shop.status(payment_id) == "processing"
