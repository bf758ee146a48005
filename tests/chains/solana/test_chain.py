"""A Solana chain behind the interface of all chains: tokens of both programs and SOL, on a local node."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest

from payd.core.caip import AccountId, parse_asset
from payd.core.option import Result, WalletRpc
from tests.chains.conformance import Case, ChainConformance
from tests.chains.solana.scene import TERMS, Scene, signed_by
from tests.live.solana import BUYER, MERCHANT, POOR, PYUSD, SOL, USDC, account_id, address, keypair

pytestmark = pytest.mark.real_time


async def case_of(scene: Scene, asset: str, buyer: int = BUYER) -> Case:
    payment = await scene.payment()

    def sign(actions: Sequence[WalletRpc]) -> list[Result]:
        raws = [base64.b64decode(action.params[0]["transaction"]) for action in actions]
        signed = [signed_by(raw, keypair(buyer)) for raw in raws]
        return [Result("walletRpc", [base64.b64encode(raw).decode()]) for raw in signed]

    return Case(
        chain=scene.solana,
        payment=payment,
        asset=parse_asset(asset),
        account=AccountId(TERMS.chain, address(buyer)),
        destination=account_id(MERCHANT),
        now_ms=payment.created_at_ms + 1000,
        sign=sign,
    )


class TestSponsored(ChainConformance):
    """The buyer has no SOL: we pay for the network, and sign first."""

    @pytest.fixture
    async def case(self, scene: Scene) -> Case:
        return await case_of(scene, USDC, POOR)


class TestToken(ChainConformance):
    """The buyer pays with a token, and for the network."""

    @pytest.fixture
    async def case(self, scene: Scene) -> Case:
        return await case_of(scene, USDC)


class TestToken2022(ChainConformance):
    """The same with a token of the newer program."""

    @pytest.fixture
    async def case(self, scene: Scene) -> Case:
        return await case_of(scene, PYUSD)


class TestCoin(ChainConformance):
    """The buyer pays with SOL."""

    @pytest.fixture
    async def case(self, scene: Scene) -> Case:
        return await case_of(scene, SOL)


async def test_an_asset_of_another_chain_has_no_rate_here(scene: Scene) -> None:
    payment = await scene.payment()
    assert await scene.solana.rate("USD", parse_asset("eip155:8453/slip44:60"), payment.created_at_ms) is None
