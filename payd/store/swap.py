"""Several files replaced as one: after a crash at any moment all of them are old, or all of them are new.

The new files are made beside the old ones, in a folder that nobody reads. Then one file, the plan, says that
they count. Whoever opens the data directory next carries a plan out to its end, as often as that is begun;
without a plan, what lies in the folder is swept away. The old files stay under another name.

The caller holds the data directory, and nothing in it is open.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import errno
import filecmp
import os
import re
import shutil
from pathlib import Path
from typing import Final

import msgspec

from payd.store.durable import copy_file, make_folder, sync_folder, sync_folders, write_file
from payd.store.manifest import MANIFEST

STAGE: Final = ".staged"
PLAN: Final = "plan.json"
NEW: Final = "new"

# A database in use has these beside it: its log belongs to the old file and would spoil the new one.
LOG: Final = "-wal"
INDEX: Final = "-shm"

# Why a file may have no second name: it is another user's, its folder on another disk, it has too many, or
# the disk knows of none.
NO_LINK: Final = frozenset(
    {errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
)

MOUNTS: Final = Path("/proc/self/mountinfo")
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")  # how a blank is written there


class Swap(msgspec.Struct, frozen=True):
    """What counts from now on.

    Attributes:
        files: Names that get the staged file of the same name; in folders with `/`.
        gone: Names that are to have no file any more.
        kept: The folder in the data directory where the old files stay.
        note: What `manifest.json` beside them says; None where there is to be none.
    """

    files: tuple[str, ...]
    gone: tuple[str, ...]
    kept: str
    note: str | None = None


def stage(directory: Path) -> Path:
    """The empty folder for the new files."""
    finish(directory)
    new = directory / STAGE / NEW
    make_folder(new)
    return new


def drop_stage(directory: Path) -> None:
    """Take away what was staged and does not count."""
    if (directory / STAGE).exists():
        shutil.rmtree(directory / STAGE)


def commit(directory: Path, swap: Swap) -> None:
    """Have the staged files count; each of them is on the disk already.

    Raises:
        OSError: Where that is before `plan.json` is there, nothing counts; after it, `finish` goes on.
    """
    try:
        _check_places(directory, swap)
    except OSError:
        drop_stage(directory)
        raise
    sync_folders(directory / STAGE)
    # Already now: once the plan counts, a place that cannot be would keep every start from its end.
    make_folder(directory / swap.kept)
    try:
        write_file(directory / STAGE / PLAN, msgspec.json.encode(swap))
    except BaseException:
        _drop_empty(directory / swap.kept)
        raise
    finish(directory)


def _check_places(directory: Path, swap: Swap) -> None:
    """Try what a plan has to do: one that could not come to its end would stop every start.

    Raises:
        OSError: An old file cannot be read, and might not be kept, or is a folder; or no file can be put in
            its place, or taken away from it.
    """
    for name in (*swap.files, *swap.gone):
        place, new = directory / name, directory / STAGE / NEW / name
        if place.exists():
            place.open("rb").close()
        if name in swap.files:
            make_folder(place.parent)
        if not _can_change(place) and (name in swap.gone or not _is_same(new, place)):
            raise OSError(
                errno.EBUSY,
                "No other file can be put there: it is mounted by itself, or its folder cannot be written",
                str(place),
            )


def _can_change(place: Path) -> bool:
    """Whether another file can take a place: not that of one that is mounted by itself, as in containers."""
    if not place.parent.is_dir() or not os.access(place.parent, os.W_OK | os.X_OK):
        return False
    try:
        mounts = MOUNTS.read_bytes().splitlines()
    except OSError:
        return True  # no Linux; there is no mounting of files
    named = os.fsencode(os.path.join(os.path.realpath(place.parent), place.name))
    return all(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), one.split()[4]) != named for one in mounts)


def _is_same(new: Path, place: Path) -> bool:
    return place.is_file() and filecmp.cmp(new, place, shallow=False)


def finish(directory: Path) -> bool:
    """Carry out the plan if there is one, or sweep away what has none. Returns whether there was one."""
    folder = directory / STAGE
    if not folder.exists():
        return False
    if not (folder / PLAN).exists():
        drop_stage(directory)
        return False
    swap = msgspec.json.decode((folder / PLAN).read_bytes(), type=Swap)
    kept = directory / swap.kept
    make_folder(kept)
    sync_folder(kept.parent)
    for name in swap.files:
        if (folder / NEW / name).exists():
            _put(folder / NEW / name, directory / name, kept / name)
    for name in swap.gone:
        _keep(directory / name, kept / name)
        (directory / name).unlink(missing_ok=True)
    if swap.note is not None:
        write_file(kept / MANIFEST, swap.note.encode())
    _drop_empty(kept)
    sync_folder(directory)
    (folder / PLAN).unlink()
    sync_folder(folder)
    drop_stage(directory)
    return True


def _put(new: Path, place: Path, kept: Path) -> None:
    """Keep what is in the place and put the new file there; between the two it is never empty."""
    make_folder(place.parent)
    if not _can_change(place) and _is_same(new, place):
        make_folder(kept.parent)
        _link(place, kept)
        new.unlink()
        return
    _keep(place, kept)
    try:
        new.replace(place)
    except OSError as error:
        if error.errno != errno.EXDEV:  # its folder is a link to another disk, or one that is mounted there
            raise
        _copy(new, place)
        new.unlink()
    sync_folder(place.parent)


def _keep(place: Path, kept: Path) -> None:
    """Have the old file under its other name too, with its log, which leaves the place."""
    log, index = (place.with_name(place.name + suffix) for suffix in (LOG, INDEX))
    make_folder(kept.parent)
    _link(place, kept)
    _link(log, kept.with_name(kept.name + LOG))
    sync_folder(kept.parent)
    log.unlink(missing_ok=True)
    index.unlink(missing_ok=True)
    if place.parent.exists():
        sync_folder(place.parent)


def _link(place: Path, kept: Path) -> None:
    """A second name for a file that is there, or a copy where it can have none; once."""
    if not place.exists() or kept.exists():
        return
    try:
        if place.is_symlink():
            # Its own words may say where from its folder, and from another one they say another place.
            os.symlink(os.path.realpath(place), kept)
        else:
            os.link(place, kept)
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
        _copy(place, kept)


def _copy(file: Path, place: Path) -> None:
    """A copy that is whole or not there, for those who may read the file."""
    draft = place.with_name(place.name + ".new")
    draft.unlink(missing_ok=True)
    copy_file(file, draft)
    draft.chmod(file.stat().st_mode & 0o777)
    draft.rename(place)


def _drop_empty(kept: Path) -> None:
    """Take away the folders in which nothing had to be kept, and have the others on the disk."""
    for folder, _, _ in os.walk(kept, topdown=False):
        if not any(Path(folder).iterdir()):
            Path(folder).rmdir()
        else:
            sync_folder(Path(folder))
