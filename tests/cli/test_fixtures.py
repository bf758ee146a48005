"""`payd fixtures run`: steps are done in order, and the first that ends otherwise ends the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.listening import open_shop
from tests.terminal import Terminal

PAYMENT = {
    "name": "payment",
    "method": "POST",
    "path": "/v1/payments",
    "headers": {"Merchant-Id": "${merchant}", "Idempotency-Key": "${run}"},
    "body": {"referenceId": "O-1", "amount": {"unit": "iso4217/USD", "value": "1250"}},
    "expect": {"status": "requires_action"},
}
CANCEL = {"method": "POST", "path": "/v1/payments/${payment.paymentId}/cancel"}
MADE = {"status": 201, "body": {"paymentId": "pay_t1", "status": "requires_action", "n": 1}}
NOT_NOW = {"status": 400, "body": {"code": "invalid_state", "message": "It is over."}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.json"


def write(file: Path, *steps: Any) -> str:
    file.write_text(json.dumps({"steps": steps}))
    return str(file)


def test_steps_are_done_in_order_with_values_of_those_before(
    payd: Terminal, answers: dict[str, Any], file: Path
) -> None:
    replies = [MADE, {"status": 200, "body": {}}, NOT_NOW] * 2
    answers["fixture.call"] = lambda _args: replies.pop(0)
    steps = write(file, PAYMENT, CANCEL, CANCEL | {"error": "invalid_state"})
    shown = payd("fixtures", "run", steps, "--set", "merchant=mrch_1").output
    assert "201  POST    /v1/payments\n" in shown
    assert "400  POST    /v1/payments/pay_t1/cancel  invalid_state, as it should\n" in shown

    (_, first), (_, second), _ = answers["asked"]
    assert first["headers"]["Merchant-Id"] == "mrch_1"
    assert first["headers"]["Idempotency-Key"].startswith("run_")
    assert first["body"] == PAYMENT["body"]
    assert (second["path"], "body" in second) == ("/v1/payments/pay_t1/cancel", False)

    told = payd.json("fixtures", "run", steps, "--set", "merchant=mrch_1")
    assert [(one["step"], one["name"], one["status"]) for one in told] == [
        (1, "payment", 201),
        (2, None, 200),
        (3, None, 400),
    ]
    assert answers["asked"][0][1]["headers"] != answers["asked"][3][1]["headers"], "each run is new"


@pytest.mark.parametrize(
    ("change", "reply", "words"),
    [
        ({}, NOT_NOW, "it was refused with 400 invalid_state: It is over."),
        ({"error": "not_found"}, NOT_NOW, "it was refused with 400 invalid_state, not with not_found"),
        ({"error": "invalid_state"}, MADE, "it was to be refused with invalid_state, and answered 201"),
        ({"expect": {"status": "paid"}}, MADE, 'status is "requires_action", not "paid"'),
        ({"expect": {"n": "1"}}, MADE, 'n is 1, not "1"'),
        ({"expect": {"n": True}}, MADE, "n is 1, not true"),
        ({"expect": {"amount.value": 1}}, MADE, "there is no amount.value: amount is not there"),
    ],
)
def test_a_step_that_ends_otherwise_ends_the_run_and_says_which(
    payd: Terminal, answers: dict[str, Any], file: Path, change: dict[str, Any], reply: Any, words: str
) -> None:
    replies = [MADE, reply]
    answers["fixture.call"] = lambda _args: replies.pop(0)
    steps = write(file, {"method": "GET", "path": "/v1/payments"}, PAYMENT | change, CANCEL)
    said = payd("fixtures", "run", steps, "--set", "merchant=mrch_1", code=1)
    assert f"Step 2 (payment), POST /v1/payments: {words}" in said.stderr
    assert "1  201" in said.stdout
    assert len(answers["asked"]) == 2, "nothing more was done"


def test_mistakes_are_told_before_anything_is_done(
    payd: Terminal, answers: dict[str, Any], file: Path
) -> None:
    steps = write(file, PAYMENT)
    assert "${merchant} is of no step before it" in payd.error("fixtures", "run", steps)
    for wrong in ("merchant", "=x", "run=x"):
        assert "--set" in payd.error("fixtures", "run", steps, "--set", wrong, code=2)
    twice = payd.error("fixtures", "run", steps, "--set", "merchant=a", "--set", "merchant=b", code=2)
    assert "twice" in twice
    assert "nowhere.json" in payd.error("fixtures", "run", "nowhere.json")
    assert answers["asked"] == []


def test_without_a_server_it_says_what_to_do(begun: Terminal, file: Path) -> None:
    assert "payd serve" in begun.error("fixtures", "run", write(file, CANCEL | {"path": "/v1/x"}), code=3)


@pytest.mark.real_time
def test_a_real_server_does_what_a_file_says(tmp_path: Path, file: Path) -> None:
    write(
        file,
        {
            "name": "shop",
            "method": "POST",
            "path": "/v1/merchants",
            "headers": {"Idempotency-Key": "${run}"},
            "body": {"merchantName": "Fixture", "merchantEmail": "shop@example.com"},
        },
        PAYMENT
        | {"headers": {"Merchant-Id": "${shop.merchant.id}"}, "error": "invalid_params", "expect": {}},
        PAYMENT | {"name": "paid"},
        CANCEL | {"path": "/v1/test/payments/${paid.paymentId}/simulate", "body": {"to": "succeeded"}},
        CANCEL | {"path": "/v1/payments/${paid.paymentId}/cancel", "error": "invalid_state"},
        {
            "method": "GET",
            "path": "/v1/events?paymentId=${paid.paymentId}&type=payment.succeeded",
            "expect": {"data.0.paymentId": "${paid.paymentId}"},
        },
        {"method": "GET", "path": "/v1/payments?limt=1", "error": "invalid_params"},
        {"method": "GET", "path": "/v1/nothing", "error": "not_found"},
    )
    with open_shop(tmp_path / "data") as shop:
        told = shop.server.payd("fixtures", "run", str(file), "--set", f"merchant={shop.merchant}")
    assert [one["status"] for one in told] == [201, 400, 201, 200, 400, 200, 400, 404]
