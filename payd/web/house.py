"""What a request can reach: the house with its realms. Built in `server.py`, read by every door.

Source: DESIGN.md, "3. Two realms".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from payd.actors.advance import Advance
from payd.actors.api_log import ApiLog
from payd.actors.backups import Backups
from payd.actors.canary import Canary
from payd.actors.clock_check import ClockCheck
from payd.actors.deliveries import Deliveries
from payd.actors.feed import AccountFeed, Bell, PaymentFeed
from payd.actors.logos import Logos
from payd.actors.payments import Payments
from payd.actors.requests import Requests
from payd.actors.settlement_changes import SettlementChanges
from payd.chains.assets import AssetBook
from payd.clock import Clock
from payd.core.errors import PaymentNotFound
from payd.core.histogram import Histogram
from payd.core.ids import Realm as RealmName
from payd.core.ids import realm_of
from payd.core.version import DEFAULT, VERSIONS
from payd.entropy import Entropy
from payd.store.accounts import Account, list_accounts
from payd.store.db import Database
from payd.store.seal import Seal
from payd.web.ended_days import EndedDays
from payd.web.limits import RateLimit, Slots
from payd.web.passwords import Passwords
from payd.web.schema import Words

if TYPE_CHECKING:
    from payd.actors.live_chain import LiveChain


# Seconds. Most take a millisecond or two; a long poll is held for as long as it asks.
REQUEST_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)


class Street(Protocol):
    """What is counted of the listener; see `Front`."""

    caught: int
    displaced: int
    turned_away: int

    def __len__(self) -> int:
        """Open connections."""


@dataclass(slots=True)
class Limits:
    """How much may be asked for: by key, by address without one, after failures, held open; of the chains."""

    per_key: RateLimit
    per_ip: RateLimit
    failed_auth: RateLimit
    polls: Slots
    matches: RateLimit
    sign_requests: RateLimit


@dataclass(slots=True)
class Realm:
    """One realm: its store, its clock, its actors. Nothing in it asks which one it is."""

    name: RealmName
    live: bool
    db: Database
    clock: Clock
    assets: AssetBook
    payments: Payments
    deliveries: Deliveries
    canary: Canary
    logos: Logos
    settlement_changes: SettlementChanges
    payment_feed: PaymentFeed
    account_feed: AccountFeed
    seal: Seal
    checkout_app_id: str
    api_log: ApiLog
    found_seq: int
    """The cursor of the newest event that was there when it was opened."""

    ended_days: EndedDays = field(default_factory=EndedDays)
    advance: Advance | None = None
    live_chains: tuple[LiveChain, ...] = ()
    requests: Requests = field(init=False)
    clock_check: ClockCheck = field(init=False)

    def __post_init__(self) -> None:
        self.clock_check = ClockCheck(self.clock, [live.rpc for live in self.live_chains])
        self.requests = Requests(self.db, self.payments.nursery)

    @property
    def words(self) -> Words:
        """How its amounts are shown."""
        return Words(tuple(self.payments.chains), self.assets)


class Setting(NamedTuple):
    """A key of payd.toml as it is in effect; `changed`: it is not what ships."""

    name: str
    value: str
    unit: str
    meaning: str
    changed: bool


@dataclass(slots=True)
class House:
    """The whole server, as a request sees it. `base_url` has no slash at its end."""

    realms: Mapping[RealmName, Realm]
    office: Database
    entropy: Entropy
    limits: Limits
    base_url: str
    body_max: int
    payment_lifetime_s: int
    collected_days: int
    passwords: Passwords
    accounts: dict[str, Account] = field(default_factory=dict)
    default_version: str = DEFAULT
    versions: tuple[str, ...] = VERSIONS
    """All versions of the API, oldest first."""

    settings: tuple[Setting, ...] = ()
    """What payd.toml says, for pages that show it."""

    started_ms: int = 0
    """When it was opened, Unix milliseconds by the wall."""

    stopping: bool = False
    metrics_token: str = ""
    data_dir: Path | None = None
    """Where its files are; None where nobody need know."""

    backups: Backups | None = None
    """Who copies them; None where there are none."""

    own_url: str = ""
    """Where this process itself reaches its listener, once it is open."""

    street: Street | None = None
    """The listener, once it is open."""

    answered: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Requests by path template and status."""

    took: dict[str, Histogram] = field(default_factory=dict)
    """How long requests took, in seconds, by path template."""

    held: set[Bell] = field(default_factory=set)
    """Long polls that are held; all are answered at stop."""

    @property
    def stores(self) -> dict[str, Database]:
        """Its databases by name: the office, then each realm's."""
        return {"office": self.office} | {name: realm.db for name, realm in self.realms.items()}

    def learn_accounts(self) -> None:
        """Know all accounts as they are stored; after a commit of which nobody knew whether it was, anew.

        Raises:
            StoreUnavailable: They cannot be read now.
        """
        self.accounts.update((one.id, one) for one in self.office.point(list_accounts))

    def count_answer(self, route: str, status: int, took_s: float) -> None:
        """Count a request that was answered; `route` is a template, never what somebody sent."""
        self.answered[route, status] += 1
        took = self.took.get(route)
        if took is None:
            took = self.took[route] = Histogram(REQUEST_BOUNDS_S)
        took.observe(took_s)

    def release_polls(self) -> None:
        """Answer every held poll now, and later ones at once: the server stops."""
        self.stopping = True
        for bell in self.held:
            bell.wake()

    def realm_of_payment(self, payment_id: str) -> Realm:
        """The realm that a payment id names.

        Raises:
            PaymentNotFound: It names none, or one that is not running.
        """
        name = realm_of(payment_id)
        realm = None if name is None else self.realms.get(name)
        if realm is None:
            raise PaymentNotFound("There is no such payment.")
        return realm
