"""The metrics page: for this machine and for who has the token; to everyone else it is not there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from payd.web.call import Request
from payd.web.metrics import may_scrape
from tests.shop import Shop, open_shop

TOKEN = "0123456789abcdef0123"


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Shop]:
    """A shop that may be scraped from afar."""
    async with open_shop(tmp_path / "data", PAYD_METRICS_TOKEN=TOKEN) as shop:
        yield shop


async def scrape(shop: Shop) -> dict[str, Metric]:
    """The page's families by name."""
    page = await shop.call("GET", "/metrics", key=None, authorization=f"Bearer {TOKEN}")
    assert page.status == 200
    return {family.name: family for family in text_string_to_metric_families(page.raw.decode())}


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


async def test_the_page_is_well_formed_and_counts_what_happened(watched: Shop) -> None:
    await watched.pay()
    await watched.call("GET", "/v1/payments/pay_nobody")

    families = await scrape(watched)

    answered = {
        (sample.labels["route"], sample.labels["status"]): sample.value
        for sample in families["payd_http_requests"].samples
    }
    assert answered["/v1/payments", "201"] == 1
    assert answered["/v1/payments/{id}", "404"] == 1
    assert {sample.labels["db"] for sample in families["payd_db_healthy"].samples} == {"office", "test"}
    assert families["payd_payments_awake"].samples[0].value == 1
    assert families["payd_webhook_oldest_due_seconds"].samples[0].value == 0


async def test_the_deliveries_of_each_realm_are_on_the_page(watched: Shop) -> None:
    watched.realm.deliveries.stats.attempt("auto", "dns_error", 12)

    families = await scrape(watched)

    assert {
        (sample.labels["realm"], sample.labels["outcome"], sample.labels["error_class"])
        for sample in families["payd_webhook_attempts"].samples
        if sample.value
    } == {("test", "failed", "dns_error")}


async def test_logos_that_could_not_be_copied_are_on_the_page(watched: Shop) -> None:
    await watched.call(
        "PATCH", f"/v1/merchants/{watched.merchant_id}", {"iconUrl": "https://127.0.0.1/a.png"}
    )
    await watched.realm.logos.run_once()
    families = await scrape(watched)
    tries = {one.labels["result"]: one.value for one in families["payd_logo_copies"].samples}
    assert tries == {"copied": 0, "failed": 1}
    [failing] = families["payd_logos_failing"].samples
    assert (failing.labels, failing.value) == ({"realm": "test"}, 1)


async def test_a_store_that_cannot_be_read_takes_its_own_numbers_from_the_page_and_no_others(
    watched: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await scrape(watched)
    with monkeypatch.context() as broken:
        broken.setattr(watched.realm.db._connections, "point", None)
        after = await scrape(watched)

    assert before.keys() - after.keys() == {"payd_webhook_oldest_due_seconds"}
    assert after["payd_payments_parked"].samples == []
    assert after["payd_payments_awake"].samples != []


def test_a_server_that_nobody_watches_does_not_load_the_library() -> None:
    program = "import sys, payd.server; assert 'payd.web.metrics' in sys.modules; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert [name for name in done.stdout.split() if name.startswith("prometheus_client")] == []


async def test_labels_do_not_grow_with_what_strangers_send(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        for number in range(50):
            await shop.call("GET", f"/nothing/{number}", key=None)
            await shop.call(f"M{number}", "/v1/payments", key=None)

        assert len(shop.house.answered) <= 8
