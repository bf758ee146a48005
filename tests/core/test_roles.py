"""What each role may do: more with each step, and all of it said in one table."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

from payd.core.roles import LEAST, Permission, Role, may


def test_each_role_may_do_all_that_the_one_below_it_may() -> None:
    roles = [Role.VIEWER, Role.SUPPORT, Role.DEVELOPER, Role.OWNER]
    allowed = [{one for one in LEAST if may(role, one)} for role in roles]
    assert all(less < more for less, more in pairwise(allowed))
    assert allowed[-1] == set(get_args(Permission))


def test_every_permission_has_its_least_role() -> None:
    assert LEAST.keys() == set(get_args(Permission))


def test_only_owners_move_where_the_money_goes_and_who_gets_in() -> None:
    owned = {one for one, role in LEAST.items() if role is Role.OWNER}
    assert {"change_destinations", "manage_users", "manage_live_keys", "change_settings"} <= owned


def test_who_only_looks_changes_nothing_but_their_own_login() -> None:
    assert {one for one in LEAST if may(Role.VIEWER, one)} == {"view", "own_login"}
