"""What people may do in an account: four roles, each with all that the one below it may, and one table.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import Final, Literal


class Role(Enum):
    """A person's part in an account, from the least to the most."""

    VIEWER = "viewer"
    SUPPORT = "support"
    DEVELOPER = "developer"
    OWNER = "owner"

    def includes(self, other: Role) -> bool:
        """Whether who has this role may do all that `other` may."""
        return _RANK[self] >= _RANK[other]


_RANK: Final = {role: rank for rank, role in enumerate(Role)}

Permission = Literal[
    "view",
    "view_buyers",
    "create_payments",
    "move_payments",
    "simulate",
    "record_refunds",
    "resend_webhooks",
    "view_log",
    "edit_merchants",
    "manage_keys",
    "manage_webhooks",
    "see_secrets",
    "manage_live_keys",
    "change_destinations",
    "change_settings",
    "manage_users",
    "view_audit",
    "own_login",
]

LEAST: Final = MappingProxyType[Permission, Role](
    {
        "own_login": Role.VIEWER,  # password, second factor, sessions: each person's own
        "view": Role.VIEWER,
        "view_buyers": Role.SUPPORT,  # what buyers told of themselves
        "create_payments": Role.SUPPORT,
        "move_payments": Role.SUPPORT,  # cancel; match a transfer
        "simulate": Role.SUPPORT,
        "record_refunds": Role.SUPPORT,
        "resend_webhooks": Role.SUPPORT,
        "view_log": Role.DEVELOPER,
        "edit_merchants": Role.DEVELOPER,
        "manage_keys": Role.DEVELOPER,  # of test mode
        "manage_webhooks": Role.DEVELOPER,
        "see_secrets": Role.DEVELOPER,
        "manage_live_keys": Role.OWNER,
        "change_destinations": Role.OWNER,  # where the money goes
        "change_settings": Role.OWNER,
        "manage_users": Role.OWNER,
        "view_audit": Role.OWNER,
    }
)
"""The least role for each thing that can be done."""


def may(role: Role, permission: Permission) -> bool:
    """Whether a role is enough."""
    return role.includes(LEAST[permission])
