"""`payd events`: a list, one of them, one again; and following them while the server is restarted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

from payd.web.cursor import encode_cursor
from tests.cli.listening import open_shop, until
from tests.terminal import Terminal, on_terminal

ONE = {
    "id": "evt_1",
    "type": "payment.created",
    "createdAt": "2026-01-01T00:00:00.000Z",
    "paymentId": "pay_t1",
    "envelope": {"id": "evt_1", "data": {"payment_state_version": 0}},
}


def test_events_are_listed_with_what_was_asked_for(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["event.list"] = {"data": [ONE], "nextCursor": "abc"}
    shown = payd("events", "list", "--type", "payment.created", "--limit", "1").output
    assert "evt_1" in shown
    assert "payd events list --type payment.created --limit 1 --cursor abc --mode test\n" in shown
    asked = {"mode": "test", "type": "payment.created", "limit": 1}
    assert answers["asked"] == [("event.list", asked)]
    assert payd.json("events", "list", "--payment", "pay_t1")["data"] == [ONE]
    shown = payd("events", "list", "--payment", "pay_t1", "--delivery", "failed").output
    assert "payd events list --payment pay_t1 --delivery failed --cursor abc --mode test\n" in shown
    asked = {"mode": "test", "payment": "pay_t1", "delivery": "failed"}
    assert answers["asked"][-1] == ("event.list", asked)
    assert "failed" in payd.error("events", "list", "--delivery", "lost", code=2)


def test_what_was_typed_for_a_list_is_quoted_for_the_next(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["event.list"] = {"data": [ONE], "nextCursor": "abc"}
    assert "--payment 'pay t1' --cursor abc" in payd("events", "list", "--payment", "pay t1").output


def test_the_file_of_a_cursor_is_quoted_where_it_is_said_how_to_go_on(
    payd: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payd.cli.events.FolderDoor.check", lambda _door: None)

    def read_one(run: partial[None], _door: object) -> None:
        run.args[-1].move(encode_cursor(8))

    monkeypatch.setattr("payd.cli.listen.run_until_told", read_one)
    (payd.folder / "my data").mkdir()
    (payd.folder / "my place").write_text(encode_cursor(7))
    shown = payd("events", "tail", "--cursor", "my place", "--data-dir", "my data").stderr
    assert "payd events tail --cursor 'my place' --mode test --data-dir 'my data'\n" in shown


def test_a_narrow_terminal_gets_lines(
    payd: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers["event.list"] = {"data": [ONE], "nextCursor": None}
    on_terminal(monkeypatch, columns=40)
    assert click.unstyle(payd("events", "list").output).startswith("evt_1  payment.created\n  2026-01-01")


def test_one_is_shown_as_its_webhook_has_it(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["event.show"] = ONE
    assert json.loads(payd("events", "show", "evt_1").output) == ONE["envelope"]
    assert payd.json("events", "show", "evt_1") == ONE


def test_a_sample_of_each_type_is_shown_also_without_a_server(begun: Terminal) -> None:
    shown = json.loads(begun("events", "sample", "payment.settled").output)
    assert (shown["type"], shown["data"]["live"]) == ("payment.settled", False)
    assert begun.json("events", "sample", "payment.failed")["type"] == "payment.failed"


def test_one_is_sent_again_by_its_own_id(payd: Terminal, answers: dict[str, Any]) -> None:
    attempt = {"n": 1, "status": 200, "errorClass": None, "durationMs": 4, "trigger": "manual"}
    answers["webhook.resend"] = {**ONE, "attemptLog": [attempt]}
    assert "answered 200" in payd("events", "resend", "evt_1").output
    assert answers["asked"] == [("webhook.resend", {"mode": "test", "id": "evt_1"})]


def test_mistakes_say_what_to_do(begun: Terminal) -> None:
    assert "payment.settled" in begun.error("events", "list", "--type", "payment.paid", code=2)
    assert "There is no such event" in begun("events", "list").output
    assert "no such event" in begun.error("events", "show", "evt_0")
    assert "payd serve" in begun.error("events", "tail", code=3)
    assert "no cursor" in begun.error("events", "tail", "--after", "?", code=2)
    for command in ("list", "show", "tail"):
        assert f"payd events {command}" in begun("events", command, "--help").output


@pytest.mark.real_time
def test_events_and_requests_are_followed_over_a_restart_and_silent_when_nobody_reads(
    tmp_path: Path,
) -> None:
    with open_shop(tmp_path / "data") as shop:

        def follow(*words: str) -> tuple[subprocess.Popen[str], Path]:
            out = tmp_path / words[0]
            with out.open("w") as file:
                command = [sys.executable, "-m", "payd", *words, "--json"]
                return (
                    subprocess.Popen(
                        command, env=shop.server.env, stdout=file, stderr=subprocess.PIPE, text=True
                    ),
                    out,
                )

        def lines(file: Path, **wanted: str) -> list[dict[str, Any]]:
            found = [json.loads(line) for line in file.read_text().splitlines()]
            return [one for one in found if all(one.get(name) == value for name, value in wanted.items())]

        (events, told), (logs, logged) = (
            follow("events", "tail"),
            follow("logs", "tail", "--method", "POST", "--path", "/v1/payments", "--lines", "0"),
        )
        until(lambda: lines(told, type="state", state="connected"))
        payments = shop.pay(2)
        until(lambda: len(lines(logged)) == 2)
        shop.server.stop()
        shop.server.start()
        payments += shop.pay(3)
        until(lambda: len(lines(told, type="event")) == 5)
        until(lambda: len(lines(logged)) == 5)
        assert [one["paymentId"] for one in lines(told, type="event")] == payments
        assert len({one["requestId"] for one in lines(logged)}) == 5
        for process in (events, logs):
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
            assert process.returncode == 0, said
            assert "Traceback" not in said
        # Who read has gone: that is no failure.
        piped = f"{sys.executable} -m payd logs tail --lines 5 --json | head -n 1; echo ${{PIPESTATUS[0]}}"
        with subprocess.Popen(
            ["bash", "-c", piped],
            env=shop.server.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            while process.poll() is None:
                shop.pay()
            out, said = process.communicate()
        assert said == ""
        assert len(out.splitlines()) == 2
