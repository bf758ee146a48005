"""What a monitoring system scrapes: counters and gauges in Prometheus' text format.

Everything is read when it is asked for; the library is loaded by the first scrape, so that a server nobody
watches does not pay for it. No label grows with what strangers send.

Source: DESIGN.md, "12. Operations"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from payd import __version__
from payd.core.errors import NotFound
from payd.web.call import Answer, Call, Request
from payd.web.house import House

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BEARER: Final = "Bearer "


async def scrape(call: Call) -> Answer:
    """GET /metrics: for this machine, or with the configured token. To others it is not there."""
    if not may_scrape(call.request, call.house.metrics_token):
        raise NotFound("There is nothing at /metrics.")
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_House(call.house))
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
        info = Gauge("payd_info", "Which payd this is.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
        requests = Counter("payd_http_requests", "Requests answered.", labels=["route", "status"])
        for (route, status), count in sorted(house.answered.items()):
            requests.add_metric([route, str(status)], count)
        yield requests
        if house.street is not None:
            yield Gauge("payd_connections", "Open connections.", value=len(house.street))
            yield Counter(
                "payd_connections_failed", "Connections that the guard ended.", value=house.street.caught
            )
        yield Gauge("payd_long_polls", "Long polls held now.", value=len(house.held))
        yield from self._stores(Counter, Gauge)
        yield from self._realms(Gauge)

    def _stores(self, counter: Any, gauge: Any) -> Iterator[Metric]:
        stores = {"office": self._house.office} | {
            name: realm.db for name, realm in self._house.realms.items()
        }
        stats = {name: db.stats() for name, db in stores.items()}
        healthy = gauge("payd_db_healthy", "Whether writes are taken.", labels=["db"])
        staged = gauge("payd_db_staged", "Writes that wait for their commit.", labels=["db"])
        for name, db in stores.items():
            healthy.add_metric([name], float(db.healthy))
            staged.add_metric([name], stats[name].staged)
        yield healthy
        yield staged
        for field, words in (
            ("commits", "Transactions committed."),
            ("steps", "Steps committed; several share a transaction."),
            ("failures", "Transactions that the disk refused."),
            ("checkpoints", "Times the log was taken into the database."),
        ):
            family = counter(f"payd_db_{field}", words, labels=["db"])
            for name, one in stats.items():
                family.add_metric([name], getattr(one, field))
            yield family

    def _realms(self, gauge: Any) -> Iterator[Metric]:
        awake = gauge("payd_payments_awake", "Payments kept in memory.", labels=["realm"])
        parked = gauge(
            "payd_payments_parked", "Payments given up on; each waits for a person.", labels=["realm"]
        )
        in_flight = gauge("payd_webhook_in_flight", "Deliveries being sent.", labels=["realm"])
        oldest = gauge(
            "payd_webhook_oldest_due_seconds", "Age of the oldest delivery that is due.", labels=["realm"]
        )
        for name, realm in self._house.realms.items():
            awake.add_metric([name], len(realm.payments.turns))
            parked.add_metric([name], realm.payments.parked)
            in_flight.add_metric([name], realm.deliveries.in_flight)
            due_ms = realm.deliveries.next_due_ms()
            late_ms = 0 if due_ms is None else max(0, realm.clock.now_ms() - due_ms)
            oldest.add_metric([name], late_ms / 1000)
        yield awake
        yield parked
        yield in_flight
        yield oldest
