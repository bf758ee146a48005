"""What `payd listen` prints, for people and for programs."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from payd.cli.feed_connection import Message
from payd.cli.following import Connected, Full, Lost, State
from payd.cli.forwarding import Waiting
from payd.cli.signing import SecretChanged
from payd.cli.ticker import Head, JsonTicker, Payment, PlainTicker, Stopped, told, words
from payd.net.http import Reply
from payd.web.feed import BEHIND_MAX

HEAD = Head("evt_1", "payment.created", Payment("pay_t1", "requires_action"))
EVENT = msgspec.Raw(b'{"id":"evt_1","data":{"note":"\xc3\xa9"}}')
URL = "http://localhost:4242/hook"


def reply(status: int | None, error_class: str | None = None) -> Reply:
    return Reply(status, error_class, "", (), b"", True, "127.0.0.1", 12)


@pytest.mark.parametrize(
    ("answer", "resent", "end"),
    [
        (reply(200), False, "  → [200] 12 ms"),
        (reply(500), False, "  → [500] 12 ms"),
        (reply(None, "timeout_response"), False, "  → [no answer within 15 s] 12 ms"),
        (reply(204), True, "  → [204] 12 ms (resent)"),
        (None, False, "  requires_action"),
    ],
)
def test_an_event_is_one_line(
    capsys: pytest.CaptureFixture[str], answer: Reply | None, resent: bool, end: str
) -> None:
    PlainTicker().event(told(Message("c", EVENT, resent), HEAD, answer), 1_780_000_000_000)
    shown = capsys.readouterr()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  payment\.created     pay_t1" + re.escape(end) + r"\n", shown.out)
    assert shown.err == ""


@pytest.mark.parametrize(
    ("answer", "again"),
    [
        (reply(200), ""),
        (None, ""),
        (reply(500), "; again: payd webhook resend evt_1"),
        (reply(None, "timeout_response"), "; again: payd webhook resend evt_1"),
    ],
)
def test_one_that_failed_says_how_to_have_it_again(
    capsys: pytest.CaptureFixture[str], answer: Reply | None, again: str
) -> None:
    PlainTicker("payd webhook resend").event(told(Message("c", EVENT), HEAD, answer), 0)
    assert capsys.readouterr().out.partition(" ms")[2] == (f"{again}\n" if answer else "")


def json_of(capsys: pytest.CaptureFixture[str]) -> Any:
    shown = capsys.readouterr()
    assert shown.out.count("\n") == 1
    assert shown.err == ""
    return msgspec.json.decode(shown.out)


@pytest.mark.parametrize(
    ("answer", "status", "error_class", "duration_ms"),
    [
        (reply(200), 200, None, 12),
        (reply(302), 302, "redirect", 12),
        (reply(404), 404, "http_status", 12),
        (reply(None, "timeout_response"), None, "timeout_response", 12),
        (None, None, None, None),
    ],
)
def test_for_programs_an_event_is_one_object(
    capsys: pytest.CaptureFixture[str],
    answer: Reply | None,
    status: int | None,
    error_class: str | None,
    duration_ms: int | None,
) -> None:
    JsonTicker().event(told(Message("WzFd", EVENT, True), HEAD, answer), 0)
    seen = {"event": {"id": "evt_1", "data": {"note": "é"}}} if answer is None else {}
    assert json_of(capsys) == {
        **seen,
        "type": "event",
        "cursor": "WzFd",
        "eventId": "evt_1",
        "eventType": "payment.created",
        "paymentId": "pay_t1",
        "paymentStatus": "requires_action",
        "status": status,
        "errorClass": error_class,
        "durationMs": duration_ms,
        "resent": True,
    }


def test_for_programs_a_state_is_one_object_too(capsys: pytest.CaptureFixture[str]) -> None:
    JsonTicker().state(Connected("http://x", "account main", "WzFd", 4, 3.2))
    assert json_of(capsys) == {
        "type": "state",
        "state": "connected",
        "url": "http://x",
        "who": "account main",
        "cursor": "WzFd",
        "behind": 4,
        "afterS": 3.2,
        "resumed": False,
    }
    JsonTicker().state(Waiting(URL, "connection refused"))
    assert json_of(capsys) == {
        "type": "state",
        "state": "waiting",
        "url": URL,
        "reason": "connection refused",
    }


def test_for_people_states_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    PlainTicker().state(Waiting(URL, "connection refused"))
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"waiting for {URL} (connection refused)…\n")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            Connected("http://x", "account main, test mode", "c", 0, None),
            "Ready: connected to http://x as account main, test mode; from the newest event",
        ),
        (
            Connected("u", "w", "c", 0, None, resumed=True),
            "Ready: connected to u as w; from your cursor; nothing to catch up",
        ),
        (SecretChanged(None), "the signing secret changed: events are signed with the new one"),
        (
            SecretChanged("with the old one."),
            "the endpoint's secret changed: events are still signed with the old one.",
        ),
        (Connected("u", "w", "c", 12, None), "Ready: connected to u as w; 12 events to catch up"),
        (Connected("u", "w", "c", 4, 3.21), "Ready: connected again after 3.2 s; 4 events to catch up"),
        (Connected("u", "w", "c", 1, 3.21), "Ready: connected again after 3.2 s; 1 event to catch up"),
        (
            Connected("u", "w", "c", BEHIND_MAX, 3.21),
            "Ready: connected again after 3.2 s; 100 or more events to catch up",
        ),
        (Connected("u", "w", "c", 0, 3.21), "Ready: connected again after 3.2 s; nothing was missed"),
        (
            Lost("the server stops", 0.4, was_connected=True),
            "connection lost: the server stops; trying again in 0.4 s",
        ),
        (
            Lost("connection refused", 0.2, was_connected=False),
            "not connected: connection refused; trying again in 0.2 s",
        ),
        (Full(1000), "1000 events wait for the receiver; more are read when half of them are gone"),
        (Stopped("WzFd", "payd listen --after WzFd"), "Stopped. Go on with: payd listen --after WzFd"),
        (
            Stopped("c", "payd x -H 'A: …'"),
            "Stopped. Go on with, with your own in place of …: payd x -H 'A: …'",
        ),
        (Stopped(None, None), "Stopped."),
    ],
)
def test_a_state_is_said_in_words(state: State, said: str) -> None:
    assert words(state) == said


def test_the_secret_is_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    PlainTicker().secret("whsec_x")
    assert capsys.readouterr().out == "whsec_x\n"
    JsonTicker().secret("whsec_x")
    assert json_of(capsys) == {"type": "secret", "secret": "whsec_x"}
