"""kill -9 with payments on Solana under way: each is paid once, told once, and settles, at any moment.

The random moments come from `PAYD_CRASH_SEED`, else from a seed that a failure shows. A short run
has fewer of them.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, Final

import httpx
import pytest
import trio
from solders.pubkey import Pubkey

from payd.config import load
from payd.server import open_house
from tests.crash.process import Server
from tests.live.dying import MARK, VARIABLE
from tests.live.front import PATIENCE_S, write_configuration
from tests.live.mortal import MortalFront
from tests.live.solana import (
    BUYER,
    BUYER_2,
    MERCHANT,
    POOR,
    USDC,
    USDC_MINT,
    USDT,
    USDT_MINT,
    keypair,
    pay_by_link,
    pay_token,
    pubkey,
)
from tests.live.solana_dying import MOMENTS
from tests.live.solana_street import (
    FEE_PAYER,
    SolanaShopfront,
    furnish_shop,
    open_furnished,
    solana_configuration,
)
from tests.live.street import write_keystore
from tests.live.svm_node import ServedNode
from tests.short import IS_SHORT

pytestmark = [pytest.mark.crash, pytest.mark.real_time]

AMOUNT = 25_000_000
SLOT_S: Final = 0.05
# A blockhash has to outlive some deaths.
SLOW_SLOT_S: Final = 0.25
PAYMENTS: Final = 12 if IS_SHORT else 20
DEATHS: Final = 4 if IS_SHORT else 10
LIFE_MAX_S: Final = 0.8
DYING: Final = ("tests.live.solana_dying", "serve")


@dataclass
class Shop(MortalFront, SolanaShopfront):
    """On a Solana chain.

    Attributes:
        is_halted: Whether the chain makes no blocks for now.
    """

    is_halted: bool = False

    async def make_blocks(self, slot_s: float) -> None:
        """Blocks at this pace, for ever."""
        while True:
            await trio.sleep(slot_s)
            if not self.is_halted:
                await self.chain.slots(1)

    async def offered_to(self, payment_id: str, asset: str, place: int) -> dict[str, Any]:
        """The option in this asset. Who has no SOL gets none until the fee payer's balance was read."""

        async def there() -> dict[str, Any] | None:
            offered = await self.options(payment_id, place)
            return next((one for one in offered if one["amount"]["unit"] == f"caip19/{asset}"), None)

        return dict(await self.wait_for(there))

    async def paid_for(self) -> int:
        """How many transactions our fee payer has paid for on the chain."""
        asked = {"commitment": "confirmed"}
        return len(await self.chain.rpc("getSignaturesForAddress", str(FEE_PAYER), asked))

    async def received(self, mint: Pubkey = USDC_MINT) -> int:
        """What the merchant has of a token."""
        return await self.chain.tokens(pubkey(MERCHANT), mint)


@asynccontextmanager
async def open_shop(folder: Path, slot_s: float = SLOT_S, dies: str = "") -> AsyncIterator[Shop]:
    """A furnished shop on a chain of its own, whose server does not run yet; none is left behind."""
    async with open_furnished() as solana:
        assert isinstance(solana.node, ServedNode)
        write_configuration(folder, solana_configuration([solana.node.url]))
        write_keystore(folder)
        given = {"PAYD_DATA_DIR": str(folder / "data"), "PAYD_LISTEN": "127.0.0.1:0"}
        async with open_house(load(folder / "payd.toml", given), inline=True) as house:
            headers = await furnish_shop(house)
        server = Server(folder, {"PAYD_CONFIG": str(folder / "payd.toml"), VARIABLE: dies})
        async with httpx.AsyncClient(timeout=PATIENCE_S) as http, trio.open_nursery() as nursery:
            shop = Shop("", http, solana, server, headers=headers)
            nursery.start_soon(shop.make_blocks, slot_s)
            try:
                yield shop
            finally:
                await server.put_away()
                nursery.cancel_scope.cancel()


