"""`payd clock`: the time is shown, and a move is waited for."""

from __future__ import annotations

from typing import Any

import pytest

from payd.cli import act
from payd.cli.pasted import Paste
from payd.config import Config
from tests.terminal import Terminal


def now(state: str | None = None, ahead: int = 0) -> dict[str, Any]:
    job = None if state is None else {"id": "job_1", "state": state, "events": 1}
    return {"now": "2026-01-01T00:00:00.000Z", "offsetS": ahead, "job": job}


def test_the_time_is_shown(begun: Terminal, answers: dict[str, Any]) -> None:
    answers["clock.show"] = now()
    assert begun("clock", "show").output.splitlines() == [
        "Now    2026-01-01 00:00:00 UTC",
        "Ahead  not at all",
    ]
    assert begun.json("clock", "show") == now()


def test_a_move_is_waited_for_unless_told_otherwise(
    payd: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payd.cli.clock.POLL_S", 0.0)
    answers["clock.advance"] = now("running", 900)
    states = iter(["running", "done"])
    answers["clock.watch"] = lambda args: now(next(states), 900)
    shown = payd("clock", "advance", "15m").output
    assert "Ahead      by 15 min" in shown
    assert "Last move  done, 1 event" in shown
    assert answers["asked"][0] == ("clock.advance", {"mode": "test", "by": "15m"})
    assert payd.json("clock", "advance", "15m", "--no-wait")["job"]["state"] == "running"


def test_who_waits_for_a_move_is_told_that_the_server_went_away(
    begun: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(config: Config, command: str, args: dict[str, Any], paste: Paste) -> Any:
        return now("running", 900) if command == "clock.advance" else act.ask(config, command, args, paste)

    monkeypatch.setattr("payd.cli.options.ask", ask)
    monkeypatch.setattr("payd.cli.clock.POLL_S", 0.0)
    # The store is not opened in its place: that would keep the server from starting again.
    monkeypatch.setattr("payd.server.open_house", None)
    assert "payd serve" in begun.error("clock", "advance", "15m", code=3)


def test_who_waits_no_more_hears_that_the_clock_goes_on(payd: Terminal, answers: dict[str, Any]) -> None:
    def interrupted(_args: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    answers.update({"clock.advance": now("running", 900), "clock.watch": interrupted})
    said = payd.error("clock", "advance", "15m", code=130)
    assert "The clock goes on in the server. Look: " in said
    assert "payd clock show --mode test\n" in said


def test_help_has_an_example_and_a_move_needs_the_server(begun: Terminal) -> None:
    assert "payd clock advance 28h" in begun("clock", "advance", "--help").output
    assert "payd serve" in begun.error("clock", "advance", "1h", code=3)
    assert begun.json("clock", "show")["offsetS"] == 0
