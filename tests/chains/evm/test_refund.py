"""Refunds on an EVM chain: a mined transfer of the payment's asset to its buyer, made after it was paid."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from payd.chains.evm.refund import NO_HASH, NOT_FOUND, REVERTED
from payd.core.errors import ChainUnavailable
from payd.core.payment import Payment
from payd.core.refund import NOT_TO_BUYER, TOO_OLD
from payd.store.db import Database
from tests.chains.evm.scene import ETH, Scene, open_scene
from tests.live.anvil import Anvil
from tests.live.chain import BUYER, BUYER_2, MERCHANT, STRANGER, account, address, calldata
from tests.live.proxy import open_proxy

pytestmark = pytest.mark.real_time

UNITS = 25_000_000


async def paid(scene: Scene, asset: str) -> Payment:
    payment = await scene.payment()
    quote = await scene.quote(payment, asset)
    tx_hash = await scene.send(quote)
    await scene.chain.receipt(tx_hash)
    return await scene.commit(payment, quote, tx_hash)


def transfer(to: int, value: int = UNITS) -> bytes:
    return calldata("transfer(address,uint256)", address(to), value)


async def refunded(scene: Scene, place: int, to: str, data: bytes = b"", value: int = 0) -> str:
    receipt = await scene.chain.receipt(await scene.chain.send_as(account(place), to, data, value))
    return str(receipt["transactionHash"])


@pytest.mark.parametrize("place", [MERCHANT, STRANGER])
async def test_a_transfer_to_the_buyer_is_a_refund_from_whichever_wallet(scene: Scene, place: int) -> None:
    payment = await paid(scene, scene.dai_asset)
    await scene.chain.mint(scene.dai, address(place), UNITS)
    # A part of it is a refund, too.
    tx_id = await refunded(scene, place, scene.dai, transfer(BUYER, UNITS // 2))

    assert await scene.evm.refund_problem(payment, tx_id) is None
    block = await scene.chain.rpc("eth_getBlockByNumber", "latest", False)
    within = msgspec.structs.replace(payment, created_at_ms=int(block["timestamp"], 16) * 1000 + 999)
    assert await scene.evm.refund_problem(within, tx_id) is None
    assert await scene.evm.refund_problem(payment, tx_id.upper().replace("0X", "0x")) is None


async def test_coins_are_paid_back_in_coins(scene: Scene) -> None:
    payment = await paid(scene, ETH)

    back = await refunded(scene, MERCHANT, address(BUYER), value=1)
    assert await scene.evm.refund_problem(payment, back) is None
    other = await refunded(scene, MERCHANT, address(BUYER_2), value=1)
    assert await scene.evm.refund_problem(payment, other) == NOT_TO_BUYER


async def test_anything_else_is_no_refund_of_it(scene: Scene) -> None:
    payment = await paid(scene, scene.dai_asset)
    for token in (scene.dai, scene.usdc):
        await scene.chain.mint(token, address(MERCHANT), UNITS)
    to_other = await refunded(scene, MERCHANT, scene.dai, transfer(BUYER_2))
    other_token = await refunded(scene, MERCHANT, scene.usdc, transfer(BUYER))
    too_much = await refunded(scene, MERCHANT, scene.dai, transfer(BUYER, 10**18))

    assert await scene.evm.refund_problem(payment, to_other) == NOT_TO_BUYER
    assert await scene.evm.refund_problem(payment, other_token) == NOT_TO_BUYER
    assert await scene.evm.refund_problem(payment, too_much) == REVERTED
    assert await scene.evm.refund_problem(payment, "0x" + "12" * 32) == NOT_FOUND
    assert await scene.evm.refund_problem(payment, "test:1") == NO_HASH


async def test_what_the_buyer_had_before_is_no_refund(scene: Scene) -> None:
    await scene.chain.mint(scene.dai, address(BUYER), UNITS)
    mint = await scene.chain.rpc("eth_getBlockByNumber", "latest", True)
    await scene.chain.rpc("evm_increaseTime", 100)
    await scene.chain.mine(1)
    payment = await paid(scene, scene.dai_asset)

    assert await scene.evm.refund_problem(payment, mint["transactions"][0]["hash"]) == TOO_OLD


async def test_a_node_that_does_not_answer_refuses_no_refund(realm_db: Database, anvil: Anvil) -> None:
    async with open_proxy(anvil) as proxy, open_scene(realm_db, anvil, urls=[proxy.url]) as scene:
        payment = await paid(scene, scene.dai_asset)
        proxy.status = 503
        with pytest.raises(ChainUnavailable):
            await scene.evm.refund_problem(payment, "0x" + "12" * 32)


@pytest.mark.parametrize("junk", [{"status": "0x1"}, "0x1", []])
async def test_a_node_that_answers_junk_refuses_no_refund(
    realm_db: Database, anvil: Anvil, junk: Any
) -> None:
    async with open_proxy(anvil) as proxy, open_scene(realm_db, anvil, urls=[proxy.url]) as scene:
        payment = await paid(scene, scene.dai_asset)
        proxy.rewrite = lambda request, result: (
            junk if request["method"] == "eth_getTransactionReceipt" else result
        )
        with pytest.raises(ChainUnavailable):
            await scene.evm.refund_problem(msgspec.structs.replace(payment), "0x" + "12" * 32)


async def test_what_is_in_no_block_of_the_chain_is_no_refund(realm_db: Database, anvil: Anvil) -> None:
    async with open_proxy(anvil) as proxy, open_scene(realm_db, anvil, urls=[proxy.url]) as scene:
        payment = await paid(scene, ETH)
        back = await refunded(scene, MERCHANT, address(BUYER), value=1)
        proxy.rewrite = lambda request, result: (
            {**result, "hash": "0x" + "12" * 32} if request["method"] == "eth_getBlockByNumber" else result
        )
        assert await scene.evm.refund_problem(payment, back) == NOT_FOUND
