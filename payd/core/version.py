"""API versions: which there are, and which one a request gets.

Source: SPEC.md, "Versioning"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from payd.core.errors import ApiVersionDowngrade, InvalidApiVersion, UnknownApiVersion

PREVIEW_SUFFIX: Final = ".preview"

# Oldest first: the order of this table is what older and newer mean.
VERSIONS: Final = ("2026-02-18", "2026-02-19.preview")

_SHAPE: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])(\.preview)?")


def is_preview(version: str) -> bool:
    """Whether `version` may still change, so that only a header can ask for it."""
    return version.endswith(PREVIEW_SUFFIX)


def newest_stable(versions: Sequence[str] = VERSIONS) -> str:
    """The version that a new account is pinned to."""
    return next(version for version in reversed(versions) if not is_preview(version))


DEFAULT: Final = newest_stable()


def newer_stable(pinned: str, versions: Sequence[str] = VERSIONS) -> tuple[str, ...]:
    """The versions that an account pinned to `pinned` can be moved to, oldest first."""
    return tuple(one for one in versions[versions.index(pinned) + 1 :] if not is_preview(one))


def check_move(pinned: str, wanted: str, versions: Sequence[str] = VERSIONS) -> None:
    """Refuse a version that an account cannot be moved to: it only goes forward, and never to a preview.

    Args:
        pinned: The account's own version, from `versions`.
        wanted: What it is to become; the same again is fine.
        versions: All versions, oldest first.

    Raises:
        UnknownApiVersion: There is no such version.
        InvalidApiVersion: It is a preview.
        ApiVersionDowngrade: It is older than the account's own.
    """
    if wanted not in versions:
        raise _unknown(wanted, versions)
    if is_preview(wanted):
        raise InvalidApiVersion(f"{wanted} may still change. Only a request's own header can ask for it.")
    if versions.index(wanted) < versions.index(pinned):
        raise ApiVersionDowngrade(f"This account is pinned to {pinned}; it can only go to a newer version.")


@lru_cache(maxsize=64)
def resolve(header: str | None, pinned: str, versions: tuple[str, ...] = VERSIONS) -> str:
    """The version a request is answered in.

    Args:
        header: The value of the version header, None without one.
        pinned: The account's own version, from `versions`, never a preview.
        versions: All versions, oldest first.

    Raises:
        InvalidApiVersion: The header is not a date with or without `.preview`.
        UnknownApiVersion: There is no such version.
        ApiVersionDowngrade: It is older than the account's own.
        ValueError: `pinned` is no version that an account can have.
    """
    if is_preview(pinned):
        raise ValueError(f"an account cannot be pinned to the preview {pinned}")
    oldest = versions.index(pinned)
    if header is None:
        return pinned
    asked = header.strip(" \t")
    if _SHAPE.fullmatch(asked) is None:
        raise InvalidApiVersion(f"The version header must be a date such as {DEFAULT}.")
    if asked not in versions:
        raise _unknown(asked, versions)
    if versions.index(asked) < oldest:
        words = f"This account is pinned to {pinned}; a header can only ask for a newer version than that."
        raise ApiVersionDowngrade(words)
    return asked


def _unknown(asked: str, versions: Sequence[str]) -> UnknownApiVersion:
    words = f"There is no version {asked}. There are {' and '.join(versions)}."
    return UnknownApiVersion(words, details={"versions": list(versions)})
