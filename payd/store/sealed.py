"""What is sealed in a database, and how much of it a key does not open.

Source: DESIGN.md, "3. Two realms".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from payd.core.endpoint import CANARY, NOTIFY
from payd.store.collected import subject_of
from payd.store.copying import databases_in, open_existing
from payd.store.migrate import Schema
from payd.store.seal import Seal, SealBroken

Tx: TypeAlias = sqlite3.Connection


class _Sealed(NamedTuple):
    """Values of a column: where, for whom each is sealed, and what they are, in words."""

    schema: Schema
    table: str
    column: str
    owner: str
    subject: Callable[[Any], str]
    words: str
    but: str = "1"


_SEALED: Final = (
    _Sealed("office", "users", "totp_sealed", "id", lambda row: str(row[0]), "authenticator apps of people"),
    # The house's own are made from the seal key again at each start.
    _Sealed(
        "realm",
        "endpoint_secrets",
        "sealed",
        "endpoint_id",
        lambda row: str(row[0]),
        "signing secrets of webhook endpoints",
        f"endpoint_id NOT IN ('{NOTIFY}', '{CANARY}')",
    ),
    _Sealed("realm", "endpoints", "headers", "id", lambda row: str(row[0]), "added headers of webhooks"),
    _Sealed(
        "realm",
        "collected",
        "sealed",
        "payment_id, holder",
        lambda row: subject_of(*row),
        "answers of buyers",
    ),
)


def closed(tx: Tx, schema: Schema, seal: Seal | None) -> Iterator[tuple[str, int]]:
    """What a key does not open: in words, and how many. Without a key that is all.

    One value of each kind is tried: a database has one key.
    """
    for kind in _SEALED:
        if kind.schema == schema and _has_column(tx, kind.table, kind.column):
            chosen = f"FROM {kind.table} WHERE {kind.column} IS NOT NULL AND {kind.but}"
            (count,) = tx.execute(f"SELECT count(*) {chosen}").fetchone()
            newest = tx.execute(
                f"SELECT {kind.column}, {kind.owner} {chosen} ORDER BY rowid DESC LIMIT 1"
            ).fetchone()
            if newest is not None and not _opens(seal, newest[0], kind.subject(newest[1:])):
                yield kind.words, int(count)


def closed_in(directory: Path, seal: Seal) -> Iterator[tuple[str, int]]:
    """The same of all databases there; others tell what is wrong with one that cannot be read."""
    for name, schema in databases_in(directory):
        with suppress(sqlite3.Error), closing(open_existing(directory / name, "ro")) as tx:
            yield from closed(tx, schema, seal)


def _has_column(tx: Tx, table: str, column: str) -> bool:
    """Whether there is such a thing in a database that may be an old one."""
    return column in {row[1] for row in tx.execute(f"PRAGMA table_info({table})")}


def _opens(seal: Seal | None, sealed: bytes, subject: str) -> bool:
    try:
        return seal is not None and bool(seal.open(sealed, subject))
    except SealBroken:
        return False
