"""The doctor of a Solana chain: what it finds on a good day, and what it says on each kind of bad one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from payd.chains.fee_terms import FeeTerms
from payd.chains.finding import Finding
from payd.chains.rpc import Rpc
from payd.chains.solana.dialect import SolanaDialect
from payd.chains.solana.doctor import CLOCK_OFF_MAX_S, HISTORY_MIN_S, LAG_MAX, examine
from payd.chains.solana.extensions import Kind
from payd.chains.solana.keys import TOKEN, TOKEN_2022
from payd.store.db import Database
from tests.chains.solana.scene import PYUSD_ROW, SOL_ROW, USDC_ROW, USDT_ROW, Scene, open_scene
from tests.live.proxy import Request
from tests.live.solana import (
    FEE_PAYER,
    MERCHANT,
    OPERATOR,
    PYUSD_MINT,
    USDC_MINT,
    USDT_MINT,
    address,
    extension,
    pubkey,
)
from tests.live.solana_proxy import SolanaProxy
from tests.live.svm_methods import SvmNode

pytestmark = pytest.mark.real_time


@asynccontextmanager
async def clinic(db: Database, **other: Any) -> AsyncIterator[tuple[Scene, SolanaProxy, SolanaProxy]]:
    """A chain with two nodes, long enough for one to be behind."""
    async with open_scene(db, proxies=2, **other) as scene:
        await scene.local.slots(100)
        first, second = scene.proxies
        yield scene, first, second


async def findings_of(scene: Scene, ahead_s: int = 0, ws: str | None = None) -> list[Finding]:
    return await examine(scene.solana, scene.now_ms() + ahead_s * 1000, ws)


def bad(findings: list[Finding]) -> list[tuple[str, str, str]]:
    """Level, subject and words of what is not well."""
    return [(one.level, one.subject, one.words) for one in findings if one.level != "ok"]


async def test_a_chain_that_is_well_is_found_well(realm_db: Database) -> None:
    async with clinic(realm_db) as (scene, first, second):
        found = await findings_of(scene, ws=scene.node.ws_url)

        assert bad(found) == []
        subjects = " ".join(one.subject for one in found)
        for named in (first.url, second.url, "USDC", "USDT", "PYUSD", "websocket", address(FEE_PAYER)):
            assert named in subjects
        assert all(one.what_to_do == "" for one in found)


async def test_a_node_that_is_down_or_of_another_chain_is_named(realm_db: Database) -> None:
    async with clinic(realm_db) as (scene, first, second):
        first.status = 503
        second.node.genesis = "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY"
        scene.solana.rpc = Rpc([first.url, second.url], SolanaDialect(scene.solana.terms.chain.reference))
        found = await findings_of(scene)
        await scene.solana.rpc.aclose()

        assert [(one.level, one.subject) for one in found] == [("error", first.url), ("error", second.url)]
        assert "503" in found[0].words
        assert "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z" in found[1].words
        assert all(one.what_to_do for one in found)


async def test_a_node_that_lags_is_named(realm_db: Database) -> None:
    async with clinic(realm_db) as (scene, _, second):
        second.node.lag = LAG_MAX + 1
        [(level, subject, words)] = bad(await findings_of(scene))

        assert (level, subject) == ("warn", second.url)
        assert str(LAG_MAX + 1) in words


async def test_a_node_that_says_it_is_not_well_is_believed(realm_db: Database) -> None:
    async with clinic(realm_db) as (scene, first, second):
        first.errors["getHealth"] = (-32005, "Node is behind by 42 slots")
        second.rewrite = lambda request, result: "so so" if request["method"] == "getHealth" else result
        found = bad(await findings_of(scene))

        assert [(level, subject) for level, subject, _ in found] == [
            ("warn", first.url),
            ("warn", second.url),
        ]
        assert "behind by 42 slots" in found[0][2]


async def test_a_clock_that_is_off_is_named(realm_db: Database) -> None:
    async with clinic(realm_db) as (scene, *_):
        assert bad(await findings_of(scene, CLOCK_OFF_MAX_S)) == []
        found = bad(await findings_of(scene, CLOCK_OFF_MAX_S + 1))

        assert len(found) == 2
        assert all(str(CLOCK_OFF_MAX_S + 1) in words for _, _, words in found)


@pytest.mark.parametrize("method", ["getFirstAvailableBlock", "getSignaturesForAddress"])
async def test_a_node_without_history_cannot_tell_who_paid(realm_db: Database, method: str) -> None:
    async with clinic(realm_db) as (scene, _, second):
        second.errors[method] = (-32011, "Transaction history is not available from this node")
        [(level, subject, words)] = bad(await findings_of(scene))

        assert (level, subject) == ("error", second.url)
        assert "history is not available" in words


async def test_a_node_that_forgets_within_a_day_is_named(realm_db: Database) -> None:
    async with clinic(realm_db) as (scene, _, second):
        day = HISTORY_MIN_S * 1000 // 400
        await scene.local.rpc("payd_skip", 2 * day)
        await scene.local.slots(1)
        second.node.first_slot = second.node.ledger.at("confirmed").slot - day
        assert bad(await findings_of(scene)) == []
        second.node.first_slot += day * 22 // 24
        [(level, subject, words)] = bad(await findings_of(scene))

        assert (level, subject) == ("warn", second.url)
        assert "2 h" in words


async def test_one_node_alone_is_warned_of(scene: Scene) -> None:
    [(level, _, words)] = bad(await findings_of(scene))

    assert level == "warn"
    assert "one node" in words


async def test_a_websocket_that_does_not_work_is_named_without_its_key(realm_db: Database) -> None:
    async with clinic(realm_db) as (scene, *_):
        of_http = scene.node.url.replace("http", "ws")
        for ws in (f"{of_http}/?api-key=very-secret-key", "ws://127.0.0.1:1/"):
            [one] = [one for one in await findings_of(scene, ws=ws) if one.level != "ok"]

            assert (one.level, one.subject) == ("warn", "its websocket")
            assert one.words
            assert "very-secret-key" not in one.words


# Assets.


async def words_on(scene: Scene, symbol: str) -> str:
    [words] = [words for level, subject, words in bad(await findings_of(scene)) if subject.startswith(symbol)]
    return words


async def test_a_token_that_is_not_what_its_row_says_is_an_error(realm_db: Database) -> None:
    nowhere = USDC_ROW.asset.replace(str(USDC_MINT), address(OPERATOR))
    rows = [
        msgspec.structs.replace(USDC_ROW, decimals=9),
        msgspec.structs.replace(USDT_ROW, token_2022=True),
        msgspec.structs.replace(PYUSD_ROW, asset=nowhere, symbol="NONE"),
        SOL_ROW,
    ]
    async with clinic(realm_db, rows=rows) as (scene, *_):
        errors = [one for one in await findings_of(scene) if one.level == "error"]
        found = {one.subject.partition(" ")[0]: one.words for one in errors}

        assert found.keys() == {"USDC", "USDT", "NONE"}
        assert "6 decimals, and 9" in found["USDC"]
        assert "token_2022 = false" in found["USDT"]
        assert "no such mint" in found["NONE"]
        assert all("[[assets]]" in one.what_to_do for one in errors)


async def test_what_is_no_mint_is_an_error(realm_db: Database) -> None:
    async with clinic(realm_db) as (scene, *_):
        await scene.local.put(USDT_MINT, b"\x01" * 40, TOKEN)
        assert "no mint" in await words_on(scene, "USDT")
        await scene.local.put(USDT_MINT, b"", pubkey(MERCHANT))
        assert address(MERCHANT) in await words_on(scene, "USDT")


async def test_a_token_whose_extensions_forbid_exact_payments_is_an_error(realm_db: Database) -> None:
    async with clinic(realm_db) as (scene, *_):
        hook = extension(Kind.TRANSFER_HOOK, bytes(32) + bytes(pubkey(MERCHANT)))
        await scene.local.mint(PYUSD_MINT, TOKEN_2022, extensions=hook)

        assert await words_on(scene, "PYUSD")


# SOL and fees.


@pytest.mark.parametrize(
    ("lamports", "level"),
    [(0, "error"), (902_879, "error"), (902_880, "warn"), (1_130_879, "warn"), (1_130_880, "ok")],
)
async def test_sol_for_twenty_payments_is_asked_for(realm_db: Database, lamports: int, level: str) -> None:
    """What an account must keep is not there to be spent: 890,880 lamports."""
    async with clinic(realm_db) as (scene, *_):
        await scene.local.fund(pubkey(FEE_PAYER), lamports)
        [one] = [one for one in await findings_of(scene) if one.subject == address(FEE_PAYER)]

        assert (one.level, bool(one.what_to_do)) == (level, level != "ok")


async def test_sponsoring_without_a_key_is_warned_of(realm_db: Database) -> None:
    async with clinic(realm_db, fee_payer=None) as (scene, *_):
        assert [words for _, _, words in bad(await findings_of(scene))] == [
            "sponsor is on, but there is no key"
        ]
    async with clinic(realm_db, fee_payer=None, sponsor=False) as (scene, *_):
        assert bad(await findings_of(scene)) == []


@pytest.mark.parametrize(("mandatory", "level"), [(False, "warn"), (True, "error")])
async def test_a_fee_needs_a_token_account_for_each_token(
    realm_db: Database, mandatory: bool, level: str
) -> None:
    fee = FeeTerms(Fraction(1, 100), Fraction(0), address(OPERATOR), mandatory)
    async with clinic(realm_db, fee=fee) as (scene, *_):
        await scene.local.give(pubkey(OPERATOR), PYUSD_MINT, 0, TOKEN_2022, state=2)
        found = [one for one in await findings_of(scene) if one.level != "ok"]

        assert {(one.level, one.subject) for one in found} == {
            (level, f"your fee in {symbol}") for symbol in ("USDT", "EURC", "PYUSD")
        }
        assert all(one.what_to_do for one in found)


async def test_nodes_that_stop_answering_meanwhile_end_the_examination(realm_db: Database) -> None:
    async with clinic(realm_db) as (scene, first, second):

        def stop(request: Request, result: Any) -> Any:
            if request["method"] == "getMultipleAccounts" and len(request["params"][0]) > 1:
                return "?"
            return result

        first.rewrite = second.rewrite = stop
        [(level, _, words)] = bad(await findings_of(scene))

        assert level == "error"
        assert "stopped answering" in words


def test_the_test_node_is_asked_what_a_real_one_knows() -> None:
    assert SvmNode().ask("getFirstAvailableBlock") == 0