@pytest.mark.parametrize("place", [BUYER, POOR], ids=["the buyer's SOL", "ours"])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_death_at_this_moment_costs_nothing(tmp_path: Path, moment: str, place: int) -> None:
    async with open_shop(tmp_path / "house", dies=moment) as shop:
        shop.server.module = DYING
        await shop.start()
        payment_id = await shop.payment()
        option = await shop.option(payment_id, USDC, place)
        results = await shop.execute(option, place)
        try:
            told = await shop.confirm(payment_id, option, *results)
            assert told.status_code == 200
        except httpx.TransportError:
            assert moment == "after_the_confirm"

        async def died() -> bool:
            await trio.lowlevel.checkpoint()
            return (shop.server.folder / MARK).exists()

        await shop.wait_for(died)
        shop.is_halted = True  # else a slow machine's next start is after the end of the blockhash
        await shop.server.kill()
        await shop.start()
        shop.is_halted = False

        await shop.assert_settled_once([payment_id])
        assert await shop.received() == AMOUNT
        assert await shop.paid_for() == (place == POOR)


async def test_a_link_that_is_paid_while_the_server_is_dead_is_found(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "house") as shop:
        await shop.start()
        payment_id = await shop.payment()
        link = (await shop.links(payment_id))[USDC]
        await shop.server.kill()
        await shop.chain.send(pay_by_link(link, pubkey(BUYER)), keypair(BUYER))
        await shop.chain.slots(50)
        await shop.start()

        await shop.assert_settled_once([payment_id])


async def test_a_second_account_of_the_merchant_that_was_paid_while_the_server_was_dead_is_found(
    tmp_path: Path,
) -> None:
    """Nobody lists it: the reference names it as the window closes, also when that was during the death."""
    async with open_shop(tmp_path / "house") as shop:
        second = await shop.chain.give(pubkey(MERCHANT), USDC_MINT, 0, at=keypair(77).pubkey())
        await shop.start()
        ends_s = await shop.chain.rpc("payd_time", 0) + 4
        payment_id = await shop.payment(expiresAt=ends_s)
        link = (await shop.links(payment_id))[USDC]
        await shop.server.kill()
        *memos, honest = pay_by_link(link, pubkey(BUYER))
        reference = honest.accounts[-1].pubkey
        elsewhere = pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, AMOUNT, reference, target=second)
        await shop.chain.send([*memos, elsewhere], keypair(BUYER))

        async def is_over() -> bool:
            return bool(await shop.chain.rpc("payd_time", 0) > ends_s)

        await shop.wait_for(is_over)
        await shop.start()

        await shop.assert_settled_once([payment_id])
        assert await shop.received() == 0


async def test_deaths_at_random_moments_under_load_cost_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("PAYD_CRASH_SEED") or SystemRandom().randrange(2**32))
    print(f"PAYD_CRASH_SEED={seed}")
    rng = Random(seed)
    payments: dict[str, str] = {}

    async def buy(asset: str, place: int) -> None:
        payment_id = await shop.insist(shop.payment)
        option = await shop.insist(lambda: shop.offered_to(payment_id, asset, place))
        results = await shop.insist(lambda: shop.execute(option, place))
        payments[payment_id] = asset
        told = await shop.insist(lambda: shop.confirm(payment_id, option, *results))
        assert told.status_code == 200, told.text

    async def buy_by_link(asset: str, place: int) -> None:
        payment_id = await shop.insist(shop.payment)
        link = (await shop.insist(lambda: shop.links(payment_id)))[asset]
        payments[payment_id] = asset
        await shop.chain.send(pay_by_link(link, pubkey(place)), keypair(place))

    async def again_and_again(one: Callable[[str, int], Awaitable[None]], asset: str, place: int) -> None:
        for _ in range(PAYMENTS // 4):
            await one(asset, place)

    async with open_shop(tmp_path / "house", slot_s=SLOW_SLOT_S) as shop:
        await shop.start()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(again_and_again, buy, USDC, POOR)
            nursery.start_soon(again_and_again, buy, USDT, POOR)
            nursery.start_soon(again_and_again, buy, USDC, BUYER)
            nursery.start_soon(again_and_again, buy_by_link, USDT, BUYER_2)
            for _ in range(DEATHS):
                await trio.sleep(rng.random() * LIFE_MAX_S)
                await shop.server.kill()
                await shop.start()

        await shop.assert_settled_once(list(payments))
        for asset, mint in ((USDC, USDC_MINT), (USDT, USDT_MINT)):
            count = sum(one == asset for one in payments.values())
            assert count == PAYMENTS // 2
            assert await shop.received(mint) == count * AMOUNT
        assert await shop.paid_for() == PAYMENTS // 2
