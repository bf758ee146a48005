"""The metrics page: for this machine and for who has the token; to everyone else it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from payd.web.call import Request
from payd.web.metrics import may_scrape
from tests.shop import Shop, open_shop

TOKEN = "0123456789abcdef0123"


@pytest.mark.parametrize(
    ("client_ip", "headers", "token", "allowed"),
    [
        ("127.0.0.1", {}, "", True),
        ("::1", {}, "", True),
        ("203.0.113.7", {}, "", False),
        ("127.0.0.1", {"x-forwarded-for": "203.0.113.7"}, "", False),
        ("127.0.0.1", {"forwarded": "for=203.0.113.7"}, "", False),
        ("203.0.113.7", {"authorization": f"Bearer {TOKEN}"}, TOKEN, True),
        ("203.0.113.7", {"authorization": f"Bearer {TOKEN}x"}, TOKEN, False),
        ("203.0.113.7", {"authorization": "Bearer "}, "", False),
        ("127.0.0.1", {"x-forwarded-for": "a", "authorization": f"Bearer {TOKEN}"}, TOKEN, True),
        ("", {}, "", False),
    ],
)
def test_who_may_scrape(client_ip: str, headers: dict[str, str], token: str, allowed: bool) -> None:
    assert may_scrape(Request("GET", "/metrics", headers=headers, client_ip=client_ip), token) is allowed


async def test_a_stranger_is_told_that_there_is_nothing(shop: Shop) -> None:
    found = await shop.call("GET", "/metrics", key=None)

    assert (found.status, found.code) == (404, "not_found")


async def test_the_page_is_well_formed_and_counts_what_happened(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", PAYD_METRICS_TOKEN=TOKEN) as shop:
        await shop.pay()
        await shop.call("GET", "/v1/payments/pay_nobody")
        page = await shop.call("GET", "/metrics", key=None, authorization=f"Bearer {TOKEN}")

    assert page.status == 200
    families = {family.name: family for family in text_string_to_metric_families(page.raw.decode())}
    answered = {
        (sample.labels["route"], sample.labels["status"]): sample.value
        for sample in families["payd_http_requests"].samples
    }
    assert answered["/v1/payments", "201"] == 1
    assert answered["/v1/payments/{id}", "404"] == 1
    assert {sample.labels["db"] for sample in families["payd_db_healthy"].samples} == {"office", "test"}
    assert families["payd_payments_awake"].samples[0].value == 1
    assert "payd_webhook_oldest_due_seconds" in families


async def test_labels_do_not_grow_with_what_strangers_send(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        for number in range(50):
            await shop.call("GET", f"/nothing/{number}", key=None)
            await shop.call(f"M{number}", "/v1/payments", key=None)

        assert len(shop.house.answered) <= 8
