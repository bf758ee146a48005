"""`payd webhook recover` and `replay-missing`: what is asked for, and how far it is said to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec
import pytest
from rich.progress import Progress

from payd.cli import replay
from tests.terminal import Terminal, on_terminal

JOB = {
    "id": "job_1",
    "kind": "recover",
    "since": "2026-01-01T00:00:00.000Z",
    "state": "running",
    "matched": 0,
    "queued": 0,
    "done": 0,
    "failed": 0,
    "takenBack": 0,
    "retrying": 0,
}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits between two looks."""
    monkeypatch.setattr(replay, "POLL_S", 0)


def going(*states: dict[str, Any]) -> Any:
    """A job that is one step further each time it is looked at."""
    steps: Iterator[dict[str, Any]] = iter(states)
    return lambda _args: {**JOB, **next(steps)}


@pytest.mark.parametrize("kind", ["recover", "replay-missing"])
def test_a_job_is_started_and_left_to_the_server(payd: Terminal, answers: dict[str, Any], kind: str) -> None:
    answers[f"webhook.{kind}"] = {**JOB, "kind": kind, "matched": 3}
    shown = payd("webhook", kind, "--since", "2h").output
    assert "payd webhook job job_1 --mode test" in shown
    assert "Since      2026-01-01 00:00:00 UTC" in shown
    assert payd.json("webhook", kind, "--since", "2h")["matched"] == 3
    assert answers["asked"][0] == (f"webhook.{kind}", {"mode": "test", "since": "2h"})


@pytest.mark.parametrize(
    ("kind", "matched", "words"),
    [
        ("recover", 2, "2 deliveries failed since 2026-01-01 00:00:00 UTC. Send: "),
        ("recover", 1, "1 delivery failed since"),
        ("recover", 0, "No delivery failed since 2026-01-01 00:00:00 UTC.\n"),
        ("replay-missing", 12, "12 events were missed since"),
        ("replay-missing", 0, "No event was missed since"),
    ],
)
def test_a_preview_counts_and_says_how_to_send(
    payd: Terminal, answers: dict[str, Any], kind: str, matched: int, words: str
) -> None:
    found = {"kind": kind, "since": JOB["since"], "matched": matched}
    answers[f"webhook.{kind}"] = found
    said = payd("webhook", kind, "--since", "2h", "--preview").output
    assert words in said
    again = f"payd webhook {kind} --since 2026-01-01T00:00:00.000Z --mode test"
    assert (again in said) is (matched > 0)
    assert payd.json("webhook", kind, "--since", "2h", "--preview") == found
    assert answers["asked"][0][1] == {"mode": "test", "since": "2h", "preview": True}


def test_who_waits_is_told_the_end(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["webhook.recover"] = JOB
    steps = ({"matched": 2}, {"matched": 3, "done": 1}, {"matched": 3, "done": 3, "state": "done"})
    answers["webhook.watch"] = going(*steps)
    said = payd("webhook", "recover", "--since", "2h", "--wait").output
    assert said == "Job job_1 runs.\nDone: 3 of 3 delivered.\n"
    answers["webhook.watch"] = going(*steps)
    assert payd.json("webhook", "recover", "--since", "2h", "--wait")["done"] == 3


def test_who_waits_for_nothing_is_told_so(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["webhook.recover"] = {**JOB, "state": "done"}
    said = payd("webhook", "recover", "--since", "2h", "--wait").output
    assert "Nothing to send: no delivery failed since 2026-01-01 00:00:00 UTC." in said


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({"matched": 3, "done": 1, "failed": 2, "state": "done"}, "1 of 3 delivered, 2 failed. Look: "),
        (
            {"matched": 3, "done": 1, "takenBack": 2, "state": "cancelled"},
            "The job was cancelled: 1 of 3 delivered, 0 failed, 2 taken back.",
        ),
    ],
)
def test_a_job_that_did_not_deliver_everything_is_a_failure(
    payd: Terminal, answers: dict[str, Any], end: dict[str, Any], words: str
) -> None:
    answers["webhook.recover"] = JOB
    answers["webhook.watch"] = lambda _args: {**JOB, **end}
    result = payd("webhook", "recover", "--since", "2h", "--wait", code=1)
    assert words in result.stderr
    result = payd("webhook", "recover", "--since", "2h", "--wait", "--json", code=1)
    assert msgspec.json.decode(result.stdout)["state"] == end["state"]


REFUSED = {"matched": 7, "queued": 7, "retrying": 7}
IT_GOES_ON = "0 of 7 delivered; 7 were refused and are tried again; Ctrl-C leaves the job running."


