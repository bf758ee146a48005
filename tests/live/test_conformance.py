"""The payments of both realms pass the same scenarios: on the simulated chain, and on a real node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from tests.live.chain import LocalChain
from tests.live.conformance import Market, PaymentConformance, Way
from tests.live.street import DAI, ETH, USDC, Street, furnish_chain, open_street
from tests.shop import BUYER, ETH_BASE, SIGNATURE, TX_HASH, USDC_BASE, WALLET, Shop, open_shop

DAI_BASE: Final = "eip155:8453/erc20:0x50c5725949A6F0c72E6C4a641F24049A917DB0Cb"


class SimulatedMarket:
    """The test realm, in virtual time."""

    assets: Final[dict[Way, str]] = {"signed": USDC_BASE, "sent": DAI_BASE, "native": ETH_BASE}

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    async def payment(self, **more: Any) -> str:
        return await self._shop.pay(**more)

    async def option(self, payment_id: str, way: Way) -> dict[str, Any]:
        unit = f"caip19/{self.assets[way]}"
        return next(
            one for one in await self._shop.options(payment_id, [BUYER]) if one["amount"]["unit"] == unit
        )

    async def execute(self, option: dict[str, Any]) -> list[str]:
        return [
            TX_HASH if action["method"] == "eth_sendTransaction" else SIGNATURE
            for action in option["actions"]
        ]

    async def confirm(self, payment_id: str, option: dict[str, Any], *data: str) -> tuple[int, Any]:
        found = await self._shop.confirm(payment_id, option["id"], *data)
        return found.status, found.body

    async def cancel(self, payment_id: str) -> tuple[int, Any]:
        found = await self._shop.call("POST", f"/v1/gateway/payment/{payment_id}/cancel")
        return found.status, found.body

    async def until(self, payment_id: str, *wanted: str) -> str:
        with trio.fail_after(3600):
            while (now := state_of(await self.detail(payment_id))) not in wanted:
                await trio.sleep(0.1)
        return now

    async def detail(self, payment_id: str) -> dict[str, Any]:
        return dict((await self._shop.call("GET", f"/v1/payments/{payment_id}")).body)

    async def events(self, payment_id: str) -> list[str]:
        rows = self._shop.realm.db.point(
            lambda tx: tx.execute(
                "SELECT type FROM events WHERE payment_id = ? ORDER BY seq", (payment_id,)
            ).fetchall()
        )
        return [kind for (kind,) in rows]

    async def expiring(self) -> str:
        return await self._shop.pay(expiresAt=self._shop.realm.clock.now_ms() // 1000 + 2)


class LiveMarket:
    """The live realm on a real node with a block every 0.2 seconds."""

    assets: Final[dict[Way, str]] = {"signed": USDC, "sent": DAI, "native": ETH}

    def __init__(self, street: Street) -> None:
        self._street = street

    async def payment(self, **more: Any) -> str:
        return await self._street.payment(**more)

    async def option(self, payment_id: str, way: Way) -> dict[str, Any]:
        return await self._street.option(payment_id, self.assets[way])

    async def execute(self, option: dict[str, Any]) -> list[str]:
        return await self._street.execute(option)

    async def confirm(self, payment_id: str, option: dict[str, Any], *data: str) -> tuple[int, Any]:
        found = await self._street.confirm(payment_id, option, *data)
        return found.status_code, found.json()

    async def cancel(self, payment_id: str) -> tuple[int, Any]:
        found = await self._street.call("POST", f"/v1/gateway/payment/{payment_id}/cancel")
        return found.status_code, found.json()

    async def until(self, payment_id: str, *wanted: str) -> str:
        return await self._street.until(payment_id, *wanted)

    async def detail(self, payment_id: str) -> dict[str, Any]:
        return await self._street.detail(payment_id)

    async def events(self, payment_id: str) -> list[str]:
        return await self._street.events(payment_id)

    async def expiring(self) -> str:
        return await self._street.payment(expiresAt=await self._street.chain.now_s() + 3)


def state_of(detail: dict[str, Any]) -> str:
    """The status, or `settled`."""
    return "settled" if detail["settlement"] and detail["settlement"]["settled"] else str(detail["status"])


class TestSimulated(PaymentConformance):
    @pytest.fixture
    async def market(self, tmp_path: Path, autojump_clock: object) -> AsyncIterator[Market]:
        async with open_shop(tmp_path / "data") as shop:
            for asset in (DAI_BASE, ETH_BASE):
                await shop.register(shop.merchant_id, asset, f"eip155:8453:{WALLET}")
            yield SimulatedMarket(shop)


@pytest.mark.real_time
class TestLive(PaymentConformance):
    @pytest.fixture
    async def market(self, tmp_path: Path, chain: LocalChain) -> AsyncIterator[Market]:
        await furnish_chain(chain)
        async with open_street(tmp_path / "house", chain, block_s=0.2) as street:
            yield LiveMarket(street)
