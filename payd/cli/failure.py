"""How a command fails: one line that says what to do, and an exit code."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from payd.config import ConfigError
from payd.core.errors import Issue, PaydError
from payd.store.lock import DataDirectoryBusy
from payd.store.seal import SealKeyUnusable


class Refused(click.ClickException):
    """It cannot be done, or something is missing."""

    exit_code = 1


class Misconfigured(click.ClickException):
    """There is a mistake in payd.toml or in a variable; click itself uses the same code for wrong usage."""

    exit_code = 2


class Unreachable(click.ClickException):
    """The server is needed and does not run, or it holds the data directory and does not answer."""

    exit_code = 3


Known = PaydError | ConfigError | DataDirectoryBusy | SealKeyUnusable | OSError | click.ClickException


@contextmanager
def told() -> Iterator[None]:
    """Turn what the rooms below raise for a reason into one line; a bug keeps its traceback.

    Raises:
        click.ClickException: One of those above.
    """
    try:
        yield
    except (PaydError, ConfigError, DataDirectoryBusy, SealKeyUnusable, OSError) as error:
        raise _words(error) from error
    except BaseExceptionGroup as group:
        reason = _only(group)
        if isinstance(reason, KeyboardInterrupt):
            raise click.Abort from group
        if not isinstance(reason, Known):
            raise
        raise _words(reason) from group


def with_issues(message: str, issues: Sequence[Issue]) -> str:
    """A refusal and the fields that are wrong, where it does not name them itself."""
    return "\n".join(
        [message, *(f"  {one.field}: {one.message}" for one in issues if one.message not in message)]
    )


def _words(error: Known) -> click.ClickException:
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
        case _:
            return Refused(str(error))


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """The one reason in a group of a nursery's failures, or None when there are several."""
    reasons: list[BaseException] = []
    left: list[BaseException] = [group]
    while left:
        each = left.pop()
        if isinstance(each, BaseExceptionGroup):
            left += each.exceptions
        else:
            reasons.append(each)
    return reasons[0] if len(reasons) == 1 else None
