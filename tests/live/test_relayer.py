"""The relayer on a real node: signed payments land once, through crashes, fees, strangers and reorgs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from payd.actors.relay_flight import DOUBT_MS
from payd.actors.relayer import Relayer
from payd.chains.evm.abi import MULTICALL3, Call, aggregate3_call
from payd.chains.rpc import NodesDown, Rpc
from payd.store.relays import reopen_above
from tests.live.chain import BUYER, BUYER_2, MERCHANT, OPERATOR, RELAYER, STRANGER, account, address, calldata
from tests.live.proxy import open_proxy
from tests.live.relay_bench import (
    CHAIN,
    DOLLARS,
    GWEI,
    Live,
    eventually,
    eventually_landed,
    hanging_after,
    open_live,
    open_rpc,
)

pytestmark = pytest.mark.real_time


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    """A node of its own."""
    async with open_live(tmp_path) as opened:
        yield opened


@pytest.fixture
async def rpc(live: Live) -> AsyncIterator[Rpc]:
    """That node alone."""
    async with open_rpc(live.anvil.url) as opened:
        yield opened


@pytest.fixture
def relayer(live: Live, rpc: Rpc) -> Relayer:
    """A relayer on it."""
    return live.relayer(rpc)


async def test_a_signature_becomes_a_transfer_and_its_gas_is_counted(live: Live, relayer: Relayer) -> None:
    before = int(await live.chain.rpc("eth_getBalance", live.sender, "latest"), 16)
    await live.owe("pay_1")
    await relayer.run_once()
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "landed"
    assert await live.paid() == 5 * DOLLARS
    after = int(await live.chain.rpc("eth_getBalance", live.sender, "latest"), 16)
    assert before - after <= relayer.stats().spent_today <= before - after + GWEI


async def test_sixty_land_exactly_once(live: Live, relayer: Relayer) -> None:
    for number in range(60):
        await live.owe(f"pay_{number}", DOLLARS + number)
    for _ in range(4):
        await relayer.run_once()
        await live.mine()
    await relayer.run_once()
    assert {live.job(f"pay_{number}").state for number in range(60)} == {"landed"}
    assert await live.paid() == sum(DOLLARS + number for number in range(60))
    assert int(await live.chain.rpc("eth_getTransactionCount", live.sender, "latest"), 16) == 60


async def test_two_legs_land_in_one_transaction(live: Live, relayer: Relayer) -> None:
    legs = [
        await live.signed("pay_1", 4 * DOLLARS),
        await live.signed("pay_1", DOLLARS, "fee", OPERATOR),
    ]
    calls = [Call(live.token, leg, may_fail=False) for leg in legs]
    await live.owe("pay_1", target=MULTICALL3, data=aggregate3_call(calls))
    await relayer.run_once()
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "landed"
    assert (await live.paid(), await live.paid(OPERATOR)) == (4 * DOLLARS, DOLLARS)


async def test_the_merchants_leg_lands_alone_where_a_stranger_brought_the_fee(
    live: Live, relayer: Relayer
) -> None:
    legs = [
        await live.signed("pay_1", 4 * DOLLARS),
        await live.signed("pay_1", DOLLARS, "fee", OPERATOR),
    ]
    calls = [Call(live.token, leg, may_fail=False) for leg in legs]
    await live.owe("pay_1", target=MULTICALL3, data=aggregate3_call(calls))
    await relayer.run_once()
    await live.chain.send_as(account(STRANGER), live.token, legs[1], tip=50 * GWEI)
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "queued"
    live.later(30)
    await relayer.run_once()
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "landed"
    assert (await live.paid(), await live.paid(OPERATOR)) == (4 * DOLLARS, DOLLARS)


async def test_a_smart_wallet_pays(live: Live, relayer: Relayer) -> None:
    await live.chain.rpc("evm_setAutomine", True)
    wallet = await live.chain.deploy("Wallet1271", ["address"], [address(BUYER)])
    await live.chain.mint(live.token, wallet, 10 * DOLLARS)
    await live.chain.rpc("evm_setAutomine", False)
    await live.owe("pay_1", data=await live.signed("pay_1", 7 * DOLLARS, payer=wallet))
    await relayer.run_once()
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "landed"
    assert await live.paid() == 7 * DOLLARS


async def test_a_base_fee_that_rose_is_outbid_under_the_same_nonce(live: Live, relayer: Relayer) -> None:
    await live.owe("pay_1")
    await relayer.run_once()
    [first] = live.open()
    await live.base_fee(50 * GWEI)
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "sent"

    live.later(60)
    await relayer.run_once()
    [bumped] = live.open()
    assert bumped.nonce == first.nonce
    await live.base_fee(50 * GWEI)
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "landed"
    assert await live.chain.rpc("eth_getTransactionReceipt", first.newest.hash) is None
    assert (await live.chain.receipt(bumped.newest.hash))["status"] == "0x1"


async def test_a_crash_between_store_and_broadcast_is_made_good(live: Live, rpc: Rpc) -> None:
    await live.owe("pay_1")
    await live.owe("pay_2")
    async with open_proxy(live.anvil) as proxy, open_rpc(proxy.url) as through:
        proxy.rewrite = hanging_after("eth_estimateGas", proxy)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.relayer(through).run_once)
            await eventually(lambda: proxy.calls["eth_sendRawTransaction"] > 0)
            nursery.cancel_scope.cancel()
    stored = [one.newest.hash for one in live.open()]
    assert len(stored) == 2
    assert (await live.chain.rpc("txpool_status"))["pending"] == "0x0"

    again = live.relayer(rpc)
    await again.run_once()
    await live.mine()
    await again.run_once()
    assert [live.job(name).state for name in ("pay_1", "pay_2")] == ["landed", "landed"]
    assert [(await live.chain.receipt(one))["status"] for one in stored] == ["0x1", "0x1"]


async def test_a_crash_between_broadcast_and_receipt_sends_nothing_twice(live: Live, rpc: Rpc) -> None:
    await live.owe("pay_1")
    await live.relayer(rpc).run_once()
    [sent] = live.open()
    again = live.relayer(rpc)
    await again.run_once()
    assert live.open() == [sent]
    await live.mine()
    await live.relayer(rpc).run_once()
    assert live.job("pay_1").state == "landed"
    assert await live.paid() == 5 * DOLLARS


async def test_what_the_pool_drops_is_sent_again(live: Live, relayer: Relayer) -> None:
    await live.owe("pay_1")
    await relayer.run_once()
    [sent] = live.open()
    await live.chain.rpc("anvil_dropTransaction", sent.newest.hash)
    await live.mine()
    await relayer.run_once()
    assert await live.paid() == 0
    live.later(25)
    await relayer.run_once()
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "landed"


async def test_a_nonce_that_another_process_took_is_replaced(live: Live, relayer: Relayer) -> None:
    await live.owe("pay_1")
    await relayer.run_once()
    [sent] = live.open()
    await live.chain.send_as(
        account(RELAYER),
        address(OPERATOR),
        value=1,
        gas=21_000,
        nonce=sent.nonce,
        max_fee=100 * GWEI,
        tip=50 * GWEI,
    )
    await live.mine()
    await relayer.run_once()
    live.later(DOUBT_MS / 1000)
    await relayer.run_once()
    assert [one.nonce for one in live.open()] == [sent.nonce + 1]
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "landed"
    assert await live.paid() == 5 * DOLLARS


async def test_funds_that_left_in_the_same_block_are_waited_for(live: Live, relayer: Relayer) -> None:
    await live.owe("pay_1", 1000 * DOLLARS)
    await relayer.run_once()
    away = calldata("transfer(address,uint256)", address(BUYER_2), DOLLARS)
    await live.chain.send_as(account(BUYER), live.token, away, gas=100_000, tip=50 * GWEI)
    await live.mine()
    await relayer.run_once()
    found = live.job("pay_1")
    assert (found.state, found.tries) == ("queued", 1)

    back = calldata("transfer(address,uint256)", address(BUYER), DOLLARS)
    await live.chain.send_as(account(BUYER_2), live.token, back, gas=100_000)
    await live.mine()
    live.later(30)
    await relayer.run_once()
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "landed"
    assert await live.paid() == 1000 * DOLLARS


@pytest.mark.parametrize("quiet", [False, True])
async def test_what_a_stranger_brings_first_is_paid_once(live: Live, relayer: Relayer, quiet: bool) -> None:
    await live.chain.send_as(account(STRANGER), live.token, calldata("setQuiet(bool)", quiet), gas=100_000)
    await live.mine()
    owed = await live.owe("pay_1")
    await relayer.run_once()
    await live.chain.send_as(account(STRANGER), live.token, owed.data, gas=200_000, tip=50 * GWEI)
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "landed"
    assert await live.paid() == 5 * DOLLARS
    assert relayer.stats().reverts == (0 if quiet else 1)


async def test_what_a_stranger_brought_before_costs_no_gas(live: Live, relayer: Relayer) -> None:
    owed = await live.owe("pay_1")
    await live.chain.send_as(account(STRANGER), live.token, owed.data, gas=200_000)
    await live.mine()
    await relayer.run_once()
    found = live.job("pay_1")
    assert (found.state, found.left_us) == ("landed", False)
    assert await live.paid() == 5 * DOLLARS


async def test_what_the_token_refuses_is_not_sent(live: Live, relayer: Relayer) -> None:
    deny = calldata("setBlacklisted(address,bool)", address(MERCHANT), True)
    await live.chain.send_as(account(STRANGER), live.token, deny, gas=100_000)
    await live.mine()
    await live.owe("pay_1")
    await relayer.run_once()
    found = live.job("pay_1")
    assert (found.state, found.left_us, found.tries) == ("queued", False, 1)
    assert "blacklisted" in (found.reason or "")


async def test_a_reorg_brings_the_same_bytes_again(live: Live, relayer: Relayer) -> None:
    await live.chain.mine(3)
    await live.owe("pay_1")
    await relayer.run_once()
    [sent] = live.open()
    before = await live.chain.head()
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "landed"

    await live.chain.reorg(1)
    assert await live.paid() == 0
    await live.db.write(reopen_above, CHAIN, before)
    assert live.job("pay_1").state == "sent"
    await relayer.run_once()
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "landed"
    assert await live.paid() == 5 * DOLLARS
    assert (await live.chain.receipt(sent.newest.hash))["status"] == "0x1"


async def test_a_reorg_in_which_another_process_took_the_nonce_costs_a_nonce_only(
    live: Live, relayer: Relayer
) -> None:
    await live.chain.mine(3)
    await live.owe("pay_1")
    await relayer.run_once()
    [sent] = live.open()
    before = await live.chain.head()
    await live.mine()
    await relayer.run_once()
    other = await live.chain.signed(
        account(RELAYER), address(OPERATOR), value=1, nonce=sent.nonce, gas=21_000
    )
    await live.chain.reorg(1, [(other, 0)])
    await live.db.write(reopen_above, CHAIN, before)
    await relayer.run_once()
    live.later(DOUBT_MS / 1000)
    await relayer.run_once()
    await live.mine()
    await relayer.run_once()
    assert live.job("pay_1").state == "landed"
    assert await live.paid() == 5 * DOLLARS


@pytest.mark.parametrize("trouble", ["status", "hang", "censors", "lag"])
async def test_one_bad_node_of_two_stops_nothing(live: Live, trouble: str) -> None:
    await live.chain.mine(5)
    async with open_proxy(live.anvil) as bad, open_rpc(bad.url, live.anvil.url, deadline_s=1.0) as rpc:
        relayer = live.relayer(rpc)
        setattr(bad, trouble, {"status": 503, "lag": 3}.get(trouble, True))
        await live.owe("pay_1")
        await eventually_landed(live, relayer, "pay_1")
        assert await live.paid() == 5 * DOLLARS


async def test_nodes_that_are_down_for_a_while_lose_nothing(live: Live) -> None:
    async with (
        open_proxy(live.anvil) as one,
        open_proxy(live.anvil) as other,
        open_rpc(one.url, other.url) as rpc,
    ):
        relayer = live.relayer(rpc)
        await live.owe("pay_1")
        await relayer.run_once()
        one.status = other.status = 503
        await live.owe("pay_2")
        for _ in range(3):
            with pytest.raises(NodesDown):
                await relayer.run_once()
        await live.mine()
        one.status = other.status = None
        await eventually_landed(live, relayer, "pay_1")
        await eventually_landed(live, relayer, "pay_2")
        assert await live.paid() == 10 * DOLLARS


async def test_the_task_brings_what_is_owed_while_blocks_come(live: Live, relayer: Relayer) -> None:
    await live.chain.rpc("evm_setAutomine", True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relayer.run)
        for number in range(5):
            await live.owe(f"pay_{number}", DOLLARS)
            relayer.wake()

        def all_landed() -> bool:
            relayer.wake()
            return all(live.job(f"pay_{number}").state == "landed" for number in range(5))

        await eventually(all_landed)
        nursery.cancel_scope.cancel()
    assert await live.paid() == 5 * DOLLARS
