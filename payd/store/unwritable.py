"""Which failures of a store come from its directory: it may not be written, is full, or is none."""

from __future__ import annotations

import enum
import errno
import sqlite3
from pathlib import Path
from typing import Final

from payd.store.migrate import MigrationFailed

# The system's and SQLite's ways to say "you may not" and "there is no room".
FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM})
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
SQLITE_FORBIDDEN: Final = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM})
# The second: opening a database makes the index of its log, which only grows where there is room.
SQLITE_FULL: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})

# An extended code of SQLite has its primary one in the lowest byte.
PRIMARY_CODE: Final = 0xFF


class Unwritable(enum.Enum):
    """Why a directory cannot be used."""

    FORBIDDEN = enum.auto()
    FULL = enum.auto()
    READ_ONLY = enum.auto()
    NO_DIRECTORY = enum.auto()


def why_unwritable(error: BaseException, directory: Path) -> Unwritable | None:
    """What is wrong with a data directory, or None when the failure was of another kind.

    Args:
        error: What opening or using it raised.
        directory: Absolute.
    """
    if isinstance(error, MigrationFailed) and error.__cause__ is not None:
        error = error.__cause__
    match error:
        case OSError(filename=str() | Path() as file) if not _is_about(Path(file), directory):
            return None
        case OSError(errno=int(code)) if code in FORBIDDEN:
            return Unwritable.FORBIDDEN
        case OSError(errno=int(code)) if code in FULL:
            return Unwritable.FULL
        case OSError(errno=errno.EROFS):
            return Unwritable.READ_ONLY
        case OSError(errno=errno.ENOTDIR | errno.EEXIST):
            return Unwritable.NO_DIRECTORY
        case sqlite3.Error(sqlite_errorcode=int(code)) if code & PRIMARY_CODE in SQLITE_FORBIDDEN:
            return Unwritable.FORBIDDEN
        case sqlite3.Error(sqlite_errorcode=int(code)) if code in SQLITE_FULL:
            return Unwritable.FULL
        case _:
            return None


def _is_about(file: Path, directory: Path) -> bool:
    """Whether it is the directory, in it, or a folder that would hold it."""
    file = file.absolute()
    return file.is_relative_to(directory) or directory.is_relative_to(file)
