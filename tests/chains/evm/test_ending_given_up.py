"""What a wallet told of and every node forgot: it is waited for long, and not for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from payd.chains.evm.actions import Sending, read_actions
from payd.chains.evm.ending import GIVEN_UP_S
from payd.chains.evm.track import read_track
from payd.core.failure import DECLINED, REPLACED
from payd.core.payment import Payment, PaymentFailed, WindowClosed
from payd.core.status import Status
from payd.store.db import Database
from payd.store.sightings import sightings_in
from tests.chains.evm.scene import CHAIN, Scene, open_scene
from tests.live.anvil import Anvil
from tests.live.chain import BUYER, STRANGER, account, address, calldata
from tests.live.proxy import FlakyProxy, Request, open_proxy

pytestmark = pytest.mark.real_time

Nodes = tuple[Scene, FlakyProxy, FlakyProxy, FlakyProxy]


@pytest.fixture
async def nodes(realm_db: Database, anvil: Anvil) -> AsyncIterator[Nodes]:
    """A scene with three nodes: two must agree."""
    async with (
        open_proxy(anvil) as first,
        open_proxy(anvil) as second,
        open_proxy(anvil) as third,
        open_scene(realm_db, anvil, urls=[first.url, second.url, third.url]) as scene,
    ):
        yield scene, first, second, third


async def told(scene: Scene) -> tuple[Payment, str]:
    """A payment whose buyer told of a smart wallet's transaction, and that transaction, pending."""
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(STRANGER)])
    await scene.chain.mint(scene.dai, wallet, 25_000_000)
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset, buyer=wallet)
    asked = read_actions(quote.actions)
    assert isinstance(asked, Sending)
    await scene.chain.rpc("evm_setAutomine", False)
    wrapped = calldata("execute(address,uint256,bytes)", scene.dai, 0, asked.data)
    tx_hash = await scene.chain.send_as(account(STRANGER), wallet, wrapped, gas=300_000)
    raw = await scene.chain.rpc("eth_getRawTransactionByHash", tx_hash)
    return await scene.commit(payment, quote, tx_hash), raw


async def told_directly(scene: Scene) -> tuple[Payment, str]:
    """The same of a transaction that the buyer sent, whose nonce is never used again."""
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset)
    await scene.chain.rpc("evm_setAutomine", False)
    tx_hash = await scene.send(quote, BUYER)
    raw = await scene.chain.rpc("eth_getRawTransactionByHash", tx_hash)
    return await scene.commit(payment, quote, tx_hash), raw


async def forget(scene: Scene, payment: Payment) -> None:
    """Have all nodes forget the transaction."""
    noted = read_track(payment).told
    assert noted is not None
    await scene.chain.rpc("anvil_dropTransaction", noted.tx_hash)


async def pass_time(scene: Scene, until_s: int) -> None:
    """Have the chain come to this second, and be final there, as the watcher reads."""
    await scene.chain.rpc("anvil_setNextBlockTimestamp", hex(until_s))
    await scene.chain.mine(1)
    await scene.watch(3)


def given_up_s(payment: Payment) -> int:
    return payment.expires_at_ms // 1000 + GIVEN_UP_S


@pytest.mark.parametrize("tell", [told, told_directly])
async def test_what_every_node_forgot_expires_long_after_its_window_and_not_before(
    nodes: Nodes, tell: Callable[[Scene], Any]
) -> None:
    scene, *_ = nodes
    payment, raw = await tell(scene)
    await forget(scene, payment)
    await pass_time(scene, given_up_s(payment) - 60)
    assert await scene.look(payment) is None
    await pass_time(scene, given_up_s(payment))
    payment = await scene.follow(payment)
    assert payment.status is Status.EXPIRED

    # It comes after all: the merchant is shown money that came too late, and the payment stays what it is.
    tx_hash = await scene.chain.rpc("eth_sendRawTransaction", raw)
    await scene.watch(3)
    [late] = scene.db.point(sightings_in, str(CHAIN), tx_hash)
    assert (late.kind, late.payment_id) == ("late", payment.id)
    assert await scene.look(payment) is None


