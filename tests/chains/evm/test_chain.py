"""An EVM chain behind the interface of all chains: on a real node, by signatures, tokens and coins."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from payd.core.caip import AccountId, parse_asset
from payd.core.errors import ChainUnavailable
from payd.core.option import Result, WalletRpc
from tests.chains.conformance import Case, ChainConformance
from tests.chains.evm.scene import BUYER, CHAIN, ETH, MERCHANT, Scene, account, address, sign

pytestmark = pytest.mark.real_time


class _Sends:
    """A wallet that sends each transaction once, and gives its hash again when asked again."""

    def __init__(self, scene: Scene) -> None:
        self._anvil = scene.chain.anvil
        self._sent: dict[str, str] = {}

    def __call__(self, actions: Sequence[WalletRpc]) -> list[Result]:
        [action] = actions
        [asked] = action.params
        if asked["data"] not in self._sent:
            fields = {
                "type": 2,
                "chainId": 31337,
                "nonce": int(self._anvil.ask("eth_getTransactionCount", address(BUYER), "latest"), 16),
                "gas": 200_000,
                "maxFeePerGas": 10**11,
                "maxPriorityFeePerGas": 10**9,
                "to": asked["to"],
                "data": asked["data"],
                "value": int(asked["value"], 16),
            }
            raw = bytes(account(BUYER).sign_transaction(fields).raw_transaction)
            self._sent[asked["data"]] = self._anvil.ask("eth_sendRawTransaction", "0x" + raw.hex())
        return [Result("walletRpc", [self._sent[asked["data"]]])]


async def case_of(scene: Scene, asset: str) -> Case:
    payment = await scene.payment()
    signs = asset == scene.usdc_asset
    return Case(
        chain=scene.evm,
        payment=payment,
        asset=parse_asset(asset),
        account=AccountId(CHAIN, address(BUYER)),
        destination=f"{CHAIN}:{address(MERCHANT)}",
        now_ms=payment.created_at_ms + 1000,
        sign=(lambda actions: [Result("walletRpc", [sign(one)]) for one in actions])
        if signs
        else _Sends(scene),
    )


class TestSigned(ChainConformance):
    """Gasless: the buyer signs, the relayer pays for the gas."""

    @pytest.fixture
    async def case(self, scene: Scene) -> Case:
        return await case_of(scene, scene.usdc_asset)


class TestSentToken(ChainConformance):
    """The buyer's wallet sends a token."""

    @pytest.fixture
    async def case(self, scene: Scene) -> Case:
        return await case_of(scene, scene.dai_asset)


class TestSentCoin(ChainConformance):
    """The buyer's wallet sends the native coin."""

    @pytest.fixture
    async def case(self, scene: Scene) -> Case:
        return await case_of(scene, ETH)


async def test_an_asset_of_another_chain_has_no_rate_here(scene: Scene) -> None:
    payment = await scene.payment()
    assert await scene.evm.rate("USD", parse_asset("eip155:1/slip44:60"), payment.created_at_ms) is None


async def test_nothing_is_offered_before_the_chain_is_read(scene: Scene) -> None:
    payment = await scene.payment()
    await scene.db.write(lambda tx: tx.execute("DELETE FROM chain_cursors"))
    with pytest.raises(ChainUnavailable):
        await scene.offer(payment, scene.dai_asset)
    await scene.watch()

    assert await scene.offer(payment, scene.dai_asset) is not None
