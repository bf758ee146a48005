"""What a live realm's file says of destinations, read without payd: its audit leads to where the money goes.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

SERVER: Final = "server"
# What is told of each act.
NOTICES: Final = {
    "settlement.change_request": "destination.change_requested",
    "settlement.change": "destination.changed",
    "settlement.change_cancel": "destination.change_cancelled",
    "settlement.delete": "destination.deleted",
}


class Act(NamedTuple):
    """What was done to a destination, by the audit."""

    what: str
    settlement_id: str
    actor: str
    at_ms: int
    old: str | None
    new: str | None
    due_ms: int | None


class Stands(NamedTuple):
    """Where the money goes, and where it is to go from when on."""

    to: str | None = None
    pending: str | None = None
    due_ms: int | None = None


@dataclass(frozen=True)
class Destinations:
    """All of it.

    Attributes:
        acts: In their order.
        stands: By settlement, as it is in the end.
        owed: Notices, as they were written.
        heard: Bodies that the operator got; None where the operator is told nothing.
    """

    acts: list[Act]
    stands: dict[str, Stands]
    owed: list[bytes]
    heard: Collection[bytes] | None

    def astray(self) -> Iterator[Any]:
        """Acts that do not follow from those before them, and destinations to which they do not lead."""
        stands: dict[str, Stands] = {}
        for act in self.acts:
            before = stands.get(act.settlement_id, Stands())
            after = _after(before, act)
            if after is None or act.old != before.to:
                yield act, before
            stands[act.settlement_id] = after or Stands(act.new)
        left = {one: where for one, where in stands.items() if where.to is not None}
        if left != self.stands:
            yield left, self.stands

    def untold(self) -> Iterator[Any]:
        """Acts that the operator was not told of, or twice, and notices of nothing."""
        if self.heard is None:
            return
        due = Counter((NOTICES[act.what], *_about(act)) for act in self.acts if act.what in NOTICES)
        owed: Counter[tuple[Any, ...]] = Counter()
        for body in self.owed:
            said = msgspec.json.decode(body)
            data = said["data"]
            if said["type"] in NOTICES.values():
                owed[said["type"], data["settlement_id"], data["old"], data["new"]] += 1
            if body not in self.heard:
                yield "not heard", said
        if due != owed:
            yield due - owed, owed - due


def _about(act: Act) -> tuple[str, str | None, str | None]:
    return act.settlement_id, act.old, act.new


def _after(before: Stands, act: Act) -> Stands | None:
    """What an act makes of a destination; None where it cannot follow."""
    waits = before.pending is not None
    match act.what:
        case "settlement.create":
            return None if before.to else Stands(act.new)
        case "settlement.change_request":
            return None if waits and before.pending != act.new else Stands(act.old, act.new, act.due_ms)
        case "settlement.change_cancel":
            return None if not waits or before[1:] != (act.new, act.due_ms) else Stands(act.old)
        case "settlement.delete":
            return None if waits else Stands()
    if act.actor != SERVER:
        return None if waits and before.pending != act.new else Stands(act.new)
    is_due = before.pending == act.new and before.due_ms is not None and before.due_ms <= act.at_ms
    return Stands(act.new) if is_due else None


def read_destinations(path: Path, heard: Collection[bytes] | None = None) -> Destinations:
    """All of it from a live realm's file."""
    with closing(sqlite3.connect(path)) as tx:
        acts = []
        for what, subject, actor, at_ms, text in tx.execute(
            "SELECT act, subject, actor, at_ms, details FROM audit WHERE act GLOB 'settlement.*' ORDER BY seq"
        ):
            said = msgspec.json.decode(text)
            due = said.get("appliesAt")
            due_ms = None if due is None else round(datetime.fromisoformat(due).timestamp() * 1000)
            acts.append(Act(what, subject, actor, at_ms, said.get("from"), said.get("to"), due_ms))
        stands = {
            one: Stands(*where)
            for one, *where in tx.execute(
                "SELECT s.id, s.destination, c.destination, c.due_at_ms FROM settlements s"
                " LEFT JOIN settlement_changes c ON c.settlement_id = s.id"
            )
        }
        owed = [
            bytes(body)
            for (body,) in tx.execute(
                "SELECT body FROM deliveries WHERE kind = 'notice' AND event_type GLOB 'destination.*'"
            )
        ]
    return Destinations(acts, stands, owed, heard)
