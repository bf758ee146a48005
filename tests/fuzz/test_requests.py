"""Bent requests through the whole door: no path, query, header or body is answered with an internal error."""

from __future__ import annotations

import random

import msgspec

from payd.web.routes import ROUTES
from tests.fuzz.mutation import bent
from tests.fuzz.web_targets import BODIES
from tests.shop import Shop

REQUESTS = 1500
SIZE = 65_536
QUERIES = (b"limit=5&cursor=Wzcw", b"status=succeeded&since=2026-05-18T09:59:00Z", b"maxPollMs=-1&pid=1", b"")
# What waits for something is not asked to: these hold a request, stream without end, or advance the time.
LEFT_OUT = ("/v1/test/clock", "/metrics")


def header(data: bytes) -> str:
    """A header's value as h11 lets it through."""
    return data.decode("ascii", "ignore").translate(dict.fromkeys(b"\r\n\0"))


async def test_no_request_breaks_the_house(shop: Shop) -> None:
    rng = random.Random(9)
    payment_id = await shop.pay()
    ids = (payment_id, shop.merchant_id, "evt_1", "%00", "pay_t" + "0" * 36, "é", "..", "x" * 5000)
    bodies = [msgspec.json.encode(one) for one in BODIES.values()]
    routes = [route for route in ROUTES if route.path not in LEFT_OUT]
    statuses: dict[int, int] = {}
    for number in range(REQUESTS):
        route = rng.choice(routes)
        path = "/".join(rng.choice(ids) if part.startswith("{") else part for part in route.path.split("/"))
        query = bent(rng.choice(QUERIES), number).decode("latin-1").replace("maxPollMs", "maxpollms")
        headers = {
            "merchant_id": rng.choice((shop.merchant_id, header(bent(shop.merchant_id.encode(), number)))),
            "idempotency_key": header(bent(b"order-1", rng.choice((0, number)))),
        }
        if rng.random() < 0.3:
            headers["service_version"] = header(bent(b"2026-02-18", number))
        body = bent(rng.choice(bodies), number) if route.method not in ("GET", "DELETE") else b""
        got = await shop.call(
            route.method,
            f"{path}?{query[:2000]}",
            raw=body[:SIZE],
            key=None if rng.random() < 0.1 else "",
            **headers,
        )
        assert got.status < 500, (route.method, path, query, headers, body[:300], got.raw[:300])
        statuses[got.status] = statuses.get(got.status, 0) + 1
    # Some are understood: a door that refuses all of them proves nothing.
    assert statuses.get(200, 0) + statuses.get(201, 0) > 50, statuses
    assert len(statuses) > 5, statuses
