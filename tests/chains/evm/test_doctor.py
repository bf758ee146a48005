"""The doctor of a chain: what it finds on a good day, and what it says on each kind of bad one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import pytest

from payd.chains.assets import Domain
from payd.chains.defaults import DepthPolicy
from payd.chains.evm import doctor
from payd.chains.evm.abi import MULTICALL3
from payd.chains.evm.doctor import CLOCK_OFF_MAX_S, LAG_MAX, examine
from payd.chains.fee_terms import FeeTerms
from payd.chains.finding import Finding
from payd.core.caip import parse_asset
from payd.store.db import Database
from tests.chains.evm.scene import ETH_ROW, Scene, dai_row, two_nodes, usdc_row
from tests.live.anvil import Anvil, Refused
from tests.live.chain import FIRST_CONTRACT, OPERATOR, RELAYER, address
from tests.live.proxy import FlakyProxy, Request

pytestmark = pytest.mark.real_time

SECOND_CONTRACT = "0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512"


@asynccontextmanager
async def clinic(
    db: Database, anvil: Anvil, **other: Any
) -> AsyncIterator[tuple[Scene, FlakyProxy, FlakyProxy]]:
    """A chain with two nodes, long enough for one to be behind."""
    async with two_nodes(db, anvil, **other) as (scene, first, second):
        await scene.chain.mine(50)
        yield scene, first, second


async def findings_of(scene: Scene, ahead_s: int = 0) -> list[Finding]:
    return await examine(scene.evm, await scene.now_ms() + ahead_s * 1000)


def bad(findings: list[Finding]) -> list[tuple[str, str, str]]:
    """Level, subject and words of what is not well; each says what to do, or there is nothing."""
    return [(one.level, one.subject, one.words) for one in findings if one.level != "ok"]


async def test_a_chain_that_is_well_is_found_well(realm_db: Database, anvil: Anvil) -> None:
    async with clinic(realm_db, anvil) as (scene, first, second):
        found = await findings_of(scene)

        assert bad(found) == []
        subjects = " ".join(one.subject for one in found)
        for named in (first.url, second.url, "USDC", "DAI", "Multicall3", address(RELAYER).lower()):
            assert named in subjects
        assert all(one.what_to_do == "" for one in found)


async def test_a_node_that_is_down_or_of_another_chain_is_named(realm_db: Database, anvil: Anvil) -> None:
    async with clinic(realm_db, anvil) as (scene, first, second):
        first.status, second.chain_id = 503, 1
        found = await findings_of(scene)

        assert [(one.level, one.subject) for one in found] == [("error", first.url), ("error", second.url)]
        assert "503" in found[0].words
        assert "chain 1" in found[1].words
        assert all(one.what_to_do for one in found)


async def test_a_node_whose_key_is_no_longer_good_is_named_with_what_it_says(
    realm_db: Database, anvil: Anvil
) -> None:
    def refused(request: Request, result: Any) -> Any:
        raise Refused(-32000, "Unauthorized: You must authenticate your request with an API key.")

    async with clinic(realm_db, anvil) as (scene, first, _):
        first.rewrite = refused
        [found] = [one for one in await findings_of(scene) if one.level == "error"]

        assert found.subject == first.url
        assert "You must authenticate your request with an API key." in found.words
        assert "the plan behind it" in found.what_to_do


async def test_a_node_that_has_pruned_the_logs_of_yesterday_is_named(
    realm_db: Database, anvil: Anvil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its headers and transactions it still has."""

    def forgets(request: Request, result: Any) -> Any:
        return [] if request["method"] == "eth_getLogs" else result

    def refuses(request: Request, result: Any) -> Any:
        if request["method"] == "eth_getTransactionReceipt":
            raise Refused(4444, "pruned history unavailable")
        return result

    async with clinic(realm_db, anvil) as (scene, first, second):
        monkeypatch.setattr(doctor, "HISTORY_MIN_S", 24 * 3600)
        assert not [one for one in await findings_of(scene) if "logs" in one.words], "the chain is younger"
        first_block = await scene.chain.head() + 1
        await scene.chain.mint(parse_asset(scene.usdc_asset).reference, address(RELAYER), 1)
        await scene.chain.mine(50)
        blocks = await scene.chain.head() - first_block
        monkeypatch.setattr(doctor, "HISTORY_MIN_S", blocks * scene.evm.terms.block_ms // 1000)
        found = await findings_of(scene)
        assert bad(found) == []
        assert len([one for one in found if "it has the logs" in one.words]) == 2
        first.rewrite, second.rewrite = forgets, refuses
        told = {subject: words for _, subject, words in bad(await findings_of(scene))}
        assert "has pruned the logs" in told[first.url]
        assert "pruned history unavailable" in told[second.url]


async def test_a_node_that_lags_is_named(realm_db: Database, anvil: Anvil) -> None:
    async with clinic(realm_db, anvil) as (scene, _, second):
        second.lag = LAG_MAX + 1
        [(level, subject, words)] = bad(await findings_of(scene))

        assert (level, subject) == ("warn", second.url)
        assert str(LAG_MAX + 1) in words


async def test_a_tag_that_a_node_lacks_is_an_error_where_money_depends_on_it(
    realm_db: Database, anvil: Anvil
) -> None:
    def without_safe(request: Request, result: Any) -> Any:
        if request["params"][:1] == ["safe"]:
            raise Refused(-32602, "invalid block tag")
        return None if request["params"][:1] == ["finalized"] else result

    async with clinic(realm_db, anvil) as (scene, first, _):
        first.rewrite = without_safe
        [(level, subject, words)] = bad(await findings_of(scene))
        assert (level, subject) == ("error", first.url)
        assert "finalized" in words
        first.rewrite = None
    async with clinic(realm_db, anvil, depth=DepthPolicy.of("safe"), final=20) as (scene, first, _):
        first.rewrite = without_safe
        [(level, subject, words)] = bad(await findings_of(scene))
        assert (level, subject) == ("error", first.url)
        assert "safe" in words


async def test_one_node_alone_is_pointed_out(scene: Scene) -> None:
    [(level, _, words)] = bad(await findings_of(scene))

    assert level == "warn"
    assert "one node" in words


@pytest.mark.parametrize(("ahead_s", "well"), [(CLOCK_OFF_MAX_S, True), (CLOCK_OFF_MAX_S + 1, False)])
@pytest.mark.parametrize("sign", [1, -1])
async def test_a_clock_that_is_off_is_noticed(
    realm_db: Database, anvil: Anvil, ahead_s: int, well: bool, sign: int
) -> None:
    async with clinic(realm_db, anvil) as (scene, _, _):
        found = bad(await findings_of(scene, sign * ahead_s))

        assert (found == []) is well
        assert all(level == "warn" for level, _, _ in found)


async def test_rows_that_do_not_fit_are_named_with_what_follows(realm_db: Database, anvil: Anvil) -> None:
    rows = [
        usdc_row(FIRST_CONTRACT, domain=Domain("USDC", "2")),
        dai_row(SECOND_CONTRACT),
        usdc_row(address(OPERATOR), symbol="GONE"),
        ETH_ROW,
    ]
    async with clinic(realm_db, anvil, rows=rows) as (scene, _, _):
        found = [one for one in await findings_of(scene) if one.level != "ok"]

        assert [(one.level, one.subject.split()[0]) for one in found] == [("warn", "USDC"), ("error", "GONE")]
        assert "domain" in found[0].words
        assert "transfers" in found[0].what_to_do
        assert "no contract" in found[1].words


async def test_a_token_by_another_name_is_pointed_out(realm_db: Database, anvil: Anvil) -> None:
    rows = [usdc_row(FIRST_CONTRACT, symbol="USDT")]
    async with clinic(realm_db, anvil, rows=rows) as (scene, _, _):
        [(level, _, words)] = bad(await findings_of(scene))

        assert level == "warn"
        assert "'USDC'" in words


@pytest.mark.parametrize("takes_fee", [False, True])
async def test_a_chain_without_the_aggregate_cannot_carry_a_fee(
    realm_db: Database, anvil: Anvil, takes_fee: bool
) -> None:
    fee = FeeTerms(Fraction(1, 100), Fraction(0), address(OPERATOR).lower()) if takes_fee else None
    async with clinic(realm_db, anvil, fee=fee) as (scene, _, _):
        await scene.chain.rpc("anvil_setCode", MULTICALL3, "0x")
        [(level, subject, _)] = bad(await findings_of(scene))

        assert level == ("error" if takes_fee else "warn")
        assert "Multicall3" in subject


@pytest.mark.parametrize(("payments", "level"), [(0, "error"), (5, "warn"), (21, "ok")])
async def test_a_relayer_without_gas_money_is_noticed(
    realm_db: Database, anvil: Anvil, payments: int, level: str
) -> None:
    async with clinic(realm_db, anvil) as (scene, _, _):
        price = int(await scene.chain.rpc("eth_gasPrice"), 16)
        await scene.chain.rpc("anvil_setBalance", address(RELAYER), hex(price * 100_000 * payments))
        found = await findings_of(scene)
        [one] = [one for one in found if one.subject == address(RELAYER).lower()]

        assert one.level == level
        assert bool(one.what_to_do) is (level != "ok")


async def test_a_sponsor_without_a_relayer_is_pointed_out(realm_db: Database, anvil: Anvil) -> None:
    async with clinic(realm_db, anvil, relayer=None) as (scene, _, _):
        [(level, _, words)] = bad(await findings_of(scene))
        assert level == "warn"
        assert "relayer" in words
    async with clinic(realm_db, anvil, relayer=None, sponsor=False) as (scene, _, _):
        assert bad(await findings_of(scene)) == []


async def test_nodes_that_stop_answering_meanwhile_are_no_crash(realm_db: Database, anvil: Anvil) -> None:
    async with clinic(realm_db, anvil) as (scene, first, second):
        for proxy in (first, second):
            proxy.errors["eth_call"] = (-32000, "header not found")
            proxy.errors["eth_getCode"] = (-32000, "header not found")

        assert [level for level, _, _ in bad(await findings_of(scene))] == ["error"]
