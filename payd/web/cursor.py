"""Opaque cursors: the sort key of the last row that was shown, so that a page costs the same wherever it is.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import base64
import binascii
from types import GenericAlias
from typing import Any, Final, TypeVar, overload

import msgspec

from payd.core.errors import InvalidParams

A = TypeVar("A", int, str)
B = TypeVar("B", int, str)
C = TypeVar("C", int, str)

# Far longer than any of ours.
LENGTH_MAX: Final = 512
# What SQLite can compare with.
_INTEGER_MAX: Final = 2**63 - 1


def encode_cursor(*values: int | str) -> str:
    """The values as URL-safe text."""
    return base64.urlsafe_b64encode(msgspec.json.encode(values)).decode("ascii").rstrip("=")


@overload
def decode_cursor(text: str, types: tuple[type[A]]) -> tuple[A]: ...
@overload
def decode_cursor(text: str, types: tuple[type[A], type[B]]) -> tuple[A, B]: ...
@overload
def decode_cursor(text: str, types: tuple[type[A], type[B], type[C]]) -> tuple[A, B, C]: ...


def decode_cursor(text: str, types: tuple[type[Any], ...]) -> tuple[Any, ...]:
    """What `encode_cursor` was given.

    Args:
        text: A caller's cursor.
        types: The type of each value.

    Raises:
        InvalidParams: The cursor is none of ours.
    """
    refusal = InvalidParams(
        "cursor is none that was handed out here; leave it out to start at the beginning."
    )
    if len(text) > LENGTH_MAX:
        raise refusal
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        values: tuple[Any, ...] = msgspec.json.decode(raw, type=GenericAlias(tuple, types))
    except (binascii.Error, ValueError):
        raise refusal from None
    if any(isinstance(value, int) and not -_INTEGER_MAX <= value <= _INTEGER_MAX for value in values):
        raise refusal
    return values
