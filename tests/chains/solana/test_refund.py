"""Refunds that merchants name: taken when the chain shows that they pay the buyer back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from payd.chains.solana.refund import FAILED, NO_SIGNATURE, NOT_FOUND
from payd.core.errors import ChainUnavailable
from payd.core.payment import Payment
from payd.core.refund import NOT_TO_BUYER, TOO_OLD
from payd.store.db import Database
from tests.chains.solana.scene import Scene, open_scene
from tests.live.proxy import Request
from tests.live.solana import (
    BUYER,
    BUYER_2,
    LAMPORTS,
    MERCHANT,
    SOL,
    USDC,
    USDC_MINT,
    USDT_MINT,
    keypair,
    pay_sol,
    pay_token,
    pubkey,
)

pytestmark = pytest.mark.real_time


async def paid_back(scene: Scene, asset: str = USDC, to: int = BUYER, amount: int = 5) -> str:
    """What a merchant sends back; gives its id."""
    send = {
        USDC: pay_token(pubkey(MERCHANT), pubkey(to), USDC_MINT, amount),
        SOL: pay_sol(pubkey(MERCHANT), pubkey(to), amount),
    }[asset]
    tx_id = await scene.local.send([send], keypair(MERCHANT))
    await scene.local.confirm()
    return tx_id


async def problem(scene: Scene, payment: Payment, tx_id: str) -> str | None:
    return await scene.solana.refund_problem(payment, tx_id)


@pytest.mark.parametrize("asset", [USDC, SOL])
async def test_what_pays_the_buyer_back_is_a_refund_whatever_the_amount(scene: Scene, asset: str) -> None:
    payment = await scene.paid(asset)

    assert await problem(scene, payment, await paid_back(scene, asset)) is None


@pytest.mark.parametrize("tx_id", ["", "0x" + "11" * 32, "1" * 63, "5" * 200, "not base58: 0OIl"])
async def test_what_is_no_signature_is_no_refund(scene: Scene, tx_id: str) -> None:
    assert await problem(scene, await scene.paid(), tx_id) == NO_SIGNATURE


async def test_what_is_not_confirmed_is_not_found(scene: Scene) -> None:
    payment = await scene.paid()
    assert await problem(scene, payment, "1" * 64) == NOT_FOUND
    send = pay_token(pubkey(MERCHANT), pubkey(BUYER), USDC_MINT, 5)
    tx_id = await scene.local.send([send], keypair(MERCHANT))
    assert await problem(scene, payment, tx_id) == NOT_FOUND
    await scene.local.confirm()

    assert await problem(scene, payment, tx_id) is None


async def test_what_failed_paid_nothing_back(scene: Scene) -> None:
    payment = await scene.paid()
    send = pay_token(pubkey(MERCHANT), pubkey(BUYER), USDC_MINT, 10**12)
    tx_id = await scene.local.send_raw(await scene.local.signed([send], keypair(MERCHANT)))
    await scene.local.confirm()

    assert await problem(scene, payment, tx_id) == FAILED


async def test_what_pays_somebody_else_or_in_another_asset_is_no_refund(scene: Scene) -> None:
    payment = await scene.paid()
    assert await problem(scene, payment, await paid_back(scene, to=BUYER_2)) == NOT_TO_BUYER
    assert await problem(scene, payment, await paid_back(scene, SOL, amount=LAMPORTS // 2)) == NOT_TO_BUYER
    await scene.local.give(pubkey(MERCHANT), USDT_MINT, 5)
    other = pay_token(pubkey(MERCHANT), pubkey(BUYER), USDT_MINT, 5)
    tx_id = await scene.local.send([other], keypair(MERCHANT))
    await scene.local.confirm()

    assert await problem(scene, payment, tx_id) == NOT_TO_BUYER


async def test_the_payment_itself_is_not_its_refund(scene: Scene) -> None:
    payment = await scene.paid()

    assert await problem(scene, payment, scene.row(payment).tx_id) == NOT_TO_BUYER


async def test_what_is_older_than_the_payment_is_no_refund(scene: Scene) -> None:
    payment = await scene.paid()
    tx_id = await paid_back(scene)
    later = msgspec.structs.replace(payment, created_at_ms=scene.now_ms() + 1000)

    assert await problem(scene, later, tx_id) == TOO_OLD


async def test_what_was_paid_back_in_the_second_of_the_payment_is_a_refund(scene: Scene) -> None:
    payment = await scene.paid()
    tx_id = await paid_back(scene)
    landed = await scene.local.landed(tx_id)
    assert landed is not None
    second_ms = landed["blockTime"] * 1000
    for created_at_ms, words in ((second_ms + 999, None), (second_ms + 1000, TOO_OLD)):
        at = msgspec.structs.replace(payment, created_at_ms=created_at_ms)

        assert await problem(scene, at, tx_id) == words


async def test_a_node_that_does_not_say_when_it_was_leaves_it_open(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=1) as scene:
        payment = await scene.paid()
        tx_id = await paid_back(scene)
        answers: list[Any] = [lambda result: {**result, "blockTime": None}, lambda result: {"slot": 1}]
        for answer in answers:

            def rewrite(request: Request, result: Any, answer: Any = answer) -> Any:
                return answer(result) if request["method"] == "getTransaction" else result

            scene.proxies[0].rewrite = rewrite
            with pytest.raises(ChainUnavailable):
                await problem(scene, payment, tx_id)
