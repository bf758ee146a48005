"""What merchants and operators have changed, when, and what buyers were told since.

Who changes something knows when it asked and when it was answered: between the two, nobody knows which holds.
What is held back holds from when the machine's clock shows its time. All times are true Unix seconds.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from math import inf
from typing import Generic, NamedTuple, TypeVar

import trio

from tests.crash.times import Times
from tests.shop import START_MS

T = TypeVar("T")


@dataclass
class Change(Generic[T]):
    """From something to `value`, asked for at one time and answered at another; not answered yet: never.

    With `due_ms` it is held back until the machine's clock shows that, and `done_s` is when that was seen.
    """

    value: T
    asked_s: float
    done_s: float = inf
    due_ms: int | None = None


@dataclass
class Vacated(Generic[T]):
    """What a deletion leaves: until some time between two, none but one of these may come in its place."""

    values: set[T]
    from_ms: int
    until_ms: int


@dataclass
class Course(Generic[T]):
    """What one client changes, one change after the other.

    Attributes:
        first: What it is at first.
        changes: In the order in which they were asked for.
        times: The machine's clock, and when a house was up.
        vacated: What the last change has left.
        is_taking_back: Whether it was asked for that what waits is dropped, and not answered yet.
    """

    first: T
    changes: list[Change[T]] = field(default_factory=list)
    times: Times = field(default_factory=Times)
    vacated: Vacated[T] | None = None
    is_taking_back: bool = False

    @property
    def now(self) -> T:
        """What was asked for last."""
        return self.changes[-1].value if self.changes else self.first

    @property
    def before(self) -> T:
        """What was before the last change."""
        return self.changes[-2].value if len(self.changes) > 1 else self.first

    @property
    def unanswered(self) -> Change[T] | None:
        """The last change, as long as nobody knows what became of it."""
        last = self.changes[-1] if self.changes else None
        return last if last is not None and last.due_ms is None and last.done_s == inf else None

    @property
    def waiting(self) -> Change[T] | None:
        """The last change, if it was held back and nobody has seen yet that it was made."""
        last = self.changes[-1] if self.changes else None
        return last if last is not None and last.due_ms is not None and last.done_s == inf else None

    def begins(self, one: Change[T]) -> float:
        """When a change may have been made at the earliest."""
        return one.asked_s if one.due_ms is None else self.times.first(one.due_ms, one.asked_s)

    def ends(self, one: Change[T]) -> float:
        """By when it was made for certain."""
        if one.due_ms is None:
            return one.done_s
        return min(one.done_s, self.times.certain(one.due_ms, one.asked_s))

    def change(self, value: T, now_s: float) -> None:
        """It is asked for."""
        self.changes.append(Change(value, now_s))

    def done(self, now_s: float) -> None:
        """It was answered that it is done."""
        self.changes[-1].done_s = now_s

    def withdraw(self) -> None:
        """It was answered that it is not."""
        self.changes.pop()

    def possible(self, from_s: float, to_s: float) -> set[T]:
        """All that may have held at some moment then."""
        return {
            one.value for one, until_s in self._stretches() if self.begins(one) <= to_s and from_s <= until_s
        }

    def since(self, value: T) -> float:
        """Since when this holds for certain, to the end; never: infinity."""
        last = self.changes[-1] if self.changes else Change(self.first, -inf, -inf)
        return self.ends(last) if last.value == value else inf

    def was(self, value: T, from_s: float, to_s: float) -> bool:
        """Whether it was changed to this for certain then, and that was answered."""
        return any(
            one.value == value and from_s <= one.asked_s and one.done_s <= to_s for one in self.changes
        )

    def _stretches(self) -> Iterator[tuple[Change[T], float]]:
        known = [Change(self.first, -inf, -inf), *self.changes]
        # One that was held back may never have been made: then what was before lasted until the next one.
        ends_s = [inf]
        for one in reversed(self.changes):
            ends_s.append(min(ends_s[-1], self.ends(one)))
        yield from zip(known, reversed(ends_s), strict=True)


class Offered(NamedTuple):
    """Where a buyer was told to pay, who asked first at one time and was answered at another.

    The wallet is empty where they were told that they can pay, and not yet where.
    """

    payment_id: str
    merchant_id: str
    asset: str
    wallet: str
    asked_s: float
    told_s: float


@dataclass
class Changes:
    """All of it.

    Attributes:
        began_s: What trio's clock said at the beginning.
        wallets: Where a merchant is paid in an asset; None: nowhere. Both as on the chain, in lower case.
        standing: Whether a merchant takes payments.
        served: Whether there is a chain in payd.toml.
        offers: In the order of the answers.
        expired_unread: Payments that ended by their time while no chain was read.
        delay_s: How long changes of destinations are held back.
        times: The machine's clock, and when a house was up.
        merchants: All that were opened since the beginning.
    """

    began_s: float = 0.0
    wallets: dict[tuple[str, str], Course[str | None]] = field(default_factory=dict)
    standing: dict[str, Course[bool]] = field(default_factory=dict)
    served: Course[bool] = field(default_factory=lambda: Course(True))
    offers: list[Offered] = field(default_factory=list)
    expired_unread: list[str] = field(default_factory=list)
    delay_s: Course[int] = field(default_factory=lambda: Course(0))
    times: Times = field(default_factory=Times)
    merchants: list[str] = field(default_factory=list)

    def go_back(self, then: Changes) -> None:
        """All is as it was then, but what operators write and what the machine's clock shows."""
        was = deepcopy(then)
        self.wallets, self.standing, self.offers = was.wallets, was.standing, was.offers
        self.merchants = was.merchants
        self.times.lives = was.times.lives
        for course in self.wallets.values():
            course.times = self.times

    def now_s(self) -> float:
        """The true time."""
        return START_MS / 1000 + trio.current_time() - self.began_s

    def course(self, merchant_id: str, asset: str) -> Course[str | None]:
        """Where the merchant is paid in an asset."""
        return self.wallets.setdefault((merchant_id, asset), Course(None, times=self.times))

    def open(self, merchant_id: str) -> Course[bool]:
        """Whether the merchant takes payments."""
        return self.standing.setdefault(merchant_id, Course(True))

    def offer(self, payment_id: str, merchant_id: str, asset: str, wallet: str, asked_s: float) -> None:
        """A buyer was told just now."""
        told = Offered(payment_id, merchant_id, asset.lower(), wallet.lower(), asked_s, self.now_s())
        self.offers.append(told)

    def may_be_unserved(self, from_s: float) -> bool:
        """Whether there may have been no chain at some moment since."""
        return False in self.served.possible(from_s, self.now_s())

    def may_take_nothing(self, merchant_id: str, from_s: float) -> bool:
        """Whether a merchant may have been closed, or paid nowhere, at some moment since."""
        now_s = self.now_s()
        courses = [course for (one, _), course in self.wallets.items() if one == merchant_id]
        return False in self.open(merchant_id).possible(from_s, now_s) or all(
            None in course.possible(from_s, now_s) for course in courses
        )

    def may_lack_routes(self, merchant_id: str, from_s: float) -> bool:
        """Whether something may have been in the way of paying a merchant in some asset since."""
        now_s = self.now_s()
        return (
            self.may_be_unserved(from_s)
            or False in self.open(merchant_id).possible(from_s, now_s)
            or any(
                None in course.possible(from_s, now_s)
                for (one, _), course in self.wallets.items()
                if one == merchant_id
            )
        )

    def wallet_of(self, payment_id: str, asset: str) -> str | None:
        """Where a buyer was told to pay, if one was."""
        about = payment_id, asset.lower()
        told = (one.wallet for one in self.offers if one.wallet and (one.payment_id, one.asset) == about)
        return next(told, None)

    def awaited_since(self, wallet: str, asset: str | None = None) -> float:
        """Since when money to a wallet concerns somebody, to the end: it is registered, or was offered.

        Args:
            wallet: Whose.
            asset: Only what is registered or was offered in this one.
        """
        offered = (one.told_s for one in self.offers if one.wallet == wallet and asset in (None, one.asset))
        registered = (
            course.since(wallet) for (_, paid_in), course in self.wallets.items() if asset in (None, paid_in)
        )
        return min((*offered, *registered), default=inf)

    def offered_since(self, asset: str) -> float:
        """When anybody was first told to pay in this asset."""
        return min((one.told_s for one in self.offers if one.asset == asset), default=inf)
