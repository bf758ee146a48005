"""`payd user`: links that let people in, and the list of them."""

from __future__ import annotations

from typing import Any

from tests.terminal import Terminal


def test_before_anybody_is_there_it_says_how_the_first_one_comes_in(begun: Terminal) -> None:
    assert begun.json("user", "list") == []
    assert "payd user setup-link" in begun("user", "list").output


def test_links_are_shown_whole_with_when_they_end(begun: Terminal) -> None:
    for words in (("setup-link",), ("invite", "--role", "support", "--email", "ada@example.com")):
        made = begun.json("user", *words)
        assert made["url"].startswith("http://127.0.0.1:8420/")
        shown = begun("user", *words).output
        assert "?token=" in shown
        assert "Until" in shown


def test_who_is_not_there_is_neither_reset_nor_removed(begun: Terminal) -> None:
    for word in ("reset", "remove"):
        assert "payd user list" in begun("user", word, "eve@example.com", code=1).output


def test_people_are_shown_with_their_parts(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["user.list"] = [
        {
            "id": "usr_1",
            "email": "ada@example.com",
            "accounts": {"main": "owner"},
            "secondFactor": True,
            "createdAt": "2026-11-22T21:00:00.000Z",
        }
    ]
    shown = payd("user", "list").output
    assert "ada@example.com" in shown
    assert "owner of main" in shown
    assert payd.json("user", "list") == answers["user.list"]


def test_a_role_that_there_is_not_is_wrong_usage(begun: Terminal) -> None:
    assert "owner" in begun("user", "invite", "--role", "king", code=2).output


def test_what_was_removed_is_said(payd: Terminal, answers: dict[str, Any]) -> None:
    answers["user.remove"] = {"email": "ada@example.com", "account": "main"}
    assert "ada@example.com" in payd("user", "remove", "ada@example.com", "--account", "main").output
    assert answers["asked"] == [("user.remove", {"account": "main", "email": "ada@example.com"})]
