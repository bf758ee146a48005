"""`payd webhook` registers the endpoint, keeps its secret in hand, and checks deliveries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from payd.clock import system_wall_ms
from payd.config import Config
from payd.core.endpoint import EVENT_TYPES
from payd.core.signature import make_secret, sign
from tests.terminal import Terminal

URL = "http://127.0.0.1:9/hook"
SECRET = make_secret(b"s" * 32)


def test_a_set_endpoint_prints_url_events_and_secret(begun: Terminal) -> None:
    made = begun.json("webhook", "set", "--mode", "test", "--url", URL)
    assert (made["url"], made["events"]) == (URL, list(EVENT_TYPES))
    assert made["secret"].startswith("whsec_")
    assert made["secret"] in begun("webhook", "set", "--url", URL).output, "setting it again does not rotate"


def test_only_the_chosen_events_are_wanted(begun: Terminal) -> None:
    made = begun.json(
        "webhook", "set", "--url", URL, "--event", "payment.succeeded", "--event", "payment.failed"
    )
    assert made["events"] == ["payment.succeeded", "payment.failed"]
    assert "payment.sold" in begun.error("webhook", "set", "--url", URL, "--event", "payment.sold")


def test_the_endpoint_is_shown_without_its_secret(begun: Terminal) -> None:
    begun("webhook", "set", "--url", URL)
    shown = begun("webhook", "show").output
    assert URL in shown
    assert "whsec_" not in shown


def test_the_secret_is_rotated_and_revealed(begun: Terminal) -> None:
    first = begun.json("webhook", "set", "--url", URL)["secret"]
    second = begun.json("webhook", "rotate")["secret"]
    assert second != first
    assert begun.json("webhook", "reveal")["secret"] == second


def test_the_endpoint_is_disabled_and_enabled(begun: Terminal) -> None:
    begun("webhook", "set", "--url", URL)
    assert begun.json("webhook", "disable")["state"] == "disabled"
    assert begun.json("webhook", "enable")["state"] == "enabled"


def test_deleting_asks_first(begun: Terminal) -> None:
    begun("webhook", "set", "--url", URL)
    begun("webhook", "delete", code=1, input="n\n")
    assert begun.json("webhook", "show")["url"] == URL
    begun("webhook", "delete", "--yes")
    assert "no webhook endpoint" in begun.error("webhook", "show")


def test_a_test_event_needs_the_running_server(begun: Terminal) -> None:
    begun("webhook", "set", "--url", URL)
    assert "payd serve" in begun.error("webhook", "test", code=3)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("connection_refused", "did not answer: connection refused. Is your receiver running?"),
        ("protocol_error", "did not answer: protocol error.\n"),
    ],
)
def test_no_answer_to_a_test_event_is_a_failure_that_says_why(
    begun: Terminal, monkeypatch: pytest.MonkeyPatch, reason: str, words: str
) -> None:
    silent = {"deliveryId": "dlv_1", "status": None, "errorClass": reason, "durationMs": 1, "body": ""}

    def ask(_config: Config, command: str, _args: dict[str, Any]) -> Any:
        return {"webhook.test": silent, "webhook.show": {"url": URL}}[command]

    monkeypatch.setattr("payd.cli.options.ask", ask)
    assert f"{URL} {words}" in begun.error("webhook", "test")
    result = begun("webhook", "test", "--json", code=1)
    assert msgspec.json.decode(result.stdout) == silent


def test_the_last_deliveries_are_shown(begun: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "There is none" in begun("webhook", "deliveries").output
    assert begun.json("webhook", "deliveries", "--mode", "test") == []
    one = {
        "id": "dlv_1",
        "eventType": "payment.created",
        "paymentId": "pay_t1",
        "state": "pending",
        "attempts": 2,
        "lastStatus": 503,
        "nextAttemptAt": "2026-01-01T00:05:00.000Z",
        "createdAt": "2026-01-01T00:00:00.000Z",
    }
    monkeypatch.setattr("payd.cli.options.ask", lambda *_args: [one])
    _, row = begun("webhook", "deliveries").output.splitlines()
    assert row.split() == [
        *("2026-01-01", "00:00:00", "payment.created", "pay_t1", "pending", "2", "503"),
        *("2026-01-01", "00:05:00"),
    ]


def test_a_url_without_its_scheme_is_told_what_is_missing(begun: Terminal) -> None:
    said = begun.error("webhook", "set", "--url", "localhost:9999/webhook")
    assert "must begin with https:// (or http:// where it is allowed)" in said


def test_a_private_address_is_refused_with_the_key_to_set(begun: Terminal) -> None:
    assert "webhooks.test" in begun.error("webhook", "set", "--url", "http://10.0.0.1/hook")


def verify_options(body: Path, **changes: str) -> list[str]:
    now_s = str(system_wall_ms() // 1000)
    given = {"id": "msg_1", "timestamp": now_s, "secret": SECRET, "body": str(body)}
    given["signature"] = sign([SECRET], "msg_1", int(now_s), b'{"a": 1}')
    return [part for name, value in {**given, **changes}.items() for part in (f"--{name}", value)]


@pytest.fixture
def body(tmp_path: Path) -> Path:
    path = tmp_path / "body"
    path.write_bytes(b'{"a": 1}')
    return path


def test_an_authentic_delivery_verifies(payd: Terminal, body: Path) -> None:
    assert "Authentic" in payd("webhook", "verify", *verify_options(body)).output
    assert payd.json("webhook", "verify", *verify_options(body)) == {"authentic": True}


def test_the_body_may_come_in_on_standard_input(payd: Terminal, body: Path) -> None:
    assert "Authentic" in payd("webhook", "verify", *verify_options(Path("-")), input=b'{"a": 1}').output


def test_the_secret_may_come_from_a_variable(
    payd: Terminal, body: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = verify_options(body)
    at = options.index("--secret")
    monkeypatch.setenv("PAYD_WEBHOOK_SECRET", SECRET)
    assert "Authentic" in payd("webhook", "verify", *options[:at], *options[at + 2 :]).output


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"secret": make_secret(b"x" * 32)}, "No v1 signature fits"),
        ({"secret": "hunter2"}, "must begin with whsec_"),
        ({"id": "msg_2"}, "No v1 signature fits"),
        ({"timestamp": "yesterday"}, "whole Unix seconds"),
        ({"signature": "v1,AAAA"}, "No v1 signature fits"),
    ],
)
def test_what_is_not_authentic_says_why(
    payd: Terminal, body: Path, changes: dict[str, str], words: str
) -> None:
    said = payd.error("webhook", "verify", *verify_options(body, **changes))
    assert words in said
    assert "hunter2" not in said


def test_changed_bytes_do_not_verify(payd: Terminal, body: Path) -> None:
    body.write_bytes(b'{"a":1}')
    result = payd("webhook", "verify", *verify_options(body), "--json", code=1)
    assert '"authentic": false' in result.stdout
