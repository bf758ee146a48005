"""The webhooks' families: every number with its labels, and no number where nothing is known."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric

from payd.actors.webhook_stats import ERROR_CLASSES, Backlog, WebhookStats
from payd.web.metrics_webhooks import Watched, webhook_families
from tests.promtool import complaints

Labels = tuple[tuple[str, str], ...]


def busy() -> WebhookStats:
    """A realm in which everything has happened."""
    stats = WebhookStats()
    stats.attempt("auto", None, 40)
    stats.attempt("auto", "timeout_response", 15_001)
    stats.attempt("auto", "surprise", 5)
    stats.first_attempt(20)
    stats.noticed("warning")
    stats.canary(True, 30, 100.0)
    stats.canary(False, 15_000, 160.0)
    for host in ("a.example", "b.example", "c.example"):
        stats.clock_skew(host, -2.5)
    endpoints = {"enabled": 3, "paused": 2, "disabled": 1, "deleted": 7}
    stats.backlog = Backlog(pending=12, failing_s=86_400.0, endpoints=endpoints)
    return stats


def families_of(stats: WebhookStats, *, oldest_due_s: float | None = 0.0) -> dict[str, Metric]:
    seen = Watched(stats, in_flight=2, oldest_due_s=oldest_due_s)
    return {family.name: family for family in webhook_families({"test": seen}, now_s=190.0)}


def samples_of(family: Metric) -> dict[tuple[str, Labels], float]:
    return {
        (sample.name.removeprefix(family.name), tuple(sorted(sample.labels.items()))): sample.value
        for sample in family.samples
    }


class Page:
    """A collector of families that are there already."""

    def __init__(self, *families: Metric) -> None:
        self.families = families

    def collect(self) -> tuple[Metric, ...]:
        return self.families


def rendered(*families: Metric) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Page(*families))
    return generate_latest(registry)


@pytest.mark.parametrize("stats", [busy(), WebhookStats()], ids=["busy", "fresh"])
def test_prometheus_finds_nothing_to_complain_about(stats: WebhookStats) -> None:
    assert complaints(rendered(*families_of(stats).values())) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("payd_webhook_in_flight", 2),
        ("payd_webhook_oldest_due_seconds", 7.5),
        ("payd_webhook_pending", 12),
        ("payd_webhook_endpoint_failing_seconds", 86_400),
        ("payd_webhook_clock_skew_seconds", -2.5),
        ("payd_webhook_canary_age_seconds", 90),
        ("payd_webhook_canary_seconds", 0.03),
    ],
)
def test_each_realm_has_one_value_of_each_gauge(name: str, value: float) -> None:
    family = families_of(busy(), oldest_due_s=7.5)[name]

    assert family.type == "gauge"
    assert samples_of(family) == {("", (("realm", "test"),)): value}


def test_attempts_are_told_apart_by_outcome_and_error_class() -> None:
    samples = samples_of(families_of(busy())["payd_webhook_attempts"])

    def at(outcome: str, error_class: str) -> float:
        labels = (("error_class", error_class), ("outcome", outcome), ("realm", "test"))
        return samples["_total", labels]

    assert at("ok", "") == at("failed", "timeout_response") == at("failed", "other") == 1
    assert at("failed", "dns_error") == 0
    assert len(samples) == len(ERROR_CLASSES) + 2


def test_histograms_are_in_seconds_and_end_in_everything() -> None:
    samples = samples_of(families_of(busy())["payd_webhook_attempt_seconds"])

    def within(bound: str) -> float:
        return samples["_bucket", (("le", bound), ("realm", "test"))]

    assert [within("0.025"), within("0.05"), within("14.0"), within("+Inf")] == [1, 2, 2, 3]
    assert samples["_count", (("realm", "test"),)] == 3
    assert samples["_sum", (("realm", "test"),)] == pytest.approx(15.046)


def test_endpoints_are_counted_by_the_states_that_somebody_acts_on() -> None:
    samples = samples_of(families_of(busy())["payd_webhook_endpoints"])

    assert {labels: value for (_, labels), value in samples.items()} == {
        (("realm", "test"), ("state", "enabled")): 3,
        (("realm", "test"), ("state", "paused")): 2,
        (("realm", "test"), ("state", "disabled")): 1,
    }


def test_notices_and_canaries_are_counted() -> None:
    families = families_of(busy())

    notices = samples_of(families["payd_webhook_endpoint_notices"])
    assert notices["_total", (("kind", "warning"), ("realm", "test"))] == 1
    assert notices["_total", (("kind", "disabled"), ("realm", "test"))] == 0
    canaries = samples_of(families["payd_webhook_canaries"])
    assert {labels[0]: value for (_, labels), value in canaries.items()} == {
        ("outcome", "ok"): 1,
        ("outcome", "failed"): 1,
    }


def test_what_is_not_known_is_absent_and_what_has_not_happened_is_zero() -> None:
    families = families_of(WebhookStats(), oldest_due_s=None)

    assert families.keys() == {
        "payd_webhook_in_flight",
        "payd_webhook_attempt_seconds",
        "payd_webhook_event_to_first_attempt_seconds",
        "payd_webhook_attempts",
        "payd_webhook_faults_injected",
        "payd_webhook_endpoint_notices",
    }
    assert set(samples_of(families["payd_webhook_attempts"]).values()) == {0}


def test_two_realms_share_each_family() -> None:
    seen = Watched(busy(), in_flight=0, oldest_due_s=0.0)
    families = list(webhook_families({"test": seen, "live": seen}, now_s=200.0))

    names = [family.name for family in families]
    assert len(names) == len(set(names))
    for family in families:
        assert {sample.labels["realm"] for sample in family.samples} == {"test", "live"}
