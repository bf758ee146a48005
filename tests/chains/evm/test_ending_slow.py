"""Nodes that say nothing of what is too much for them: what was taken back is found all the same."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from payd.chains import rpc_node
from payd.core.errors import ChainUnavailable
from payd.core.failure import DECLINED, TAKEN_BACK
from payd.core.payment import PaymentFailed
from payd.store.db import Database
from tests.chains.evm.ended import end, set_job, signed
from tests.chains.evm.scene import two_nodes
from tests.chains.evm.test_ending import take_back
from tests.live.anvil import Anvil, Refused
from tests.live.proxy import Request

pytestmark = pytest.mark.real_time


async def test_nodes_that_say_nothing_of_many_blocks_are_asked_for_fewer_the_next_time(
    realm_db: Database, anvil: Anvil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those do whose time is over before they have looked through them: they only seem to be down."""
    monkeypatch.setattr(rpc_node, "BACKOFF_MIN_S", 0.0)
    async with two_nodes(realm_db, anvil) as (scene, first, _):
        payment = await signed(scene)
        await take_back(scene, payment)
        await set_job(scene, payment, state="landed")
        await scene.watch(60)

        def slow(request: Request, result: Any) -> Any:
            if request["method"] == "eth_getLogs":
                start, last = (int(request["params"][0][end], 16) for end in ("fromBlock", "toBlock"))
                if last - start >= 20:
                    raise Refused(429, "it takes too long")
            return result

        first.rewrite = slow
        with pytest.raises(ChainUnavailable):
            await scene.look(payment)
        found = None
        for _ in range(16):
            with suppress(ChainUnavailable):
                found = found or await scene.look(payment)
        assert end(found) == PaymentFailed(TAKEN_BACK, DECLINED)
