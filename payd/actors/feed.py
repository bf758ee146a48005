"""Who follows what: payments' pages get the newest snapshot, accounts' listeners are woken to read on.

Nothing here waits: a reader takes what it is given or keeps the newest for later, so that no reader ever
delays a payment or another reader.

Source: DESIGN.md, "8. Feed".
"""

from __future__ import annotations

import struct
from typing import Final, Generic, Protocol, TypeVar

import trio

# The first byte of a frame that is a whole text message, and the sizes that say how the size follows.
TEXT: Final = 0x81
SIZE_IN_16_BITS: Final = 126
SIZE_IN_64_BITS: Final = 127


class Update:
    """A snapshot as it goes to every reader.

    Attributes:
        payload: The snapshot's JSON.
        final: Whether nothing comes after it.
    """

    __slots__ = ("_frame", "final", "payload")

    def __init__(self, payload: bytes, final: bool) -> None:
        self.payload = payload
        self.final = final
        self._frame: bytes | None = None

    @property
    def frame(self) -> bytes:
        """One websocket frame for all readers, encoded once: a server's frames are not masked."""
        if self._frame is None:
            self._frame = text_frame(self.payload)
        return self._frame


def text_frame(payload: bytes) -> bytes:
    """One whole, unmasked websocket text frame (RFC 6455, section 5.2)."""
    size = len(payload)
    if size < SIZE_IN_16_BITS:
        head = struct.pack("!BB", TEXT, size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", TEXT, SIZE_IN_16_BITS, size)
    else:
        head = struct.pack("!BBQ", TEXT, SIZE_IN_64_BITS, size)
    return head + payload


class Reader(Protocol):
    """Follows one payment. Neither method waits."""

    def push(self, update: Update) -> None:
        """Send `update`, or keep it in place of an older one that is not sent yet."""

    def close(self, code: int) -> None:
        """Say goodbye with a websocket close code, after what is still to be sent."""


class Listener(Protocol):
    """Follows one account."""

    def wake(self) -> None:
        """There is something new to read. Does not wait."""


F = TypeVar("F")


class Topics(Generic[F]):
    """Followers by topic; a topic without followers is not kept."""

    def __init__(self) -> None:
        self._followers: dict[str, set[F]] = {}

    def __len__(self) -> int:
        """How many topics have followers."""
        return len(self._followers)

    def subscribe(self, topic: str, follower: F) -> None:
        """Hear of `topic` from now on. Read its state after this, not before: nothing falls in between."""
        self._followers.setdefault(topic, set()).add(follower)

    def unsubscribe(self, topic: str, follower: F) -> None:
        """Hear nothing more; harmless when that is so already."""
        followers = self._followers.get(topic)
        if followers is not None:
            followers.discard(follower)
            if not followers:
                del self._followers[topic]

    def followers(self, topic: str) -> tuple[F, ...]:
        """Who follows `topic` now."""
        return tuple(self._followers.get(topic, ()))


class PaymentFeed(Topics[Reader]):
    """Snapshots to the pages that follow a payment; latest wins."""

    def publish(self, payment_id: str, payload: bytes, final: bool) -> int:
        """Hand a snapshot to every reader; without readers it is not even encoded.

        Returns:
            How many readers there were.
        """
        readers = self.followers(payment_id)
        if readers:
            update = Update(payload, final)
            for reader in readers:
                reader.push(update)
        return len(readers)


class AccountFeed(Topics[Listener]):
    """Tells an account's listeners that there are new events; they read rows after their own cursor.

    Nothing is kept here, so that a slow listener costs no memory and misses nothing.
    """

    def wake(self, account_id: str) -> int:
        """Wake every listener of the account.

        Returns:
            How many there were.
        """
        listeners = self.followers(account_id)
        for listener in listeners:
            listener.wake()
        return len(listeners)


class Bell:
    """A reader or listener that a task waits for, such as a long poll; a ring while nobody waits is kept."""

    __slots__ = ("_rung", "latest")

    def __init__(self) -> None:
        self.latest: Update | None = None
        self._rung = trio.Event()

    def push(self, update: Update) -> None:
        """Keep the newest and ring."""
        self.latest = update
        self._rung.set()

    def close(self, code: int) -> None:
        """Ring: there will be nothing more."""
        self._rung.set()

    def wake(self) -> None:
        """Ring."""
        self._rung.set()

    async def wait(self) -> None:
        """Return once for all rings since the last time."""
        await self._rung.wait()
        self._rung = trio.Event()
