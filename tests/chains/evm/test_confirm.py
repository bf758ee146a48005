"""Results against the actions that were stored: their number, their kind, their form."""

from __future__ import annotations

from typing import Any

import pytest

from payd.chains.base import Misaligned, Refused
from payd.core.errors import InvalidParams
from payd.core.option import Result
from tests.chains.evm.scene import ETH, Scene, sign

pytestmark = pytest.mark.real_time

HASH = "0x" + "12" * 32


async def test_another_number_of_results_is_misaligned(scene: Scene) -> None:
    payment = await scene.payment()
    for place, asset in enumerate((scene.usdc_asset, scene.dai_asset, ETH)):
        quote = await scene.quote(payment, asset, option_id=f"opt_{place}")

        assert await scene.check(payment, quote) == Misaligned()
        assert await scene.check(payment, quote, HASH, HASH) == Misaligned()


@pytest.mark.parametrize("data", [7, None, "no hex", "", "0x", [HASH], "0x12"])
async def test_a_hash_in_another_form_is_unusable(scene: Scene, data: Any) -> None:
    payment = await scene.payment()
    for place, asset in enumerate((scene.dai_asset, ETH)):
        verdict = await scene.check(
            payment, await scene.quote(payment, asset, option_id=f"opt_{place}"), data
        )

        assert isinstance(verdict, Refused)
        assert isinstance(verdict.error, InvalidParams)


async def test_a_result_with_more_in_it_is_unusable(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    signature = sign(quote.actions[0])
    results = [Result("walletRpc", [signature, signature])]
    verdict = await scene.evm.check(payment, quote, results, await scene.now_ms())

    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, InvalidParams)


async def test_unusable_results_ask_no_node(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    before = scene.rpc.posts
    await scene.check(payment, quote, "no hex")
    await scene.check(payment, quote)

    assert scene.rpc.posts == before
