"""A data directory made from a backup: checked to the last byte first, then in its place as a whole.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from payd.store.backup import SEAL_KEY
from payd.store.copying import DATABASES, Look, look_away, looked_at, open_existing
from payd.store.durable import copy_file, make_folder
from payd.store.manifest import BackupUnusable, Kept, Manifest, check_file, read_manifest
from payd.store.migrate import DatabaseTooNew, read_migrations, schema_version
from payd.store.seal import Seal, SealKeyUnusable, load_key
from payd.store.sealed import closed
from payd.store.self_check import broken_places, schema_differences
from payd.store.snapshots import prune_snapshots, snapshot_name
from payd.store.swap import Swap, commit, drop_stage, finish, stage


class RestoreRefused(RuntimeError):
    """It is not done; the message says what to do."""


class Lost(msgspec.Struct, frozen=True, rename="camel"):
    """Something that cannot be read without the seal key of that server."""

    database: str
    what: str
    count: int


class Restored(msgspec.Struct, frozen=True, rename="camel"):
    """What was done.

    Attributes:
        manifest: Of the backup.
        lost: What nobody can read any more, unless the seal key is put there.
        keystores: The relayer's, where they lie now; payd.toml is to name them.
        replaced: Where what was there before is now, in the data directory; None: there was nothing.
    """

    manifest: Manifest
    lost: tuple[Lost, ...]
    keystores: tuple[str, ...]
    replaced: str | None


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
    except BaseException:
        drop_stage(directory)
        raise
    kept = snapshot_name(now_ms, "restore")
    commit(directory, Swap(tuple(each.name for each in manifest.files), gone, kept))
    prune_snapshots(directory, kept)
    keystores = tuple(each.name for each in manifest.files if each.kind == "keystore")
    return Restored(manifest, lost, keystores, kept if there or gone else None)


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


def _seal_of(path: Path) -> Seal | None:
    """The key in a file; None where there is none, or none that can be used."""
    if not path.exists():
        return None
    try:
        return Seal(load_key(path))
    except SealKeyUnusable:
        return None
