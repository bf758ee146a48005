"""A backup: a folder with a checked copy of a data directory, and a manifest; whole, or not there.

It is made under another name, and gets its own once all of it is on the disk.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from math import ceil
from pathlib import Path, PurePosixPath
from typing import Final, Literal

import msgspec

from payd import __version__
from payd.core.attention import MIB, SPACE_NONE
from payd.core.event import iso_ms
from payd.store.copying import (
    DATABASES,
    LinkAstray,
    Look,
    copy_pinned,
    databases_in,
    look_away,
    looked_at,
    open_existing,
    pinned,
)
from payd.store.durable import (
    copy_file,
    draft_folder,
    hash_file,
    make_folder,
    sync_folder,
    sync_folders,
    write_file,
)
from payd.store.lock import LOCK_NAME
from payd.store.manifest import FORMAT, MANIFEST, Kept, Manifest, encode_manifest
from payd.store.migrate import Schema, read_migrations, schema_version
from payd.store.seal import is_key
from payd.store.self_check import broken_places, schema_differences
from payd.store.snapshots import FOLDER as SNAPSHOTS
from payd.store.swap import INDEX, LOG, STAGE
from payd.store.unwritable import SQLITE_FULL
from payd.store.upgrade import DRY_RUN

SEAL_KEY: Final = "seal.key"
KEYS: Final = "keys"
"""The folder of a keystore that does not lie in the data directory."""

DRAFT: Final = ".payd-backup.partial"
LAST_BACKUP: Final = "last-backup.json"
"""In the data directory: when the last one was made, and where."""

# A keystore has half a kibibyte; what is larger is something else.
KEYSTORE_BYTES_MAX: Final = 16 * 1024

# What SQLite calls the files of a database.
_SUFFIXES: Final = ("", LOG, INDEX, "-journal")

# Of this machine and moment, or copies themselves, or what a copied-back snapshot says of itself.
_NEVER: Final = {LOCK_NAME, LAST_BACKUP, STAGE, DRY_RUN, SNAPSHOTS, DRAFT, MANIFEST}


class BackupRefused(RuntimeError):
    """It cannot be made like that; the message says what to do."""


class Keystore(msgspec.Struct, frozen=True):
    """What `[relayer]` of payd.toml names; the password's file is never copied."""

    file: Path | None = None
    password_file: Path | None = None


class LastBackup(msgspec.Struct, frozen=True, rename="camel"):
    """The newest backup that was whole."""

    made_at: str
    made_at_ms: int
    dest: str
    bytes: int
    with_keys: bool


def make_backup(
    directory: Path, dest: Path, keystore: Keystore, *, with_keys: bool, now_ms: int, look: Look = look_away
) -> Manifest:
    """Copy a data directory, also one in use; it takes long, so call it on a thread.

    Args:
        directory: The data directory.
        dest: A folder that is not there yet, in one that is.
        keystore: The relayer's.
        with_keys: Whether the seal key and the keystore come along.
        now_ms: By the wall.
        look: Told what is done; what it raises ends the backup, and nothing is left of it.

    Raises:
        BackupRefused: `dest` cannot be used or has no room, there is nothing to copy, or a database is
            damaged.
        DraftBusy: Another backup into the same folder is under way.
        DraftForeign: Somebody put something in the place of the draft.
        OSError: Something cannot be read or written.
    """
    _check_dest(directory, dest)
    with draft_folder(dest.parent / DRAFT) as draft, _readable():
        _check_room(directory, draft, keystore)
        files = [
            *_copy_databases(directory, draft, look),
            *_copy_others(directory, draft, keystore, look),
            *(_copy_keys(directory, draft, keystore) if with_keys else ()),
        ]
        manifest = Manifest(FORMAT, __version__, iso_ms(now_ms), with_keys, tuple(files))
        write_file(draft / MANIFEST, encode_manifest(manifest))
        sync_folders(draft)
        if os.path.lexists(dest):
            raise BackupRefused(_there_already(dest))
        draft.rename(dest)
    sync_folder(dest.parent)
    _note(directory, dest, manifest, now_ms)
    return manifest


def last_backup(directory: Path) -> LastBackup | None:
    """The newest backup of a data directory; None where none is known of."""
    try:
        return msgspec.json.decode((directory / LAST_BACKUP).read_bytes(), type=LastBackup)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def left_out(directory: Path) -> list[str]:
    """Links to folders, which no backup follows: they may lead anywhere, also to where backups are kept."""
    return sorted(
        Path(folder, name).relative_to(directory).as_posix()
        for folder, folders, _ in os.walk(directory)
        for name in folders
        if Path(folder, name).is_symlink() and name not in _NEVER
    )


