"""Who follows what: payments' pages get the newest snapshot, accounts' listeners are woken to read on.

Nothing here waits: a reader takes what it is given or keeps the newest for later, so that no reader ever
delays a payment or another reader.

Source: DESIGN.md, "8. Feed".
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

import trio

# The first byte of a frame that is a whole text message, and the sizes that say how the size follows.
TEXT: Final = 0x81
SIZE_IN_16_BITS: Final = 126
SIZE_IN_64_BITS: Final = 127

GOODBYE: Final = b"\x88\x02\x03\xe8"
"""A close frame with 1000: nothing follows (RFC 6455, section 5.5.1)."""

# Resends that one listener may have waiting: a person asks for each of them, one by one.
RESENDS_MAX: Final = 100
# A listener is heard of more often than this, also one whose connection broke and that comes back at once.
LEASE_S: Final = 60.0


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
        """What all readers are sent, encoded once: a server's frames are not masked. The last one ends with
        `GOODBYE`, so that it takes no second write.
        """
        if self._frame is None:
            self._frame = text_frame(self.payload) + (GOODBYE if self.final else b"")
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


class Listener:
    """Follows one account: it is woken to read on, and keeps what it is to be sent again. Nothing here waits.

    Args:
        wake: Called when there is something to read.
    """

    __slots__ = ("_again", "_wake")

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._again: deque[int] = deque(maxlen=RESENDS_MAX)

    def wake(self) -> None:
        """There is something new to read."""
        self._wake()

    def resend(self, seq: int) -> None:
        """Have an event sent again; of more than `RESENDS_MAX` the oldest are forgotten."""
        self._again.append(seq)
        self._wake()

    def take_resends(self, limit: int) -> list[int]:
        """The oldest that wait, at most `limit`; they wait no more."""
        return [self._again.popleft() for _ in range(min(limit, len(self._again)))]

    def put_back(self, seqs: Sequence[int]) -> None:
        """Have what was taken wait again, before what came meanwhile."""
        self._again = deque([*seqs, *self._again], maxlen=RESENDS_MAX)


F = TypeVar("F")


class Topics(Generic[F]):
    """Followers by topic; a topic without followers is not kept."""

    def __init__(self) -> None:
        # In the order in which they came, which is that of what they hold in memory: it is told faster.
        self._followers: dict[str, dict[F, None]] = {}

    def __len__(self) -> int:
        """How many topics have followers."""
        return len(self._followers)

    def subscribe(self, topic: str, follower: F) -> None:
        """Hear of `topic` from now on. Read its state after this, not before: nothing falls in between."""
        self._followers.setdefault(topic, {})[follower] = None

    def unsubscribe(self, topic: str, follower: F) -> None:
        """Hear nothing more; harmless when that is so already."""
        followers = self._followers.get(topic)
        if followers is not None:
            followers.pop(follower, None)
            if not followers:
                del self._followers[topic]

    def count(self, topic: str) -> int:
        """How many follow `topic` now."""
        return len(self._followers.get(topic, ()))

    @property
    def total(self) -> int:
        """How many follow anything. Looks at every topic."""
        return sum(map(len, self._followers.values()))

    def topics(self) -> tuple[str, ...]:
        """What is followed now."""
        return tuple(self._followers)

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


class Leases:
    """Keys that were made for one listener each, until that listener is not heard of for `LEASE_S`.

    A listener that ends revokes its key; one that is killed cannot.
    """

    def __init__(self) -> None:
        self._heard: dict[str, tuple[str, float]] = {}

    def grant(self, key_id: str, account_id: str, now_s: float) -> None:
        """Watch a key from now on; one that is watched stays as it is."""
        self._heard.setdefault(key_id, (account_id, now_s))

    def renew(self, key_id: str, now_s: float) -> None:
        """A listener came with this key, which may be any."""
        if key_id in self._heard:
            self._heard[key_id] = self._heard[key_id][0], now_s

    def take_lapsed(self, now_s: float) -> list[tuple[str, str]]:
        """Account and id of each key that nobody uses any more; they are watched no longer."""
        lapsed = [
            (account_id, key_id)
            for key_id, (account_id, heard_s) in self._heard.items()
            if now_s - heard_s >= LEASE_S
        ]
        for _, key_id in lapsed:
            del self._heard[key_id]
        return lapsed


class AccountFeed(Topics[Listener]):
    """Tells an account's listeners that there are new events; they read rows after their own cursor.

    No event is kept here, so that a slow listener costs no memory and misses nothing.

    Attributes:
        leases: The keys that were made for listeners.
    """

    def __init__(self) -> None:
        super().__init__()
        self.leases = Leases()

    def wake(self, account_id: str) -> int:
        """Wake every listener of the account.

        Returns:
            How many there were.
        """
        listeners = self.followers(account_id)
        for listener in listeners:
            listener.wake()
        return len(listeners)

    def secret_changed(self, account_id: str) -> int:
        """Have listeners told that what signs may be another secret; call it after that is committed.

        They look at the rows, as for events: a call too many tells them nothing.

        Returns:
            How many listeners there were.
        """
        return self.wake(account_id)

    def resend(self, account_id: str, seq: int) -> int:
        """Have every listener of the account sent an event again; call it when a delivery is sent by hand.

        Who does not listen at that moment does not hear of it.

        Args:
            account_id: Whose event it is.
            seq: The event's `store.events.EventRow.seq`.

        Returns:
            How many listeners there were.
        """
        listeners = self.followers(account_id)
        for listener in listeners:
            listener.resend(seq)
        return len(listeners)


class Bell:
    """A reader that a task waits for, such as a long poll; a ring while nobody waits is kept."""

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
