"""A webhook receiver that outlives the server and notes each request: when, in which life, how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

import h11
import trio

from tests.receiver import Does, Received, Receiver

# Of the deliveries, so many are refused at every attempt until the receiver is healed.
DOOMED_SHARE: Final = 0.04
SLOW_SHARE: Final = 0.2
WELL_SHARE: Final = 0.88
HOLD_MAX_S: Final = 0.4
# Who has read an answer that ends the connection closes it at once.
READ_MAX_S: Final = 5.0


def wall_ms() -> int:
    """The clock that the server's attempts are stored with, while its test clock is not moved."""
    return time.time_ns() // 1_000_000


@dataclass(eq=False)
class Receipt:
    """One request; times are Unix milliseconds.

    Attributes:
        life: Which start of the server sent it, from 0.
        reused: Whether its connection had carried a request before.
        answered: The status that was given; None: closed without an answer, or the server died before it.
        done_at_ms: Just before the answer or the close; None: the server died before it.
        was_read: Whether the server ended the connection after an answer that asked for it.
    """

    message_id: str
    event_id: str
    headers: dict[str, str]
    body: bytes
    life: int
    at_ms: int
    reused: bool = False
    answered: int | None = None
    done_at_ms: int | None = None
    was_read: bool = False

    @property
    def is_ok(self) -> bool:
        """Whether the receiver is sure that it has accepted the event."""
        return self.answered is not None and 200 <= self.answered < 300


@dataclass(frozen=True, kw_only=True)
class Noting(Does):
    """What is done with the request of a receipt."""

    receipt: Receipt


Decide = Callable[[Receipt], Does]


@dataclass
class Hook(Receiver):
    """A receiver that notes. Count `life` up before each start of the server."""

    decide: Decide = field(default_factory=lambda: lambda _receipt: Does())
    life: int = 0
    receipts: list[Receipt] = field(default_factory=list)
    _used: set[h11.Connection] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.script = self._note

    def _note(self, received: Received) -> Does:
        receipt = Receipt(
            message_id=received.headers["webhook-id"],
            event_id=received.event,
            headers=received.headers,
            body=received.body,
            life=self.life,
            at_ms=wall_ms(),
        )
        self.receipts.append(receipt)
        return Noting(**vars(self.decide(receipt)), receipt=receipt)

    async def _act(
        self, does: Does, connection: h11.Connection, stream: trio.abc.Stream, tcp: trio.abc.Stream
    ) -> bool:
        assert isinstance(does, Noting)
        receipt = does.receipt
        receipt.reused = connection in self._used
        self._used.add(connection)
        if does.delay_s and await _is_gone_within(stream, does.delay_s):
            return False
        if not does.hangs:
            receipt.done_at_ms = wall_ms()
        goes_on = await super()._act(replace(does, delay_s=0.0), connection, stream, tcp)
        if not (does.hangs or does.resets or does.raw is not None):
            # The last byte of the answer was handed to the network.
            receipt.answered = does.status
        if receipt.answered is not None and does.closes:
            receipt.was_read = await _is_gone_within(stream, READ_MAX_S)
        return goes_on


@dataclass
class Moods:
    """Mostly well; now slow, now broken, now gone, and mixtures of these. Some deliveries it refuses always.

    Attributes:
        seed: Of all that follows.
        moody: Whether it is other than well with what it does not refuse always.
        healed: Whether it refuses nothing any more.
    """

    seed: int
    moody: bool = True
    healed: bool = False

    def __post_init__(self) -> None:
        self._rng = Random(self.seed)

    def is_doomed(self, message_id: str) -> bool:
        """Whether this delivery is refused until all is healed."""
        return Random(f"{self.seed} {message_id}").random() < DOOMED_SHARE

    def __call__(self, receipt: Receipt) -> Does:
        """What is done with this request."""
        doomed = not self.healed and self.is_doomed(receipt.message_id)
        delay_s = HOLD_MAX_S * self._rng.random() if self.moody and self._rng.random() < SLOW_SHARE else 0.0
        if not doomed and (not self.moody or self._rng.random() < WELL_SHARE):
            return Does(delay_s=delay_s)
        ends = Does(status=500), Does(status=503, closes=True), Does(resets=True), Does(raw=b"")
        return replace(self._rng.choices(ends, (6, 2, 2, 1))[0], delay_s=delay_s)


async def _is_gone_within(stream: trio.abc.Stream, seconds: float) -> bool:
    """Wait, and tell whether the other side ended the connection meanwhile."""
    with trio.move_on_after(seconds):
        return not await stream.receive_some()
    return False
