"""`payd trigger`: a story is asked for by name, and what follows from it is said."""

from __future__ import annotations

from typing import Any

import click
import pytest

from payd.core.scenario import BY_EVENT, SCENARIOS
from tests.terminal import Terminal, on_terminal

MADE = {
    "scenario": "late-payment",
    "paymentId": "pay_t1",
    "merchantId": "mrch_1",
    "referenceId": "late-payment-1",
    "gatewayUrl": "http://127.0.0.1/pay/pay_t1",
    "status": "expired",
    "steps": [{"did": "create"}, {"did": "confirm", "refused": "payment_expired"}],
    "expectedEvents": [
        {"type": "payment.created", "version": 0, "requests": 1, "note": ""},
        {"type": "payment.expired", "version": 1, "requests": 2, "note": "comes twice"},
    ],
}


def test_what_was_made_and_what_is_told_is_shown(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["scenario.run"] = MADE
    shown = payd("trigger", "late-payment", "--merchant", "mrch_1").output
    for words in ("pay_t1", "payment_expired", "payment.created", "comes twice"):
        assert words in shown
    assert "payd events list --payment pay_t1 --mode test" in shown
    asked = {"mode": "test", "name": "late-payment", "merchant": "mrch_1"}
    assert answers["asked"] == [("scenario.run", asked)]
    assert payd.json("trigger", "payment.expired") == MADE


def test_a_narrow_terminal_gets_lines(
    payd: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers["scenario.run"] = MADE
    on_terminal(monkeypatch, columns=30)
    shown = click.unstyle(payd("trigger", "late-payment").output)
    assert "payment.expired, version 1, 2 requests: comes twice" in shown


def test_scenarios_are_listed_and_help_teaches_them(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["scenario.list"] = [{"name": "n", "description": "d", "expectedEvents": MADE["expectedEvents"]}]
    assert "created → expired" in payd("trigger", "--list").output
    assert payd.json("trigger", "--list") == answers["scenario.list"]
    told = payd("trigger", "--help").output
    assert all(one.name in told for one in SCENARIOS)
    assert all(one in told for one in BY_EVENT)
    assert "payd trigger payment.succeeded" in told


def test_without_a_name_or_a_server_it_says_what_to_do(begun: Terminal) -> None:
    assert "--list" in begun.error("trigger", code=2)
    assert "payd serve" in begun.error("trigger", "happy-path", code=3)
    listed = begun.json("trigger", "--list")
    assert [one["name"] for one in listed] == [one.name for one in SCENARIOS]


def test_a_payment_or_what_an_event_says_can_be_chosen(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["scenario.run"] = MADE | {"expectedEvents": []}
    assert "Nothing more." in payd("trigger", "created", "--payment", "pay_t1").output
    amount = ("--override", "data.amount.value=1999", "--override", "data.amount.unit=iso4217/EUR")
    payd("trigger", "created", *amount, "--override", "data.reference_id=a=b")
    asked = [{name: value for name, value in args.items() if name != "mode"} for _, args in answers["asked"]]
    assert asked == [
        {"name": "created", "payment": "pay_t1"},
        {"name": "created", "value": "1999", "unit": "iso4217/EUR", "reference": "a=b"},
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("--override", "data.status=failed"),
        ("--override", "data.amount.value"),
        ("--override", "data.amount.value="),
        ("--override", "data.amount.value=1", "--override", "data.amount.value=2"),
        ("--payment", "pay_t1", "--override", "data.amount.value=1"),
    ],
)
def test_what_cannot_be_chosen_is_refused_before_anything_is_asked(
    payd: Terminal, answers: dict[str, Any], words: tuple[str, ...]
) -> None:
    assert "--override" in payd.error("trigger", "created", *words, code=2)
    assert answers.get("asked", []) == []
