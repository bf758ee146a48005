"""Whether a transaction would do what it says: by a node that knows its blockhash, or nobody can say."""

from __future__ import annotations

from typing import Any

import pytest

from payd.chains.solana.failures import NO_FUNDS
from payd.chains.solana.trial import refusal_of
from payd.core.errors import ChainUnavailable
from payd.store.db import Database
from tests.chains.solana.scene import Scene, open_scene
from tests.live.proxy import Request
from tests.live.solana import BUYER, MERCHANT, MINTED, USDC_MINT, keypair, pay_token, pubkey

pytestmark = pytest.mark.real_time


async def trial(scene: Scene, amount: int, slot: int = 0) -> str | None:
    send = pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, amount)
    return await refusal_of(scene.rpc, await scene.local.signed([send], keypair(BUYER)), slot)


async def test_what_the_chain_would_take_is_not_refused_and_moves_nothing(scene: Scene) -> None:
    assert await trial(scene, MINTED) is None
    assert await scene.local.tokens(pubkey(BUYER), USDC_MINT) == MINTED


async def test_what_it_would_refuse_is_in_words(scene: Scene) -> None:
    assert await trial(scene, MINTED + 1) == NO_FUNDS


async def test_a_node_that_is_behind_the_blockhash_says_nothing(scene: Scene) -> None:
    with pytest.raises(ChainUnavailable):
        await trial(scene, 1, slot=10**6)


@pytest.mark.parametrize("answer", [{"context": {"slot": 1}, "value": {"err": "BlockhashNotFound"}}, {}])
async def test_an_answer_that_says_nothing_of_it_is_none(realm_db: Database, answer: Any) -> None:
    async with open_scene(realm_db, proxies=1) as scene:

        def rewrite(request: Request, result: Any) -> Any:
            return answer if request["method"] == "simulateTransaction" else result

        scene.proxies[0].rewrite = rewrite
        with pytest.raises(ChainUnavailable):
            await trial(scene, 1)
