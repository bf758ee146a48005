"""Whether the process lives and can work, and its versions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio

from payd.actors.live_chain import LiveChain
from payd.actors.watcher import WatcherStats
from payd.actors.webhook_stats import Backlog
from payd.core.version import VERSIONS
from payd.store.seal import Seal
from payd.web.health import UNREAD_MAX_S
from tests.shop import Shop
from tests.web.test_metrics_chains import WATCHER


async def test_it_lives_and_is_ready_without_a_key(shop: Shop) -> None:
    for path in ("/livez", "/readyz"):
        found = await shop.call("GET", path, key=None)
        assert (found.status, found.body) == (200, {"status": "ok"})


async def test_a_store_that_cannot_write_makes_it_unready_and_leaves_it_alive(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ailing = shop.realm.db
    kind = type(ailing)
    monkeypatch.setattr(kind, "healthy", property(lambda db: db is not ailing))
    monkeypatch.setattr(kind, "failure", property(lambda db: "disk full" if db is ailing else None))
    found = await shop.call("GET", "/readyz", key=None)
    assert (found.status, found.body) == (503, {"status": "failing", "problems": ["test: disk full"]})
    assert (await shop.call("GET", "/livez", key=None)).status == 200


async def test_it_is_not_ready_while_it_stops(shop: Shop) -> None:
    shop.house.release_polls()
    found = await shop.call("GET", "/readyz", key=None)
    assert (found.status, found.body["problems"]) == (503, ["the server is stopping"])


async def test_the_versions_are_those_of_the_table(shop: Shop) -> None:
    found = await shop.call("GET", "/versions", key=None)
    assert found.body == {"stable": ["2026-02-18"], "preview": ["2026-02-19.preview"]}
    assert {version for group in found.body.values() for version in group} == set(VERSIONS)


async def test_a_clock_that_receivers_disagree_with_is_a_warning_and_no_failure(shop: Shop) -> None:
    stats = shop.realm.deliveries.stats
    stats.clock_skew("ep_1", 30.0)
    assert (await shop.call("GET", "/readyz", key=None)).body == {"status": "ok"}
    stats.clock_skew("ep_1", -90.0)
    found = await shop.call("GET", "/readyz", key=None)
    assert (found.status, found.body["status"]) == (200, "ok")
    assert "ours is 90 s behind" in found.body["warnings"][0]


async def test_a_clock_that_nodes_disagree_with_is_a_warning_and_no_failure(shop: Shop) -> None:
    for _ in range(2):
        shop.realm.clock_check._settle(95.0)
    found = await shop.call("GET", "/readyz", key=None)
    assert (found.status, found.body["status"]) == (200, "ok")
    assert "this machine's is 95 s ahead" in found.body["warnings"][0]


async def test_webhooks_that_nobody_sends_keep_the_server_from_being_ready(shop: Shop) -> None:
    shop.realm.deliveries.stats.backlog = Backlog(1, 0.0, {}, ("webhooks wait",))
    found = await shop.call("GET", "/readyz", key=None)
    assert (found.status, found.body) == (503, {"status": "failing", "problems": ["test: webhooks wait"]})


async def test_webhooks_that_break_on_this_side_are_a_warning(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://a.test/"})
    shop.realm.deliveries._attempts._poster._seal = Seal(b"\1" * 32)  # a key that somebody made anew
    await shop.pay()
    await trio.sleep(10)
    found = await shop.call("GET", "/readyz", key=None)
    assert found.status == 200
    assert found.body["warnings"] == [
        "test: 1 webhooks cannot be sent for a reason on this side; see webhook.broken in the log"
    ]


class Chain:
    """A live chain that was read up to some time: since the start, or before it."""

    name = "eip155:8453"

    def __init__(self, *, before_s: int = 0, since_s: int | None = None, trouble: str = "") -> None:
        self._before_s = before_s
        self._stats = msgspec.structs.replace(WATCHER, read_time_s=since_s, trouble=trouble)

    def stats(self) -> WatcherStats:
        return self._stats

    def read_until_s(self) -> int:
        return self._before_s


def watch(shop: Shop, **read: object) -> None:
    """Have the realm watch a chain that was read so."""
    one: Any = Chain(**read)  # type: ignore[arg-type]
    shop.realm.live_chains = (LiveChain(one.name, one, one, one, None, one, one),)


async def test_a_chain_that_is_not_read_degrades_the_server_and_keeps_it_ready(shop: Shop) -> None:
    now_s = shop.realm.clock.now_ms() // 1000
    trouble = "https://node.example: it is down"
    watch(shop, since_s=now_s - UNREAD_MAX_S - 60, trouble=trouble)

    found = await shop.call("GET", "/readyz", key=None)

    assert (found.status, found.body["status"]) == (200, "degraded")
    [words] = found.body["warnings"]
    assert words.startswith("eip155:8453: nothing of the last 6 minutes was read")
    assert "node.example" not in words, "strangers can read this"


async def test_a_chain_that_was_read_lately_is_well_whatever_its_last_try_came_to(shop: Shop) -> None:
    now_s = shop.realm.clock.now_ms() // 1000
    for read in (
        {"since_s": now_s - UNREAD_MAX_S, "trouble": "down"},
        {"since_s": now_s - 10, "before_s": 1},
        {"before_s": now_s - 10, "trouble": "down"},
        {},
    ):
        watch(shop, **read)
        assert (await shop.call("GET", "/readyz", key=None)).body == {"status": "ok"}, read


async def test_what_was_read_before_the_start_counts_until_something_is_read_since(shop: Shop) -> None:
    now_s = shop.realm.clock.now_ms() // 1000
    for read, words in (
        ({"before_s": now_s - 7200}, "last 120 minutes"),
        ({"trouble": "down"}, "not be read since the start"),
    ):
        watch(shop, **read)
        found = await shop.call("GET", "/readyz", key=None)
        assert (found.status, found.body["status"]) == (200, "degraded")
        assert words in found.body["warnings"][0]


async def test_a_server_that_is_failing_is_no_less_so_for_a_chain(shop: Shop) -> None:
    watch(shop, trouble="down")
    shop.house.release_polls()
    found = await shop.call("GET", "/readyz", key=None)
    assert (found.status, found.body["status"]) == (503, "failing")
    assert found.body["warnings"]