def test_who_waits_for_retries_is_told_so_once(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["webhook.recover"] = JOB
    steps = (
        {"matched": 7, "queued": 7},
        {**REFUSED, "retrying": 6},
        REFUSED,
        REFUSED,
        {"matched": 7, "done": 6, "retrying": 1},
        {"matched": 7, "done": 7, "state": "done"},
    )
    answers["webhook.watch"] = going(*steps)
    said = payd("webhook", "recover", "--since", "2h", "--wait").output
    assert said == f"Job job_1 runs.\n{IT_GOES_ON}\nDone: 7 of 7 delivered.\n"
    answers["webhook.watch"] = going(*steps)
    assert payd.json("webhook", "recover", "--since", "2h", "--wait")["done"] == 7


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (REFUSED, IT_GOES_ON),
        ({"matched": 7, "done": 6, "retrying": 1}, "6 of 7 delivered; 1 was refused and is tried again"),
        (
            {"matched": 7, "done": 2, "failed": 1, "retrying": 3},
            "2 delivered, 1 failed, 4 to go, 3 of them for another try",
        ),
    ],
)
def test_a_terminal_shows_what_was_refused(
    payd: Terminal,
    answers: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    seen: dict[str, Any],
    words: str,
) -> None:
    on_terminal(monkeypatch, columns=150)
    answers["webhook.recover"] = {**JOB, **seen}
    answers["webhook.watch"] = going({**seen, "done": 7, "failed": 0, "retrying": 0, "state": "done"})
    shown: list[str] = []
    task_of = Progress.add_task

    def begin(self: Progress, text: str, **more: Any) -> Any:
        shown.append(text)
        return task_of(self, text, **more)

    monkeypatch.setattr(Progress, "add_task", begin)
    monkeypatch.setattr(Progress, "update", lambda _self, _task, **now: shown.append(now["description"]))
    payd("webhook", "recover", "--since", "2h", "--wait")
    assert words in shown[0]
    assert shown[-1] == "7 delivered, 0 failed, 0 to go"


def test_a_terminal_shows_how_far_it_is(
    payd: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch, columns=100)
    answers["webhook.recover"] = JOB
    answers["webhook.watch"] = going(
        {"matched": 3, "done": 1, "failed": 1}, {"matched": 3, "done": 3, "state": "done"}
    )
    said = click.unstyle(payd("webhook", "recover", "--since", "2h", "--wait").output)
    assert "3 delivered, 0 failed, 0 to go" in said
    assert said.endswith("Done: 3 of 3 delivered.\n")
    assert "runs." not in said


def test_who_interrupts_the_wait_leaves_the_job_to_the_server(
    payd: Terminal, answers: dict[str, Any]
) -> None:
    def interrupted(_args: dict[str, Any]) -> Any:
        raise KeyboardInterrupt

    answers.update({"webhook.recover": JOB, "webhook.watch": interrupted})
    result = payd("webhook", "recover", "--since", "2h", "--wait", code=130)
    assert "The job goes on in the server. Look: " in result.stderr
    assert "payd webhook job job_1 --mode test" in result.stderr


def test_jobs_are_listed(payd: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    answers["webhook.jobs"] = [{**JOB, "matched": 3, "queued": 2, "done": 1}]
    _, row = payd("webhook", "jobs").output.splitlines()
    assert row.split() == ["job_1", "recover", "2026-01-01", "00:00:00", "running", "3", "2", "1", "0", "0"]
    assert payd.json("webhook", "jobs") == answers["webhook.jobs"]
    on_terminal(monkeypatch, columns=40)
    shown = click.unstyle(payd("webhook", "jobs").output)
    assert shown == ("job_1  running\n  recover since 2026-01-01 00:00:00: 3 found, 1 delivered, 0 failed\n")
    answers["webhook.jobs"] = []
    assert "payd webhook recover --since 2h --mode test" in payd("webhook", "jobs").output


def test_what_a_cancelled_job_took_back_is_not_called_failed(
    payd: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = {**JOB, "state": "cancelled", "matched": 9, "queued": 9, "done": 2, "takenBack": 4}
    answers["webhook.cancel-job"] = ended
    lines = payd("webhook", "cancel-job", "job_1").output.splitlines()
    assert "Failed      0" in lines
    assert "Taken back  4, and 3 more are under way" in lines
    answers["webhook.job"] = {**ended, "takenBack": 7}
    assert "Taken back  7" in payd("webhook", "job", "job_1").output.splitlines()
    answers["webhook.job"] = {**JOB, **REFUSED}
    lines = payd("webhook", "job", "job_1").output.splitlines()
    assert "Refused so far  7, tried again" in lines
    assert not any("Taken" in line for line in lines)
    answers["webhook.jobs"] = [ended]
    on_terminal(monkeypatch, columns=40)
    assert "2 delivered, 0 failed, 4 taken back" in payd("webhook", "jobs").output
    assert "taken back: a later job" in " ".join(payd("webhook", "cancel-job", "--help").output.split())


@pytest.mark.parametrize("command", ["job", "cancel-job"])
def test_one_job_is_shown_or_stopped(payd: Terminal, answers: dict[str, Any], command: str) -> None:
    answers[f"webhook.{command}"] = {**JOB, "state": "cancelled"}
    assert "State       cancelled" in payd("webhook", command, "job_1").output
    assert payd.json("webhook", command, "job_1")["state"] == "cancelled"
    assert answers["asked"][0] == (f"webhook.{command}", {"mode": "test", "id": "job_1"})


def test_a_replay_needs_a_time_and_the_server(begun: Terminal) -> None:
    assert "--since" in begun.error("webhook", "recover", code=2)
    assert "payd serve" in begun.error("webhook", "replay-missing", "--since", "2h", code=3)
    assert "no such job" in begun.error("webhook", "job", "job_0")
