"""An alarm is one line when it begins and one when it is over."""

from __future__ import annotations

from typing import get_args

from structlog.testing import capture_logs

from payd.actors.relay_alarms import WORDS, Alarm, Alarms

CHAIN = "eip155:8453"


def lines(alarms: Alarms, *noted: Alarm) -> list[tuple[str, str]]:
    """What a tick that notes these logs."""
    with capture_logs() as logs:
        alarms.forget()
        for alarm in noted:
            alarms.note(alarm, balance=5)
        alarms.settle()
    return [(line["log_level"], line["event"]) for line in logs]


def test_an_alarm_is_said_when_it_begins_and_when_it_is_over() -> None:
    alarms = Alarms(CHAIN)
    assert lines(alarms) == []
    assert lines(alarms, "balance_low") == [("warning", "relayer.balance_low")]
    assert alarms.active == {"balance_low"}
    assert lines(alarms, "balance_low", "budget") == [("warning", "relayer.budget")]
    assert lines(alarms, "budget") == [("info", "relayer.balance_low_over")]
    assert lines(alarms) == [("info", "relayer.budget_over")]
    assert alarms.active == frozenset()


def test_an_alarm_names_the_chain_the_facts_and_what_to_do() -> None:
    alarms = Alarms(CHAIN)
    with capture_logs() as logs:
        alarms.note("balance_empty", balance=5)
        alarms.settle()
    [line] = logs
    assert (line["chain"], line["balance"]) == (CHAIN, 5)
    assert "send it" in line["what"]


def test_a_tick_that_did_not_end_changes_nothing() -> None:
    alarms = Alarms(CHAIN)
    lines(alarms, "stuck")
    alarms.forget()
    alarms.note("budget")
    assert alarms.active == {"stuck"}
    assert lines(alarms, "stuck") == []


def test_a_tick_that_knows_nothing_keeps_what_was() -> None:
    alarms = Alarms(CHAIN)
    lines(alarms, "stuck")
    with capture_logs() as logs:
        alarms.keep()
        alarms.note("queue_old")
        alarms.settle()
    assert [line["event"] for line in logs] == ["relayer.queue_old"]
    assert alarms.active == {"stuck", "queue_old"}


def test_each_alarm_has_words() -> None:
    assert set(get_args(Alarm)) == WORDS.keys()
