"""kill -9 with live payments under way: each is paid once, told once, and settles, whatever moment it was.

The random moments come from `PAYD_CRASH_SEED`, else from a seed that a failure shows. A short run
has fewer of them.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from typing import Final

import httpx
import pytest
import trio

from payd.config import load
from payd.server import open_house
from tests.crash.process import Server
from tests.live.chain import BUYER, BUYER_2, FIRST_CONTRACT, MERCHANT, RELAYER, LocalChain, address
from tests.live.dying import MARK, MOMENTS, VARIABLE
from tests.live.mortal import MortalFront
from tests.live.street import (
    DAI,
    PATIENCE_S,
    SECOND_CONTRACT,
    USDC,
    Shopfront,
    configuration,
    furnish_chain,
    furnish_house,
    mine_for_ever,
    prepare,
)
from tests.short import IS_SHORT

pytestmark = [pytest.mark.crash, pytest.mark.real_time]

AMOUNT = 25_000_000
BLOCK_S: Final = 0.2
PAYMENTS: Final = 12 if IS_SHORT else 20
DEATHS: Final = 4 if IS_SHORT else 10
LIFE_MAX_S: Final = 0.8
DYING: Final = ("tests.live.dying", "serve")
WELL: Final = ("payd", "serve")


@dataclass
class Shop(MortalFront, Shopfront):
    """On an EVM chain."""

    async def relayed(self) -> int:
        """How many transactions the relayer has made on the chain."""
        return int(await self.chain.rpc("eth_getTransactionCount", address(RELAYER), "latest"), 16)


@asynccontextmanager
async def open_shop(folder: Path, chain: LocalChain, **env: str) -> AsyncIterator[Shop]:
    """A furnished shop whose server does not run yet; none is left behind."""
    await furnish_chain(chain)
    prepare(folder, configuration([chain.anvil.url]))
    given = {"PAYD_DATA_DIR": str(folder / "data"), "PAYD_LISTEN": "127.0.0.1:0"}
    async with open_house(load(folder / "payd.toml", given), inline=True) as house:
        headers = await furnish_house(house)
    server = Server(folder, {"PAYD_CONFIG": str(folder / "payd.toml"), **env})
    async with httpx.AsyncClient(timeout=PATIENCE_S) as http, trio.open_nursery() as nursery:
        nursery.start_soon(mine_for_ever, chain, BLOCK_S)
        try:
            yield Shop("", http, chain, server, headers=headers)
        finally:
            await server.put_away()
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_death_at_this_moment_costs_nothing(tmp_path: Path, chain: LocalChain, moment: str) -> None:
    async with open_shop(tmp_path / "house", chain, **{VARIABLE: moment}) as shop:
        shop.server.module = DYING
        await shop.start()
        payment_id = await shop.payment()
        option = await shop.option(payment_id)
        results = await shop.execute(option)
        try:
            told = await shop.confirm(payment_id, option, *results)
            assert told.status_code == 200
        except httpx.TransportError:
            assert moment == "after_the_confirm"

        async def died() -> bool:
            await trio.lowlevel.checkpoint()
            return (shop.server.folder / MARK).exists()

        await shop.wait_for(died)
        await shop.server.kill()
        await shop.start()

        await shop.assert_settled_once([payment_id])
        assert await chain.balance(FIRST_CONTRACT, address(MERCHANT)) == AMOUNT
        assert await shop.relayed() == 1


async def test_deaths_at_random_moments_under_load_cost_nothing(tmp_path: Path, chain: LocalChain) -> None:
    seed = int(os.environ.get("PAYD_CRASH_SEED") or SystemRandom().randrange(2**32))
    print(f"PAYD_CRASH_SEED={seed}")
    rng = Random(seed)
    payments: dict[str, str] = {}

    async def buy(asset: str, place: int) -> None:
        payment_id = await shop.insist(shop.payment)
        option = await shop.insist(lambda: shop.option(payment_id, asset, place))
        results = await shop.execute(option, place)
        payments[payment_id] = asset
        told = await shop.insist(lambda: shop.confirm(payment_id, option, *results))
        assert told.status_code == 200, told.text

    async def buy_again_and_again(asset: str, place: int) -> None:
        for _ in range(PAYMENTS // 4):
            await buy(asset, place)

    async with open_shop(tmp_path / "house", chain) as shop:
        await shop.start()
        async with trio.open_nursery() as nursery:
            for asset in (USDC, DAI):
                for place in (BUYER, BUYER_2):
                    nursery.start_soon(buy_again_and_again, asset, place)
            for _ in range(DEATHS):
                await trio.sleep(rng.random() * LIFE_MAX_S)
                await shop.server.kill()
                await shop.start()

        await shop.assert_settled_once(list(payments))
        for asset, token in ((USDC, FIRST_CONTRACT), (DAI, SECOND_CONTRACT)):
            count = sum(one == asset for one in payments.values())
            assert count == PAYMENTS // 2
            assert await chain.balance(token, address(MERCHANT)) == count * AMOUNT
        assert await shop.relayed() <= PAYMENTS // 2 + DEATHS
