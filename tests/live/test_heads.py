"""Heads as a real node tells them."""

from __future__ import annotations

import pytest
import trio

from payd.chains.heads import follow_heads
from tests.live.chain import LocalChain

pytestmark = pytest.mark.real_time


async def test_a_node_tells_its_new_heads_and_those_of_a_reorg_until_it_dies(chain: LocalChain) -> None:
    heads, seen = trio.open_memory_channel[int](10)
    reasons: list[str] = []

    async def follow() -> None:
        reasons.append(await follow_heads(chain.anvil.ws_url, heads.send_nowait))

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            first = await _until_told(chain, seen)
            await chain.mine()
            assert await seen.receive() == first + 1
            await chain.reorg(1)
            assert await seen.receive() == first + 1
            chain.anvil.kill()

    assert reasons == ["it was cut off"]


async def _until_told(chain: LocalChain, seen: trio.MemoryReceiveChannel[int]) -> int:
    """Mine until the subscription stands and tells it; the newest number told."""
    while True:
        await chain.mine()
        with trio.move_on_after(0.1):
            number = await seen.receive()
            while number < await chain.head():
                number = await seen.receive()
            return number
