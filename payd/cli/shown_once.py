"""A key is shown once: where it could not be printed, it is revoked again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from payd.cli.failure import Refused
from payd.cli.options import Operator


@contextmanager
def shown_or_revoked(operator: Operator, key_id: str) -> Iterator[None]:
    """Revoke a key that was made and could not be printed: nobody has it, and it would go on to be valid.

    Args:
        operator: Of the key's house and realm.
        key_id: Which.

    Raises:
        Refused: It could not be printed, by a full disk or because who reads the output has gone.
    """
    try:
        yield
    except OSError as error:
        words = f"The key was made and cannot be shown: {error.strerror or error}."
        try:
            operator.ask("key.revoke", id=key_id)
        except click.ClickException as failed:
            by_hand = operator.pasted(f"key revoke {key_id}")
            raise Refused(f"{words} It is still valid: {failed.message} Revoke it: {by_hand}") from failed
        again = operator.pasted("key create")
        raise Refused(f"{words} It was revoked again. Make another one: {again}") from error
