"""One process for a data directory: an advisory lock that ends with its holder.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from payd.store.durable import make_file, make_folder

LOCK_NAME: Final = "lock"

# A process id has at most seven digits on Linux; what else lies in the file is not read.
HOLDER_LENGTH_MAX: Final = 20

Work: TypeAlias = Literal["backup", "restore", "upgrade"]
"""What may hold the directory for minutes, and ends by itself."""


class DataDirectoryBusy(RuntimeError):
    """Another process holds the data directory.

    Attributes:
        pid: Its process id; None when it has not said so yet.
        work: What it does there; None of a server, of what is done in a moment, and where it has not said so.
    """

    def __init__(self, path: Path, pid: int | None, work: Work | None = None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        directory = path.absolute()
        super().__init__(
            f"payd runs here already ({holder}), in {directory}: stop it, or choose another directory"
            if work is None
            else f"{directory} is held by a {work} ({holder}): try again once that is done"
        )
        self.pid = pid
        self.work = work


@contextmanager
def hold_data_dir(path: Path | str, work: Work | None = None) -> Iterator[Path]:
    """Make the directory where it is missing, and hold it as long as the block runs.

    The lock belongs to the process: however that ends, the directory is free again. The file stays, because
    removing it would let two processes lock two files of one name. Where a person removes it, as is done with
    files that the dead leave behind, the directory's own lock still holds.

    Args:
        path: The directory.
        work: What for, where it takes long: who comes meanwhile hears of it.

    Raises:
        DataDirectoryBusy: Another process holds it, or another block of this one.
        OSError: The directory cannot be made or written.
    """
    directory = Path(path)
    make_folder(directory)
    with suppress(FileExistsError):
        make_file(directory / LOCK_NAME)
    file = os.open(directory / LOCK_NAME, os.O_RDWR)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _lock_folder(folder)
        except BlockingIOError:
            raise DataDirectoryBusy(directory, *_read_holder(file)) from None
        _write_holder(file, f"{os.getpid()}\n" if work is None else f"{os.getpid()} {work}\n")
        try:
            yield directory
        finally:
            _write_holder(file, "")
    finally:
        os.close(folder)
        os.close(file)


def check_free(path: Path | str) -> None:
    """Return when nobody holds the directory now; nothing is made.

    Raises:
        DataDirectoryBusy: Somebody does.
        OSError: It cannot be read.
    """
    directory = Path(path)
    if (directory / LOCK_NAME).exists():
        with hold_data_dir(directory):
            pass


def _lock_folder(folder: int) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return  # a disk that knows no locks of folders; the file's is one all the same


def _write_holder(file: int, text: str) -> None:
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, text.encode(), 0)
    except OSError:
        # The lock is what counts; on a full disk the next one hears "another process".
        with suppress(OSError):
            os.ftruncate(file, 0)


def _read_holder(file: int) -> tuple[int | None, Work | None]:
    pid, _, work = os.pread(file, HOLDER_LENGTH_MAX, 0).decode("latin-1").strip().partition(" ")
    return int(pid) if pid.isdecimal() else None, next((one for one in get_args(Work) if one == work), None)
