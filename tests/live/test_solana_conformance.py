"""Payments on Solana pass the scenarios of every realm, on a node with the real token programs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from payd.clock import system_wall_ms
from tests.live.conformance import Market, PaymentConformance, Way
from tests.live.solana import BUYER, POOR, SOL, USDC, USDT
from tests.live.solana_street import SolanaStreet, open_furnished, open_solana_street

pytestmark = pytest.mark.real_time


class SolanaMarket:
    """The live realm on a Solana with a block every 50 milliseconds.

    Who signs without SOL has the fee paid; who has some pays it.
    """

    assets: Final[dict[Way, str]] = {"signed": USDC, "sent": USDT, "native": SOL}
    buyers: Final[dict[str, int]] = {USDC: POOR, USDT: BUYER, SOL: BUYER}

    def __init__(self, street: SolanaStreet) -> None:
        self._street = street

    async def payment(self, **more: Any) -> str:
        return await self._street.payment(**more)

    async def option(self, payment_id: str, way: Way) -> dict[str, Any]:
        asset = self.assets[way]
        return await self._street.option(payment_id, asset, self.buyers[asset])

    async def execute(self, option: dict[str, Any]) -> list[str]:
        asset = option["amount"]["unit"].removeprefix("caip19/")
        return await self._street.execute(option, self.buyers[asset])

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
        return await self._street.payment(expiresAt=system_wall_ms() // 1000 + 3)


class TestSolana(PaymentConformance):
    @pytest.fixture
    async def market(self, tmp_path: Path) -> AsyncIterator[Market]:
        async with (
            open_furnished() as solana,
            open_solana_street(tmp_path / "house", solana, slot_s=0.05) as street,
        ):
            yield SolanaMarket(street)
