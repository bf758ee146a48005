"""A shop with a webhook receiver that every host name leads to, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from payd.net.dns import DnsFailed
from tests.outbox import advance
from tests.receiver import Does, Receiver, Script, always
from tests.shop import Shop, open_shop

ENDPOINT = "/v1/webhooks/endpoint"
HOOK = "http://a.test/hook"


@dataclass
class Hooked:
    """A shop, and a receiver that every host name leads to."""

    shop: Shop
    receiver: Receiver

    async def register(self, **more: Any) -> dict[str, Any]:
        """Register the endpoint; the answer."""
        made = await self.shop.call("PUT", ENDPOINT, {"url": HOOK, **more})
        assert made.status == 200, made.body
        return dict(made.body)

    async def advance(self, seconds: float) -> None:
        """Move the clock, and let every delivery that falls due on the way happen in order."""
        await advance(self.shop.realm.deliveries, self.shop.realm.clock, seconds)

    async def drained(self) -> None:
        """Return when what is due now has had its attempt."""
        await self.shop.realm.deliveries.drained(self.shop.realm.clock.now_ms())

    async def deliveries(self, query: str = "") -> list[dict[str, Any]]:
        """One page of deliveries."""
        return list((await self.shop.call("GET", f"/v1/webhooks/deliveries{query}")).body["data"])

    async def job(self, kind: str, since: str | int) -> dict[str, Any]:
        """Run a job to its end; its last state."""
        started = await self.shop.call("POST", f"/v1/webhooks/{kind}", {"since": since})
        assert started.status == 202, started.body
        assert started.body["state"] == "running"
        await self.drained()
        return dict((await self.shop.call("GET", f"/v1/webhooks/jobs/{started.body['id']}")).body)


async def resolve(host: str) -> list[str]:
    """Every name is public but `inside.test`; `gone.test` is none."""
    await trio.lowlevel.checkpoint()
    if host == "gone.test":
        raise DnsFailed(host)
    if host[0].isdigit() or ":" in host:
        return [host]
    return ["93.184.216.34", "10.0.0.1"] if host == "inside.test" else ["93.184.216.34"]


@asynccontextmanager
async def open_hooked(
    folder: Path, script: Script | None = None, *, live: bool = False, allow_http: str = "true", **env: Any
) -> AsyncIterator[Hooked]:
    opened = open_shop(folder, live=live, PAYD_WEBHOOKS_TEST_ALLOW_HTTP=allow_http, **env)
    async with trio.open_nursery() as nursery, opened as shop:
        receiver = Receiver(nursery, script or always(Does()))
        for realm in shop.house.realms.values():
            realm.deliveries.http.resolve, realm.deliveries.http.dial = resolve, receiver.dial
        yield Hooked(shop, receiver)
        nursery.cancel_scope.cancel()
