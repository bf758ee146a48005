"""Notices: what the operator is told, owed to the house's own endpoint in the step in which it happens."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from payd.core.endpoint import NOTIFY, Endpoint
from payd.core.notice import Moved, MovedType, NoticeType, render_moved, render_notice
from payd.core.signature import make_secret
from payd.store.deliveries import owe_message
from payd.store.seal import Seal

Tx: TypeAlias = sqlite3.Connection
FreshId: TypeAlias = Callable[[str, int], str]
"""Makes an id for a prefix and a time in Unix milliseconds."""


def notify_secret(seal: Seal) -> str:
    """What notices are signed with: the same as long as the data directory keeps its seal key."""
    return make_secret(seal.derive("notify"))


@dataclass(frozen=True, slots=True)
class Notices:
    """Writes a realm's notices.

    Attributes:
        live: Which realm it is.
        fresh_id: For what is written.
    """

    live: bool
    fresh_id: FreshId

    def owe(
        self,
        tx: Tx,
        kind: NoticeType,
        endpoint: Endpoint,
        now_ms: int,
        status: int | None = None,
        error_class: str | None = None,
    ) -> bool:
        """Owe a notice about an endpoint; nothing is owed while no address is configured.

        Returns:
            Whether it is owed: wake `core.endpoint.NOTIFY` after the commit.
        """
        body = render_notice(
            kind,
            endpoint,
            event_id=self.fresh_id("evt_", now_ms),
            live=self.live,
            now_ms=now_ms,
            status=status,
            error_class=error_class,
        )
        return _owe(tx, kind, body, self.fresh_id, now_ms)


def owe_moved(tx: Tx, kind: MovedType, moved: Moved, fresh_id: FreshId, now_ms: int) -> bool:
    """Owe a notice of what happens to a destination; returns as `Notices.owe` does."""
    body = render_moved(kind, moved, event_id=fresh_id("evt_", now_ms), now_ms=now_ms)
    return _owe(tx, kind, body, fresh_id, now_ms)


def _owe(tx: Tx, kind: NoticeType | MovedType, body: bytes, fresh_id: FreshId, now_ms: int) -> bool:
    return owe_message(
        tx,
        endpoint_id=NOTIFY,
        kind="notice",
        event_type=kind,
        body=body,
        delivery_id=fresh_id("dlv_", now_ms),
        message_id=fresh_id("msg_", now_ms),
        now_ms=now_ms,
    )
