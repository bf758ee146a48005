"""What a wallet told of is final, and brought something that does not pay: its payment ends, long after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from payd.chains.evm.actions import Sending, read_actions
from payd.chains.evm.binding import payment_tag, tagged_transfer
from payd.core.payment import Payment, WindowClosed
from payd.core.status import Status
from payd.store.db import Database
from payd.store.sightings import sightings_in
from tests.chains.evm.ended import pass_time
from tests.chains.evm.scene import CHAIN, Scene, two_nodes
from tests.chains.evm.test_ending_given_up import given_up_s
from tests.live.anvil import Anvil
from tests.live.chain import MERCHANT, STRANGER, URGENT, account, address, calldata
from tests.live.proxy import Request

pytestmark = pytest.mark.real_time

OTHER_ID: Final = "pay_l01jw0000000000000000000000000000000b"


async def skimmed(scene: Scene) -> tuple[Payment, str]:
    """A payment in a token that began to keep a part of each transfer after the wallet had sent it."""
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset)
    await scene.chain.rpc("evm_setAutomine", False)
    call = calldata("setSkim(uint256)", 100)
    await scene.chain.send_as(account(STRANGER), scene.dai, call, **URGENT)
    tx_hash = await scene.send(quote)
    return await scene.commit(payment, quote, tx_hash), tx_hash


async def contested(scene: Scene) -> tuple[Payment, str]:
    """A payment of a smart wallet, whose bundler brought another one beside it that moved nothing."""
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(STRANGER)])
    await scene.chain.mint(scene.dai, wallet, 25_000_000)
    other = await scene.payment(id=OTHER_ID)
    await scene.quote(other, scene.dai_asset, option_id="opt_2")
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset, buyer=wallet)
    asked = read_actions(quote.actions)
    assert isinstance(asked, Sending)
    await scene.chain.rpc("evm_setAutomine", False)
    call = calldata("execute(address,uint256,bytes)", scene.dai, 0, asked.data)
    call += tagged_transfer(address(MERCHANT), 25_000_000, payment_tag(other.id))
    tx_hash = await scene.chain.send_as(account(STRANGER), wallet, call, gas=300_000)
    return await scene.commit(payment, quote, tx_hash), tx_hash


@pytest.mark.parametrize(
    ("tell", "kind"), [(skimmed, "partial"), (contested, "unmatched")], ids=["less", "contested"]
)
async def test_what_brought_something_else_expires_long_after_its_window_and_not_before(
    scene: Scene, tell: Callable[[Scene], Any], kind: str
) -> None:
    payment, tx_hash = await tell(scene)
    await scene.watch(4)
    [sighting] = scene.db.point(sightings_in, str(CHAIN), tx_hash)
    assert sighting.kind == kind
    await pass_time(scene, given_up_s(payment) - 60)
    assert await scene.look(payment) is None
    await pass_time(scene, given_up_s(payment))

    assert (await scene.follow(payment)).status is Status.EXPIRED


async def test_what_the_watcher_did_not_record_is_waited_for(scene: Scene) -> None:
    payment, _ = await skimmed(scene)
    await scene.watch(4)
    await pass_time(scene, given_up_s(payment))
    await scene.db.write(lambda tx: tx.execute("UPDATE transfers SET block_hash = NULL"))

    assert await scene.look(payment) is None


async def test_what_a_node_shows_above_what_was_read_is_waited_for(realm_db: Database, anvil: Anvil) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, _):
        payment, _ = await skimmed(scene)
        await scene.watch(4)
        await pass_time(scene, given_up_s(payment))

        def mined_later(request: Request, result: Any) -> Any:
            is_receipt = request["method"] == "eth_getTransactionReceipt"
            return {**result, "blockNumber": hex(10**6)} if is_receipt else result

        first.rewrite = mined_later
        assert await scene.look(payment) is None
        first.rewrite = lambda request, result: (
            "?" if request["method"] == "eth_getTransactionReceipt" else result
        )
        assert await scene.look(payment) is None
        first.rewrite = None

        found = await scene.look(payment)
        assert found is not None
        assert isinstance(found.trigger, WindowClosed)
