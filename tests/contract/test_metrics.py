"""The metrics page of a server that has worked, read by Prometheus' own linter.

Source: DESIGN.md, "12. Operations"
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.contract.outside import Caller, Receiver, Server, ok, open_server, until
from tests.promtool import complaints

ENDPOINT = "/v1/webhooks/endpoint"


@pytest.fixture(scope="module")
def page(server: Server, http: httpx.Client, receiver: Receiver, nobody: Caller) -> str:
    """What is scraped after payments, refusals, and deliveries that went well and that did not."""
    shop = server.shop("scraped", http)
    door = receiver.door()
    ok(shop.api.put(ENDPOINT, {"url": door.url}))
    merchant_id = shop.merchant()
    door.answers.append(500)
    failing = shop.payment(merchant_id)
    door.wait_for(failing, "payment.created")
    paid = shop.payment(merchant_id)
    shop.simulate(paid, "succeeded")
    door.wait_for(paid, "payment.created", "payment.succeeded")
    nobody.get("/nothing")
    nobody.get("/v1/payments")

    def scraped() -> str:
        text = nobody.get("/metrics").text
        ended = re.findall(r"^payd_webhook_attempts_total.* (\S+)$", text, re.M)
        return text if sum(map(float, ended)) >= 4 else ""

    return until(scraped)


def test_prometheus_finds_nothing_to_complain_about(page: str) -> None:
    assert complaints(page.encode()) == []


def test_the_linter_would_complain(page: str) -> None:
    told = complaints(page.encode() + b"payd_oven_temperature_celsius 200\n")

    assert len(told) == 1
    assert "payd_oven_temperature_celsius" in told[0]


@pytest.mark.parametrize(
    "sample",
    [
        'payd_webhook_attempts_total{error_class="",outcome="ok",realm="test"}',
        'payd_webhook_attempts_total{error_class="http_status",outcome="failed",realm="test"}',
        'payd_webhook_attempt_seconds_count{realm="test"}',
        'payd_webhook_event_to_first_attempt_seconds_count{realm="test"}',
        'payd_http_requests_total{route="/v1/payments",status="201"}',
        'payd_db_commits_total{db="test"}',
    ],
)
def test_the_page_counts_what_happened(page: str, sample: str) -> None:
    found = re.search(rf"^{re.escape(sample)} (\S+)$", page, re.M)

    assert found is not None, page
    assert float(found[1]) >= 1


def test_who_makes_room_and_who_is_refused_is_counted(tmp_path: Path) -> None:
    limits = "[http]\nconnections_max = 2\nconnections_per_ip = 1\n"
    with open_server(tmp_path, limits) as server, ExitStack() as open_ones:

        def come(address: str) -> httpx.Client:
            transport = httpx.HTTPTransport(local_address=address)
            return open_ones.enter_context(httpx.Client(base_url=server.url, transport=transport))

        for number in (2, 3, 4):
            assert come(f"127.0.0.{number}").get("/livez").status_code == 200
        last = come("127.0.0.5")
        assert last.get("/livez").status_code == 200
        assert come("127.0.0.5").get("/livez").status_code == 429
        found = dict(re.findall(r"^(payd_connections\w*) (\S+)$", last.get("/metrics").text, re.M))

    assert found["payd_connections"] == "2.0"
    assert float(found["payd_connections_displaced_total"]) >= 2
    assert float(found["payd_connections_turned_away_total"]) >= 1
    assert found["payd_connections_failed_total"] == "0.0"