@contextmanager
def _readable() -> Iterator[None]:
    """What SQLite says of a database that cannot be copied, with what to do."""
    try:
        yield
    except sqlite3.Error as error:
        # Where a server does not run, to read a database needs some room beside it for the index of its log.
        is_full = getattr(error, "sqlite_errorcode", 0) in SQLITE_FULL
        todo = "Make room on" if is_full else "Look at"
        raise BackupRefused(
            f"A database cannot be copied: {error}. {todo} the disks of the data directory and of the backup"
        ) from error


def _check_dest(directory: Path, dest: Path) -> None:
    try:
        there = databases_in(directory)
    except LinkAstray as astray:
        raise BackupRefused(str(astray)) from astray
    if not there:
        raise BackupRefused(f"No payd data in {directory}: there is nothing to back up")
    if os.path.lexists(dest):
        raise BackupRefused(_there_already(dest))
    if not dest.parent.is_dir():
        raise BackupRefused(f"There is no folder {dest.parent}. Make it, or mount the disk that has it")
    if dest.resolve().is_relative_to(directory.resolve()):
        raise BackupRefused(
            f"{dest} lies in the data directory, and would be lost with it. Choose a place outside, best on"
            " another disk"
        )


def _check_room(directory: Path, draft: Path, keystore: Keystore) -> None:
    """Before anything is copied: while a backup fills the server's disk, no payment can be stored.

    Raises:
        BackupRefused: There is too little room for what is copied, and beside the server for what it writes.
    """
    copied = [*(directory / name for name, _ in databases_in(directory)), *_others(directory, keystore)]
    needed = sum(path.stat().st_size for path in copied)
    if draft.stat().st_dev == directory.stat().st_dev:
        needed += min(needed // 2, SPACE_NONE)
    free = shutil.disk_usage(draft).free
    if free < needed:
        raise BackupRefused(
            f"The backup needs {ceil(needed / MIB)} MiB, and {free // MIB} MiB are free in {draft.parent}."
            " Take old backups away, or choose another disk"
        )


def _there_already(dest: Path) -> str:
    return f"{dest} is there already, and is not overwritten. Choose a new name, such as one with the date"


def _copy_databases(directory: Path, draft: Path, look: Look) -> Iterator[Kept]:
    there = databases_in(directory)
    # All are pinned before the first is copied, so that they belong together.
    with pinned([directory / name for name, _ in there]) as opened:
        for (name, _), tx in zip(there, opened, strict=True):
            copy_pinned(tx, draft / name, look)
            tx.execute("ROLLBACK")  # its log can be emptied again
    for name, schema in there:
        version = _check_copy(draft / name, schema, look)
        size, sha256 = hash_file(draft / name, lambda _: look("hashing", name, 0, 0))  # noqa: B023  # called at once
        yield Kept(name, "database", size, sha256, schema, version)


def look_through(path: Path, schema: Schema, look: Look) -> tuple[int, list[str]]:
    """The schema version of a database that nobody writes to, and what is wrong with it.

    Raises:
        sqlite3.Error: It cannot be read.
    """
    with closing(open_existing(path, "ro")) as tx, looked_at(tx, "checking", path.name, look):
        version = schema_version(tx)
        wrong = broken_places(tx)
        # One of a newer payd is copied as well; what it should be is not known here.
        if not wrong and version <= len(read_migrations(schema)):
            wrong = schema_differences(tx, schema)
    return version, wrong


def _check_copy(path: Path, schema: Schema, look: Look) -> int:
    """The version of a copy, which is as whole as a database can be.

    Raises:
        BackupRefused: It is damaged, as the database then is.
    """
    version, wrong = look_through(path, schema, look)
    if wrong:
        raise BackupRefused(
            f"{path.name} is damaged, and so would be its backup: {'; '.join(wrong)}. Keep the backups that"
            " you have, and look at the disk"
        )
    return version


def _copy_others(directory: Path, draft: Path, keystore: Keystore, look: Look) -> Iterator[Kept]:
    """What else lies there and is no key, such as a payd.toml."""
    for path in _others(directory, keystore):
        name = path.relative_to(directory).as_posix()
        make_folder((draft / name).parent)
        size, sha256 = copy_file(path, draft / name, lambda _: look("copying", name, 0, 0))  # noqa: B023  # called at once
        yield Kept(name, "file", size, sha256)


def _others(directory: Path, keystore: Keystore) -> Iterator[Path]:
    for path, is_secret in _files_in(directory):
        named = (keystore.file, keystore.password_file)
        if not is_secret and not any(each is not None and _is_same(each, path) for each in named):
            yield path


def _files_in(directory: Path) -> Iterator[tuple[Path, bool]]:
    """Every file that is not the store's own or of the moment, and whether it is a key."""
    own = {name + suffix for name, _ in DATABASES for suffix in _SUFFIXES}
    in_use = _files_in_use(directory)
    for folder, folders, names in os.walk(directory):
        at_top = Path(folder) == directory
        if at_top:
            folders[:] = [name for name in folders if name not in _NEVER]
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if (at_top and (name in own or name in _NEVER)) or name.endswith(".new") or not path.is_file():
                continue
            if _identity(path) in in_use:
                continue
            yield path, kind_of_key(path, path.relative_to(directory).as_posix()) is not None


def _files_in_use(directory: Path) -> set[tuple[int, int]]:
    """The databases and their logs, under whatever other names they lie here, as behind links.

    Whoever opens one of them in the process that uses it, and closes it, drops the locks that SQLite has on
    it: the next program that looks takes its log away, and what the server writes from then on is lost.
    """
    real = [Path(os.path.realpath(directory / name)) for name, _ in DATABASES]
    files = [path.with_name(path.name + suffix) for path in real for suffix in _SUFFIXES]
    return {_identity(path) for path in files if path.exists()}


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _copy_keys(directory: Path, draft: Path, keystore: Keystore) -> Iterator[Kept]:
    if not (directory / SEAL_KEY).is_file():
        raise BackupRefused(
            f"There is no {directory / SEAL_KEY}, which opens what is sealed. Put it back, or leave out"
            " --with-keys"
        )
    keys = [(path, path.relative_to(directory).as_posix()) for path, is_key in _files_in(directory) if is_key]
    if keystore.file is not None and not keystore.file.resolve().is_relative_to(directory.resolve()):
        if not keystore.file.is_file():
            raise BackupRefused(
                f"There is no keystore {keystore.file}, which [relayer] of payd.toml names. Correct that, or"
                " leave out --with-keys"
            )
        # Before others: a restore once put a copy of it into that folder, which may be an older one by now.
        keys.insert(0, (keystore.file, f"{KEYS}/{keystore.file.name}"))
    for path, wanted in keys:
        if (name := _free_name(path, draft, wanted)) is not None:
            yield _copy_key(path, draft, name)


def _free_name(path: Path, draft: Path, wanted: str) -> str | None:
    """The name of a key in the backup, with a number where another has it; None where it is there already."""
    name, place, numbers = wanted, PurePosixPath(wanted), count(2)
    while (draft / name).exists():
        if (draft / name).is_file() and (draft / name).read_bytes() == path.read_bytes():
            return None
        name = str(place.with_stem(f"{place.stem}-{next(numbers)}"))
    return name


def _copy_key(path: Path, draft: Path, name: str) -> Kept:
    make_folder((draft / name).parent)
    size, sha256 = copy_file(path, draft / name)
    return Kept(name, kind_of_key(path, name) or "keystore", size, sha256)


def kind_of_key(path: Path, name: str) -> Literal["key", "keystore"] | None:
    """Which key a file is, by its name or by what it says: no copy of one is made by chance; None: none.

    Args:
        path: The file.
        name: Where it lies in the data directory or in a backup.
    """
    if name == SEAL_KEY:
        return "key"
    try:
        raw = path.read_bytes() if path.stat().st_size <= KEYSTORE_BYTES_MAX else b""
    except OSError:
        return None
    # An older one that somebody kept beside the one in use opens what was sealed with it.
    return "key" if is_key(raw) else "keystore" if _is_keystore(raw) else None


def _is_keystore(raw: bytes) -> bool:
    try:
        found = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return False
    return isinstance(found, dict) and isinstance(found.get("crypto", found.get("Crypto")), dict)


def _is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _note(directory: Path, dest: Path, manifest: Manifest, now_ms: int) -> None:
    """Write down where it is. A backup counts without that: a full disk is one more reason to make some."""
    done = LastBackup(manifest.made_at, now_ms, str(dest.absolute()), manifest.bytes(), manifest.with_keys)
    with suppress(OSError):
        write_file(directory / LAST_BACKUP, msgspec.json.encode(done))
