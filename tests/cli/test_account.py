"""`payd account` makes and shows accounts."""

from __future__ import annotations

import shlex

from tests.terminal import Terminal


def test_the_first_account_needs_nothing_before_it(payd: Terminal) -> None:
    made = payd.json("account", "create", "main")
    assert made["id"].startswith("acct_")
    assert made["name"] == "main"
    assert payd.json("account", "list") == [made]


def test_a_person_sees_the_id_and_what_comes_next(payd: Terminal) -> None:
    shown = payd("account", "create", "main").output
    assert "acct_" in shown
    assert "payd key create" in shown
    assert "main" in payd("account", "list").output


def test_what_comes_next_is_a_key_of_this_account_also_beside_others(payd: Terminal) -> None:
    payd("account", "create", "main")
    [shown] = payd("account", "create", "Second shop").output.splitlines()[-1:]
    payd(*shlex.split(shown)[shlex.split(shown).index("key") :])
    assert payd.json("key", "list", "--account", "main") == []
    assert len(payd.json("key", "list", "--account", "Second shop")) == 1


def test_a_name_is_taken_once(payd: Terminal) -> None:
    payd("account", "create", "main")
    assert "There is an account named main" in payd.error("account", "create", "main")


def test_an_account_needs_a_name(payd: Terminal) -> None:
    assert "NAME" in payd.error("account", "create", code=2)


def test_an_account_is_renamed_and_goes_to_no_version_that_is_not_there(payd: Terminal) -> None:
    made = payd.json("account", "create", "main")
    renamed = payd.json("account", "rename", "main", "Shop")
    assert renamed == made | {"name": "Shop"}
    assert "Shop" in payd("account", "rename", made["id"], "Shop").output
    assert "There is no account main" in payd.error("account", "rename", "main", "x")
    assert "There is no version 2020-01-01. There are 2026-02-18 and" in payd.error(
        "account", "set-version", "Shop", "2020-01-01"
    )
    same = payd("account", "set-version", "Shop", made["apiVersion"]).output
    assert made["apiVersion"] in same
