"""`payd webhook deliveries`, `delivery` and `resend`: what was sent is found, explained and sent again."""

from __future__ import annotations

from typing import Any

import click
import msgspec
import pytest

from payd.cli.deliveries import outcome
from tests.terminal import Terminal, on_terminal

ONE = {
    "id": "dlv_1",
    "messageId": "msg_1",
    "endpointState": "enabled",
    "reason": None,
    "eventId": "evt_1",
    "eventType": "payment.created",
    "paymentId": "pay_t1",
    "state": "pending",
    "attempts": 2,
    "lastStatus": 503,
    "nextAttemptAt": "2026-01-01T00:05:00.000Z",
    "createdAt": "2026-01-01T00:00:00.000Z",
}


def attempt(n: int, status: int | None, error_class: str | None, trigger: str = "auto") -> dict[str, Any]:
    return {
        "n": n,
        "trigger": trigger,
        "at": f"2026-01-01T00:00:0{n}.123Z",
        "status": status,
        "errorClass": error_class,
        "durationMs": 10 * n,
        "remoteIp": None,
        "body": "",
    }


LOG = [
    attempt(1, None, "connection_refused"),
    attempt(2, 404, "http_status"),
    attempt(3, 404, "http_status", "manual"),
]


def page(*rows: dict[str, Any], more: str | None = None) -> dict[str, Any]:
    """What the server answers to a list."""
    return {"data": list(rows), "nextCursor": more}


def test_where_there_is_none_it_says_so(begun: Terminal) -> None:
    assert "once it is set" in begun("webhook", "deliveries").output
    assert begun("webhook", "deliveries", "--state", "failed").output == "There is none of these.\n"
    assert begun.json("webhook", "deliveries", "--payment", "pay_t1", "--limit", "5") == page()


