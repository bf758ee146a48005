"""Several files replaced as one: after a crash at any moment all of them are old, or all of them are new.

The new files are made beside the old ones, in a folder that nobody reads. Then one file, the plan, says that
they count. Whoever opens the data directory next carries a plan out to its end, as often as that is begun;
without a plan, what lies in the folder is swept away. The old files stay under another name.

The caller holds the data directory, and nothing in it is open.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import errno
import os
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
    _check_keepable(directory, swap)
    sync_folders(directory / STAGE)
    sync_folder(directory)
    # Already now: once the plan counts, a place that cannot be would keep every start from its end.
    make_folder(directory / swap.kept)
    try:
        write_file(directory / STAGE / PLAN, msgspec.json.encode(swap))
    except BaseException:
        _drop_empty(directory / swap.kept)
        raise
    finish(directory)


def _check_keepable(directory: Path, swap: Swap) -> None:
    """Open each old file once: what cannot be read might not be kept, and then no plan would come to its end.

    Raises:
        OSError: One cannot be read, or is a folder.
    """
    for name in (*swap.files, *swap.gone):
        if (directory / name).exists():
            (directory / name).open("rb").close()


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
    _keep(place, kept)
    new.replace(place)
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


def _copy(place: Path, kept: Path) -> None:
    """A copy that is whole or not there, for those who may read the file."""
    draft = kept.with_name(kept.name + ".new")
    draft.unlink(missing_ok=True)
    copy_file(place, draft)
    draft.chmod(place.stat().st_mode & 0o777)
    draft.rename(kept)


def _drop_empty(kept: Path) -> None:
    """Take away the folders in which nothing had to be kept, and have the others on the disk."""
    for folder, _, _ in os.walk(kept, topdown=False):
        if not any(Path(folder).iterdir()):
            Path(folder).rmdir()
        else:
            sync_folder(Path(folder))
