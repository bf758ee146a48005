"""What to look at, of a whole house: its stores, its disk, its chains, and the account's own things."""

from __future__ import annotations

import shutil
from collections import namedtuple
from typing import Any

import pytest

from payd.actors.relay_stats import RelayerStats
from payd.chains.defaults import DepthPolicy
from payd.core.attention import SPACE_LOW, SPACE_NONE
from payd.web.attention import house_matters, matters_of, state_of
from payd.web.metrics_chains import SeenChain, SeenNode
from tests.shop import Shop
from tests.web.test_metrics_chains import WATCHER

Usage = namedtuple("Usage", "total used free")


async def test_a_new_shop_that_can_be_paid_has_nothing_to_look_at(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1, 1, SPACE_LOW))
    assert await matters_of(shop.house, shop.realm, shop.account_id) == []


async def test_the_worst_of_house_and_account_comes_first(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.new_merchant(pays=False)
    shop.realm.db._failure = "disk full"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1, 1, SPACE_NONE - 1))
    found = await matters_of(shop.house, shop.realm, shop.account_id)
    shop.realm.db._failure = None

    assert [(one.level, one.topic) for one in found] == [
        ("error", "store"),
        ("error", "space"),
        ("warning", "merchant_without_destination"),
    ]
    assert found[0].words == "disk full"
    assert await matters_of(shop.house, shop.realm, "acct_other") == house_matters(shop.house, shop.realm)


async def test_a_clock_that_is_off_is_there_until_it_is_right(shop: Shop) -> None:
    check = shop.realm.clock_check
    for skew_s, count in ((-95.0, 0), (-95.0, 1), (1.0, 0)):
        check._settle(skew_s)
        found = [one for one in house_matters(shop.house, shop.realm) if one.topic == "clock"]
        assert len(found) == count


def test_a_chains_numbers_become_what_people_need() -> None:
    stats: dict[str, Any] = dict.fromkeys(RelayerStats.__struct_fields__, 0)
    relayer = RelayerStats(**stats | {"alarms": frozenset({"balance_low"})})
    nodes = [SeenNode("a.test", True, 0, 0), SeenNode("b.test", False, 1, 0)]
    state = state_of(SeenChain("eip155:8453", WATCHER, nodes, {}, 0, relayer, DepthPolicy.of(5)))

    assert (state.down, state.nodes, state.behind) == (["b.test"], 2, WATCHER.blocks_behind)
    assert state.alarms[0].startswith("The relayer's account is running low")
