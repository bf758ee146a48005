"""`payd app` makes the public ids of wallets."""

from __future__ import annotations

from tests.terminal import Terminal


def test_a_made_app_id_is_printed_and_listed(begun: Terminal) -> None:
    made = begun.json("app", "create", "--name", "My wallet")
    assert made["appId"].startswith("app_t")
    assert begun.json("app", "list") == [made]
    assert made["appId"] in begun("app", "list").output


def test_a_person_sees_the_id(begun: Terminal) -> None:
    assert "app_t" in begun("app", "create", "--mode", "test").output


def test_without_an_app_the_way_to_one_is_said(begun: Terminal) -> None:
    assert "payd app create --mode test" in begun("app", "list").output


def test_a_revoked_app_id_is_shown_as_such(begun: Terminal) -> None:
    made = begun.json("app", "create")
    assert begun.json("app", "revoke", made["appId"])["revokedAt"] is not None
    assert "Revoked" in begun("app", "revoke", made["appId"]).output


def test_an_app_that_is_not_there_cannot_be_revoked(begun: Terminal) -> None:
    assert "payd app list" in begun.error("app", "revoke", "app_tunknown")
