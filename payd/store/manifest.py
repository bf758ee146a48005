"""What a backup says of itself: what is in it, of when and of which version, with a checksum for each file.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Final, Literal

import msgspec

from payd.store.migrate import Schema

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
BYTES_MAX: Final = 16 << 20  # a line a file; more is something else

Kind = Literal["database", "key", "keystore", "file"]

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class BackupUnusable(RuntimeError):
    """It is no backup, or not a whole one; the message says why."""


class Kept(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One file of a backup.

    Attributes:
        name: Where it lies in the backup and in a data directory, with `/` between folders.
        kind: database; key: what opens sealed secrets; keystore: the relayer's; file: anything else.
        bytes: Its size.
        sha256: In hexadecimal.
        schema: Of a database, which one it has.
        schema_version: Of a database, the number of its last migration.
    """

    name: str
    kind: Kind
    bytes: int
    sha256: str
    schema: Schema | None = None
    schema_version: int | None = None


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """A whole backup.

    Attributes:
        format: Of the backup: its layout and this struct.
        payd: The version that made it.
        made_at: When it was begun, by the wall: every write that was acknowledged before is in it.
        with_keys: Whether the seal key is in it, and the relayer's keystore where there is one.
        files: What is in it besides `manifest.json`.
    """

    format: int
    payd: str
    made_at: str
    with_keys: bool
    files: tuple[Kept, ...]

    def bytes(self) -> int:
        """The size of all files."""
        return sum(each.bytes for each in self.files)


def encode_manifest(manifest: Manifest) -> bytes:
    """As the file has it."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a backup, which names no file outside of it.

    Raises:
        BackupUnusable: There is none, or it is of another kind.
        OSError: It cannot be read.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise BackupUnusable(
            f"{folder} is no whole backup: it has no {MANIFEST}, which is written last. Take another one"
        )
    try:
        with path.open("rb") as file:
            manifest = msgspec.json.decode(file.read(BYTES_MAX), type=Manifest)
    except msgspec.DecodeError as error:
        raise BackupUnusable(f"{path} is damaged: {error}. Take another backup") from None
    if manifest.format != FORMAT:
        raise BackupUnusable(
            f"{folder} has format {manifest.format}, and this payd knows format {FORMAT}: restore it with"
            f" payd {manifest.payd}"
        )
    for each in manifest.files:
        if not _is_inside(each.name) or not _SHA256.fullmatch(each.sha256):
            raise BackupUnusable(f"{path} names {each.name!r}, which no backup does. Take another backup")
    return manifest


def check_file(folder: Path, kept: Kept, size: int, sha256: str) -> None:
    """Compare what was read of a file with what the manifest says of it; a size of -1 is of none.

    Raises:
        BackupUnusable: It is another one.
    """
    if (size, sha256) != (kept.bytes, kept.sha256):
        words = "is not there" if size < 0 else "is not as it was when the backup was made"
        raise BackupUnusable(f"{folder / kept.name} {words}. Take another backup")


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and str(path) == name
