"""Reading query parameters: each is checked, and a wrong one is refused by name.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from payd.core.errors import InvalidParams
from payd.web.call import Call

POLL_MAX_MS: Final = 55_000
"""A held poll ends before the usual proxy's 60 s."""

_WHOLE: Final = re.compile(r"[0-9]+")
_DIGITS: Final = re.compile(r"[0-9]{1,15}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


def check_names(asked: Iterable[str], known: Sequence[str]) -> None:
    """Refuse a parameter that there is not: a filter with a slip in its name would let everything through.

    Raises:
        InvalidParams: With the names that there are.
    """
    for name in asked:
        if name not in known:
            words = f"there are {', '.join(known)}" if known else "there are none"
            raise InvalidParams(f"There is no parameter {name[:64]!r} here; {words}.")


def one(call: Call, name: str, *, blank: bool = False) -> str | None:
    """The parameter's single value; None when it is absent, and for a page also when it is `blank`.

    Raises:
        InvalidParams: It stands there twice, or is empty: what an unset variable leaves opens no filter.
    """
    values = call.request.query.get(name, [])
    if len(values) > 1:
        raise InvalidParams(f"{name} may stand in the query only once.")
    if values == [""] and not blank:
        raise InvalidParams(f"{name} is empty; give it a value or leave it out.")
    return (values[0] or None) if values else None


def limit_in(call: Call, most: int, default: int) -> int:
    """`limit`: how many a list has.

    Raises:
        InvalidParams: It is no whole number from 1 to `most`.
    """
    text = one(call, "limit")
    if text is None:
        return default
    if not _DIGITS.fullmatch(text) or not 1 <= int(text) <= most:
        raise InvalidParams(f"limit must be a whole number from 1 to {most}.")
    return int(text)


def choice(call: Call, name: str, allowed: Sequence[str]) -> str | None:
    """One of the allowed words, or None.

    Raises:
        InvalidParams: It is another.
    """
    text = one(call, name)
    if text is not None and text not in allowed:
        raise InvalidParams(f"{name} must be one of {', '.join(allowed)}.")
    return text


def flag(call: Call, name: str) -> bool | None:
    """`true` or `false`, or None."""
    text = choice(call, name, ("true", "false"))
    return None if text is None else text == "true"


def many(call: Call, name: str, allowed: Sequence[str] | None = None) -> tuple[str, ...]:
    """All values of a parameter that may be repeated or hold a comma list.

    Raises:
        InvalidParams: One of them is not allowed.
    """
    values = tuple(part for value in call.request.query.get(name, []) for part in value.split(","))
    if "" in values:
        raise InvalidParams(f"{name} has an empty value; leave it out.")
    if len(values) > LIST_MAX:
        raise InvalidParams(f"{name} may have at most {LIST_MAX} values.")
    for value in values:
        if allowed is not None and value not in allowed:
            raise InvalidParams(f"{name} must be one of {', '.join(allowed)}.")
    return values


LIST_MAX: Final = 100


def instant_ms(call: Call, name: str) -> int | None:
    """An RFC 3339 instant as Unix milliseconds, rounded up.

    What is stored is of whole ones: it is before the instant, or not, as it is before what this returns.

    Raises:
        InvalidParams: It is not one, or names no time zone.
    """
    text = one(call, name)
    return None if text is None else parse_instant_ms(text, name)


def parse_instant_ms(text: str, name: str) -> int:
    """RFC 3339 text as Unix milliseconds; raises InvalidParams that names the parameter."""
    try:
        # A plus sign that was not escaped arrives as a space.
        at = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or at.year < 1970:
        raise InvalidParams(f"{name} must be a time such as 2026-05-18T09:59:00Z.")
    return -((_EPOCH - at) // _MS)


def poll_ms(call: Call) -> int:
    """`maxPollMs`, clamped to what is held at most; 0 when absent.

    Raises:
        InvalidParams: It is negative or not a whole number.
    """
    if "maxPollMs" not in call.request.query:
        return 0
    text = one(call, "maxPollMs") or ""
    if not _WHOLE.fullmatch(text):
        raise InvalidParams("maxPollMs must be a whole number of milliseconds, not negative.")
    # Some say "for ever" with the largest number that they have.
    return min(int(text), POLL_MAX_MS) if _DIGITS.fullmatch(text) else POLL_MAX_MS
