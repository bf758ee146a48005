"""What became of a webhook endpoint: what was asked of it and when, and each request that came of it.

Who asks knows when a change was begun and when it was answered. In between it may have happened or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import msgspec

from tests.crash.rows import Rows
from tests.receiver import Does, Received

ON: Final = ("enabled", "paused")
TOKEN: Final = "x-token"
"""The header."""


@dataclass(frozen=True)
class Mark:
    """A moment.

    Attributes:
        at_s: Trio's time.
        seq: The newest event that was on the disk.
        realm_ms: By the realm's clock.
    """

    at_s: float
    seq: int
    realm_ms: int


@dataclass(frozen=True)
class Span:
    """From before a request was made until after its answer was there; what it asked for happened within."""

    begun: Mark
    ended: Mark

    def clock_ms(self) -> tuple[int, int]:
        """The realm's time at its ends, the earlier one first: clocks are set."""
        both = (self.begun.realm_ms, self.ended.realm_ms)
        return min(both), max(both)


BEFORE_ALL: Final = Span(Mark(-inf, 0, 0), Mark(-inf, 0, 0))


@dataclass(frozen=True)
class Shape:
    """An endpoint as it is between two changes; `token` is the value of the one header that it may add."""

    id: str
    url: str
    events: tuple[str, ...]
    state: str
    token: str | None

    def wants(self, event_type: str) -> bool:
        """Whether it is owed events of this type as they happen."""
        return self.state in ON and event_type in self.events


@dataclass(frozen=True)
class Act:
    """A change that was answered.

    Attributes:
        what: Such as `pause`.
        span: When.
        endpoint_id: Of which endpoint.
        shape: What it left; None: no endpoint.
    """

    what: str
    span: Span
    endpoint_id: str
    shape: Shape | None


@dataclass
class KnownSecret:
    """A signing secret that somebody was shown, and when it came and was rotated out."""

    value: str
    endpoint_id: str
    made: Span
    replaced: Span | None = None


@dataclass
class AskedJob:
    """A replay job that was answered, and when it was cancelled."""

    id: str
    kind: str
    endpoint_id: str
    span: Span
    cancelled: Span | None = None


@dataclass(frozen=True)
class Sent:
    """A send by hand that was answered: of a delivery, or of a test.

    Attributes:
        delivery_id: Which.
        endpoint_id: Where to.
        span: When.
        status: What the receiver answered, as the answer says; None: it did not.
    """

    delivery_id: str
    endpoint_id: str
    span: Span
    status: int | None


@dataclass(frozen=True)
class Arrival:
    """A request that came, where, and what was done with it.

    Attributes:
        received: The request.
        address: Of the receiver that it reached.
        realm_ms: By the realm's clock, then.
        does: What the receiver did.
    """

    received: Received
    address: str
    realm_ms: int
    does: Does

    @property
    def message_id(self) -> str:
        """Its webhook-id."""
        return self.received.headers["webhook-id"]

    @property
    def url(self) -> str:
        """Where it was sent to."""
        return f"http://{self.received.headers['host']}{self.received.path}"

    @property
    def token(self) -> str | None:
        """The header that its endpoint had then."""
        return self.received.headers.get(TOKEN)

    @property
    def is_taken(self) -> bool:
        """Whether the receiver answered that it has it."""
        return 200 <= self.does.status < 300 and not (self.does.hangs or self.does.resets)

    @property
    def merchant_id(self) -> str:
        """Whose payment it tells of; a sample is of none that exists."""
        found: str = msgspec.json.decode(self.received.body)["data"]["merchant_id"]
        return found


@dataclass
class EndpointDiary:
    """All that is known of an account's endpoint, which one person alone changes."""

    acts: list[Act] = field(default_factory=list)
    secrets: list[KnownSecret] = field(default_factory=list)
    jobs: list[AskedJob] = field(default_factory=list)
    resends: list[Sent] = field(default_factory=list)
    tests: list[Sent] = field(default_factory=list)
    tests_lost: int = 0
    """Answers: each may be a test that was sent and is stored nowhere."""
    arrivals: list[Arrival] = field(default_factory=list)
    at_rest: Rows | None = None
    """What was stored when all had come to rest, before what was missing was replayed."""
    arrived_before_rest: int = 0
    """How many requests had come by then."""

    @property
    def shape(self) -> Shape | None:
        """The endpoint now."""
        return self.acts[-1].shape

    def shapes_at(self, seq: int) -> list[Shape | None]:
        """What the endpoint may have been when this event was stored."""
        last: list[Shape | None] = []
        for act in self.acts:
            if act.span.ended.seq < seq:
                last = [act.shape]
            elif act.span.begun.seq < seq:
                last.append(act.shape)
        return last

    def shapes_between(self, since_s: float, until_s: float) -> list[Shape | None]:
        """What the endpoint may have been within that time."""
        last: list[Shape | None] = []
        for act in self.acts:
            if act.span.ended.at_s < since_s:
                last = [act.shape]
            elif act.span.begun.at_s <= until_s:
                last.append(act.shape)
        return last

    def acts_of(self, endpoint_id: str, *what: str) -> Iterator[Act]:
        """What was done to one endpoint, of these kinds."""
        return (act for act in self.acts if act.endpoint_id == endpoint_id and act.what in what)


def shape_of(shown: Any, token: str | None) -> Shape:
    """An endpoint as the API shows it, which shows of a header nothing but its name."""
    known = token if shown["headers"] else None
    return Shape(shown["id"], shown["url"], tuple(shown["events"]), shown["state"], known)
