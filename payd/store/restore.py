"""A data directory made from a backup: checked to the last byte first, then in its place as a whole.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from payd import __version__
from payd.core.event import iso_ms
from payd.store.backup import SEAL_KEY, kind_of_key, look_through
from payd.store.copying import (
    DATABASES,
    LIVE,
    Look,
    has_foreign_log,
    look_away,
    looked_at,
    open_existing,
    take_log,
)
from payd.store.durable import copy_file, hash_file, make_folder
from payd.store.manifest import (
    FORMAT,
    BackupUnusable,
    Kept,
    Kind,
    Manifest,
    check_file,
    encode_manifest,
    read_manifest,
)
from payd.store.migrate import DatabaseTooNew, Schema, read_migrations, schema_version
from payd.store.seal import Seal, SealKeyUnusable, load_key
from payd.store.sealed import closed
from payd.store.self_check import broken_places, schema_differences
from payd.store.settlement_changes import changes_waiting
from payd.store.snapshots import free_snapshot_name, prune_snapshots
from payd.store.swap import Swap, commit, drop_stage, finish, stage


class RestoreRefused(RuntimeError):
    """It is not done; the message says what to do."""


class _NotWhole(Exception):
    """What is there makes no snapshot that could be restored; the message says why."""


class Lost(msgspec.Struct, frozen=True, rename="camel"):
    """Something that cannot be read without the seal key of that server."""

    database: str
    what: str
    count: int


class Waiting(msgspec.Struct, frozen=True, rename="camel"):
    """A held back change of a live destination, which takes effect once its time has come."""

    merchant_id: str
    settlement_id: str
    destination: str
    applies_at: str


class Restored(msgspec.Struct, frozen=True, rename="camel"):
    """What was done.

    Attributes:
        manifest: Of the backup.
        lost: What nobody can read any more, unless the seal key is put there.
        keystores: The relayer's, where they lie now; payd.toml is to name them.
        replaced: Where what was there before is now, in the data directory; None: there was nothing.
        by_hand: Why that is put back by hand only, such as that it was damaged; None: it can be restored.
        waiting: Changes of destinations that wait again; somebody may have taken them back since.
    """

    manifest: Manifest
    lost: tuple[Lost, ...]
    keystores: tuple[str, ...]
    replaced: str | None
    by_hand: str | None = None
    waiting: tuple[Waiting, ...] = ()


def restore(
    source: Path, directory: Path, *, overwrite: bool, now_ms: int, look: Look = look_away
) -> Restored:
    """Put a backup in the place of what is in a data directory, which the caller holds.

    Args:
        source: A backup, or a snapshot.
        directory: The data directory.
        overwrite: Whether what is there may go; it is kept as a snapshot.
        now_ms: By the wall.
        look: Told what is done; what it raises leaves everything as it was.

    Raises:
        BackupUnusable: It is no backup, or damaged; nothing was changed.
        DatabaseTooNew: A newer payd made it; nothing was changed.
        RestoreRefused: There is something already; nothing was changed.
        OSError: Something cannot be read or written.
    """
    finish(directory)
    manifest = read_manifest(source)
    names = {each.name for each in manifest.files}
    gone = tuple(name for name, _ in DATABASES if name not in names and (directory / name).exists())
    there = [name for name in sorted(names) if os.path.lexists(directory / name)]
    if (there or gone) and not overwrite:
        raise RestoreRefused(
            f"There is {', '.join([*there, *gone])} in {directory} already. Give another --data-dir, or"
            " --overwrite: then what is there is kept as a snapshot"
        )
    try:
        new = stage(directory)
        for each in manifest.files:
            _stage_file(source, new, each, look)
        lost = tuple(_lost(new, directory, manifest))
        waiting = tuple(_waiting(new / LIVE))
        note, by_hand = _note(directory, [*there, *gone], now_ms, look)
    except BaseException:
        drop_stage(directory)
        raise
    kept = free_snapshot_name(directory, now_ms, "restore")
    commit(directory, Swap(tuple(each.name for each in manifest.files), gone, kept, note))
    prune_snapshots(directory, kept, now_ms)
    keystores = tuple(each.name for each in manifest.files if each.kind == "keystore")
    return Restored(manifest, lost, keystores, kept if there or gone else None, by_hand, waiting)


def _stage_file(source: Path, new: Path, each: Kept, look: Look) -> None:
    path = new / each.name
    if not (source / each.name).is_file():
        check_file(source, each, -1, "")
    make_folder(path.parent)
    read = copy_file(source / each.name, path, lambda done: look("copying", each.name, done, each.bytes))
    check_file(source, each, *read)
    if each.kind == "database":
        _check_database(source, path, each, look)


def _check_database(source: Path, path: Path, each: Kept, look: Look) -> None:
    """Have a copy looked through; only then it counts.

    Raises:
        BackupUnusable: It is damaged, or of another schema than it says.
        DatabaseTooNew: This payd does not know its schema.
    """
    wanted = dict(DATABASES).get(each.name)
    if wanted is None or wanted != each.schema:
        raise BackupUnusable(f"{source / each.name} is no database of payd's. Take another backup")
    try:
        with closing(open_existing(path)) as tx, looked_at(tx, "checking", each.name, look):
            version = schema_version(tx)
            if version > (newest := len(read_migrations(wanted))):
                raise DatabaseTooNew(version, newest, f"{each.name} of this backup")
            wrong = [*broken_places(tx), *schema_differences(tx, wanted)]
    except sqlite3.DatabaseError as error:
        wrong = [str(error)]
        version = each.schema_version or 0
    if version != each.schema_version:
        wrong.append(f"its schema version is {version}, and not {each.schema_version}")
    if wrong:
        raise BackupUnusable(f"{source / each.name} is damaged: {'; '.join(wrong)}. Take another backup")


def _lost(new: Path, directory: Path, manifest: Manifest) -> Iterator[Lost]:
    """What is sealed in the restored databases and does not open with the seal key that will be there."""
    seal = _seal_of(new / SEAL_KEY) or _seal_of(directory / SEAL_KEY)
    for each in manifest.files:
        if each.schema is not None:
            with closing(open_existing(new / each.name)) as tx:
                yield from (Lost(each.name, *found) for found in closed(tx, each.schema, seal))


def _waiting(live: Path) -> Iterator[Waiting]:
    """The changes that wait in a restored database; none where there is no such database."""
    if live.exists():
        with closing(open_existing(live)) as tx:
            for each in changes_waiting(tx):
                yield Waiting(each.merchant_id, each.settlement_id, each.destination, iso_ms(each.due_at_ms))


def _seal_of(path: Path) -> Seal | None:
    """The key in a file; None where there is none, or none that can be used."""
    if not path.exists():
        return None
    try:
        return Seal(load_key(path))
    except SealKeyUnusable:
        return None


def _note(directory: Path, names: Sequence[str], now_ms: int, look: Look) -> tuple[str | None, str | None]:
    """What `manifest.json` says of files that are kept, or why they get none: damage stops no restore."""
    if not names:
        return None, None
    try:
        return encode_manifest(_manifest(directory, names, now_ms, look)).decode(), None
    except (_NotWhole, sqlite3.Error, OSError) as error:
        return None, str(error)


def _manifest(directory: Path, names: Sequence[str], now_ms: int, look: Look) -> Manifest:
    """Of the files as they are, so that the snapshot can be restored like any backup.

    Raises:
        _NotWhole: A database is damaged, cannot be read, or is open elsewhere.
        OSError: A file cannot be read.
    """
    schemas = {name: schema for name, schema in DATABASES if name in names}
    # All are looked through before a log is taken: with what is damaged nothing is done.
    versions = {name: _version_of(directory / name, schema, look) for name, schema in schemas.items()}
    for name in schemas:
        if not take_log(directory / name):
            raise _NotWhole(f"another program has {name} open")
    files = tuple(
        Kept(
            name,
            _kind_of(directory, name),
            *hash_file(directory / name),
            schemas.get(name),
            versions.get(name),
        )
        for name in names
    )
    with_keys = any(each.kind in {"key", "keystore"} for each in files)
    return Manifest(FORMAT, __version__, iso_ms(now_ms), with_keys, files)


def _version_of(path: Path, schema: Schema, look: Look) -> int:
    """The schema version of a database that is whole.

    Raises:
        _NotWhole: It is not.
        OSError: It is not there.
    """
    if not path.stat().st_size:
        raise _NotWhole(f"{path.name} is empty")  # opening it would throw its log away
    if has_foreign_log(path):
        raise _NotWhole(f"{path.name} is a copy, and the log beside it is another one's")
    try:
        version, wrong = look_through(path, schema, look)
    except sqlite3.Error as error:
        raise _NotWhole(f"{path.name} cannot be read: {error}") from error
    if wrong:
        raise _NotWhole(f"{path.name} is damaged: {'; '.join(wrong)}")
    return version


def _kind_of(directory: Path, name: str) -> Kind:
    if name in dict(DATABASES):
        return "database"
    return kind_of_key(directory / name, name) or "file"
