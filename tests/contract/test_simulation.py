"""Test mode: driving a payment by hand, and a clock that can be advanced.

Source: DESIGN.md, "9. Test realm"
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest

from tests.contract.outside import Shop, assert_misses_schema, assert_refused, magic_buyer, ok

MOVES = {
    "processing": [],
    "succeeded": ["processing"],
    "failed": [],
    "expired": [],
    "cancelled": [],
    "settled": ["processing", "succeeded"],
}


@pytest.mark.parametrize("to", MOVES)
def test_a_payment_is_driven_to_every_state(shop: Shop, merchant_id: str, to: str) -> None:
    payment_id = shop.payment(merchant_id)
    for before in MOVES[to]:
        shop.simulate(payment_id, before)
    body = shop.simulate(payment_id, to)
    assert body["status"] == ("succeeded" if to == "settled" else to)
    assert shop.status_of(payment_id) == body["status"]


def test_a_simulated_success_has_the_synthetic_transaction(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    shop.simulate(payment_id, "processing")
    shop.simulate(payment_id, "succeeded")
    assert shop.detail(payment_id)["info"]["txId"] == f"test:{payment_id}"


def test_a_succeeded_test_payment_settles_by_itself(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    shop.pay(payment_id, magic_buyer(1))
    shop.advance("5s")
    item = ok(shop.api.get("/v1/payments", merchantId=merchant_id, limit=1))["data"][0]
    assert (item["paymentId"], item["settlement"]["settled"]) == (payment_id, True)


@pytest.mark.parametrize("final", ["failed", "expired", "cancelled"])
@pytest.mark.parametrize("to", ["processing", "succeeded", "failed", "cancelled"])
def test_a_closed_payment_moves_no_more(shop: Shop, merchant_id: str, final: str, to: str) -> None:
    payment_id = shop.payment(merchant_id)
    shop.simulate(payment_id, final)
    assert_refused(
        shop.api.post(f"/v1/test/payments/{payment_id}/simulate", {"to": to}), 400, "invalid_state"
    )
    assert shop.status_of(payment_id) == final


def test_a_processing_payment_cannot_be_cancelled_by_hand(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    shop.pay(payment_id, magic_buyer(4))
    path = f"/v1/test/payments/{payment_id}/simulate"
    assert_refused(shop.api.post(path, {"to": "cancelled"}), 400, "invalid_state")
    assert shop.simulate(payment_id, "expired")["status"] == "expired"


def test_a_simulation_names_a_state_and_a_payment(shop: Shop, other: Shop, merchant_id: str) -> None:
    path = f"/v1/test/payments/{shop.payment(merchant_id)}/simulate"
    assert_misses_schema(shop.api.post(path, {}), "to")
    assert_misses_schema(shop.api.post(path, {"to": "paid"}), "to")
    assert_refused(other.api.post(path, {"to": "failed"}), 404, "payment_not_found")
    missing = f"/v1/test/payments/pay_t{'0' * 36}/simulate"
    assert_refused(shop.api.post(missing, {"to": "failed"}), 404, "payment_not_found")


def test_the_clock_says_its_time_and_how_far_ahead_it_is(shop: Shop) -> None:
    body = shop.clock()
    assert set(body) == {"now", "offsetS", "job"}
    assert body["offsetS"] >= 0
    ahead = datetime.fromisoformat(body["now"]).timestamp() - time.time()
    assert abs(ahead - body["offsetS"]) < 2


@pytest.mark.parametrize(("span", "seconds"), [("7s", 7), ("2m", 120), ("1h", 3600), ("1d", 86_400)])
def test_the_clock_advances_by_spans_and_stays_ahead(shop: Shop, span: str, seconds: int) -> None:
    before = shop.clock()["offsetS"]
    answer = ok(shop.api.post("/v1/test/clock", {"advance": span}), 202)
    assert answer["job"]["state"] in ("running", "done")
    done = shop.clock_after(answer["job"]["id"])
    assert set(done["job"]) == {"id", "state", "events"}
    assert type(done["job"]["events"]) is int
    assert shop.clock()["offsetS"] == before + seconds


def test_a_clock_that_says_done_shows_the_time_it_was_advanced_to(shop: Shop) -> None:
    for _ in range(40):
        before = shop.clock()["offsetS"]
        job_id = ok(shop.api.post("/v1/test/clock", {"advance": "1s"}), 202)["job"]["id"]
        assert shop.clock_after(job_id)["offsetS"] == before + 1


@pytest.mark.parametrize("span", ["", "0s", "-5s", "5", "5w", "1.5h", "s", "soon", "5 m", 300, None])
def test_a_span_that_makes_no_sense_moves_nothing(shop: Shop, span: Any) -> None:
    before = shop.clock()["offsetS"]
    answer = shop.api.post("/v1/test/clock", {"advance": span})
    assert answer.status_code == 400
    assert answer.json()["code"] in ("params_validation", "invalid_params")
    assert shop.clock()["offsetS"] == before


def test_an_advance_that_is_missing_is_named(shop: Shop) -> None:
    assert_misses_schema(shop.api.post("/v1/test/clock", {}), "advance")


def test_the_clock_drives_creation_expiry_and_settlement(shop: Shop, merchant_id: str) -> None:
    payment_id = shop.payment(merchant_id)
    made = shop.detail(payment_id)
    assert abs(datetime.fromisoformat(made["createdAt"]).timestamp() - shop.now_s()) < 3
    shop.advance("14m")
    assert shop.status_of(payment_id) == "requires_action"
    shop.advance("61s")
    assert shop.status_of(payment_id) == "expired"


def test_work_of_a_long_span_runs_in_the_order_of_time(shop: Shop, merchant_id: str) -> None:
    now_s = int(shop.now_s())
    late = shop.payment(merchant_id, expiresAt=now_s + 7200)
    soon = shop.payment(merchant_id, expiresAt=now_s + 3600)
    shop.advance("5h")
    listed = ok(shop.api.get("/v1/payments", merchantId=merchant_id, limit=2))["data"]
    ended = {item["paymentId"]: item["lastUpdatedAt"] for item in listed}
    assert set(ended) == {late, soon}
    for payment_id, due_s in ((soon, now_s + 3600), (late, now_s + 7200)):
        assert 0 <= datetime.fromisoformat(ended[payment_id]).timestamp() - due_s < 5
        assert shop.status_of(payment_id) == "expired"
