"""The chains' families: every number with its chain, none where nothing is known, and no secret of a node."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from prometheus_client.metrics_core import Metric

from payd.actors.relay_alarms import WORDS
from payd.actors.relay_stats import RelayerStats
from payd.actors.relayer import Relayer
from payd.actors.watcher import Watcher, WatcherStats
from payd.chains.defaults import DepthPolicy
from payd.chains.market.source import SourceHealth
from payd.config import load
from payd.core.errors import StoreUnavailable
from payd.server import open_house
from payd.web.call import Request
from payd.web.dispatch import answer
from payd.web.metrics_chains import SeenChain, SeenNode, chain_families, see_chain, skew_family, sources_of
from tests.live.street import configuration, write_keystore
from tests.promtool import complaints
from tests.web.test_metrics_webhooks import rendered

CHAIN = "eip155:8453"
NOW_MS = 1_780_000_000_000
NOW_S = NOW_MS // 1000

WATCHER = WatcherStats(
    head=120,
    read=117,
    read_time_s=NOW_S - 8,
    final=80,
    ticks=50,
    failures=4,
    trouble="",
    second_trouble="",
    reorgs=3,
    deepest_reorg=2,
    lost=1,
    skipped=5,
)
RELAYER = RelayerStats(
    address="0x1111111111111111111111111111111111111111",
    balance=2 * 10**18,
    spent_today=10**17,
    per_day=5 * 10**17,
    in_flight=6,
    queued=7,
    oldest_queued_ms=NOW_MS - 9000,
    bumps=8,
    reverts=9,
    lost=10,
    fillers=11,
    alarms=frozenset({"balance_low"}),
)
DEPTH = DepthPolicy.of(5)
NODES = (SeenNode("https://a.example", True, 0, 0), SeenNode("https://b.example", False, 12, 40))
BUSY = SeenChain(CHAIN, WATCHER, NODES, {"eth_call": 13, "eth_getLogs": 14}, 15, RELAYER, DEPTH)
FRESH = SeenChain(
    CHAIN,
    msgspec.structs.replace(WATCHER, head=None, read=None, read_time_s=None, final=None),
    NODES,
    {},
    0,
    None,
    DEPTH,
)
SOURCES = (SourceHealth("kraken", 1500, 2, ""), SourceHealth("coinbase", None, 3, "timeout"))


def families_of(*chains: SeenChain, sources: Any = SOURCES) -> dict[str, Metric]:
    return {family.name: family for family in chain_families(chains, sources, NOW_MS)}


def samples_of(family: Metric) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


@pytest.mark.parametrize("chain", [BUSY, FRESH], ids=["busy", "fresh"])
def test_prometheus_finds_nothing_to_complain_about(chain: SeenChain) -> None:
    assert complaints(rendered(*families_of(chain).values())) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("payd_chain_head", 120),
        ("payd_chain_blocks_behind", 3),
        ("payd_chain_read_lag_seconds", 8),
        ("payd_chain_not_final_blocks", 37),
        ("payd_chain_deepest_reorg_blocks", 2),
        ("payd_chain_transactions_skipped", 5),
        ("payd_chain_ticks", 50),
        ("payd_chain_ticks_failed", 4),
        ("payd_chain_reorgs", 3),
        ("payd_chain_payments_lost", 1),
        ("payd_chain_disagreements", 15),
        ("payd_relayer_balance_coins", 2),
        ("payd_relayer_spent_day_coins", 0.1),
        ("payd_relayer_budget_day_coins", 0.5),
        ("payd_relayer_in_flight", 6),
        ("payd_relayer_queued", 7),
        ("payd_relayer_oldest_queued_seconds", 9),
        ("payd_relayer_bumps", 8),
        ("payd_relayer_reverts", 9),
        ("payd_relayer_lost", 10),
        ("payd_relayer_fillers", 11),
    ],
)
def test_each_chain_has_one_value_of_each_number(name: str, value: float) -> None:
    assert samples_of(families_of(BUSY)[name]) == {(CHAIN,): value}


def test_coins_have_the_decimals_of_their_chain() -> None:
    solana = BUSY._replace(
        name="solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        relayer=msgspec.structs.replace(RELAYER, balance=2 * 10**9, spent_today=10**8),
    )
    families = families_of(BUSY, solana)
    assert samples_of(families["payd_relayer_balance_coins"]) == {(CHAIN,): 2, (solana.name,): 2}
    assert samples_of(families["payd_relayer_spent_day_coins"]) == {(CHAIN,): 0.1, (solana.name,): 0.1}


def test_what_is_not_known_is_absent_and_no_zero() -> None:
    names = set(families_of(FRESH, sources=()))
    assert not names & {"payd_chain_head", "payd_chain_read_lag_seconds", "payd_chain_not_final_blocks"}
    assert not [name for name in names if name.startswith(("payd_relayer", "payd_price"))]
    unfunded = BUSY._replace(relayer=msgspec.structs.replace(RELAYER, balance=None, oldest_queued_ms=None))
    families = families_of(unfunded)
    assert "payd_relayer_balance_coins" not in families
    assert samples_of(families["payd_relayer_oldest_queued_seconds"]) == {(CHAIN,): 0}
    buyers_pay = BUSY._replace(relayer=msgspec.structs.replace(RELAYER, address=""))
    assert "payd_relayer_budget_day_coins" not in families_of(buyers_pay)


def test_each_alarm_is_there_whether_or_not_it_holds() -> None:
    family = families_of(BUSY)["payd_relayer_alarm"]
    assert samples_of(family) == {(CHAIN, alarm): float(alarm == "balance_low") for alarm in WORDS}
    assert all(words in family.documentation for words in WORDS.values())


def test_nodes_calls_and_sources_have_labels_of_their_own() -> None:
    families = families_of(BUSY)
    assert samples_of(families["payd_chain_node_up"]) == {
        (CHAIN, "https://a.example"): 1,
        (CHAIN, "https://b.example"): 0,
    }
    assert samples_of(families["payd_chain_node_behind_blocks"])[CHAIN, "https://b.example"] == 40
    assert samples_of(families["payd_chain_node_failures"])[CHAIN, "https://b.example"] == 12
    assert samples_of(families["payd_chain_rpc_calls"]) == {
        (CHAIN, "eth_call"): 13,
        (CHAIN, "eth_getLogs"): 14,
    }
    assert samples_of(families["payd_price_source_age_seconds"]) == {("kraken",): 1.5}
    assert samples_of(families["payd_price_source_failures"]) == {("kraken",): 2, ("coinbase",): 3}


def test_every_text_says_when_to_worry_or_what_is_usual() -> None:
    plain = {"payd_chain_head", "payd_chain_ticks", "payd_chain_reorgs", "payd_chain_rpc_calls"}
    plain |= {"payd_relayer_spent_day_coins", "payd_relayer_queued", "payd_relayer_bumps"}
    plain |= {"payd_price_source_failures", "payd_chain_node_failures"}
    silent = {name for name, family in families_of(BUSY).items() if "Worry" not in family.documentation}
    assert silent == plain


@pytest.mark.real_time
@pytest.mark.parametrize("rates", ["table", "market"])
async def test_a_configured_chain_is_seen_and_the_keys_in_its_urls_are_not(
    tmp_path: Path, rates: str
) -> None:
    write_keystore(tmp_path)
    text = configuration(["http://127.0.0.1:9/v1/s3cret?token=s3cret", "http://127.0.0.2:9/s3cret"])
    (tmp_path / "payd.toml").write_text(text.replace('source = "table"', f'source = "{rates}"'))
    config = load(tmp_path / "payd.toml", {"PAYD_DATA_DIR": str(tmp_path / "data")})
    async with open_house(config) as house:
        live = house.realms["live"].live_chains
        sources = sources_of(live, NOW_MS)
        page = rendered(*chain_families([see_chain(one) for one in live], sources, NOW_MS)).decode()

    assert bool(sources) is (rates == "market")
    assert 'node="http://127.0.0.1:9"' in page
    assert "s3cret" not in page
    assert complaints(page.encode()) == []


def test_a_server_without_chains_answers_everything_and_brings_nothing_that_signs(tmp_path: Path) -> None:
    script = (
        "import sys, trio\n"
        "from payd.config import load\n"
        "from payd.server import open_house\n"
        "from payd.web.call import Request\n"
        "from payd.web.dispatch import answer\n"
        "async def main():\n"
        "    async with open_house(load(None, {'PAYD_DATA_DIR': sys.argv[1]})) as house:\n"
        "        for path in ('/metrics', '/readyz'):\n"
        "            found = await answer(house, Request('GET', path, client_ip='127.0.0.1'))\n"
        "            assert found.status == 200, found\n"
        "trio.run(main)\n"
        "heavy = ('eth_account', 'eth_abi', 'eth_utils', 'coincurve', 'solders', 'payd.live')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == "[]"


@pytest.mark.real_time
async def test_how_far_the_clock_is_off_is_there_once_it_is_known(tmp_path: Path) -> None:
    write_keystore(tmp_path)
    (tmp_path / "payd.toml").write_text(configuration(["http://127.0.0.1:9"]))
    config = load(tmp_path / "payd.toml", {"PAYD_DATA_DIR": str(tmp_path / "data")})
    async with open_house(config) as house:
        before = await answer(house, Request("GET", "/metrics", client_ip="127.0.0.1"))
        house.realms["live"].clock_check.skew_s = -95.5
        after = await answer(house, Request("GET", "/metrics", client_ip="127.0.0.1"))

    assert b"payd_chain_clock_skew_seconds" not in before.body
    assert b"payd_chain_clock_skew_seconds -95.5" in after.body
    assert complaints(rendered(skew_family(-95.5))) == []


class Unreadable:
    """A relayer while its rows cannot be read."""

    def stats(self) -> RelayerStats:
        raise StoreUnavailable("The store cannot be read at the moment.")


class ReadBefore:
    """A chain that an earlier process read; `None`: the store cannot tell at the moment."""

    def __init__(self, until_s: int | None) -> None:
        self._until_s = until_s

    def stats(self) -> WatcherStats:
        return msgspec.structs.replace(WATCHER, read_time_s=None)

    def read_until_s(self) -> int:
        if self._until_s is None:
            raise StoreUnavailable("The store cannot be read at the moment.")
        return self._until_s


@pytest.mark.real_time
async def test_a_chain_whose_nodes_are_down_since_before_the_start_lags_by_what_was_read_then(
    tmp_path: Path,
) -> None:
    """Whoever starts payd anew because nothing is read would else end the alarm, and nothing more."""
    write_keystore(tmp_path)
    (tmp_path / "payd.toml").write_text(configuration(["http://127.0.0.1:9"]))
    config = load(tmp_path / "payd.toml", {"PAYD_DATA_DIR": str(tmp_path / "data")})
    async with open_house(config) as house:
        [live] = house.realms["live"].live_chains
        seen = {
            until_s: see_chain(dataclasses.replace(live, watcher=cast("Watcher", ReadBefore(until_s))))
            for until_s in (NOW_S - 700, 0, None)
        }
    lags = {until_s: families_of(one).get("payd_chain_read_lag_seconds") for until_s, one in seen.items()}
    lag = lags.pop(NOW_S - 700)
    assert lag is not None
    assert list(samples_of(lag).values()) == [700]
    assert lags == {0: None, None: None}


@pytest.mark.real_time
async def test_a_store_that_cannot_be_read_takes_the_relayers_numbers_and_no_others(tmp_path: Path) -> None:
    write_keystore(tmp_path)
    (tmp_path / "payd.toml").write_text(configuration(["http://127.0.0.1:9"]))
    config = load(tmp_path / "payd.toml", {"PAYD_DATA_DIR": str(tmp_path / "data")})
    async with open_house(config) as house:
        [live] = house.realms["live"].live_chains
        whole = see_chain(live)
        seen = see_chain(dataclasses.replace(live, relayer=cast("Relayer", Unreadable())))

    assert whole.relayer is not None
    assert seen.relayer is None
    assert "payd_chain_ticks" in families_of(seen)


def test_without_chains_nobody_asks_for_prices() -> None:
    assert sources_of((), NOW_MS) == []
