"""A merchant with one of the shops of README.md, and somebody who forges its webhooks."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
from standardwebhooks.webhooks import Webhook

from payd.core.ids import KEY_ENTROPY_BYTES, make_api_key
from tests.contract.outside import Server, Shop, ok, until
from tests.receivers.shops import Page, RunningShop

ENDPOINT: Final = "/v1/webhooks/endpoint"
LIVE_KEY: Final = make_api_key("live", bytes(KEY_ENTROPY_BYTES))  # nobody's: the twin sells nothing


@dataclass
class Sent:
    """A webhook: its bytes, and headers that may be changed after it was signed."""

    body: bytes
    headers: dict[str, str]


@dataclass
class Seller:
    """One shop, and its twin: the same with a live key, on the same orders."""

    owner: Shop
    secret: str
    shop: RunningShop
    twin: RunningShop
    posts: int = 0

    def sell(self) -> Any:
        """Sell something; gives the event `payment.created` of its payment."""
        payment_id = self.shop.buy().rpartition("/")[2]
        [found] = until(lambda: ok(self.owner.api.get("/v1/events", paymentId=payment_id))["data"])
        return ok(self.owner.api.get(f"/v1/events/{found['id']}"))["envelope"]

    def answers(self, payment_id: str) -> list[tuple[int, str]]:
        """What the shop answered to deliveries about a payment, by payd's own log, the newest first."""
        listed = ok(self.owner.api.get("/v1/webhooks/deliveries", paymentId=payment_id))["data"]
        shown = [ok(self.owner.api.get(f"/v1/webhooks/deliveries/{each['id']}")) for each in listed]
        return [(log[0]["status"], log[0]["body"]) for each in shown if (log := each["attemptLog"])]

    def signed(self, event: Any, *secrets: str, age_s: int = 0) -> Sent:
        """Sign an event anew, under a new id, as payd does but by somebody else's code.

        Args:
            event: What is sent.
            secrets: Each signs; without: the endpoint's.
            age_s: How long ago.
        """
        self.posts += 1
        webhook_id, at_s, body = f"msg_{self.posts}", int(time.time()) - age_s, json.dumps(event)
        at = datetime.fromtimestamp(at_s, UTC)
        signatures = [Webhook(secret).sign(webhook_id, at, body) for secret in secrets or [self.secret]]
        names = {"webhook-id": webhook_id, "webhook-timestamp": str(at_s)}
        names |= {"webhook-signature": " ".join(signatures)}
        return Sent(body.encode(), {"content-type": "application/json", **names})

    def post(self, sent: Sent, to: RunningShop | None = None) -> tuple[int, str]:
        """Send it to the shop; the answer."""
        answer = (to or self.shop).http.post("/webhook", content=sent.body, headers=sent.headers)
        return answer.status_code, answer.text

    def is_paid(self, event: Any) -> bool:
        """Whether the order is paid, as the shop's own page says."""
        return self.shop.is_paid(event["data"]["reference_id"])


def moved(event: Any, status: str = "succeeded", version: int = 2, **changed: Any) -> Any:
    """The event of a later state of the same payment, with changes to what it says of it."""
    data = {**event["data"], "status": status, "payment_state_version": version, **changed}
    return {**event, "type": f"payment.{status}", "data": data}


def open_seller(server: Server, http: httpx.Client, page: Page, folder: Path, ports: Sequence[int]) -> Seller:
    """An account with a merchant, an endpoint at the shop, and both shops, not yet started."""
    owner = server.shop(page.file, http)
    made = ok(owner.api.put(ENDPOINT, {"url": f"http://127.0.0.1:{ports[0]}/webhook"}))
    env = {
        "PAYD_API": server.url,
        "PAYD_MERCHANT_ID": owner.merchant(),
        "PAYD_WEBHOOK_SECRET": made["secret"],
    }
    shop = RunningShop(page, folder, ports[0], {**env, "PAYD_API_KEY": owner.api.headers["Api-Key"]})
    twin = RunningShop(page, folder, ports[1], {**env, "PAYD_API_KEY": LIVE_KEY})
    return Seller(owner, made["secret"], shop, twin)
