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
from payd.core.errors import SealBroken
from payd.store.collected import subject_of
from payd.store.copying import databases_in, open_existing
from payd.store.migrate import Schema
from payd.store.seal import Seal
from payd.store.second_factors import app_subject

Tx: TypeAlias = sqlite3.Connection

# Each takes a tenth of a millisecond. Of a key that is lost are the oldest: what is sealed anew comes last.
TRIED_MAX: Final = 20


class _Sealed(NamedTuple):
    """Values of a column: where, for whom each is sealed, and what they are, in words.

    `but` says which count, and `tried_max` how many of the oldest are tried besides the newest.
    """

    schema: Schema
    table: str
    column: str
    owner: str
    subject: Callable[[Any], str]
    words: str
    but: str = "1"
    tried_max: int = TRIED_MAX


SECRETS: Final = "signing secrets of webhook endpoints"

_SEALED: Final = (
    _Sealed(
        "office",
        "users",
        "totp_sealed",
        "id",
        lambda row: app_subject(row[0]),
        "authenticator apps of people",
    ),
    # The house's own are made from the seal key again at each start; one that was replaced is soon over.
    _Sealed(
        "realm",
        "endpoint_secrets",
        "sealed",
        "endpoint_id",
        lambda row: str(row[0]),
        SECRETS,
        f"endpoint_id NOT IN ('{NOTIFY}', '{CANARY}') AND expires_at_ms IS NULL",
    ),
    _Sealed("realm", "endpoints", "headers", "id", lambda row: str(row[0]), "added headers of webhooks"),
    _Sealed(
        "realm",
        "collected",
        "sealed",
        "payment_id, holder",
        lambda row: subject_of(*row),
        "answers of buyers",
        # Those of a key that is gone stay closed until they are forgotten; nobody can make new ones.
        tried_max=0,
    ),
)


def closed(tx: Tx, schema: Schema, seal: Seal | None) -> Iterator[tuple[str, int]]:
    """What a key does not open: in words, and how many. Without a key that is all."""
    for kind in _closed(tx, schema, seal):
        rows = tx.execute(f"SELECT {kind.column}, {kind.owner} {_chosen(kind)}")
        yield kind.words, sum(not _opens(seal, kind, row) for row in rows)


def closed_kinds(tx: Tx, schema: Schema, seal: Seal) -> list[str]:
    """The same without counting, for who asks often."""
    return [kind.words for kind in _closed(tx, schema, seal)]


def _closed(tx: Tx, schema: Schema, seal: Seal | None) -> Iterator[_Sealed]:
    """Some values of each kind are tried: after a key was lost, each account has new ones made by itself."""
    for kind in _SEALED:
        if kind.schema == schema and _has_column(tx, kind.table, kind.column):
            tried = f"SELECT max(rowid) {_chosen(kind)}"
            if kind.tried_max:
                oldest = f"SELECT rowid {_chosen(kind)} ORDER BY rowid LIMIT {kind.tried_max}"
                tried += f" UNION SELECT * FROM ({oldest})"
            rows = tx.execute(
                f"SELECT {kind.column}, {kind.owner} FROM {kind.table} WHERE rowid IN ({tried})"
            )
            if not all(_opens(seal, kind, row) for row in rows):
                yield kind


def _chosen(kind: _Sealed) -> str:
    return f"FROM {kind.table} WHERE {kind.column} IS NOT NULL AND {kind.but}"


def closed_in(directory: Path, seal: Seal) -> Iterator[tuple[str, str, int]]:
    """The same of all databases there, after the name of each; others tell of one that cannot be read."""
    for name, schema in databases_in(directory):
        with suppress(sqlite3.Error), closing(open_existing(directory / name, "ro")) as tx:
            yield from ((name, *found) for found in closed(tx, schema, seal))


def _has_column(tx: Tx, table: str, column: str) -> bool:
    """Whether there is such a thing in a database that may be an old one."""
    return column in {row[1] for row in tx.execute(f"PRAGMA table_info({table})")}


def _opens(seal: Seal | None, kind: _Sealed, row: tuple[Any, ...]) -> bool:
    sealed, *owner = row
    try:
        return seal is not None and bool(seal.open(sealed, kind.subject(owner)))
    except SealBroken:
        return False
