"""`payd logs`: requests are listed, and followed from a cursor while the server comes and goes."""

from __future__ import annotations

from typing import Any

import click
import msgspec
import pytest

from payd.cli.logs import LIMIT_MAX
from payd.web.admin import NoServer, Refusal, Reply
from tests.terminal import Terminal, on_terminal


def request(seq: int, status: int = 201) -> dict[str, Any]:
    return {
        "seq": seq,
        "at": "2026-01-01T00:00:00.000Z",
        "method": "POST",
        "path": "/v1/payments",
        "status": status,
        "durationMs": 3,
        "requestId": f"req_{seq}",
        "keyId": "key_1",
        "keyName": "backend",
        "error": None if status < 400 else {"code": "invalid_params", "message": "No."},
    }


def test_requests_are_listed_with_what_a_refusal_said(
    payd: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers["log.list"] = {"data": [request(2, 400), request(1)], "newest": 2}
    shown = payd("logs", "list", "--status", "4xx", "--path", "pay_t1", "--limit", "2").output
    assert "invalid_params" in shown
    assert answers["asked"] == [("log.list", {"mode": "test", "status": "4xx", "path": "pay_t1", "limit": 2})]
    assert [one["seq"] for one in payd.json("logs", "list", "--merchant", "mrch_1")] == [2, 1]
    assert answers["asked"][-1] == ("log.list", {"mode": "test", "merchant": "mrch_1"})
    on_terminal(monkeypatch, columns=40)
    assert "req_1" in click.unstyle(payd("logs", "list").output)


def test_a_server_that_goes_and_comes_is_waited_for_and_nothing_is_left_out_or_repeated(
    payd: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers["log.follow"] = {"data": [request(3), request(2)], "newest": 3}
    full = [request(seq) for seq in range(4, 4 + LIMIT_MAX)]
    replies: list[Any] = [
        Reply(result={"data": full, "newest": 503}),
        NoServer(),
        NoServer(),
        Reply(result={"data": [request(504)], "newest": 504}),
        KeyboardInterrupt(),
    ]
    asked = []

    async def call_admin(path: Any, command: str, args: dict[str, Any]) -> Reply:
        asked.append(args)
        found = replies.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found  # type: ignore[no-any-return]

    monkeypatch.setattr("payd.cli.logs.call_admin", call_admin)
    monkeypatch.setattr("payd.cli.logs.POLL_S", 0.0)
    result = payd("logs", "tail", "--method", "post", "--lines", "1", "--json")
    shown = [msgspec.json.decode(line)["seq"] for line in result.stdout.splitlines()]
    assert shown == [3, *range(4, 505)]
    assert [one["after"] for one in asked] == [3, 503, 503, 503, 504]
    assert all(one["method"] == "post" for one in asked)
    assert result.stderr == "The server is away; waiting for it.\nThe server is back.\n"


def test_what_strangers_asked_for_is_followed_a_line_each(
    payd: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = request(1) | {"path": "/v1/y\x1b[2J\nforged\x9b31m"}
    answers["log.follow"] = {"data": [evil], "newest": 1}

    async def call_admin(path: Any, command: str, args: dict[str, Any]) -> Reply:
        raise KeyboardInterrupt

    monkeypatch.setattr("payd.cli.logs.call_admin", call_admin)
    [line] = payd("logs", "tail").stdout.splitlines()
    assert "/v1/y [2J forged 31m  3 ms" in line
    [line] = payd("logs", "tail", "--json").stdout.splitlines()
    assert msgspec.json.decode(line) == evil
    assert not set(line) & set("\x1b\x9b")


def test_a_refusal_while_following_ends_it_with_its_words(
    payd: Terminal, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers["log.follow"] = {"data": [], "newest": 0}

    async def call_admin(path: Any, command: str, args: dict[str, Any]) -> Reply:
        return Reply(error=Refusal("not_found", "There is no such account."))

    monkeypatch.setattr("payd.cli.logs.call_admin", call_admin)
    assert "There is no such account." in payd.error("logs", "tail")


def test_mistakes_say_what_to_do_and_help_has_examples(begun: Terminal) -> None:
    assert "No request that fits is logged." in begun("logs", "list").output
    assert "4xx" in begun.error("logs", "list", "--status", "many")
    assert "PATCH" in begun.error("logs", "list", "--method", "FETCH")
    assert "payd serve" in begun.error("logs", "tail", code=3)
    for command in ("list", "tail"):
        assert f"payd logs {command} --status 4xx" in begun("logs", command, "--help").output
