"""Where a listener is in its account's events: behind which one, and when that one happened.

A restored backup goes on under the sequence numbers of the events that it does not have. When an event
happened tells the two apart, and where they parted: what a backup lacks had happened before it was restored,
and what came after the restore happened later than that.

Source: DESIGN.md, "8. Feed".
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from payd.core.errors import InvalidParams
from payd.web.cursor import decode_cursor, encode_cursor


class FeedCursor(NamedTuple):
    """A place in the feed.

    Attributes:
        seq: The last event before it; 0: before all of them.
        at_ms: When that happened; None where it is none of those there, and in cursors of an older payd.
    """

    seq: int
    at_ms: int | None

    def __str__(self) -> str:
        """As callers get it, opaque."""
        return encode_cursor(self.seq) if self.at_ms is None else encode_cursor(self.seq, self.at_ms)


def read_feed_cursor(text: str) -> FeedCursor:
    """What a caller shows.

    Raises:
        InvalidParams: It is none of ours.
    """
    with suppress(InvalidParams):
        return FeedCursor(*decode_cursor(text, (int, int)))
    with suppress(InvalidParams):
        return FeedCursor(*decode_cursor(text, (int,)), None)
    raise InvalidParams("after is none that was handed out here; leave it out to begin with what is new.")
