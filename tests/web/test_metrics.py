"""The metrics page: for this machine and for who has the token; to everyone else it is not there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from payd.web.call import Request
from payd.web.metrics import may_scrape
from payd.web.metrics_chains import COUNTERS, GAUGES, RELAYER_COUNTERS, RELAYER_GAUGES
from tests.promtool import firing_complaints, rule_complaints
from tests.shop import Shop, open_shop
from tests.test_readme import README

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


def values(family: Metric, label: str) -> dict[str, float]:
    return {sample.labels[label]: sample.value for sample in family.samples}


async def test_payments_are_counted_by_what_they_came_to(watched: Shop) -> None:
    before = values((await scrape(watched))["payd_payments"], "status")
    assert set(before.values()) == {0}
    for to in ("failed", "succeeded", "expired"):
        payment = await watched.pay()
        await watched.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": to})
    await watched.pay()
    after = values((await scrape(watched))["payd_payments"], "status")
    assert after | {"settled": 0} == {
        **before,
        **{"created": 4, "processing": 1, "failed": 1, "succeeded": 1, "expired": 1},
    }


async def test_how_long_things_take_is_a_histogram_of_each(watched: Shop) -> None:
    for _ in range(3):
        await watched.pay()
    families = await scrape(watched)

    def count(name: str, **labels: str) -> float:
        [found] = [
            sample.value
            for sample in families[name].samples
            if sample.name.endswith("_count") and sample.labels == labels
        ]
        return found

    assert count("payd_http_request_seconds", route="/v1/payments") == 3
    assert count("payd_db_commit_seconds", db="test") >= 3
    assert values(families["payd_db_bytes"], "db")["test"] > 4096
    assert values(families["payd_db_wal_bytes"], "db").keys() == {"test", "office"}


async def test_readers_turns_and_the_moved_clock_are_on_the_page(watched: Shop) -> None:
    payment = await watched.pay()

    class Page:
        def push(self, update: object) -> None: ...

        def close(self, code: int) -> None: ...

    watched.realm.payment_feed.subscribe(payment, Page())
    watched.realm.clock.move_to_offset(5000)
    families = await scrape(watched)
    samples = families["payd_feed_readers"].samples
    readers = {(one.labels["realm"], one.labels["feed"]): one.value for one in samples}
    assert readers == {("test", "payment"): 1, ("test", "account"): 0}
    assert families["payd_clock_offset_seconds"].samples[0].value == 5
    assert families["payd_payments_turns_waiting"].samples[0].value == 0


async def test_the_process_and_what_a_developer_broke_on_purpose_are_on_the_page(watched: Shop) -> None:
    watched.realm.deliveries.stats.fault("drop")
    families = await scrape(watched)
    assert families["process_resident_memory_bytes"].samples[0].value > 1e6
    assert families["process_open_fds"].samples[0].value > 0
    assert {one.labels["generation"] for one in families["python_gc_collections"].samples} == {"0", "1", "2"}
    faults = values(families["payd_webhook_faults_injected"], "fault")
    assert (faults["drop"], sum(faults.values())) == (1, 1)
    assert sum(one.value for one in families["payd_webhook_attempts"].samples) == 0


async def test_no_label_is_an_id_or_grows_with_payments(watched: Shop) -> None:
    for _ in range(2):
        await watched.pay()
    before = {name: len(one.samples) for name, one in (await scrape(watched)).items()}
    for _ in range(20):
        payment = await watched.pay()
        await watched.call("GET", f"/v1/payments/{payment}")
    families = await scrape(watched)
    grown = {name for name, one in families.items() if len(one.samples) > before.get(name, 0)}
    # One route more was asked for, which is a template.
    assert grown <= {"payd_http_requests", "payd_http_request_seconds"}
    labels = {
        value for one in families.values() for sample in one.samples for value in sample.labels.values()
    }
    assert not [one for one in labels if re.search(r"[a-z]+_[a-z]?[0-9a-z]{30}", one)]


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


def told_in_readme() -> tuple[set[str], str]:
    """The metrics that the README names in its table, and its file of alerts."""
    page = README.read_text()
    table = page[page.index("**Metrics**") : page.index("```yaml")]
    rules = page[page.index("```yaml") + len("```yaml\n") :]
    return set(re.findall(r"`((?:payd|process|python)_\w+)`", table)), rules[: rules.index("```")]


async def test_every_metric_that_the_readme_names_is_there(watched: Shop) -> None:
    samples = {sample.name for one in (await scrape(watched)).values() for sample in one.samples}
    families = set(await scrape(watched)) | samples
    # What a chain shows is there once one is configured; the tests of that part have it by its table.
    chains = (*GAUGES, *COUNTERS, *RELAYER_GAUGES, *RELAYER_COUNTERS)
    families |= {one.name for one in chains} | {f"{one.name}_total" for one in (*COUNTERS, *RELAYER_COUNTERS)}
    families |= {
        "payd_chain_clock_skew_seconds",
        "payd_chain_node_up",
        "payd_relayer_alarm",
        "payd_price_source_age_seconds",
    }
    # These come with the first backup, with a look into the store, and with the first canary.
    families |= {"payd_backup_age_seconds", "payd_webhook_canary_age_seconds"}
    # A listener is there when somebody serves.
    families |= {"payd_connections"}
    families |= {f"payd_connections_{what}_total" for what in ("failed", "displaced", "turned_away")}
    named, rules = told_in_readme()
    assert len(named) > 25
    asked = {one.removesuffix("_bucket") for one in re.findall(r"payd_\w+", rules)}
    assert named - families == set()
    assert asked - families == set()


def test_the_readmes_alerts_are_right_by_prometheus_own_tool(tmp_path: Path) -> None:
    _, rules = told_in_readme()
    file = tmp_path / "rules.yml"
    file.write_text(rules)
    assert rule_complaints(file) == []
    file.write_text(rules.replace("> 120", "> > 120"))
    assert rule_complaints(file) != []


AT_REST = {
    'payd_info{version="1"}': "1x40",
    "payd_backup_age_seconds": "3600x40",
    "payd_disk_free_bytes": "9e9x40",
    'payd_db_healthy{db="live"}': "1x40",
    'payd_db_commit_seconds_bucket{db="live",le="0.25"}': "0+9x40",
    'payd_db_commit_seconds_bucket{db="live",le="1.0"}': "0+9x40",
    'payd_db_commit_seconds_bucket{db="live",le="+Inf"}': "0+9x40",
    'payd_http_requests_total{route="/v1/payments",status="201"}': "0+5x40",
    "payd_connections_failed_total": "0x40",
    'payd_payments_parked{realm="live"}': "0x40",
    'payd_webhook_oldest_due_seconds{realm="live"}': "0x40",
    'payd_webhook_endpoint_failing_seconds{realm="live"}': "0x40",
    'payd_chain_read_lag_seconds{chain="eip155:8453"}': "4x40",
    "payd_chain_clock_skew_seconds": "0x40",
    'payd_chain_payments_lost_total{chain="eip155:8453"}': "0x40",
    'payd_relayer_alarm{alarm="stuck",chain="eip155:8453"}': "0x40",
}


@pytest.mark.parametrize(
    ("alert", "changes"),
    [
        ("", {}),
        ("PaydGone", dict.fromkeys(AT_REST, "1x20 _x40")),
        ("PaydGone", dict.fromkeys(AT_REST, "_x40")),
        ("PaydWebhooksLate", {'payd_webhook_oldest_due_seconds{realm="live"}': "0x20 120+60x20"}),
        ("PaydEndpointFailing", {'payd_webhook_endpoint_failing_seconds{realm="live"}': "86400+60x40"}),
        ("PaydStoreRefusesWrites", {'payd_db_healthy{db="live"}': "1x25 0x40"}),
        ("PaydDiskFillsUp", {"payd_disk_free_bytes": "1.01e9-1e6x40"}),
        ("PaydFaults", {'payd_http_requests_total{route="/v1/merchants",status="500"}': "_x28 1x40"}),
        ("PaydFaults", {'payd_http_requests_total{route="/v1/payments",status="500"}': "7x28 8x40"}),
        ("PaydFaults", {"payd_connections_failed_total": "0x25 1x40"}),
        ("PaydFaults", {'payd_payments_parked{realm="live"}': "0x25 1x40"}),
        ("PaydSlow", {'payd_db_commit_seconds_bucket{db="live",le="0.25"}': "0+8x40"}),
        ("PaydChainUnread", {'payd_chain_read_lag_seconds{chain="eip155:8453"}': "60+60x40"}),
        ("PaydClockOff", {"payd_chain_clock_skew_seconds": "-31x40"}),
        ("PaydPaymentLost", {'payd_chain_payments_lost_total{chain="eip155:8453"}': "0x25 1x40"}),
        ("PaydRelayer", {'payd_relayer_alarm{alarm="stuck",chain="eip155:8453"}': "0x15 1x40"}),
        ("PaydBackupOld", {"payd_backup_age_seconds": "172800+60x40"}),
        ("PaydBackupOld", {"payd_backup_age_seconds": "_x40"}),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_each_of_the_readmes_alerts_fires_in_its_fault_and_no_other(
    tmp_path: Path, alert: str, changes: dict[str, str]
) -> None:
    file = tmp_path / "rules.yml"
    file.write_text(told_in_readme()[1])
    assert firing_complaints(file, AT_REST | changes, "30m", {alert} - {""}) == []


def test_every_alert_of_the_readme_is_tried() -> None:
    [mark] = test_each_of_the_readmes_alerts_fires_in_its_fault_and_no_other.pytestmark  # type: ignore[attr-defined]
    named = re.findall(r"- alert: (\w+)", told_in_readme()[1])
    assert {alert for alert, _ in mark.args[1]} == {"", *named}
