"""A data directory brought to the schemas of this payd: as a whole, checked, or not at all.

Copies are migrated, never the databases themselves. When all of them are right they take the databases'
places in one step (`swap.py`), and what was there stays as a snapshot. Whatever fails before leaves
everything as it was; whoever kills it leaves either the old or the new.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from math import ceil
from pathlib import Path
from typing import Final

import msgspec

from payd import __version__
from payd.core.attention import MIB
from payd.core.event import iso_ms
from payd.store.copying import (
    Look,
    check_logs,
    check_office,
    copy_pinned,
    databases_in,
    look_away,
    looked_at,
    open_existing,
    pinned,
    take_log,
)
from payd.store.durable import draft_folder, hash_file, sweep_draft, sync_file
from payd.store.manifest import FORMAT, Kept, Manifest, encode_manifest
from payd.store.migrate import (
    DatabaseTooNew,
    MigrationFailed,
    Schema,
    migrate,
    read_migrations,
    schema_version,
)
from payd.store.self_check import broken_places, lost_rows, row_counts, schema_differences
from payd.store.snapshots import free_snapshot_name, prune_snapshots
from payd.store.swap import Swap, commit, drop_stage, finish, stage

DRY_RUN: Final = ".dry-run"
# Besides the copies: what migrations and their logs write.
ROOM_FACTOR: Final = 1.5


class Found(msgspec.Struct, frozen=True, rename="camel"):
    """A database and its schema.

    Attributes:
        name: Its file.
        schema: Which schema it has.
        version: The number of its last migration; 0 of an empty file.
        newest: That of the last one that this payd has.
    """

    name: str
    schema: Schema
    version: int
    newest: int

    @property
    def is_old(self) -> bool:
        """Whether migrations are missing; an empty one is not old, as it is filled where it lies."""
        return 0 < self.version < self.newest


class Upgraded(msgspec.Struct, frozen=True, rename="camel"):
    """What was done, or would be.

    Attributes:
        databases: As they were found.
        snapshot: Where the old ones are, in the data directory; None after a dry run.
        pruned: How many older snapshots were taken away.
    """

    databases: tuple[Found, ...]
    snapshot: str | None
    pruned: int = 0


def look_at_schemas(directory: Path) -> tuple[Found, ...]:
    """The databases of a data directory, also of one in use.

    Raises:
        DatabaseTooNew: A newer payd wrote one of them; its file is named.
        MigrationFailed: One cannot be read.
    """
    return tuple(_look_at(directory / name, schema) for name, schema in databases_in(directory))


def upgrade(directory: Path, now_ms: int, look: Look = look_away) -> Upgraded | None:
    """Bring the databases of a data directory up to date; the caller holds it, and none of them is open.

    Args:
        directory: The data directory.
        now_ms: By the wall, for the snapshot's name.
        look: Told what is done; what it raises leaves everything as it was.

    Returns:
        What was done; None where nothing was to be done.

    Raises:
        DatabaseTooNew: A newer payd wrote one of them; nothing was changed.
        MigrationFailed: It could not be done, or its result is not right; nothing was changed.
        OfficeMissing: Payments are there, and the accounts that they belong to are not.
        LogAstray: A database was moved away from its log, or a copy put beside another one's.
        OSError: The directory cannot be read or written, or is full.
    """
    finish(directory)
    sweep_draft(directory / DRY_RUN)  # as large as the databases, of one that was killed
    check_office(directory)
    check_logs(directory)
    found = look_at_schemas(directory)
    if not any(each.is_old for each in found):
        return None
    _check_room(directory, found)
    for each in found:
        _take_log(directory / each.name)
    try:
        new = stage(directory)
        _migrate_copies(directory, new, found, look)
        kept = free_snapshot_name(directory, now_ms, "upgrade")
        note = encode_manifest(_manifest(directory, found, now_ms)).decode()
    except BaseException:
        drop_stage(directory)
        raise
    commit(directory, Swap(tuple(each.name for each in found), (), kept, note))
    return Upgraded(found, kept, prune_snapshots(directory, kept, now_ms))


def try_upgrade(directory: Path, look: Look = look_away) -> Upgraded:
    """Do it all with copies that are thrown away; a server may go on with the directory meanwhile.

    Raises:
        DatabaseTooNew, MigrationFailed, OfficeMissing, LogAstray, OSError: As `upgrade` would.
        DraftBusy: Somebody else tries.
        DraftForeign: Somebody put something in the place of the copies.
    """
    check_office(directory)
    check_logs(directory)
    found = look_at_schemas(directory)
    if any(each.is_old for each in found):
        _check_room(directory, found)
        with draft_folder(directory / DRY_RUN) as draft:
            _migrate_copies(directory, draft, found, look)
    return Upgraded(found, None)


def _look_at(path: Path, schema: Schema) -> Found:
    newest = len(read_migrations(schema))
    try:
        with closing(open_existing(path)) as tx:
            version = schema_version(tx)
    except sqlite3.Error as error:
        raise MigrationFailed(f"{path.name} cannot be read: {error}") from error
    if version > newest:
        raise DatabaseTooNew(version, newest, path.name)
    return Found(path.name, schema, version, newest)


def _check_room(directory: Path, found: Sequence[Found]) -> None:
    needed = int(sum((directory / each.name).stat().st_size for each in found) * ROOM_FACTOR)
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise MigrationFailed(
            f"the upgrade needs {ceil(needed / MIB)} MiB for its copies, and {free // MIB} MiB are free in"
            f" {directory}: make room. Nothing was changed"
        )


def _take_log(path: Path) -> None:
    """Have all of a database in its one file, which then can be kept by itself.

    Raises:
        MigrationFailed: Somebody else has it open.
    """
    try:
        is_one_file = take_log(path)
    except sqlite3.Error as error:
        raise MigrationFailed(f"{path.name} cannot be read: {error}. Nothing was changed") from error
    if not is_one_file:
        raise MigrationFailed(
            f"another program has {path.name} open: end it and start again. Nothing was changed"
        )


def _migrate_copies(directory: Path, new: Path, found: Sequence[Found], look: Look) -> None:
    try:
        with pinned([directory / each.name for each in found]) as opened:
            for each, tx in zip(found, opened, strict=True):
                copy_pinned(tx, new / each.name, look)
    except sqlite3.Error as error:
        raise MigrationFailed(f"the databases cannot be copied: {error}. Nothing was changed") from error
    for each in found:
        _migrate_copy(new / each.name, each, look)


def _migrate_copy(path: Path, found: Found, look: Look) -> None:
    steps = read_migrations(found.schema)
    try:
        with closing(open_existing(path)) as tx, looked_at(tx, "migrating", found.name, look):
            # On the disk as a whole at the end; one that fails is thrown away as a whole.
            tx.execute("PRAGMA synchronous = OFF")
            tx.execute("PRAGMA journal_mode = MEMORY")
            before = row_counts(tx)
            migrate(tx, steps)
            look("checking", found.name, 0, 0)
            wrong = [
                *broken_places(tx),
                *schema_differences(tx, found.schema),
                *lost_rows(before, row_counts(tx), steps[found.version :]),
            ]
    except (MigrationFailed, sqlite3.Error) as error:
        # The machine's own reason, such as a full disk, is looked for by who tells people.
        cause = error.__cause__ or error
        raise MigrationFailed(f"{found.name} could not be upgraded: {error}. Nothing was changed") from cause
    if wrong:
        raise MigrationFailed(
            f"{found.name} is not right after its upgrade from version {found.version} to {found.newest}:"
            f" {'; '.join(wrong)}. Nothing was changed: run the payd of before, and report this"
        )
    sync_file(path)


def _manifest(directory: Path, found: Sequence[Found], now_ms: int) -> Manifest:
    """Of the databases as they are, so that the snapshot can be restored like any backup."""
    files = tuple(
        Kept(each.name, "database", *hash_file(directory / each.name), each.schema, each.version)
        for each in found
    )
    return Manifest(FORMAT, __version__, iso_ms(now_ms), with_keys=False, files=files)
