"""A password that somebody types, unseen."""

from __future__ import annotations

import click

from payd.cli.failure import Refused


def ask_password(words: str, *, twice: bool = False) -> str:
    """What is typed at the terminal, or comes where there is none.

    Args:
        words: What it is the password of.
        twice: Whether it is asked for until the same was typed once more.

    Raises:
        Refused: It is no text.
        click.Abort: Nobody answers.
    """
    from payd.chains.keystore import NOT_UTF8

    try:
        typed: str = click.prompt(words, hide_input=True, confirmation_prompt=twice, err=True)
    except UnicodeDecodeError:
        # Not as its cause: it holds what was typed.
        raise Refused(NOT_UTF8) from None
    return typed
