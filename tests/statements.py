"""What a database is asked: every statement of its readers, and how SQLite would find the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, Literal

from payd.store.connection import Connection
from payd.store.db import Database, Tx

Role = Literal["reader", "looker", "point"]
ROLES: Final[tuple[Role, ...]] = ("reader", "looker", "point")


@contextmanager
def overheard(db: Database, roles: Sequence[Role] = ROLES) -> Iterator[list[str]]:
    """The statements that readers run meanwhile, with their values in them; transactions aside."""
    heard: list[str] = []

    def hear(statement: str) -> None:
        if not statement.startswith(("BEGIN", "ROLLBACK")):
            heard.append(statement)

    connections = db._connections
    with ExitStack() as stack:
        for role in roles:
            connection = getattr(connections, role)
            raw = connection.raw if isinstance(connection, Connection) else connection
            raw.set_trace_callback(hear)
            stack.callback(raw.set_trace_callback, None)
        yield heard


def plan_of(tx: Tx, statement: str) -> list[str]:
    """The steps of a statement, as SQLite explains them."""
    return [row[3] for row in tx.execute(f"EXPLAIN QUERY PLAN {statement}")]
