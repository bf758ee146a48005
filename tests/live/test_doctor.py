"""The doctor beside a shop on a real node: all well, and each thing that is wrong is found."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.live.chain import MULTICALL3, RELAYER, LocalChain, address
from tests.live.street import CHAIN, Street, furnish_chain, open_street
from tests.terminal import Terminal

pytestmark = pytest.mark.real_time


@pytest.fixture
async def street(tmp_path: Path, chain: LocalChain) -> AsyncIterator[Street]:
    await furnish_chain(chain)
    async with open_street(tmp_path / "house", chain, block_s=0.5) as opened:
        yield opened


async def examine(folder: Path, code: int = 0) -> dict[str, tuple[str, str]]:
    """Level and words by subject, as somebody finds them who types the command there."""
    house = folder / "house"
    terminal = Terminal(house)
    command = ("doctor", "--json", "--config", str(house / "payd.toml"), "--data-dir", str(house / "data"))
    done = await trio.to_thread.run_sync(lambda: terminal(*command, code=code))
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return {one["subject"]: (one["level"], one["words"]) for one in found}


async def test_a_shop_that_runs_is_well(street: Street, tmp_path: Path) -> None:
    await street.pay(await street.payment())
    # A fresh local chain is ahead of the clock by a second for each of its blocks.
    found = await examine(tmp_path)

    assert {subject for subject, (level, _) in found.items() if level == "error"} == set()
    assert found["server"][0] == "ok"
    assert found[f"server on {CHAIN}"][0] == "ok"
    assert found["relayer's key"][0] == "ok"
    assert found["price of ETH"][0] == "ok"
    assert found[f"{CHAIN} relayer {address(RELAYER)}"][0] == "ok"
    assert found[CHAIN] == ("warning", "there is one node: it alone decides what was paid")
    assert [level for subject, (level, _) in found.items() if "USDC" in subject] == ["ok", "ok"]


async def test_what_is_wrong_on_the_chain_is_found_beside_the_running_server(
    street: Street, tmp_path: Path
) -> None:
    await street.chain.rpc("anvil_setBalance", address(RELAYER), "0x0")
    await street.chain.rpc("anvil_setCode", MULTICALL3, "0x")

    found = await examine(tmp_path, code=1)

    assert found[f"{CHAIN} relayer {address(RELAYER)}"][0] == "error"
    assert found[f"{CHAIN} Multicall3 {MULTICALL3.lower()}"][0] == "warning"


async def test_a_node_that_is_gone_is_found_without_a_server(chain: LocalChain, tmp_path: Path) -> None:
    await furnish_chain(chain)
    async with open_street(tmp_path / "house", chain):
        pass
    assert (await examine(tmp_path))["server"][0] == "warning"
    chain.anvil.kill()

    found = await examine(tmp_path, code=1)

    assert found[f"{CHAIN} {chain.anvil.url}"][0] == "error"
