"""The status page says what the metrics know, in words, and replaces itself in place."""

from __future__ import annotations

import dataclasses
import errno
import re
import shutil
from collections import namedtuple
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from payd import __version__
from payd.actors.relay_stats import RelayerStats
from payd.chains.assets import shipped_book
from payd.chains.defaults import DepthPolicy
from payd.chains.market.prices import MarketPrices
from payd.core.attention import SPACE_NONE
from payd.core.caip import parse_chain
from payd.core.roles import Role
from payd.web.dashboard.status import chain_view, depth_words, size_words
from payd.web.metrics_chains import SeenChain, SeenNode
from tests.chains.market.exchanges import Says
from tests.shop import Shop, open_shop
from tests.visitor import Visitor, sign_in
from tests.web.test_metrics_chains import WATCHER

Usage = namedtuple("Usage", "total used free")


async def test_it_shows_stores_queues_and_the_version_to_a_viewer(shop: Shop) -> None:
    page = await (await sign_in(shop, Role.VIEWER)).get("/status")
    assert page.status == 200
    for words in (
        "test.db",
        "office.db",
        "nothing is owed",
        f"payd {__version__}",
        "healthy",
        "Test mode simulates",
    ):
        assert words in page.text
    assert "Pause live updates" in page.text


async def test_its_parts_alone_replace_themselves(shop: Shop) -> None:
    page = await (await sign_in(shop)).get("/status", hx_request="true")
    assert page.html.lstrip().startswith('<div id="status" class="stack" hx-swap-oob="true">')
    assert "<html" not in page.html


async def test_what_is_wrong_is_said_first_and_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = await sign_in(shop)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1, 1, SPACE_NONE - 1))
    shop.realm.db._failure = "disk full"
    page = await visitor.get("/status")
    shop.realm.db._failure = None
    assert page.text.count("disk full") == 2
    assert page.text.index("disk full") < page.text.index("Make room")
    assert "failing" in page.text
    assert "All is well" not in page.text


async def test_a_disk_that_does_not_answer_takes_no_page_away(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(_: Path) -> Usage:
        raise OSError(errno.ESTALE, "Stale file handle")

    visitor = await sign_in(shop)
    monkeypatch.setattr(shutil, "disk_usage", stale)
    pages = [await visitor.get(path) for path in ("/status", "/d/test/")]
    assert [page.status for page in pages] == [200, 200]
    assert "takes writes" in pages[0].text


def test_a_chain_says_how_far_it_is_read_and_what_its_nodes_and_purse_need() -> None:
    stats: dict[str, Any] = dict.fromkeys(RelayerStats.__struct_fields__, 0)
    relayer = RelayerStats(
        **stats | {"alarms": frozenset({"balance_low"}), "balance": 15 * 10**17, "per_day": 10**18}
    )
    nodes = [SeenNode("a.test", True, 0, 0), SeenNode("b.test", False, 1, 3)]
    seen = SeenChain("eip155:8453", WATCHER, nodes, {}, 0, relayer, DepthPolicy.of(5))
    assert WATCHER.read_time_s is not None
    view = chain_view(seen, shipped_book(), (WATCHER.read_time_s + 90) * 1000)
    assert (view.name, view.age) == ("Base", "1 min 30 s ago")
    assert [(node.name, node.up, node.behind) for node in view.nodes] == [
        ("a.test", True, 0),
        ("b.test", False, 3),
    ]
    assert view.purse is not None
    assert (view.depth, view.purse.balance, view.purse.per_day) == ("5", "1.5", "1")
    assert view.purse.alarms[0].startswith("The relayer's account is running low")
    assert chain_view(seen._replace(relayer=None), shipped_book(), 0).purse is None


def write_toml(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "payd.toml").write_text(text)


@asynccontextmanager
async def on_a_chain(folder: Path, rates: str) -> AsyncIterator[Shop]:
    """A shop whose live realm has a chain, with prices by these lines."""
    write_toml(folder, f'[[chains]]\nid = "eip155:8453"\nrpc = ["https://a.example"]\n{rates}')
    async with open_shop(folder) as shop:
        yield shop


async def prices_said(visitor: Visitor) -> str:
    """What the page says of prices."""
    found = re.search(r'aria-labelledby="prices">(.*?)</section>', (await visitor.get("/status")).html, re.S)
    return "" if found is None else re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", found[1])).strip()


async def test_each_source_of_prices_says_how_it_does(tmp_path: Path) -> None:
    async with on_a_chain(tmp_path / "data", "") as shop:
        visitor, live = await sign_in(shop), shop.house.realms["live"]
        [chain] = live.live_chains
        shipped = await prices_said(visitor)
        for name in ("kraken", "coinbase", "eip155:8453"):
            assert f"{name} not asked yet it is asked when somebody wants to pay" in shipped

        prices = MarketPrices(
            [Says("kraken", values={("ETH", "EUR"): "2500"}), Says("coinbase", answer="no <b>")]
        )
        live.live_chains = (dataclasses.replace(chain, prices=prices),)
        [ether] = [row for row in live.assets.rows_of(parse_chain("eip155:8453")) if row.kind == "native"]
        assert await prices.price("EUR", ether, live.clock.now_ms()) is None
        await trio.sleep(75)
        said = await prices_said(visitor)
        assert "kraken works answered 1 min 15 s ago" in said
        assert "coinbase fails failed: no &lt;b&gt;" in said


async def test_prices_that_the_operator_wrote_down_have_no_source(tmp_path: Path) -> None:
    table = '[rates]\nsource = "table"\ntable = { "USDC/USD" = "1" }\n'
    async with on_a_chain(tmp_path / "data", table) as shop:
        said = await prices_said(await sign_in(shop))
        assert said == "Prices They stand in the table of [rates] in payd.toml."


async def test_who_pays_no_fee_of_buyers_has_no_balance_and_no_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats: dict[str, Any] = dict.fromkeys(RelayerStats.__struct_fields__, 0)
    relayer = RelayerStats(**stats | {"alarms": frozenset(), "balance": None, "per_day": 10**18})
    async with on_a_chain(tmp_path / "data", "") as shop:
        visitor = await sign_in(shop)
        for address, said in (
            ("", "Relayer pays no fee of buyers Waiting, sent 0, 0"),
            ("0x1", "Relayer 0x1 Copy Its balance – Spent in 24 h 0 of at most 1 Waiting, sent 0, 0"),
        ):
            purse = msgspec.structs.replace(relayer, address=address)
            seen = SeenChain("eip155:8453", WATCHER, [], {}, 0, purse, DepthPolicy.of(5))
            monkeypatch.setattr("payd.web.dashboard.status.see_chain", lambda _, seen=seen: seen)
            assert said in (await visitor.get("/status")).text


async def test_without_a_chain_nothing_is_said_of_prices(shop: Shop) -> None:
    assert await prices_said(await sign_in(shop)) == ""


def test_a_depth_by_amounts_is_said_step_by_step() -> None:
    policy = DepthPolicy.of({"0": 1, "100": 5, "10000": "finalized"})
    assert depth_words(policy) == "1, from 100 USD 5, from 10000 USD finalized"


def test_a_size_is_said_in_its_unit() -> None:
    assert [size_words(size) for size in (12, 2048, 5 << 20, 3 << 30)] == [
        "12 bytes",
        "2.0 KiB",
        "5.0 MiB",
        "3.0 GiB",
    ]
