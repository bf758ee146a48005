"""The account's feed over connections that may break at any time: read on from a cursor, miss nothing.

Source: DESIGN.md, "8. Feed".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

import msgspec
import trio

from payd.cli.failure import Refused
from payd.cli.feed_connection import (
    CLOSED,
    Greet,
    Greeting,
    Message,
    Place,
    SecretNews,
    Take,
    TurnedAway,
    Unanswered,
    read_feed,
)

RETRY_MIN_S: Final = 0.2
RETRY_MAX_S: Final = 5.0
# A connection that stood this long was a good one: the next try comes soon.
STEADY_S: Final = 5.0
# Events that wait for the receiver, some 2 kB each; with more the connection is closed until half are gone.
INBOX_MAX: Final = 1000

# What no second try mends: the request, the key, or what it may do is wrong.
WRONG: Final = frozenset({400, 401, 403})
UNKNOWN_KEY: Final = 401
# How a connection ends whose key is revoked while it stands.
PUT_OUT: Final = CLOSED[1008]
# A server's "not now".
LATER: Final = frozenset({408, 425, 429})


class State(msgspec.Struct, frozen=True, tag_field="state", rename="camel"):
    """How the connection or the receiver is, told when it changes."""


class Connected(State, frozen=True, tag="connected"):
    """The websocket is open; `after_s` since it was lost, None the first time.

    `resumed`: whoever started it said where to begin.
    """

    url: str
    who: str
    cursor: str | None
    behind: int | None
    after_s: float | None
    resumed: bool = False


class Lost(State, frozen=True, tag="lost"):
    """There is no connection; `was_connected` says whether there ever was one."""

    reason: str
    retry_s: float
    was_connected: bool


class Full(State, frozen=True, tag="full"):
    """So many events wait for the receiver that no more are read for now."""

    waiting: int


Tell = Callable[[State], None]
Read = Callable[[Place, str | None, Greet, Take], Awaitable[str | None]]


class Door(Protocol):
    """Who knows where the feed is and with which key it opens."""

    async def open(self) -> Place:
        """Called before each connection. Raises Unanswered, or Refused when there is no use in going on."""

    def expire(self, *, told: bool) -> None:
        """The endpoint's secret may be another one by now; `told`: the feed said that it is."""

    def forget(self) -> bool:
        """The key that opened before opens no more: whether the next `open` finds another."""


class Inbox:
    """Events that were read and wait for the receiver, in order."""

    def __init__(self, size_max: int = INBOX_MAX) -> None:
        self._size_max = size_max
        self._waiting: deque[Message] = deque()
        self._moved = trio.Event()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def put(self, message: Message) -> bool:
        """Add one; whether there is room for more."""
        self._waiting.append(message)
        self._tick()
        return len(self) < self._size_max

    async def get(self) -> Message:
        """The oldest, once there is one."""
        while not self._waiting:
            await self._moved.wait()
        message = self._waiting.popleft()
        self._tick()
        return message

    async def room(self) -> None:
        """Return when at most half of it is full."""
        while len(self) > self._size_max // 2:
            await self._moved.wait()

    def _tick(self) -> None:
        moved, self._moved = self._moved, trio.Event()
        moved.set()


class Follower:
    """Reads the feed on and on.

    Args:
        door: Asked before each connection.
        inbox: Where events go.
        tell: Told of each change of the connection.
        cursor: Where to begin; None: where the door or the server says that the newest event is.
        begin: Told the cursor before the first event, once it is known.
        read: As `read_feed`.
    """

    def __init__(
        self,
        door: Door,
        inbox: Inbox,
        tell: Tell,
        *,
        cursor: str | None,
        begin: Callable[[str], None],
        read: Read | None = None,
    ) -> None:
        self._door = door
        self._inbox = inbox
        self._tell = tell
        self._begin = begin
        self._read = read or read_feed
        self._cursor = cursor
        self._resumed = cursor is not None
        self._was_connected = False
        self._key_opened = False
        self._was_put_out = False
        self._open_s: float | None = None
        self._lost_s: float | None = None
        self._told: str | None = None
        self._has_begun = False

    async def run(self) -> None:
        """Follow until cancelled.

        Raises:
            Refused: The server takes the key or the cursor not, or it is none of payd's.
        """
        delay_s = RETRY_MIN_S
        while True:
            reason = await self._once()
            now_s = trio.current_time()
            if self._lost_s is None:
                self._lost_s = now_s
            if reason is None:
                self._tell(Full(len(self._inbox)))
                await self._inbox.room()
                continue
            if self._open_s is not None and now_s - self._open_s >= STEADY_S:
                delay_s = RETRY_MIN_S
            if reason != self._told:
                self._told = reason
                self._tell(Lost(reason, delay_s, self._was_connected))
            await trio.sleep(delay_s)
            delay_s = min(2 * delay_s, RETRY_MAX_S)

    async def _once(self) -> str | None:
        """One connection from its beginning to its end: why it ended, None because the inbox is full."""
        self._open_s = None
        try:
            place = await self._door.open()
        except Unanswered as why:
            return str(why)
        if self._cursor is None:
            self._cursor = place.cursor
        try:
            reason = await self._read(place, self._cursor, partial(self._greet, place), self._take)
            self._was_put_out = reason == PUT_OUT
            return reason
        except TurnedAway as away:
            if away.status == UNKNOWN_KEY and self._may_have_another_key():
                return "its key was given up meanwhile"
            if away.status in WRONG or not (self._was_connected or _may_change(away.status)):
                raise Refused(f"{place.url}: {away.words}") from away
            return away.words

    def _may_have_another_key(self) -> bool:
        """A server gives up keys that nobody comes with; one that a person revokes is not replaced."""
        if not self._key_opened or self._was_put_out or not self._door.forget():
            return False
        self._key_opened = False
        return True

    def _greet(self, place: Place, greeting: Greeting) -> None:
        if self._cursor is None:
            self._cursor = greeting.cursor
        if self._cursor is not None and not self._has_begun:
            self._has_begun = True
            self._begin(self._cursor)
        # Another one than ours where that is of events which a restored backup does not have.
        self._cursor = greeting.cursor or self._cursor
        now_s = trio.current_time()
        after_s = round(now_s - self._lost_s, 3) if self._was_connected and self._lost_s is not None else None
        self._was_connected, self._open_s, self._lost_s, self._told = True, now_s, None, None
        self._key_opened = True
        # Between the door and here it may have changed, and nobody would have said so.
        self._door.expire(told=False)
        self._tell(Connected(place.url, place.who, self._cursor, greeting.behind, after_s, self._resumed))

    def _take(self, message: Message | SecretNews) -> bool:
        if isinstance(message, SecretNews):
            self._door.expire(told=True)
            return True
        # A resent event is an old one: what comes next is still behind the newest.
        if not message.resent:
            self._cursor = message.cursor
        return self._inbox.put(message)


def _may_change(status: int) -> bool:
    return status >= 500 or status in LATER
