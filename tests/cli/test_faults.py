"""`payd webhook fault` and its kin: what is asked, what is shown, and that it ends."""

from __future__ import annotations

from typing import Any

import click
import pytest

from payd.core.fault import FAULT_KINDS
from tests.terminal import Terminal, on_terminal

ONE = {
    "id": "flt_1",
    "fault": "drop",
    "state": "active",
    "deliveries": 3,
    "left": 3,
    "until": None,
    "delayS": None,
    "events": [],
    "paymentId": None,
    "injected": 0,
    "createdAt": "2026-01-01T00:00:00.000Z",
}
TIMED = {**ONE, "left": None, "until": "2026-01-01T00:10:00.000Z", "events": ["payment.created"]}


def test_a_fault_is_injected_with_what_was_typed(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["fault.inject"] = ONE
    shown = payd("webhook", "fault", "drop", "--deliveries", "3", "--event", "payment.created").output
    assert "3 deliveries" in shown
    assert "payd webhook clear-faults --mode test" in shown
    asked = {"mode": "test", "fault": "drop", "deliveries": 3, "events": ["payment.created"]}
    assert answers["asked"] == [("fault.inject", asked)]
    assert (
        payd.json("webhook", "fault", "delay", "--for", "10m", "--delay", "9s", "--payment", "pay_t1") == ONE
    )
    timed = {"mode": "test", "fault": "delay", "lasts": "10m", "delay": "9s", "payment": "pay_t1"}
    assert answers["asked"][1] == ("fault.inject", timed)


def test_an_unknown_fault_is_wrong_usage_and_help_names_them(payd: Terminal) -> None:
    assert "duplicate" in payd.error("webhook", "fault", "explode", code=2)
    told = payd("webhook", "fault", "--help").output
    assert all(f"  {kind} " in told for kind in FAULT_KINDS)
    assert "payd webhook fault duplicate --deliveries 3" in told


def test_faults_are_listed_and_ended(
    payd: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers["fault.list"] = [ONE, TIMED, {**ONE, "state": "over"}]
    shown = payd("webhook", "faults").output
    for words in (
        "3 deliveries",
        "until 2026-01-01 00:10:00 UTC",
        "nothing",
        "all events",
        "payment.created",
    ):
        assert words in shown
    answers["fault.end"] = [ONE]
    payd("webhook", "clear-faults", "flt_1")
    payd("webhook", "clear-faults")
    assert [args for name, args in answers["asked"] if name == "fault.end"] == [
        {"mode": "test", "id": "flt_1"},
        {"mode": "test"},
    ]
    assert payd.json("webhook", "clear-faults") == [ONE]
    answers["fault.end"], answers["fault.list"] = [], []
    assert payd("webhook", "clear-faults").output == "No fault was active.\n"
    assert "payd webhook fault duplicate" in payd("webhook", "faults").output
    assert payd.json("webhook", "faults") == []
    on_terminal(monkeypatch, columns=60)
    answers["fault.list"] = [TIMED]
    assert "no request was made" in click.unstyle(payd("webhook", "faults").output)


def test_on_a_stopped_server_it_is_stored_and_waits_for_the_next_start(begun: Terminal) -> None:
    assert "no webhook endpoint" in begun.error("webhook", "fault", "drop")