def test_deliveries_are_shown_a_row_each(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["webhook.deliveries"] = page(ONE)
    _, row = payd("webhook", "deliveries").output.splitlines()
    assert row.split() == [
        *("2026-01-01", "00:00:00", "payment.created", "pay_t1", "pending", "2", "503"),
        *("2026-01-01", "00:05:00", "dlv_1"),
    ]


def test_only_what_was_asked_for_is_asked_for(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["webhook.deliveries"] = page()
    payd("webhook", "deliveries", "--state", "failed", "--payment", "pay_t1", "--limit", "7")
    payd("webhook", "deliveries")
    assert [args for _, args in answers["asked"]] == [
        {"mode": "test", "state": "failed", "payment": "pay_t1", "limit": 7},
        {"mode": "test"},
    ]
    assert "--state" in payd.error("webhook", "deliveries", "--state", "lost", code=2)
    assert "1<=x<=100" in payd.error("webhook", "deliveries", "--limit", "101", code=2)


def test_on_a_narrow_terminal_no_id_is_folded(
    payd: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {"id": f"dlv_{'1' * 38}", "paymentId": f"pay_t{'2' * 36}"}
    test = {"eventId": None, "paymentId": None, "attempts": 1, "lastStatus": None, "nextAttemptAt": None}
    held = {**ONE, "id": "dlv_3", "endpointState": "paused"}
    answers["webhook.deliveries"] = page({**ONE, **ids}, {**ONE, **test, "id": "dlv_2"}, held)
    on_terminal(monkeypatch, columns=80)
    assert click.unstyle(payd("webhook", "deliveries").output).splitlines() == [
        f"{ids['id']}  pending",
        f"  2026-01-01 00:00:00  payment.created  {ids['paymentId']}",
        "  2 attempts, last answered 503, next at 2026-01-01 00:05:00",
        "dlv_2  pending",
        "  2026-01-01 00:00:00  payment.created  a test",
        "  1 attempt",
        "dlv_3  pending",
        "  2026-01-01 00:00:00  payment.created  pay_t1",
        "  2 attempts, last answered 503, on hold",
    ]


@pytest.mark.parametrize(
    ("bodies", "shown"),
    [
        (["not yet", "no order\n  of this\tshop"], "no order of this shop"),
        (["the last that said something", ""], "the last that said something"),
        (["\x1b[2Jgone \u202egnihton"], "[2Jgone gnihton"),
        (["é" * 201], "é" * 200 + "…"),
        (["", "\n\n"], None),
    ],
)
def test_one_delivery_shows_the_endpoint_s_last_words_in_a_line(
    payd: Terminal, answers: dict[str, Any], bodies: list[str], shown: str | None
) -> None:
    log = [{**attempt(n, 200, None), "body": body} for n, body in enumerate(bodies, 1)]
    answers["webhook.delivery"] = {**ONE, "state": "succeeded", "attemptLog": log}
    lines = payd("webhook", "delivery", "dlv_1").output.splitlines()
    said = [line.split(None, 1)[1] for line in lines if line.startswith("Answer ")]
    assert said == ([] if shown is None else [shown])


def test_a_page_says_that_there_is_another_and_how_to_see_it(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["webhook.deliveries"] = page(ONE, more="abc")
    shown = payd("webhook", "deliveries", "--state", "failed", "--limit", "1", "--account", "shop").output
    assert "There are more. --limit shows up to 100 at once" in shown
    assert (
        "payd webhook deliveries --state failed --limit 1 --cursor abc --mode test --account shop\n" in shown
    )
    payd("webhook", "deliveries", "--cursor", "abc")
    assert answers["asked"][-1][1] == {"mode": "test", "cursor": "abc"}
    answers["webhook.deliveries"] = page(ONE)
    assert "more" not in payd("webhook", "deliveries").output


def test_what_waits_for_a_paused_endpoint_has_no_next_time(payd: Terminal, answers: dict[str, Any]) -> None:
    held = {**ONE, "endpointState": "paused"}
    answers.update({"webhook.deliveries": page(held), "webhook.delivery": {**held, "attemptLog": []}})
    _, row = payd("webhook", "deliveries").output.splitlines()
    assert row.split()[-3:] == ["on", "hold", "dlv_1"]
    shown = payd("webhook", "delivery", "dlv_1").output
    assert "Next attempt  on hold\n" in shown
    assert "payd webhook resume --mode test" in shown
    assert "resend" not in shown


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        ("failed", None, "failed: given up after 8 of 8 attempts"),
        ("failed", "job_cancelled", "failed: taken back, because its job was cancelled"),
        ("cancelled", "endpoint_disabled", "cancelled: its endpoint was disabled"),
        ("cancelled", "endpoint_deleted", "cancelled: its endpoint was deleted"),
        ("cancelled", "something_new", "cancelled: something_new"),
        ("pending", None, "pending"),
        ("succeeded", None, "succeeded"),
    ],
)
def test_a_state_says_what_brought_it_about(
    payd: Terminal, answers: dict[str, Any], state: str, reason: str | None, words: str
) -> None:
    answers["webhook.delivery"] = {**ONE, "state": state, "reason": reason, "attemptLog": []}
    assert f"State         {words}\n" in payd("webhook", "delivery", "dlv_1").output


@pytest.mark.parametrize(
    ("state", "command"),
    [
        ("enabled", "webhook resend dlv_1"),
        ("paused", "webhook resume"),
        ("disabled", "webhook enable"),
        ("deleted", "webhook replay-missing --since 14d --preview"),
    ],
)
def test_what_is_offered_for_a_delivery_is_what_can_be_done(
    payd: Terminal, answers: dict[str, Any], state: str, command: str
) -> None:
    answers["webhook.delivery"] = {**ONE, "state": "failed", "endpointState": state, "attemptLog": LOG}
    shown = payd("webhook", "delivery", "dlv_1").output
    assert shown.endswith(f"payd {command} --mode test\n")
    assert ("resend" in shown) is (state == "enabled")


def test_a_test_that_failed_is_followed_by_another(payd: Terminal, answers: dict[str, Any]) -> None:
    test = {**ONE, "eventId": None, "paymentId": None, "state": "failed", "attemptLog": LOG}
    answers["webhook.delivery"] = test
    shown = payd("webhook", "delivery", "dlv_1").output
    assert "Tests are not sent again. Send another: " in shown
    assert shown.endswith("payd webhook test --mode test\n")
    assert "given up" not in shown


def test_a_delivery_is_shown_with_its_attempts_and_each_advice_once(
    payd: Terminal, answers: dict[str, Any]
) -> None:
    answers["webhook.delivery"] = {**ONE, "attemptLog": LOG}
    shown = payd("webhook", "delivery", "dlv_1").output
    lines = [line.split() for line in shown.splitlines()]
    refused = ["the", "connection", "was", "refused"]
    assert ["1", "2026-01-01", "00:00:01", "auto", "–", *refused, "10"] in lines
    assert ["3", "2026-01-01", "00:00:03", "manual", "404", "–", "30"] in lines
    assert shown.count("The connection was refused: Is your receiver running") == 1
    assert shown.count("404: Nothing is served at this path.") == 1
    assert "Next attempt  2026-01-01 00:05:00 UTC" in shown
    assert "webhook-id    msg_1" in shown
    assert "payd webhook resend dlv_1 --mode test" in shown


def test_a_delivery_that_succeeded_needs_no_advice(payd: Terminal, answers: dict[str, Any]) -> None:
    log = [attempt(1, 404, "http_status"), attempt(2, 200, None)]
    answers["webhook.delivery"] = {**ONE, "state": "succeeded", "attemptLog": log}
    shown = payd("webhook", "delivery", "dlv_1").output
    assert shown.endswith("20\n"), "what had to be done was done"
    assert "resend" not in shown


def test_a_delivery_that_was_not_tried_yet_says_so(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["webhook.delivery"] = {**ONE, "attempts": 0, "attemptLog": []}
    assert "There was no attempt yet." in payd("webhook", "delivery", "dlv_1").output
    assert payd.json("webhook", "delivery", "dlv_1")["attemptLog"] == []


def test_a_delivery_is_sent_again_and_the_answer_shown(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["webhook.resend"] = {**ONE, "attemptLog": [*LOG, attempt(4, 204, None, "manual")]}
    assert payd("webhook", "resend", "dlv_1").output == "Delivered: the endpoint answered 204 after 40 ms.\n"
    assert payd.json("webhook", "resend", "dlv_1")["id"] == "dlv_1"
    assert answers["asked"][0] == ("webhook.resend", {"mode": "test", "id": "dlv_1"})


def test_a_resend_that_fails_is_a_failure_that_says_what_to_do(
    payd: Terminal, answers: dict[str, Any]
) -> None:
    answers["webhook.resend"] = {**ONE, "attemptLog": LOG}
    said = payd.error("webhook", "resend", "dlv_1")
    assert "It was sent, but the endpoint answered 404. Nothing is served" in said
    result = payd("webhook", "resend", "dlv_1", "--json", code=1)
    assert len(msgspec.json.decode(result.stdout)["attemptLog"]) == 3


def test_an_event_that_went_to_listeners_alone_says_why(payd: Terminal, answers: dict[str, Any]) -> None:
    paused = "The delivery's endpoint is paused; POST /v1/webhooks/endpoint/resume first."
    answers["webhook.resend"] = {"eventId": "evt_1", "listeners": 1, "why": paused}
    shown = payd("webhook", "resend", "evt_1").output
    assert shown.startswith(
        "Told again to 1 listener, and sent to no endpoint: The delivery's endpoint is paused."
    )
    assert "payd webhook resume --mode test" in shown
    answers["webhook.resend"]["listeners"] = 2
    assert "to 2 listeners," in payd("events", "resend", "evt_1").output
    assert payd.json("webhook", "resend", "evt_1")["listeners"] == 2


def test_what_does_not_exist_is_refused_and_a_resend_needs_the_server(begun: Terminal) -> None:
    assert "no such delivery" in begun.error("webhook", "delivery", "dlv_0")
    assert "payd serve" in begun.error("webhook", "resend", "dlv_0", code=3)


def test_an_outcome_without_advice_is_said_all_the_same() -> None:
    assert outcome({"status": None, "errorClass": "something_new"}) == "did not take it: something new."
