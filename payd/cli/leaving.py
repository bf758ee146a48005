"""How the program leaves: with the right code, and without noise where nobody did anything wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import click

from payd.cli.exit_codes import DONE, INTERRUPTED, REFUSED, UNREAD

DUMB: Final = "dumb"
NOTHING_DONE: Final = "Nothing was done."
UNANSWERED: Final = "There was nobody to answer. Give the answer as an option: --help shows which."


def leave(run: Callable[[], Any]) -> NoReturn:
    """Run what click gives in its mode for programs, and end the process as the table of exit codes says."""
    code = _code_of(run)
    try:
        sys.stdout.flush()
    except OSError:  # what could not be written is still there, and Python itself would end with 120 over it
        _let_go(sys.stdout)
    sys.exit(code)


def _code_of(run: Callable[[], Any]) -> int:
    try:
        ended = run()
    except click.Abort as abort:
        reasons = set(map(type, _chain(abort)))
        if KeyboardInterrupt in reasons:
            return INTERRUPTED
        click.echo(f"Error: {UNANSWERED}" if EOFError in reasons else NOTHING_DONE, err=True)
        return REFUSED
    except click.ClickException as refused:
        refused.show()
        return refused.exit_code
    return ended if isinstance(ended, int) else DONE


@contextmanager
def unread() -> Iterator[None]:
    """End as shells do for SIGPIPE when who reads the output has gone: click would say 1.

    Raises:
        click.exceptions.Exit: It has.
        click.ClickException: The output cannot be written, such as to a disk that is full.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go(sys.stdout)
        raise click.exceptions.Exit(UNREAD) from None
    except OSError as error:
        words = f"What was to be printed cannot be written: {error.strerror or error}"
        raise click.ClickException(words) from error


def print_anywhere() -> None:
    """Let no character end the program: where the locale has no letter for one, there is a question mark.

    Nor a stream that is closed: what would be printed goes nowhere, as with /dev/null.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def wants_colour() -> bool:
    """Whether colours are wanted at all; whether a terminal is there, who prints finds out.

    Source: https://no-color.org
    """
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != DUMB


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, what it came from, and what is in the groups among them."""
    yield error
    for behind in (error.__cause__, error.__context__):
        if behind is not None:
            yield from _chain(behind)
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _chain(each)


def _let_go(stream: Any) -> None:
    """Let Python's own flush at the end find no closed pipe."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return  # a stream without a file, as in tests
