"""What each request looks up and hardly anybody changes, kept in memory until somebody does.

The writer's connection notices each write to a watched table, by triggers of its own; once that is committed,
all that is kept is forgotten.

Source: DESIGN.md, "2. The stack".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar, cast

T = TypeVar("T")
K = TypeVar("K", str, bytes)

Query: TypeAlias = Callable[[sqlite3.Connection, K], T | None]

WATCHED: Final = ("api_keys", "apps", "merchants")
# Some 1 kB each. Full, it starts anew.
KEPT_MAX: Final = 10_000


class Memory:
    """Answers of lookups by one key in watched tables.

    Attributes:
        epoch: Another one after each write to those: what was concluded from them before may not hold.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._kept: dict[tuple[Callable[..., object], str | bytes], object] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, query: Query[K, T], key: K, ask: Callable[[Query[K, T], K], T | None]) -> T | None:
        """What `query` says of `key`: kept, or asked for now.

        What is not there is asked for each time: strangers' guesses fill nothing.
        """
        found = cast(T | None, self._kept.get((query, key)))
        if found is None:
            found = ask(query, key)
            if found is not None:
                if len(self._kept) >= KEPT_MAX:
                    self._kept.clear()
                self._kept[query, key] = found
        return found

    def forget(self) -> None:
        """Forget all."""
        self.epoch += 1
        self._kept.clear()


def watch(tx: sqlite3.Connection, touched: Callable[[], None]) -> None:
    """Have `touched` called on each write of this connection to a watched table, before it is committed."""
    tx.create_function("payd_touched", 0, touched)
    there = {name for (name,) in tx.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    for table in sorted(there.intersection(WATCHED)):
        for act in ("INSERT", "UPDATE", "DELETE"):
            tx.execute(
                f"CREATE TEMP TRIGGER {table}_{act.lower()} AFTER {act} ON main.{table}"
                " BEGIN SELECT payd_touched(); END"
            )
