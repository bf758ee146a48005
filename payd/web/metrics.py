"""What a monitoring system scrapes: counters and gauges in Prometheus' text format.

Everything is read when it is asked for; the library is loaded by the first scrape, so that a server nobody
watches does not pay for it. No label grows with what strangers send.

Source: DESIGN.md, "12. Operations"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import trio

from payd.core.errors import NotFound, StoreUnavailable
from payd.web.call import Answer, Call, Request
from payd.web.house import House, Realm
from payd.web.metrics_chains import chain_families, see_chain, skew_family, sources_of
from payd.web.metrics_machine import machine_families
from payd.web.metrics_webhooks import Watched, buckets_of, webhook_families

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BEARER: Final = "Bearer "


async def scrape(call: Call) -> Answer:
    """GET /metrics: for this machine, or with the configured token. To others it is not there."""
    if not may_scrape(call.request, call.house.metrics_token):
        raise NotFound("There is nothing at /metrics.")
    from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_House(call.house))
    # Their names are everybody's: memory, file descriptors, processor time, the garbage collector.
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return Answer(200, generate_latest(registry), (("Content-Type", CONTENT_TYPE),))


def may_scrape(request: Request, token: str) -> bool:
    """Whether a request comes from this machine itself, or brings the token.

    A proxy on this machine speaks for strangers: what was forwarded needs the token.
    """
    given = request.headers.get("authorization", "")
    if token and hmac.compare_digest(given.encode(), f"{BEARER}{token}".encode()):
        return True
    if any(name in request.headers for name in ("x-forwarded-for", "forwarded", "via")):
        return False
    try:
        return ipaddress.ip_address(request.client_ip).is_loopback
    except ValueError:
        return False


class _House:
    """A collector over the house as it is now."""

    def __init__(self, house: House) -> None:
        self._house = house

    def collect(self) -> Iterator[Metric]:
        """Every family, once."""
        from prometheus_client.metrics_core import CounterMetricFamily as Counter
        from prometheus_client.metrics_core import GaugeMetricFamily as Gauge

        house = self._house
        yield from machine_families(house.data_dir)
        requests = Counter(
            "payd_http_requests",
            "Requests answered, by the route's pattern and the status. Worry about 5xx: 500 is a fault of"
            " payd and in its log, 503 a store that takes no writes. 429 is a caller above its limit.",
            labels=["route", "status"],
        )
        for (route, status), count in sorted(house.answered.items()):
            requests.add_metric([route, str(status)], count)
        yield requests
        yield self._latency()
        if house.street is not None:
            yield Gauge("payd_connections", "Open connections of clients.", value=len(house.street))
            yield Counter(
                "payd_connections_failed",
                "Connections that broke inside payd and were ended. Worry at the first one: it is a fault,"
                " and the log has it (front.connection_failed).",
                value=house.street.caught,
            )
            yield Counter(
                "payd_connections_displaced",
                "Connections that were ended to make room for another, the longest idle first. Worry when it"
                " grows: [http] connections_max is reached.",
                value=house.street.displaced,
            )
            yield Counter(
                "payd_connections_turned_away",
                "Connections refused because their address had [http] connections_per_ip already. Worry when"
                " it grows behind a proxy: that is not among the trusted ones.",
                value=house.street.turned_away,
            )
        yield Gauge(
            "payd_long_polls",
            "Requests that are held open until a payment changes.",
            value=len(house.held),
        )
        yield from self._feeds(Gauge)
        yield from self._stores(Counter, Gauge)
        yield from self._payments(Counter, Gauge)
        yield from self._logos(Counter, Gauge)
        yield from self._chains()
        watched: dict[str, Watched] = {name: _watched(realm) for name, realm in house.realms.items()}
        yield from webhook_families(watched, trio.current_time())

    def _latency(self) -> Metric:
        from prometheus_client.metrics_core import HistogramMetricFamily

        family = HistogramMetricFamily(
            "payd_http_request_seconds",
            "How long requests took, by the route's pattern, until the answer was ready. Worry when the usual"
            " is above 0.1 where no maxPollMs has an answer held: see payd_db_commit_seconds.",
            labels=["route"],
        )
        for route, took in sorted(self._house.took.items()):
            family.add_metric([route], buckets_of(took), took.total)
        return family

    def _feeds(self, gauge: Any) -> Iterator[Metric]:
        readers = gauge(
            "payd_feed_readers",
            "Who follows a payment (pages and long polls) or an account (`payd listen` and its kin).",
            labels=["realm", "feed"],
        )
        ahead = gauge(
            "payd_clock_offset_seconds",
            "How far a realm's clock was moved ahead of the real one; test mode only.",
            labels=["realm"],
        )
        for name, realm in self._house.realms.items():
            readers.add_metric([name, "payment"], realm.payment_feed.total)
            readers.add_metric([name, "account"], realm.account_feed.total)
            ahead.add_metric([name], realm.clock.offset_ms / 1000)
        yield readers
        yield ahead

    def _stores(self, counter: Any, gauge: Any) -> Iterator[Metric]:
        from prometheus_client.metrics_core import HistogramMetricFamily

        stores = self._house.stores
        stats = {name: db.stats() for name, db in stores.items()}
        healthy = gauge(
            "payd_db_healthy",
            "1 while writes are taken. At 0 no payment moves: /readyz says why; look at the disk.",
            labels=["db"],
        )
        staged = gauge(
            "payd_db_staged",
            "Writes that wait for their commit. Worry when it stays in the hundreds: the disk is too slow.",
            labels=["db"],
        )
        for name, db in stores.items():
            healthy.add_metric([name], float(db.healthy))
            staged.add_metric([name], stats[name].staged)
        yield healthy
        yield staged
        commits = HistogramMetricFamily(
            "payd_db_commit_seconds",
            "How long a transaction took, with its fsync; a write waits for one or two. Worry when the usual"
            " is above 0.05: the disk is slow, or shared with somebody who is busy.",
            labels=["db"],
        )
        file = gauge("payd_db_bytes", "Size of the database file.", labels=["db"])
        log = gauge(
            "payd_db_wal_bytes",
            "Size of the write-ahead log. Worry when it stays above 64 MiB: checkpoints do not keep up.",
            labels=["db"],
        )
        for name, one in stats.items():
            commits.add_metric([name], buckets_of(one.commit_s), one.commit_s.total)
            log.add_metric([name], one.log_bytes)
            if one.file_bytes is not None:
                file.add_metric([name], one.file_bytes)
        yield commits
        yield file
        yield log
        for field, words in (
            ("commits", "Transactions committed."),
            ("steps", "Writes committed; several share a transaction, more of them under load."),
            ("failures", "Transactions that failed as a whole. Worry at the first one: see payd_db_healthy."),
            ("checkpoints", "Times that the write-ahead log was taken into the database file."),
        ):
            family = counter(f"payd_db_{field}", words, labels=["db"])
            for name, one in stats.items():
                family.add_metric([name], getattr(one, field))
            yield family

    def _payments(self, counter: Any, gauge: Any) -> Iterator[Metric]:
        reached = counter(
            "payd_payments",
            "Payments that came to a status since the start: created, processing, succeeded, failed, expired,"
            " cancelled, and settled. Worry when failed or expired grows faster than usual beside created.",
            labels=["realm", "status"],
        )
        awake = gauge("payd_payments_awake", "Payments kept in memory.", labels=["realm"])
        waiting = gauge(
            "payd_payments_turns_waiting",
            "Work that waits in payments' inboxes for its turn. Worry when it stays in the hundreds: the"
            " store is slow, see payd_db_commit_seconds.",
            labels=["realm"],
        )
        parked = gauge(
            "payd_payments_parked",
            "Payments whose work crashed too often and was given up. Worry at the first one: the log says"
            " which and why (payment.parked), and a restart tries again.",
            labels=["realm"],
        )
        for name, realm in self._house.realms.items():
            for stage, count in realm.payments.reached.items():
                reached.add_metric([name, stage], count)
            awake.add_metric([name], len(realm.payments.turns))
            waiting.add_metric([name], realm.payments.turns.waiting)
            if (given_up := _readable(realm, lambda one: one.payments.parked)) is not None:
                parked.add_metric([name], given_up)
        yield reached
        yield awake
        yield waiting
        yield parked
        dropped = counter(
            "payd_api_log_dropped",
            "Requests that the dashboard's log of requests did not keep, most of them successful reads under"
            " load, of which it keeps some.",
            labels=["realm"],
        )
        for name, realm in self._house.realms.items():
            dropped.add_metric([name], realm.api_log.dropped)
        yield dropped

    def _logos(self, counter: Any, gauge: Any) -> Iterator[Metric]:
        tries = counter(
            "payd_logo_copies",
            "Tries to copy a merchant's logo from its iconUrl, by how they ended.",
            labels=["realm", "result"],
        )
        failing = gauge(
            "payd_logos_failing",
            "Merchants whose logo could not be copied at the last try. `payd merchant list` says why; until"
            " then buyers see the one before, or the first letter of the name.",
            labels=["realm"],
        )
        for name, realm in self._house.realms.items():
            tries.add_metric([name, "copied"], realm.logos.copied)
            tries.add_metric([name, "failed"], realm.logos.failed)
            if (count := _readable(realm, lambda one: one.logos.failing())) is not None:
                failing.add_metric([name], count)
        yield tries
        yield failing

    def _chains(self) -> Iterator[Metric]:
        for realm in self._house.realms.values():
            if realm.live_chains:
                if (skew_s := realm.clock_check.skew_s) is not None:
                    yield skew_family(skew_s)
                now_ms = realm.clock.now_ms()
                seen = [see_chain(live) for live in realm.live_chains]
                yield from chain_families(seen, sources_of(realm.live_chains, now_ms), now_ms)


def _watched(realm: Realm) -> Watched:
    deliveries = realm.deliveries
    return Watched(deliveries.stats, deliveries.in_flight, _readable(realm, _oldest_due_s))


def _oldest_due_s(realm: Realm) -> float:
    """Looked up by every scrape, in an index: a number that a task keeps would stand still with the task."""
    due_ms = realm.deliveries.next_due_ms()
    return 0.0 if due_ms is None else max(0, realm.clock.now_ms() - due_ms) / 1000


def _readable(realm: Realm, read: Callable[[Realm], float]) -> float | None:
    """What a realm's store says; None while it cannot be read, when the page is wanted most."""
    try:
        return read(realm)
    except StoreUnavailable:
        return None
