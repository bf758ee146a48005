"""What a database is asked: every statement of its readers, and how SQLite would find the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from payd.store.db import Database, Tx

_SCAN = re.compile(r"SCAN (\w+)")


@contextmanager
def overheard(db: Database) -> Iterator[list[str]]:
    """The statements that readers run meanwhile, with their values in them; transactions aside."""
    heard: list[str] = []

    def hear(statement: str) -> None:
        if not statement.startswith(("BEGIN", "ROLLBACK")):
            heard.append(statement)

    connections = db._connections
    assert connections.reader is not None
    assert connections.looker is not None
    assert connections.point is not None
    with ExitStack() as stack:
        for raw in (connections.reader.raw, connections.looker.raw, connections.point):
            raw.set_trace_callback(hear)
            stack.callback(raw.set_trace_callback, None)
        yield heard


def plan_of(tx: Tx, statement: str) -> list[str]:
    """The steps of a statement, as SQLite explains them."""
    return [row[3] for row in tx.execute(f"EXPLAIN QUERY PLAN {statement}")]
