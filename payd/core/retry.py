"""When a delivery is tried again.

Source: SPEC.md, "Delivery rules"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

RETRY_DELAYS_S: Final = (0, 5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 10 * 3600)
ATTEMPTS_MAX: Final = len(RETRY_DELAYS_S)
# A tenth spreads a crowd; a minute is enough of it for the long steps.
JITTER_SHARE: Final = 0.1
JITTER_MAX_S: Final = 60
# A receiver may ask for patience, not for silence.
RETRY_AFTER_EXTRA_MAX_S: Final = 10 * 60
# The statuses whose `Retry-After` speaks of the server's state (RFC 9110, RFC 6585).
RETRY_AFTER_STATUSES: Final = frozenset({429, 503})

assert ATTEMPTS_MAX == 8
assert sum(RETRY_DELAYS_S) == 27 * 3600 + 35 * 60 + 5, "about 28 hours"

_SECONDS: Final = re.compile("[0-9]{1,10}")


def next_attempt_at_ms(
    attempts_made: int, ended_at_ms: int, *, jitter: float = 0.0, retry_after_s: int | None = None
) -> int | None:
    """When the next attempt is due, never before the schedule's own delay; None once the schedule is used up.

    Args:
        attempts_made: 0 before the first attempt, `ATTEMPTS_MAX` after the last.
        ended_at_ms: End of the previous attempt, Unix milliseconds; for the first attempt, when the event
            occurred.
        jitter: 0 to 1, drawn by the caller: how much of the largest jitter of this step to add.
        retry_after_s: What the receiver asked for; lengthens the step by at most `RETRY_AFTER_EXTRA_MAX_S`.

    Returns:
        Unix milliseconds, or None: mark the delivery failed, do not retry by itself.

    Raises:
        ValueError: `jitter` is not from 0 to 1, or `attempts_made` is negative.

    Source: SPEC.md, "Delivery rules".
    """
    if attempts_made < 0 or not 0 <= jitter <= 1:
        raise ValueError("attempts are counted from 0, and jitter goes from 0 to 1")
    if attempts_made >= ATTEMPTS_MAX:
        return None
    step_s = RETRY_DELAYS_S[attempts_made]
    wait_s = step_s
    if retry_after_s is not None:
        wait_s = min(max(step_s, retry_after_s), step_s + RETRY_AFTER_EXTRA_MAX_S)
    jitter_s = jitter * min(JITTER_SHARE * step_s, JITTER_MAX_S)
    return ended_at_ms + wait_s * 1000 + int(jitter_s * 1000)


def read_retry_after_s(status: int, header: str | None, now_s: int) -> int | None:
    """The seconds that a receiver's `Retry-After` asks for, or None where it asks for nothing intelligible.

    Args:
        status: The status of its answer; only 429 and 503 are listened to.
        header: The header's value: seconds or an HTTP date.
        now_s: Unix seconds by the wall clock, which the date is compared with.
    """
    if header is None or status not in RETRY_AFTER_STATUSES:
        return None
    text = header.strip(" \t")
    if _SECONDS.fullmatch(text):
        return int(text)
    at_s = read_date_s(text)
    return None if at_s is None else max(0, at_s - now_s)


def read_date_s(header: str | None) -> int | None:
    """The Unix seconds of an HTTP date, or None where it is none."""
    if header is None:
        return None
    try:
        at = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    # A date without a zone is in GMT too, whatever this machine's zone is.
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
