"""`payd key` makes keys, shows them once, and revokes them."""

from __future__ import annotations

from payd.store.keys import SCOPES
from tests.terminal import Terminal


def test_a_made_key_is_printed_once(begun: Terminal) -> None:
    made = begun.json("key", "create", "--mode", "test", "--name", "backend")
    assert made["apiKey"].startswith("svc_test_")
    assert (made["mode"], made["name"], made["scopes"]) == ("test", "backend", list(SCOPES))
    listed = begun.json("key", "list")
    assert [key["name"] for key in listed] == ["first key", "backend"]
    assert made["apiKey"] not in begun("key", "list").output


def test_a_person_is_told_to_keep_it(begun: Terminal) -> None:
    shown = begun("key", "create").output
    assert "svc_test_" in shown
    assert "cannot be shown again" in shown


def test_scopes_and_merchants_limit_a_key(begun: Terminal) -> None:
    [merchant] = begun.json("merchant", "list")
    scopes = ["--scope", "payments:read", "--scope", "gateway"]
    made = begun.json("key", "create", *scopes, "--merchant", merchant["id"])
    assert sorted(made["scopes"]) == ["gateway", "payments:read"]
    assert made["merchants"] == [merchant["id"]]
    assert merchant["id"] in begun("key", "list").output


def test_an_unknown_scope_is_refused_with_those_there_are(begun: Terminal) -> None:
    said = begun.error("key", "create", "--scope", "admin")
    assert "no scope admin" in said
    assert "payments:write" in said


def test_a_revoked_key_is_shown_as_such_and_listed_only_where_all_are_wanted(begun: Terminal) -> None:
    made = begun.json("key", "create")
    assert begun.json("key", "revoke", made["id"])["revokedAt"] is not None
    assert "Revoked" in begun("key", "revoke", made["id"]).output
    assert made["id"] not in begun("key", "list").output
    assert [key["id"] == made["id"] for key in begun.json("key", "list")] == [False]
    assert made["id"] in begun("key", "list", "--all").output
    assert [key["id"] == made["id"] for key in begun.json("key", "list", "--all")] == [False, True]


def test_a_key_that_is_not_there_cannot_be_revoked(begun: Terminal) -> None:
    assert "payd key list" in begun.error("key", "revoke", "key_unknown")


def test_a_live_key_is_refused_without_a_dead_end(begun: Terminal) -> None:
    said = begun.error("key", "create", "--mode", "live")
    assert "no chain is configured. Add [[chains]] to payd.toml" in said
    assert "or use --mode test." in said


def test_there_is_no_third_mode(begun: Terminal) -> None:
    assert "'prod'" in begun.error("key", "create", "--mode", "prod", code=2)


def test_one_of_several_accounts_must_be_named(begun: Terminal) -> None:
    begun("account", "create", "other")
    assert "--account NAME" in begun.error("key", "create")
    assert begun.json("key", "create", "--account", "other")["apiKey"].startswith("svc_test_")
    assert len(begun.json("key", "list", "--account", "other")) == 1
