"""What `payd doctor` finds of the files of a data directory: who may read them, schemas, keys, logs, backups.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from payd.cli.finding import Finding
from payd.cli.pasted import Paste, pasted
from payd.store.backup import SEAL_KEY, last_backup
from payd.store.copying import LinkAstray, LogAstray, check_logs, databases_in, log_of
from payd.store.migrate import DatabaseTooNew, MigrationFailed
from payd.store.seal import Seal, SealKeyUnusable, load_key
from payd.store.sealed import SECRETS, closed_in
from payd.store.self_check import Unreadable, look_for_damage
from payd.store.swap import PLAN, STAGE
from payd.store.upgrade import look_at_schemas

MIB: Final = 1 << 20
DAY_MS: Final = 86_400_000
# The server empties its logs when nobody writes, and keeps them at some 16 MiB while somebody does.
LOG_BYTES_MAX: Final = 256 * MIB
# What was taken in since is only in the one place.
BACKUP_DAYS_MAX: Final = 7
# For each database: a person waits, and a server that runs here keeps its log meanwhile.
DAMAGE_S: Final = 5.0
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

_AGAIN: Final = "added headers and authenticator apps set up again"


def examine_files(
    directory: Path, now_ms: int, paste: Paste = pasted, *, deep: bool = False
) -> Iterator[Finding]:
    """All about the files that are there; nothing of a directory without databases.

    Args:
        directory: The data directory.
        now_ms: Unix milliseconds.
        paste: Makes a command on the same data directory.
        deep: Whether to read all of the databases, however long that takes.
    """
    directory = directory.absolute()
    try:
        if not databases_in(directory):
            return
        yield from _examine_access(directory)
        check_logs(directory)
    except (LinkAstray, LogAstray) as astray:
        # Whoever opens it finishes what the message warns of.
        yield Finding("error", "databases", str(astray), "The server does not start before that is mended.")
        return
    yield _examine_seal_key(directory, paste)
    # A reader leaves the files of a log behind; who looks at the schemas takes them away.
    yield from _examine_damage(directory, paste, deep)
    yield from _examine_schemas(directory, paste)
    yield from _examine_logs(directory)
    yield from _examine_plan(directory)
    yield _examine_backup(directory, now_ms, paste)


def _examine_access(directory: Path) -> Iterator[Finding]:
    subject, found = "file permissions", False
    secret = [*(name for name, _ in databases_in(directory)), SEAL_KEY]
    if directory.stat().st_mode & OTHERS:
        # Its writer is a person, who often leaves it open; there is no harm in that in a closed folder.
        secret.append("payd.toml")
    for path in [directory, *(directory / name for name in secret if (directory / name).exists())]:
        seen = path.stat()
        if seen.st_mode & OTHERS:
            found = True
            mode = "700" if path.is_dir() else "600"
            words = f"other users of this machine may look into {path}"
            yield Finding("warning", subject, words, f"Run: chmod {mode} {path}")
        if seen.st_uid != directory.stat().st_uid:
            found = True
            words = f"{path} belongs to another user than {directory} does"
            todo = f"The server may be unable to write to it. Run: chown --reference {directory} {path}"
            yield Finding("warning", subject, words, todo)
    if not found:
        yield Finding("ok", subject, "nobody else may read what payd keeps")


def _examine_seal_key(directory: Path, paste: Paste) -> Finding:
    subject, path = "seal key", directory / SEAL_KEY
    if not path.exists():
        words = f"{path} is not there, and what it sealed cannot be read"
        todo = "Put it back from where it is kept, before a start makes another one that opens nothing."
        return Finding("error", subject, words, todo)
    try:
        seal = Seal(load_key(path))
    except (SealKeyUnusable, OSError) as unusable:
        return Finding("error", subject, str(unusable), "The server does not start before that is mended.")
    if lost := list(closed_in(directory, seal)):
        shut = ", ".join(f"{what} ({count}, in {name})" for name, what, count in lost)
        modes = dict.fromkeys(name.removesuffix(".db") for name, what, _ in lost if what == SECRETS)
        new = [f"`{paste(f'webhook rotate --mode {mode}')}`" for mode in modes]
        listed = ", ".join([*new, _AGAIN])
        todo = f"Put the key back with which they were sealed; where it is gone, have new ones: {listed}."
        return Finding("error", subject, f"{path} does not open {shut}", todo)
    return Finding("ok", subject, f"{path} can be used; is there a copy of it in a safe place?")


def _examine_schemas(directory: Path, paste: Paste) -> Iterator[Finding]:
    subject = "schemas"
    try:
        found = look_at_schemas(directory)
    except (DatabaseTooNew, MigrationFailed) as error:
        yield Finding("error", subject, str(error), "The server does not start before that is mended.")
        return
    for each in found:
        if each.is_old:
            words = f"{each.name} is at version {each.version}, and this payd wants {each.newest}"
            todo = f"The next start upgrades it. Try that first: {paste('migrate --dry-run')}"
            yield Finding("warning", subject, words, todo)
    if not any(each.is_old for each in found):
        listed = ", ".join(f"{each.name} at version {each.version}" for each in found)
        yield Finding("ok", subject, f"as this payd wants them: {listed}")


def _examine_damage(directory: Path, paste: Paste, deep: bool) -> Iterator[Finding]:
    """Whether the databases can be read from their first page to their last, as far as time allows.

    A server may go on with them: this only reads. Found are pages that cannot be read or are not what they
    should be, and rows that refer to none; what was overwritten by something just as good, nobody finds.
    """
    subject = "databases"
    whole: list[str] = []
    begun: list[str] = []
    for name, _ in databases_in(directory):
        try:
            places, is_all = look_for_damage(directory / name, None if deep else DAMAGE_S)
        except Unreadable as why:
            todo = "Look at the disk, and at who may read the file."
            yield Finding("error", subject, f"{name} cannot be read: {why}", todo)
            continue
        if places:
            words = "; ".join(" ".join(place.split()) for place in places)
            yield Finding("error", subject, f"{name} is damaged: {words}", _restoring(directory, name, paste))
        else:
            (whole if is_all else begun).append(name)
    if whole:
        yield Finding("ok", subject, f"no damage in {', '.join(whole)}")
    if begun:
        words = f"no damage found in {', '.join(begun)}, but to read all takes longer than {DAMAGE_S:.0f} s"
        yield Finding("ok", subject, words, f"To have all of it read: {paste('doctor --deep')}")


def _restoring(directory: Path, name: str, paste: Paste) -> str:
    """How to get a good database again."""
    last = last_backup(directory)
    if last is not None and Path(last.dest).is_dir():
        back = paste(f"restore {shlex.quote(last.dest)} --overwrite")
        return f"Stop payd, then bring back the backup of {last.made_at}; what is here is kept: {back}"
    return (
        f"Stop payd. Where there is no backup, copy {directory} away first: `sqlite3 {name} .recover` shows"
        " what can still be read. Bring a backup back; what is here is kept:"
        f" {paste('restore SRC --overwrite')}"
    )


def _examine_logs(directory: Path) -> Iterator[Finding]:
    for name, _ in databases_in(directory):
        log = log_of(directory / name)
        size = log.stat().st_size if log.exists() else 0
        if size > LOG_BYTES_MAX:
            words = f"{log} has {size // MIB} MiB, which a server that runs well never has"
            todo = "Is a backup under way, or a sqlite3 shell open? End it; else start the server again."
            yield Finding("warning", "write-ahead log", words, todo)


def _examine_plan(directory: Path) -> Iterator[Finding]:
    if (directory / STAGE / PLAN).exists():
        words = "an upgrade or a restore was cut short in its last step"
        yield Finding("warning", "data directory", words, "The next start of the server finishes it.")


def _examine_backup(directory: Path, now_ms: int, paste: Paste) -> Finding:
    subject, todo = "backup", f"Make one each day: {paste('backup DEST')}"
    last, live = last_backup(directory), (directory / "live.db").exists()
    if last is None:
        words = "none was ever made of this data directory"
        return Finding("warning" if live else "ok", subject, words, todo if live else "")
    days = (now_ms - last.made_at_ms) // DAY_MS
    words = f"the last one is of {last.made_at}, in {last.dest}"
    if days >= BACKUP_DAYS_MAX:
        return Finding("warning", subject, f"{words}: {days} days old", todo)
    return Finding("ok", subject, words)
