"""`payd notify`: where warnings go, and whether they get there."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from payd.core.notice import MovedType, NoticeType
from tests.terminal import Terminal

NOTICE = {
    "type": "endpoint.warning",
    "createdAt": "2026-11-20T10:00:00.000Z",
    "state": "succeeded",
    "status": 200,
    "errorClass": None,
}
REFUSED = {"state": "failed", "status": None, "errorClass": "connection_refused"}
SENT = {"deliveryId": "dlv_1", "status": 200, "errorClass": None, "advice": None, "durationMs": 12}


def test_without_an_address_it_says_what_to_set(begun: Terminal) -> None:
    assert "set url in [notify] of payd.toml" in begun.error("notify", "show")


def test_the_address_of_the_configuration_is_shown_with_the_secret(begun: Terminal, monkeypatch: Any) -> None:
    monkeypatch.setenv("PAYD_NOTIFY_URL", "https://ops.example/alert")
    shown = begun.json("notify", "show")
    assert shown["url"] == "https://ops.example/alert"
    assert shown["secret"].startswith("whsec_")
    assert shown["notices"] == []
    assert shown["secret"] == begun.json("notify", "show")["secret"]
    assert "There was no notice yet." in begun("notify", "show").output


def test_the_last_notices_are_shown_with_their_fate(begun: Terminal, answers: dict[str, Any]) -> None:
    answers["notify.show"] = {
        "url": "https://ops.example/",
        "secret": "whsec_x",
        "failingSince": None,
        "notices": [NOTICE],
    }
    shown = begun("notify", "show").output
    assert "2026-11-20 10:00:00" in shown
    assert "endpoint.warning" in shown
    assert "answered 200" in shown
    assert "Failing since" not in shown


def test_a_notice_that_was_not_taken_says_why_and_what_to_do(
    begun: Terminal, answers: dict[str, Any]
) -> None:
    later = {name: NOTICE[name] for name in ("type", "createdAt")}
    notices = [{**later, "state": "pending"}, {**NOTICE, **REFUSED}, NOTICE, {**NOTICE, **REFUSED}]
    found = {"url": "https://ops.example/", "secret": "whsec_x", "failingSince": None, "notices": notices}
    answers["notify.show"] = found
    shown = begun("notify", "show").output
    assert [line.split()[4:] for line in shown.splitlines() if line.startswith("2026")] == [
        ["–"],
        ["the", "connection", "was", "refused"],
        ["answered", "200"],
        ["the", "connection", "was", "refused"],
    ]
    assert shown.count("The connection was refused: Is your receiver running") == 1


def test_every_notice_is_named_in_the_help(payd: Terminal) -> None:
    kinds = [kind for kind in (*get_args(NoticeType), *get_args(MovedType)) if kind != "notify.test"]
    shown = payd("notify", "--help").output
    assert all(kind in shown for kind in kinds)
    assert all(kind in payd("notify", "show", "--help").output for kind in kinds)


def test_a_test_says_how_it_ended_and_fails_unless_it_was_taken(
    begun: Terminal, answers: dict[str, Any]
) -> None:
    answers["notify.test"] = SENT
    assert "12 ms" in begun("notify", "test").output
    answers["notify.test"] = {
        **SENT,
        "status": None,
        "errorClass": "connection_refused",
        "advice": "Is your receiver running?",
    }
    words = begun.error("notify", "test")
    assert "Whoever should have taken the notice did not take it: the connection was refused." in words
    assert "Is your receiver running" in words
    answers["notify.test"] = {**SENT, "status": 500, "errorClass": "http_status"}
    assert "the notice answered 500. Your receiver crashed" in begun.error("notify", "test")
    shown = begun("notify", "test", "--json", code=1).stdout
    assert msgspec.json.decode(shown)["errorClass"] == "http_status"
