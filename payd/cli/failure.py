"""How a command fails: one line that says what to do, and an exit code."""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from payd.cli.exit_codes import MISCONFIGURED, REFUSED, UNREACHABLE
from payd.config import ConfigError
from payd.core.errors import Issue, PaydError
from payd.store.backup import BackupRefused
from payd.store.copying import OFFICE, LinkAstray, LogAstray, OfficeMissing, check_office
from payd.store.durable import DraftBusy, DraftForeign
from payd.store.lock import DataDirectoryBusy
from payd.store.manifest import BackupUnusable
from payd.store.migrate import DatabaseTooNew, MigrationFailed
from payd.store.restore import RestoreRefused
from payd.store.seal import SealKeyUnusable
from payd.store.unwritable import Unwritable, why_unwritable


class Refused(click.ClickException):
    """It cannot be done, or something is missing."""

    exit_code = REFUSED


class Misconfigured(click.ClickException):
    """There is a mistake in payd.toml or in a variable; click itself uses the same code for wrong usage."""

    exit_code = MISCONFIGURED


class Unreachable(click.ClickException):
    """The server is needed and does not run, or it holds the data directory and does not answer."""

    exit_code = UNREACHABLE


UNWRITABLE: Final = {
    Unwritable.FORBIDDEN: "payd cannot write to {directory} (user {user}). Give this user the directory",
    Unwritable.FULL: "There is no space left for {directory}. Make room",
    Unwritable.READ_ONLY: (
        "{directory} lies on a disk that is mounted read-only, as the system does where a disk fails. Mount"
        " it for writing"
    ),
    Unwritable.NO_DIRECTORY: "{directory} is no directory, or lies in what is none. Move that away",
}

SURROGATES: Final = "surrogates not allowed"
"""Python's own words."""

# What is raised for a reason that whoever typed the command can do something about.
REASONS: Final = (
    PaydError,
    ConfigError,
    DataDirectoryBusy,
    OfficeMissing,
    LinkAstray,
    LogAstray,
    SealKeyUnusable,
    DatabaseTooNew,
    MigrationFailed,
    BackupRefused,
    BackupUnusable,
    RestoreRefused,
    DraftBusy,
    DraftForeign,
    OSError,
    click.ClickException,
)


@contextmanager
def told() -> Iterator[None]:
    """Turn what the rooms below raise for a reason into one line; a bug keeps its traceback.

    Raises:
        click.ClickException: One of those above.
    """
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read our output has gone; click leaves quietly
    except REASONS as error:
        raise _words(error) from error
    except UnicodeEncodeError as error:
        if not _was_typed(error):
            raise
        raise _words(error) from error
    except BaseExceptionGroup as group:
        reasons = _reasons(group)
        if all(isinstance(reason, BrokenPipeError) for reason in reasons):
            raise reasons[0] from group
        if len(reasons) > 1:
            raise
        [reason] = reasons
        if isinstance(reason, KeyboardInterrupt):
            raise click.Abort from group
        if not (isinstance(reason, REASONS) or _was_typed(reason)):
            raise
        raise _words(reason) from group


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Name the data directory, and what to do, where it cannot be read or written.

    Raises:
        Refused: It cannot.
    """
    try:
        yield
    except (Exception, BaseExceptionGroup) as error:
        directory = directory.absolute()
        found = {why_unwritable(reason, directory) for reason in _reasons(error)}
        why = found.pop() if len(found) == 1 else None
        if why is None:
            raise
        words = UNWRITABLE[why].format(directory=directory, user=_user())
        raise Refused(f"{words}, or choose another with --data-dir.") from error


def check_there(directory: Path, begin: str = "") -> None:
    """Refuse where there is no house to work on.

    Args:
        directory: The data directory.
        begin: The command that makes a new one, where that is a way on.

    Raises:
        OfficeMissing: There was one, and its office is gone.
        Refused: There is none.
    """
    if (directory / OFFICE).exists():
        return
    check_office(directory)
    new = f"; for a new one: {begin}" if begin else "."
    raise Refused(
        f"No payd data in {directory.absolute()}. Go to the folder where payd runs, or give --data-dir{new}"
    )


def _user() -> str:
    """Whose rights count; a number where the system has no name for it, as in containers."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def with_issues(message: str, issues: Sequence[Issue]) -> str:
    """A refusal and the fields that are wrong, where it does not name them itself."""
    return "\n".join(
        [message, *(f"  {one.field}: {one.message}" for one in issues if one.message not in message)]
    )


def _words(error: BaseException) -> click.ClickException:
    match error:
        case click.ClickException():
            return error
        case PaydError():
            return Refused(with_issues(error.message, error.issues))
        case ConfigError():
            return Misconfigured("\n".join(error.problems))
        case DataDirectoryBusy():
            return Unreachable(str(error))
        case OSError(errno=errno.EADDRINUSE):
            return Refused(
                f"Another program serves at {error.filename}. Choose another with --listen HOST:PORT"
            )
        case FileNotFoundError(filename=None) if _is_nowhere():
            return Refused("The current folder is not there any more. Go to one that is.")
        case OSError(strerror=str() as reason, filename=str() as file):
            return Refused(f"{reason}: {file}")
        case OSError(strerror=str() as reason):
            return Refused(reason)
        case UnicodeEncodeError(object=text):
            return Refused(
                f"{text} is not UTF-8. Have the terminal and LANG use UTF-8, or type it without such letters"
            )
        case _:
            return Refused(str(error))


def _is_nowhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _was_typed(error: BaseException) -> bool:
    """Whether it is about bytes that are no UTF-8: Python has no other way to hand on what was typed."""
    return isinstance(error, UnicodeEncodeError) and error.reason == SURROGATES


def _reasons(error: BaseException) -> list[BaseException]:
    """An error, or those in a group of a nursery's failures."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [reason for each in error.exceptions for reason in _reasons(each)]
