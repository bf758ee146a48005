"""Files and folders that are on the disk when a function returns, and for their owner alone unless said.

That is whose folder they lie in, also where root makes them: whoever a server runs as has to read them.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
OF_OTHERS: Final = 0o077  # what a mode says of all but the owner
CHUNK_BYTES: Final = 1 << 20


class DraftBusy(RuntimeError):
    """Another process is writing to this draft."""


class DraftForeign(RuntimeError):
    """Under the name of this draft lies what payd did not put there."""


def write_file(path: Path, data: bytes, mode: int = FILE_MODE) -> None:
    """Write a file whole: who looks at the name finds all of it, or what was there before.

    Args:
        path: Where; its folder is there.
        data: All of it.
        mode: Who may read it, as far as the umask allows; its owner alone unless it is no secret.
    """
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        hand_over(file.fileno(), path.parent)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_folder(path.parent)


def make_file(path: Path) -> None:
    """Make an empty file.

    Raises:
        FileExistsError: There is something.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        hand_over(handle, path.parent)
    finally:
        os.close(handle)


def copy_file(source: Path, target: Path, look: Callable[[int], None] | None = None) -> tuple[int, str]:
    """Copy a file to a new one; returns its size and its SHA-256, of what was read.

    Args:
        source: What to copy.
        target: Must not be there.
        look: Told the bytes so far; what it raises ends the copy.
    """
    digest, size = hashlib.sha256(), 0
    with (
        source.open("rb") as read,
        os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as written,
    ):
        hand_over(written.fileno(), target.parent)
        while chunk := read.read(CHUNK_BYTES):
            digest.update(chunk)
            written.write(chunk)
            size += len(chunk)
            if look is not None:
                look(size)
        written.flush()
        os.fsync(written.fileno())
    return size, digest.hexdigest()


def hash_file(path: Path, look: Callable[[int], None] | None = None) -> tuple[int, str]:
    """Size and SHA-256 of a file; `look` as for `copy_file`."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            if look is not None:
                look(size)
    return size, digest.hexdigest()


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing, for their owner alone.

    Each is on the disk before anything is in it: else a file that is would be nowhere after a power cut.
    """
    missing = [path, *path.parents]
    for each in reversed(missing):
        if not each.exists():
            each.mkdir(mode=FOLDER_MODE, exist_ok=True)  # another process may be faster
            handle = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                hand_over(handle, each.parent)
            finally:
                os.close(handle)
            with suppress(PermissionError):  # a folder that may be written to and not be read
                sync_folder(each.parent)


def hand_over(handle: int, folder: Path) -> None:
    """Give what root has just made in a folder to the folder's owner.

    Not where that cannot be, as on a disk that knows of no owners: then it stays root's.
    """
    if os.geteuid() == 0:
        owner = folder.stat()
        with suppress(OSError):
            os.fchown(handle, owner.st_uid, owner.st_gid)


def sync_file(path: Path) -> None:
    """Have what was written to a file on the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Have the names in a folder on the disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def sync_folders(path: Path) -> None:
    """Have the names in a folder, and in those below it, on the disk."""
    for folder, _, _ in os.walk(path):
        sync_folder(Path(folder))


@contextmanager
def draft_folder(path: Path) -> Iterator[Path]:
    """An empty folder to write to, which is gone after the block unless it was renamed.

    What a dead process left under the name is swept away; what a living one writes is not, nor what somebody
    else put there: a link, a file, or a folder of another user.

    Raises:
        DraftBusy: Another process is at it.
        DraftForeign: What lies there is not ours.
        OSError: It cannot be made.
    """
    handle = _open_draft(path)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _busy(path) from None
        if not _lies_at(handle, path):
            raise _busy(path)  # it was renamed meanwhile, and is what somebody wanted
        empty_folder(path)
        try:
            yield path
        finally:
            # Under its own name it is still a draft; renamed, it is what somebody wanted.
            if _lies_at(handle, path):
                shutil.rmtree(path)
    finally:
        os.close(handle)


def sweep_draft(path: Path) -> None:
    """Take away what a dead process left under the name of a draft; all else that may lie there stays."""
    if path.exists():
        with suppress(DraftBusy, DraftForeign, OSError), draft_folder(path):
            pass


def empty_folder(path: Path) -> None:
    """Take away all that is in a folder."""
    for each in path.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()


def _open_draft(path: Path) -> int:
    """A handle of the folder at a path, which is made where it is missing; close it.

    Raises:
        DraftForeign: It is not ours.
        OSError: It cannot be made.
    """
    try:
        path.mkdir(mode=FOLDER_MODE)
        is_new = True
    except FileExistsError:
        is_new = False
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in {errno.ENOTDIR, errno.ELOOP, errno.EACCES}:
            raise
        raise _foreign(path) from error
    try:
        # Only of what was there before: some disks give even a new folder to another user, or to all.
        if not is_new:
            _make_private(handle, path)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _make_private(handle: int, path: Path) -> None:
    found = os.fstat(handle)
    if found.st_uid != os.geteuid():
        raise _foreign(path)
    if found.st_mode & OF_OTHERS:
        os.fchmod(handle, FOLDER_MODE)


def _busy(path: Path) -> DraftBusy:
    return DraftBusy(f"{path} is being written by another process. Wait until it has ended.")


def _foreign(path: Path) -> DraftForeign:
    return DraftForeign(
        f"{path} is a link, a file or another user's, and no folder that payd made: see what it is, and move"
        " it away"
    )


def _lies_at(handle: int, path: Path) -> bool:
    """Whether an open folder has this name; a link to it is another thing."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