async def test_what_waits_in_a_nodes_pool_is_waited_for(nodes: Nodes) -> None:
    scene, *proxies = nodes
    payment, raw = await told(scene)
    await forget(scene, payment)
    await pass_time(scene, given_up_s(payment))
    tx_hash = await scene.chain.rpc("eth_sendRawTransaction", raw)
    # One node alone has it, whichever it is, and it need not be one of the two that are asked first.
    for keeps in proxies:
        for proxy in proxies:
            proxy.hidden = set() if proxy is keeps else {tx_hash}
        assert await scene.look(payment) is None
    for proxy in proxies:
        proxy.hidden = {tx_hash}

    found = await scene.look(payment)
    assert found is not None
    assert isinstance(found.trigger, WindowClosed)


def unsure(request: Request, result: Any) -> Any:
    """A node that says nonsense about transactions."""
    return "?" if request["method"] == "eth_getTransactionByHash" else result


def elsewhere(request: Request, result: Any) -> Any:
    """A node on another branch."""
    if request["method"] == "eth_getBlockByNumber" and request["params"][0].startswith("0x"):
        return {**result, "hash": "0x" + "12" * 32}
    return result


async def test_enough_nodes_must_say_so_and_have_the_same_final_block(nodes: Nodes) -> None:
    scene, _, second, third = nodes
    payment, _ = await told(scene)
    await forget(scene, payment)
    await pass_time(scene, given_up_s(payment))
    third.errors["eth_getTransactionByHash"] = (-32000, "no")
    assert await scene.look(payment) is None
    third.errors.clear()
    third.rewrite = unsure
    assert await scene.look(payment) is None
    third.rewrite = second.rewrite = elsewhere
    assert await scene.look(payment) is None
    second.rewrite = None

    # One that is elsewhere, and does not know the transaction there either, keeps nothing from its end.
    found = await scene.look(payment)
    assert found is not None
    assert isinstance(found.trigger, WindowClosed)


def pruned(request: Request, result: Any) -> Any:
    """A node that has no receipts any more, nor the logs that were in them."""
    return {"eth_getTransactionReceipt": None, "eth_getLogs": []}.get(request["method"], result)


async def test_who_has_pruned_what_happened_does_not_tell_that_another_transaction_took_the_place(
    nodes: Nodes,
) -> None:
    """It would say the same of one that has paid, and whose transaction it has forgotten as well."""
    scene, *proxies = nodes
    payment, _ = await told_directly(scene)
    noted = read_track(payment).told
    assert noted is not None
    buyer = account(BUYER)
    await scene.chain.send_as(buyer, address(BUYER), b"", nonce=noted.nonce, max_fee=2 * 10**11, tip=10**10)
    await scene.watch(3)
    for proxy in proxies[1:]:
        proxy.rewrite = pruned
    assert await scene.look(payment) is None
    proxies[1].rewrite, proxies[0].rewrite = None, pruned  # two of three are needed, whichever they are
    assert await scene.look(payment) is None
    proxies[0].rewrite = None

    found = await scene.look(payment)
    assert found is not None
    assert found.trigger == PaymentFailed(REPLACED, DECLINED)


async def test_a_buyer_who_told_of_it_late_is_waited_for_as_long(nodes: Nodes) -> None:
    scene, *_ = nodes
    payment, _ = await told(scene)
    await forget(scene, payment)
    assert payment.processing is not None
    after_s = payment.processing.processing_at_ms // 1000 + GIVEN_UP_S
    payment = msgspec.structs.replace(payment, expires_at_ms=payment.created_at_ms - 3_600_000)
    await pass_time(scene, after_s - 60)
    assert await scene.look(payment) is None
    await pass_time(scene, after_s)

    assert await scene.look(payment) is not None
