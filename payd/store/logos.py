"""Merchants' logos: what is shown, and the copies that are owed.

A wish is a row with a due time; the copy of an older wish changes nothing any more.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from payd.core.picture import HASH_CHARACTERS, retry_at_ms

Tx: TypeAlias = sqlite3.Connection

# A reason is for a line on a screen.
PROBLEM_MAX: Final = 300

# Of an `Owed`. A row that was deleted and made again begins with the first version.
_STILL_OWED: Final = "merchant_id = ? AND version = ? AND source_url = ? AND due_at_ms IS NOT NULL"

_COLUMNS: Final = "merchant_id, source_url, due_at_ms, failures, problem, digest"


class Logo(msgspec.Struct, frozen=True):
    """A merchant's logo, without the picture. `due_at_ms` is real time; `digest` names what is shown now."""

    merchant_id: str
    source_url: str | None
    due_at_ms: int | None
    failures: int
    problem: str | None
    digest: str | None


class Owed(NamedTuple):
    """A copy that is to be made."""

    merchant_id: str
    version: int
    source_url: str


def logos_of(tx: Tx, ids: Sequence[str]) -> dict[str, Logo]:
    """The logos of several merchants, by id; who has none is not there."""
    marks = ",".join("?" * len(ids))
    rows = tx.execute(f"SELECT {_COLUMNS} FROM logos WHERE merchant_id IN ({marks})", ids)
    return {row[0]: Logo(*row) for row in rows}


def find_logo(tx: Tx, merchant_id: str) -> Logo | None:
    """A merchant's logo, or what became of the wish for one."""
    return logos_of(tx, [merchant_id]).get(merchant_id)


def shown_logo(tx: Tx, merchant_id: str) -> str | None:
    """The digest of what pages show of a merchant; None where there is no picture."""
    found = find_logo(tx, merchant_id)
    return None if found is None else found.digest


def find_picture(tx: Tx, digest: str) -> bytes | None:
    """A picture that is some merchant's logo now."""
    row = tx.execute("SELECT picture FROM logos WHERE digest = ? LIMIT 1", (digest,)).fetchone()
    return None if row is None else bytes(row[0])


def wish_copy(tx: Tx, merchant_id: str, url: str, now_ms: int) -> None:
    """Have a picture copied; the one before is shown until then."""
    tx.execute(
        "INSERT INTO logos (merchant_id, source_url, due_at_ms) VALUES (?, ?, ?)"
        " ON CONFLICT (merchant_id) DO UPDATE SET version = version + 1, source_url = excluded.source_url,"
        " due_at_ms = excluded.due_at_ms, failures = 0, problem = NULL",
        (merchant_id, url, now_ms),
    )


def follow_icon_url(tx: Tx, merchant_id: str, before: str | None, wanted: str | None, now_ms: int) -> None:
    """What a change of `iconUrl` means for the logo.

    The same URL again copies it again, but not over a logo that was sent since, and none where there was none
    changes nothing: who sends the whole merchant back means nothing by it.
    """
    if wanted is None:
        if before is not None:
            delete_logo(tx, merchant_id)
        return
    found = find_logo(tx, merchant_id)
    if wanted != before or (found is not None and found.source_url == wanted):
        wish_copy(tx, merchant_id, wanted, now_ms)


def put_picture(tx: Tx, merchant_id: str, picture: bytes) -> str:
    """Show a picture that was sent, and drop a copy that is owed. Returns its digest."""
    digest = digest_of(picture)
    tx.execute(
        "INSERT INTO logos (merchant_id, digest, picture) VALUES (?, ?, ?)"
        " ON CONFLICT (merchant_id) DO UPDATE SET version = version + 1, source_url = NULL, due_at_ms = NULL,"
        " failures = 0, problem = NULL, digest = excluded.digest, picture = excluded.picture",
        (merchant_id, digest, picture),
    )
    return digest


def delete_logo(tx: Tx, merchant_id: str) -> bool:
    """Show none any more, and copy none. Returns whether there was one, or a wish for one."""
    return tx.execute("DELETE FROM logos WHERE merchant_id = ?", (merchant_id,)).rowcount > 0


def copies_due(tx: Tx, now_ms: int, limit: int) -> list[Owed]:
    """Copies that are to be made now, those first that wait longest."""
    rows = tx.execute(
        "SELECT merchant_id, version, source_url FROM logos WHERE due_at_ms <= ? ORDER BY due_at_ms LIMIT ?",
        (now_ms, limit),
    )
    return [Owed(*row) for row in rows]


def next_copy_ms(tx: Tx) -> int | None:
    """When the next copy is due; None when none is owed."""
    (due_at_ms,) = tx.execute("SELECT min(due_at_ms) FROM logos WHERE due_at_ms IS NOT NULL").fetchone()
    return None if due_at_ms is None else int(due_at_ms)


def keep_copy(tx: Tx, owed: Owed, picture: bytes) -> bool:
    """Show what was copied. Returns False when something else was wished meanwhile."""
    changed = tx.execute(
        "UPDATE logos SET due_at_ms = NULL, failures = 0, problem = NULL, digest = ?, picture = ?"
        f" WHERE {_STILL_OWED}",
        (digest_of(picture), picture, *owed),
    )
    return changed.rowcount > 0


def record_failure(tx: Tx, owed: Owed, problem: str, now_ms: int, *, is_final: bool) -> Logo | None:
    """Note why a copy failed, and when it is tried again, if it is.

    Returns:
        What is stored then; None when something else was wished meanwhile.
    """
    row = tx.execute(
        f"SELECT failures FROM logos WHERE {_STILL_OWED}",
        owed,
    ).fetchone()
    if row is None:
        return None
    failures = row[0] + 1
    due_at_ms = None if is_final else retry_at_ms(failures, now_ms)
    tx.execute(
        "UPDATE logos SET failures = ?, problem = ?, due_at_ms = ? WHERE merchant_id = ?",
        (failures, problem[:PROBLEM_MAX], due_at_ms, owed.merchant_id),
    )
    return find_logo(tx, owed.merchant_id)


def count_failing(tx: Tx) -> int:
    """How many merchants' logos could not be copied at the last try."""
    (count,) = tx.execute("SELECT count(*) FROM logos WHERE problem IS NOT NULL").fetchone()
    return int(count)


def digest_of(picture: bytes) -> str:
    """What a picture is called."""
    return hashlib.sha256(picture).hexdigest()[:HASH_CHARACTERS]
