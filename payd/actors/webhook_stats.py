"""What a realm's deliveries did since the start, in numbers: for the metrics page and for readiness.

Plain counters in memory. A call takes about a microsecond and is made from the event loop only; a restart
begins at zero, which is what a monitoring system expects of a counter. Nothing here grows with what receivers
send.

Source: DESIGN.md, "7. Events and webhooks"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import msgspec

from payd.core.fault import FAULT_KINDS, FaultKind
from payd.core.histogram import Histogram
from payd.core.skew import agreed_skew_s

# How an attempt can fail: what `net.http.Reply.error_class` and `actors.poster.verdict` say.
ERROR_CLASSES: Final = (
    "blocked_address",
    "connection_refused",
    "connection_reset",
    "dns_error",
    "http_status",
    "interrupted",
    "network_unreachable",
    "protocol_error",
    "proxy_error",
    "redirect",
    "system_error",
    "timeout_connect",
    "timeout_response",
    "tls_error",
)
# What has no name here is counted under this one, so that the number of time series has a bound.
OTHER: Final = "other"
# What the operator is told of an endpoint: it goes on failing, it was given up, it answers again.
NOTICES: Final = ("warning", "disabled", "recovered")

# Seconds. An attempt is given up at 15 s: what is above the last bound never had an answer.
ATTEMPT_BOUNDS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 14.0)
# Seconds. Milliseconds are usual; minutes and hours are endpoints or servers that were away.
FIRST_BOUNDS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)

# A median of so many clocks moves for none of them alone.
SKEW_HOSTS_MAX: Final = 20


class Backlog(msgspec.Struct, frozen=True):
    """What a look into the store found; too dear to be looked up by every scrape.

    Attributes:
        pending: Deliveries that are owed, due or not.
        failing_s: For how long the enabled endpoint that fails longest has failed; 0 when none does.
        endpoints: How many there are in each state.
        overdue: What is wrong with all that, in words for readiness; empty when nothing is.
    """

    pending: int
    failing_s: float
    endpoints: Mapping[str, int]
    overdue: tuple[str, ...] = ()


class WebhookStats:
    """The numbers of one realm.

    Attributes:
        ok: Attempts that were answered with a 2xx.
        faults: Attempts that were touched on purpose, by what was done; they count nowhere else.
        failed: Attempts that were not, by error class; every known class is there from the start.
        attempt_s: How long attempts took, in seconds, however they ended.
        first_attempt_s: From an event's commit to its first attempt at an endpoint, in seconds.
        notices: What endpoints' owners were told, by kind.
        canaries: Deliveries to ourselves that arrived (True), and that did not.
        canary_ok_at_s: When one last arrived, by `trio.current_time()`; None before the first.
        canary_began_at_s: When the first one ended; None before it.
        canary_took_s: How long the last one that arrived took.
        backlog: What was found at the last look; None before the first.
    """

    __slots__ = (
        "_skews",
        "attempt_s",
        "backlog",
        "canaries",
        "canary_began_at_s",
        "canary_ok_at_s",
        "canary_took_s",
        "failed",
        "faults",
        "first_attempt_s",
        "notices",
        "ok",
    )

    def __init__(self) -> None:
        self.ok = 0
        # A series that first appears with a one shows no increase: all begin with a zero.
        self.failed = dict.fromkeys((*ERROR_CLASSES, OTHER), 0)
        self.faults = dict.fromkeys(FAULT_KINDS, 0)
        self.attempt_s = Histogram(ATTEMPT_BOUNDS_S)
        self.first_attempt_s = Histogram(FIRST_BOUNDS_S)
        self.notices = dict.fromkeys(NOTICES, 0)
        self.canaries = {True: 0, False: 0}
        self.canary_ok_at_s: float | None = None
        self.canary_began_at_s: float | None = None
        self.canary_took_s: float | None = None
        self.backlog: Backlog | None = None
        self._skews: OrderedDict[str, float] = OrderedDict()

    def attempt(self, trigger: str, error_class: str | None, duration_ms: int) -> None:
        """Count an attempt that has ended.

        Args:
            trigger: auto, manual, replay or test. A test is not counted: a developer who tries an endpoint
                that is not there yet is no failing delivery.
            error_class: None for a success.
            duration_ms: Until the answer or the failure.
        """
        if trigger == "test":
            return
        if error_class is None:
            self.ok += 1
        else:
            self.failed[error_class if error_class in self.failed else OTHER] += 1
        self.attempt_s.observe(duration_ms / 1000)

    def fault(self, kind: FaultKind) -> None:
        """Count an attempt that was touched on purpose: it says nothing about receivers."""
        self.faults[kind] += 1

    def first_attempt(self, late_ms: int) -> None:
        """Count a delivery's first attempt, which began so long after its event was committed."""
        self.first_attempt_s.observe(late_ms / 1000)

    def noticed(self, kind: str) -> None:
        """Count what an endpoint's owner was told, one of `NOTICES`."""
        kind = kind if kind in NOTICES else OTHER
        self.notices[kind] = self.notices.get(kind, 0) + 1

    def clock_skew(self, host_key: str, skew_s: float) -> None:
        """Keep what an answer's `Date` says about our clock; the host's earlier word is forgotten.

        Args:
            host_key: Who answered: one for each party whose clock may be wrong, or lie, on its own. Who can
                make many of these can outvote the others.
            skew_s: Seconds that our clock is ahead of theirs; `Date` itself is whole seconds.
        """
        self._skews[host_key] = skew_s
        self._skews.move_to_end(host_key)
        if len(self._skews) > SKEW_HOSTS_MAX:
            self._skews.popitem(last=False)

    @property
    def skew_s(self) -> float | None:
        """Seconds that our clock is ahead, as the last hosts to answer see it; None when none has.

        A single host is believed: whichever clock is wrong, that receiver refuses what is five minutes off.
        """
        return agreed_skew_s(self._skews.values())

    def canary(self, ok: bool, took_ms: int, at_s: float) -> None:
        """Count a delivery to ourselves.

        Args:
            ok: Whether it arrived as it should.
            took_ms: From its commit to its arrival; of no interest when it did not arrive.
            at_s: When it ended, by `trio.current_time()`.
        """
        self.canaries[ok] += 1
        if self.canary_began_at_s is None:
            self.canary_began_at_s = at_s
        if ok:
            self.canary_ok_at_s, self.canary_took_s = at_s, took_ms / 1000

    def canary_age_s(self, now_s: float) -> float | None:
        """Seconds since a canary last arrived, or since the first that did not; None when none was sent.

        Args:
            now_s: `trio.current_time()`.
        """
        since_s = self.canary_began_at_s if self.canary_ok_at_s is None else self.canary_ok_at_s
        return None if since_s is None else max(0.0, now_s - since_s)
