"""The webhooks' part of the metrics page: how deliveries go, how late they are, and who is failing.

Each text says what a number means and from when on to worry, because who reads it was woken by it.

Source: DESIGN.md, "7. Events and webhooks"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from payd.actors.webhook_stats import Backlog, WebhookStats
from payd.core.endpoint import EndpointState
from payd.core.histogram import Histogram

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

# The deleted ones are history: their number only grows, and nobody acts on it.
STATES: Final = (EndpointState.ENABLED, EndpointState.PAUSED, EndpointState.DISABLED)


class Watched(NamedTuple):
    """What the page shows of a realm's deliveries.

    `oldest_due_s` is None when the store cannot be read now.
    """

    stats: WebhookStats
    in_flight: int
    oldest_due_s: float | None


class _Gauge(NamedTuple):
    """One number of a realm, or None where it is not known: then it is absent, which is no zero."""

    name: str
    words: str
    value: Callable[[Watched, float], float | None]


def _found(value: Callable[[Backlog], float]) -> Callable[[Watched, float], float | None]:
    def of(one: Watched, now_s: float) -> float | None:
        return None if one.stats.backlog is None else value(one.stats.backlog)

    return of


GAUGES: Final = (
    _Gauge(
        "payd_webhook_in_flight",
        "Deliveries being sent, or waiting for the realm's limit on that. Worry when it stays in the"
        " hundreds: many receivers are slow at once.",
        lambda one, now_s: one.in_flight,
    ),
    _Gauge(
        "payd_webhook_oldest_due_seconds",
        "Age of the oldest delivery that is due and has no result yet, whatever holds it up; read at the"
        " scrape, and absent while the store cannot be read. Worry above 120: one receiver hangs, and then"
        " payd_webhook_endpoint_failing_seconds grows too; else sending does not keep up, or has stopped.",
        lambda one, now_s: one.oldest_due_s,
    ),
    _Gauge(
        "payd_webhook_pending",
        "Deliveries that are owed, due now or waiting for a retry, as of the last look into the store."
        " Worry when it grows for hours: see payd_webhook_endpoint_failing_seconds.",
        _found(lambda backlog: backlog.pending),
    ),
    _Gauge(
        "payd_webhook_endpoint_failing_seconds",
        "How long the enabled endpoint that fails longest has failed, 0 when none does, as of the last look"
        " into the store. Tell its owner in time: at 432000 (5 days) it is disabled.",
        _found(lambda backlog: backlog.failing_s),
    ),
    _Gauge(
        "payd_webhook_clock_skew_seconds",
        "Seconds that this machine's clock is ahead of its receivers' clocks, by the median of the hosts"
        " that answered last; absent with fewer than two. Worry beyond 60 either way and mend the clock:"
        " receivers refuse signatures that are 300 off.",
        lambda one, now_s: one.stats.skew_s,
    ),
    _Gauge(
        "payd_webhook_canary_age_seconds",
        "Seconds since a delivery of this server to itself last arrived, or since the first one that did"
        " not; absent before the first. Worry when it is several times the usual: nothing gets out.",
        lambda one, now_s: one.stats.canary_age_s(now_s),
    ),
    _Gauge(
        "payd_webhook_canary_seconds",
        "How long the last delivery of this server to itself took that arrived, from its commit. It is the"
        " server's own share of every delivery.",
        lambda one, now_s: one.stats.canary_took_s,
    ),
)

HISTOGRAMS: Final[tuple[tuple[str, str, Callable[[WebhookStats], Histogram]], ...]] = (
    (
        "payd_webhook_attempt_seconds",
        "How long attempts took, until the answer or the failure. Those above 14 were given up"
        " unanswered: see error_class in payd_webhook_attempts_total.",
        lambda stats: stats.attempt_s,
    ),
    (
        "payd_webhook_event_to_first_attempt_seconds",
        "From an event's commit to its first attempt at an endpoint. Worry when the usual is not"
        " milliseconds: the server is behind, or was down.",
        lambda stats: stats.first_attempt_s,
    ),
)


def webhook_families(realms: Mapping[str, Watched], now_s: float) -> Iterator[Metric]:
    """Every family, with the realm as a label. Reads memory only.

    Args:
        realms: By name.
        now_s: `trio.current_time()`.
    """
    from prometheus_client.metrics_core import GaugeMetricFamily, HistogramMetricFamily

    for gauge in GAUGES:
        family = GaugeMetricFamily(gauge.name, gauge.words, labels=["realm"])
        for realm, one in realms.items():
            if (value := gauge.value(one, now_s)) is not None:
                family.add_metric([realm], value)
        if family.samples:
            yield family
    for name, words, histogram_of in HISTOGRAMS:
        histograms = HistogramMetricFamily(name, words, labels=["realm"])
        for realm, one in realms.items():
            histogram = histogram_of(one.stats)
            histograms.add_metric([realm], buckets_of(histogram), histogram.total)
        yield histograms
    stats = {realm: one.stats for realm, one in realms.items()}
    yield from _counters(stats)
    yield from _endpoints(stats)


def buckets_of(histogram: Histogram) -> list[tuple[str, float]]:
    """A histogram's buckets as the library takes them."""
    return [
        ("+Inf" if bound == float("inf") else str(bound), float(count))
        for bound, count in histogram.cumulative()
    ]


