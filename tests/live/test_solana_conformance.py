"""Payments on Solana pass the scenarios of every realm, on the tests' node and on one that others wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from payd.clock import system_wall_ms
from tests.live.conformance import WAYS, Market, PaymentConformance, Way
from tests.live.solana import BUYER, POOR, SOL, USDC, USDT
from tests.live.solana_street import SolanaStreet, open_furnished, open_solana_street
from tests.live.validator_chain import open_validator_chain

pytestmark = pytest.mark.real_time


class SolanaMarket:
    """The live realm on a Solana.

    Who signs without SOL has the fee paid; who has some pays it.

    Args:
        street: A shop there.
        assets: What each way pays with: a token, another, and SOL.
    """

    buyers: Final[dict[Way, int]] = {"signed": POOR, "sent": BUYER, "native": BUYER}

    def __init__(self, street: SolanaStreet, *assets: str) -> None:
        self._street = street
        self._assets = dict(zip(WAYS, assets, strict=True))

    async def payment(self, **more: Any) -> str:
        return await self._street.payment(**more)

    async def option(self, payment_id: str, way: Way) -> dict[str, Any]:
        return await self._street.option(payment_id, self._assets[way], self.buyers[way])

    async def execute(self, option: dict[str, Any]) -> list[str]:
        asset = option["amount"]["unit"].removeprefix("caip19/")
        [way] = (one for one, paid in self._assets.items() if paid == asset)
        return await self._street.execute(option, self.buyers[way])

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


@asynccontextmanager
async def own_market(folder: Path) -> AsyncIterator[Market]:
    """With a block every 50 milliseconds."""
    async with open_furnished() as solana, open_solana_street(folder, solana, slot_s=0.05) as street:
        yield SolanaMarket(street, USDC, USDT, SOL)


@asynccontextmanager
async def validator_market(folder: Path) -> AsyncIterator[Market]:
    """On MagicBlock's validator."""
    async with (
        open_validator_chain() as chain,
        open_solana_street(folder, chain, lines=chain.lines) as street,
    ):
        yield SolanaMarket(street, chain.usdc, chain.pyusd, chain.sol)


class TestSolana(PaymentConformance):
    @pytest.fixture(params=[own_market, validator_market], ids=["LiteSVM", "a validator"])
    async def market(self, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Market]:
        async with request.param(tmp_path / "house") as opened:
            yield opened
