"""`payd webhook` registers the endpoint, keeps its secret in hand, and tests it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from payd.cli.webhook import SECTIONS, webhook
from payd.core.endpoint import EVENT_TYPES
from tests.terminal import Terminal

URL = "http://127.0.0.1:9/hook"


def test_a_set_endpoint_prints_url_events_and_secret(begun: Terminal) -> None:
    made = begun.json("webhook", "set", "--mode", "test", "--url", URL)
    assert (made["url"], made["events"]) == (URL, list(EVENT_TYPES))
    assert made["secret"].startswith("whsec_")
    assert made["secret"] in begun("webhook", "set", "--url", URL).output, "setting it again does not rotate"


def test_an_endpoint_that_loses_its_events_to_another_is_named(begun: Terminal) -> None:
    begun("webhook", "set", "--url", URL)
    assert "In place of" not in begun("webhook", "set", "--url", URL).output
    moved = begun("webhook", "set", "--url", f"{URL}/2").output
    assert f"In place of  {URL}\n" in moved


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


def test_a_secret_of_another_seal_key_is_refused_in_words(begun: Terminal) -> None:
    begun("webhook", "set", "--url", URL)
    (begun.folder / "data" / "seal.key").write_text(bytes(32).hex())
    said = begun.error("webhook", "reveal", "--data-dir", "data")
    assert "does not open with this server's seal key" in said
    assert "payd doctor --data-dir data` says more.\n" in said


def test_a_revealed_secret_is_alone_where_no_terminal_shows_it(
    begun: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = begun.json("webhook", "set", "--url", URL)["secret"]
    assert begun("webhook", "reveal").output == f"{secret}\n"
    monkeypatch.setattr("payd.cli.webhook.is_terminal", lambda: True)
    shown = begun("webhook", "reveal").output
    assert secret in shown
    assert URL in shown


@pytest.mark.parametrize("name", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_a_wish_for_colour_puts_nothing_beside_a_revealed_secret(
    begun: Terminal, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    secret = begun.json("webhook", "set", "--url", URL)["secret"]
    monkeypatch.setenv(name, "1")  # as in many CIs
    assert begun("webhook", "reveal").output == f"{secret}\n"


def test_a_rotation_says_until_when_the_old_secret_signs(begun: Terminal) -> None:
    assert "Old secrets" not in begun("webhook", "set", "--url", URL).output
    rotated = begun.json("webhook", "rotate")
    until = rotated["oldSecretsUntil"][:19].replace("T", " ")
    assert f"Old secrets  sign along until {until} UTC\n" in begun("webhook", "show").output
    for _ in range(3):
        begun("webhook", "rotate")
    assert f"rotate again when the oldest stops, at {rotated['oldSecretsUntil']}" in begun.error(
        "webhook", "rotate"
    )


def test_what_disables_a_failing_endpoint_is_a_failure_not_the_clock(
    payd: Terminal, answers: dict[str, Any]
) -> None:
    failing = {"state": "enabled", "disablesAt": "2026-11-25T10:00:00.000Z"}
    answers["webhook.show"] = {**failing, "now": "2026-11-25T09:59:59.999Z"}
    said = payd("webhook", "show").output
    assert "by the first failure after 2026-11-25 10:00:00 UTC; 24 h without an attempt start" in said
    answers["webhook.show"] = {**failing, "now": "2026-11-25T10:00:00.000Z"}
    said = payd("webhook", "show").output
    assert "by its next failure, unless that comes after 24 h without an attempt" in said
    assert "10:00:00" not in said
    answers["webhook.show"] = {**failing, "disablesAt": None, "now": "2026-11-25T10:00:00.000Z"}
    assert "disabled" not in payd("webhook", "show").output


def test_what_the_api_asks_for_is_told_as_a_command(begun: Terminal) -> None:
    said = begun.error("webhook", "show")
    assert said.startswith("Error: There is no webhook endpoint. Set it: ")
    assert said.endswith("payd webhook set --url URL --mode test\n")
    begun("webhook", "set", "--url", URL)
    begun("webhook", "disable")
    for act in ("pause", "resume"):
        said = begun.error("webhook", act, "--account", "main")
        assert "The webhook endpoint is disabled. Enable it first: " in said
        assert said.endswith("payd webhook enable --mode test --account main\n")
        assert "POST" not in said


def test_the_endpoint_is_disabled_and_enabled(begun: Terminal) -> None:
    begun("webhook", "set", "--url", URL)
    assert begun.json("webhook", "disable")["state"] == "disabled"
    assert begun.json("webhook", "enable")["state"] == "enabled"


def test_deleting_asks_first(begun: Terminal) -> None:
    begun("webhook", "set", "--url", URL)
    refused = begun("webhook", "delete", "--json", code=1, input="n\n")
    assert (refused.stdout, "gone for good" in refused.stderr) == ("", True)
    assert begun.json("webhook", "show")["url"] == URL
    begun("webhook", "delete", "--yes")
    assert "no webhook endpoint" in begun.error("webhook", "show")


def test_a_test_event_needs_the_running_server(begun: Terminal) -> None:
    begun("webhook", "set", "--url", URL)
    assert "payd serve" in begun.error("webhook", "test", code=3)


def answered(status: int | None, error_class: str | None) -> dict[str, Any]:
    """What a test event came to."""
    return {
        "deliveryId": "dlv_1",
        "status": status,
        "errorClass": error_class,
        "durationMs": 7,
        "body": "thanks" if status else "",
    }


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (None, "connection_refused", "did not take it: the connection was refused. Is your receiver running"),
        (None, "protocol_error", "did not take it: the answer is not HTTP/1.1. Is this"),
        (None, "something_new", "did not take it: something new.\n"),
        (None, "timeout_response", "did not take it: no answer within 15 s. Answer at once"),
        (None, "blocked_address", "did not take it: an address that payd may not call. The host is"),
        (500, "http_status", "answered 500. Your receiver crashed"),
        (404, "http_status", "answered 404. Nothing is served at this path."),
        (308, "redirect", "answered 308. Redirects are not followed"),
    ],
)
def test_a_test_event_that_fails_says_why_and_what_to_do(
    payd: Terminal, answers: dict[str, Any], status: int | None, reason: str, words: str
) -> None:
    answers.update({"webhook.test": answered(status, reason), "webhook.show": {"url": URL}})
    result = payd("webhook", "test", code=1)
    assert f"{URL} {words}" in result.stderr
    assert ("thanks" in result.stdout) is (status is not None)
    result = payd("webhook", "test", "--json", code=1)
    assert msgspec.json.decode(result.stdout) == answered(status, reason)


def test_a_test_event_that_is_answered_shows_the_answer(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["webhook.test"] = answered(204, None)
    shown = payd("webhook", "test", "--type", "payment.failed").output
    assert ("204" in shown, "7 ms" in shown, "thanks" in shown) == (True, True, True)
    assert answers["asked"] == [("webhook.test", {"mode": "test", "type": "payment.failed"})]


def test_one_of_each_type_is_sent_and_the_failures_are_counted(
    payd: Terminal, answers: dict[str, Any]
) -> None:
    failing = {"payment.failed": (None, "timeout_response"), "payment.settled": (500, "http_status")}
    answers["webhook.test"] = lambda args: answered(*failing.get(args["type"], (200, None)))
    result = payd("webhook", "test", "--all", code=1)
    _, *rows = [line.split() for line in result.stdout.splitlines()][: 1 + len(EVENT_TYPES)]
    assert rows == [
        ["payment.created", "200", "7", "–"],
        ["payment.processing", "200", "7", "–"],
        ["payment.succeeded", "200", "7", "–"],
        ["payment.failed", "–", "7", "no", "answer", "within", "15", "s"],
        ["payment.expired", "200", "7", "–"],
        ["payment.cancelled", "200", "7", "–"],
        ["payment.settled", "500", "7", "–"],
    ]
    assert "No answer within 15 s: Answer at once" in result.stdout
    assert "500: Your receiver crashed" in result.stdout
    assert "2 of 7 test events failed" in result.stderr
    sent = msgspec.json.decode(payd("webhook", "test", "--all", "--json", code=1).stdout)
    assert [one["type"] for one in sent] == list(EVENT_TYPES)


def test_when_all_are_answered_all_is_well(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["webhook.test"] = answered(200, None)
    assert payd("webhook", "test", "--all").stderr == ""
    assert "exclude each other" in payd.error("webhook", "test", "--all", "--type", "payment.failed", code=2)


def test_headers_are_sent_as_they_were_typed(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["webhook.set"] = {"id": "ep_1", "url": URL, "headers": ["X-Shop", "Authorization"]}
    typed = ["--header", "X-Shop:1", "--header", "Authorization: Bearer a:b "]
    assert "X-Shop Authorization" in payd("webhook", "set", "--url", URL, *typed).output
    payd("webhook", "set", "--url", URL, "--no-headers")
    payd("webhook", "set", "--url", URL)
    sent = [args.get("headers") for _, args in answers["asked"]]
    assert sent == [{"X-Shop": "1", "Authorization": "Bearer a:b"}, {}, None]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["--header", "Authorization hunter2"], "must be 'Name: value'"),
        (["--header", ": hunter2"], "must be 'Name: value'"),
        (["--header", "X-Shop:"], "must be 'Name: value'"),
        (["--header", "X-Shop: hunter2", "--header", "x-shop: 2"], "x-shop is given twice"),
        (["--header", "X-Shop: hunter2", "--no-headers"], "exclude each other"),
    ],
)
def test_a_wrong_header_is_refused_without_its_value(payd: Terminal, typed: list[str], words: str) -> None:
    said = payd.error("webhook", "set", "--url", URL, *typed, code=2)
    assert words in said
    assert "hunter2" not in said


@pytest.mark.parametrize(("missed", "words"), [(1, "1 event was missed"), (12, "12 events were missed")])
def test_enabling_says_what_was_missed_and_how_to_send_it(
    payd: Terminal, answers: dict[str, Any], missed: int, words: str
) -> None:
    since = "2026-11-20T10:00:00.000Z"
    answers["webhook.enable"] = {"state": "enabled", "missedSince": since, "missedEvents": missed}
    said = payd("webhook", "enable", "--account", "my shop").output
    assert words in said
    assert f"webhook replay-missing --since {since} --mode test --account 'my shop'" in said
    for nothing in (0, None):
        answers["webhook.enable"] = {"state": "enabled", "missedSince": since, "missedEvents": nothing}
        assert "missed" not in payd("webhook", "enable").output


@pytest.mark.parametrize(("failed", "words"), [(1, "1 delivery failed"), (5, "5 deliveries failed")])
def test_enabling_says_what_failed_for_good_and_how_to_send_it_again(
    payd: Terminal, answers: dict[str, Any], failed: int, words: str
) -> None:
    since = "2026-11-20T10:00:00.000Z"
    endpoint = {"state": "enabled", "missedSince": since, "missedEvents": 0}
    answers["webhook.enable"] = {**endpoint, "failedDeliveries": failed}
    said = payd("webhook", "enable").output
    assert f"{words} for good. Send" in said
    assert f"payd webhook recover --since {since} --mode test\n" in said
    answers["webhook.enable"] = {**endpoint, "failedDeliveries": 0}
    assert "recover" not in payd("webhook", "enable").output


def test_an_endpoint_that_is_off_says_how_to_switch_it_on(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["webhook.show"] = {"state": "paused", "headers": []}
    said = payd("webhook", "show").output
    assert "webhook resume --mode test" in said
    assert "Headers" not in said, "there are none"
    answers["webhook.show"] = {"state": "disabled", "offSince": "2026-11-20T10:00:00.000Z"}
    said = payd("webhook", "show").output
    assert "off since 2026-11-20 10:00:00 UTC" in said
    assert "webhook enable --mode test" in said


def test_the_help_shows_every_command_whole_under_what_it_is_for(payd: Terminal) -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(webhook.commands)
    shown = payd("webhook", "--help").output
    assert all(f"{title}:" in shown for title in SECTIONS)
    assert "..." not in shown.replace("[ARGS]...", "")


def test_a_url_without_its_scheme_is_told_what_is_missing(begun: Terminal) -> None:
    said = begun.error("webhook", "set", "--url", "localhost:9999/webhook")
    assert "must begin with https:// (or http:// where it is allowed)" in said


def test_a_private_address_is_refused_with_the_key_to_set(begun: Terminal) -> None:
    assert "webhooks.test" in begun.error("webhook", "set", "--url", "http://10.0.0.1/hook")