def _counters(realms: Mapping[str, WebhookStats]) -> Iterator[Metric]:
    from prometheus_client.metrics_core import CounterMetricFamily

    attempts = CounterMetricFamily(
        "payd_webhook_attempts",
        "Attempts that ended, by outcome (ok, failed) and, for those that failed, error_class; test sends and"
        " what developers have go wrong do not count. dns_error, network_unreachable or tls_error at many"
        " endpoints at once are rather this machine's trouble than theirs.",
        labels=["realm", "outcome", "error_class"],
    )
    notices = CounterMetricFamily(
        "payd_webhook_endpoint_notices",
        "Endpoints whose owner was warned of failures (warning), was told that no event is sent any more"
        " (disabled), or that it answers again (recovered). Each disabled one needs a person to enable it.",
        labels=["realm", "kind"],
    )
    canaries = CounterMetricFamily(
        "payd_webhook_canaries",
        "Deliveries of this server to itself that ended, by outcome (ok, failed).",
        labels=["realm", "outcome"],
    )
    faults = CounterMetricFamily(
        "payd_webhook_faults_injected",
        "Attempts that a developer had go wrong on purpose, by fault; in test mode only, and counted nowhere"
        " else.",
        labels=["realm", "fault"],
    )
    for realm, stats in realms.items():
        for fault, count in stats.faults.items():
            faults.add_metric([realm, fault], count)
        attempts.add_metric([realm, "ok", ""], stats.ok)
        for error_class, count in stats.failed.items():
            attempts.add_metric([realm, "failed", error_class], count)
        for kind, count in stats.notices.items():
            notices.add_metric([realm, kind], count)
        if stats.canary_began_at_s is not None:
            canaries.add_metric([realm, "ok"], stats.canaries[True])
            canaries.add_metric([realm, "failed"], stats.canaries[False])
    yield attempts
    yield faults
    yield notices
    if canaries.samples:
        yield canaries


def _endpoints(realms: Mapping[str, WebhookStats]) -> Iterator[Metric]:
    from prometheus_client.metrics_core import GaugeMetricFamily

    endpoints = GaugeMetricFamily(
        "payd_webhook_endpoints",
        "Webhook endpoints by state (enabled, paused, disabled), as of the last look into the store. A"
        " disabled one gets nothing until a person enables it; what a paused one is owed waits until a person"
        " lets it go on, or it is too old to be kept.",
        labels=["realm", "state"],
    )
    for realm, stats in realms.items():
        if stats.backlog is not None:
            for state in STATES:
                endpoints.add_metric([realm, state], stats.backlog.endpoints.get(state, 0))
    if endpoints.samples:
        yield endpoints
