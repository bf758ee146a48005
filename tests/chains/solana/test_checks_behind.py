"""What a node says to a transaction whose blockhash it has not come to is no verdict: nobody signs twice."""

from __future__ import annotations

from typing import Any

import pytest

from payd.chains.base import Accepted, Refused
from payd.chains.solana.checks import ASK_AGAIN
from payd.core.errors import ChainUnavailable, QuoteExpired
from payd.store.db import Database
from tests.chains.solana.scene import Scene, open_scene, sign

pytestmark = pytest.mark.real_time


async def test_a_node_that_has_not_come_to_the_blockhash_refuses_nothing(scene: Scene) -> None:
    """Behind one address are many nodes: the transaction is not too old."""
    payment = await scene.payment()
    quote = await scene.quote(payment)
    scene.node.lag = 3
    with pytest.raises(ChainUnavailable):
        await scene.check(payment, quote, sign(quote))
    scene.node.lag = 0

    assert isinstance(await scene.check(payment, quote, sign(quote)), Accepted)


async def test_a_height_that_a_node_made_up_keeps_nobody_from_fetching_again(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=2) as scene:
        liar = scene.proxies[1].node
        honest = liar.ask

        def ask(method: str, *params: Any) -> Any:
            said = honest(method, *params)
            return said + 10**9 if method == "getBlockHeight" else said

        liar.ask = ask  # type: ignore[method-assign]
        payment = await scene.payment()
        quote = await scene.quote(payment)
        await scene.local.slots(151)
        verdict = await scene.check(payment, quote, sign(quote))

        assert isinstance(verdict, Refused)
        assert isinstance(verdict.error, QuoteExpired)
        assert verdict.error.message == ASK_AGAIN


async def test_what_a_provider_says_of_itself_refuses_no_transaction(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=1) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment)
        scene.proxies[0].errors["simulateTransaction"] = (-32000, "upstream is busy, try again")
        with pytest.raises(ChainUnavailable):
            await scene.check(payment, quote, sign(quote))
