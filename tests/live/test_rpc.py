"""`Rpc` against real nodes, good and bad, over real connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from eth_utils.crypto import keccak

from payd.chains.evm.dialect import EvmDialect
from payd.chains.rpc import NodesDown, Rpc, RpcError
from tests.live.anvil import Anvil, running_anvil
from tests.live.chain import BUYER, MERCHANT, LocalChain, account, address, calldata
from tests.live.proxy import FlakyProxy, open_proxy, with_status

pytestmark = pytest.mark.real_time


@asynccontextmanager
async def open_proxied(
    anvil: Anvil, count: int, *, deadline_s: float = 5
) -> AsyncIterator[tuple[Rpc, list[FlakyProxy]]]:
    """One chain behind so many nodes."""
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(open_proxy(anvil)) for _ in range(count)]
        rpc = Rpc([proxy.url for proxy in proxies], EvmDialect(anvil.chain_id), deadline_s=deadline_s)
        stack.push_async_callback(rpc.aclose)
        yield rpc, proxies


async def test_a_node_that_fails_or_hangs_is_left_for_the_next(anvil: Anvil) -> None:
    async with open_proxied(anvil, 3, deadline_s=0.5) as (rpc, proxies):
        proxies[0].status = 503
        proxies[1].hang = True
        assert await rpc.call("eth_chainId") == "0x7a69"

        assert [node.last_error for node in rpc.nodes] == [
            "HTTP 503",
            "timeout_response: no answer within 0.5 s",
            "",
        ]
        proxies[2].resets = True
        with pytest.raises(NodesDown, match="connection_reset"):
            await rpc.call("eth_chainId")


async def test_a_node_that_was_down_is_used_again(anvil: Anvil) -> None:
    async with open_proxied(anvil, 2) as (rpc, proxies):
        proxies[0].status = 503
        await rpc.call("eth_blockNumber")
        proxies[0].status = None
        with trio.fail_after(10):
            while proxies[0].calls["eth_blockNumber"] == 0:
                await rpc.call("eth_blockNumber")
                await trio.sleep(0.05)

        assert rpc.nodes[0].is_healthy


async def test_a_real_nodes_errors_are_read_for_what_they_mean(chain: LocalChain) -> None:
    token = await chain.token()
    transfer = {
        "from": address(BUYER),
        "to": token,
        "data": "0x" + calldata("transfer(address,uint256)", address(MERCHANT), 1).hex(),
    }
    async with open_proxied(chain.anvil, 1) as (rpc, _):
        reverted, ahead, unheard = await rpc.batch(
            [("eth_call", transfer, "latest"), ("eth_call", transfer, "0xffff"), ("eth_unheardOf",)]
        )

    assert [error.kind for error in (reverted, ahead, unheard)] == ["answer", "cannot", "cannot"]
    assert reverted.is_revert
    assert "exceeds balance" in reverted.message
    assert not ahead.is_revert


async def test_what_a_laggard_does_not_know_the_next_node_does(chain: LocalChain) -> None:
    await chain.mine(3)
    asked = ("eth_getBalance", address(BUYER), "0x3")
    async with open_proxied(chain.anvil, 2) as (rpc, proxies):
        proxies[0].lag = 2
        assert await rpc.call(*asked) == hex(10_000 * 10**18)

        assert proxies[1].calls["eth_getBalance"] == 1
        with pytest.raises(RpcError, match="header not found"):
            await rpc.call(*asked, node=rpc.nodes[0])


async def test_a_quorum_shows_who_lies(chain: LocalChain) -> None:
    receipt = await chain.done(account(BUYER), address(MERCHANT), value=1)
    async with open_proxied(chain.anvil, 3) as (rpc, proxies):
        proxies[1].rewrite = with_status(0)
        proxies[2].hidden.add(receipt["transactionHash"])
        answers = await rpc.ask_all([("eth_getTransactionReceipt", receipt["transactionHash"])])

    [[honest], [liar], [hider]] = [results for _, results in answers]
    assert honest == receipt
    assert liar == {**receipt, "status": "0x0"}
    assert hider is None


async def test_a_node_of_another_chain_takes_no_part_in_anything(anvil: Anvil) -> None:
    with running_anvil(chain_id=1) as other:
        rpc = Rpc([other.url, anvil.url], EvmDialect(anvil.chain_id))
        assert await rpc.call("eth_chainId") == hex(anvil.chain_id)
        assert [node for node, _ in await rpc.ask_all([("eth_chainId",)])] == [rpc.nodes[1]]
        assert [sent.verdict for sent in await rpc.broadcast(b"\x02")] == ["down", "other"]
        await rpc.aclose()


async def test_a_node_that_takes_short_batches_gets_them(anvil: Anvil) -> None:
    async with open_proxied(anvil, 1) as (rpc, [proxy]):
        proxy.batch_max = 10
        assert await rpc.batch([("eth_blockNumber",)] * 200) == ["0x0"] * 200


async def test_a_transaction_reaches_the_chain_past_a_dead_and_a_censoring_node(chain: LocalChain) -> None:
    raw = await chain.signed(account(BUYER), address(MERCHANT), value=1, gas=21_000)
    async with open_proxied(chain.anvil, 3) as (rpc, proxies):
        proxies[0].status, proxies[1].censors = 500, True
        sent = await rpc.broadcast(raw)

        assert [one.verdict for one in sent] == ["down", "ok", "ok"]
    assert (await chain.receipt("0x" + keccak(raw).hex()))["status"] == "0x1"


async def test_what_a_real_node_says_to_a_transaction_is_understood() -> None:
    with running_anvil(mining=False) as anvil:
        chain, rpc = LocalChain(anvil), Rpc([anvil.url], EvmDialect(anvil.chain_id))
        buyer, merchant = account(BUYER), address(MERCHANT)
        first = await chain.signed(buyer, merchant, value=1, gas=21_000, nonce=0)
        cheaper = await chain.signed(buyer, merchant, value=1, gas=21_000, nonce=0, max_fee=2 * 10**9, tip=1)
        too_much = await chain.signed(buyer, merchant, value=10**24, gas=21_000, nonce=1)
        verdicts = [
            [sent.verdict for sent in await rpc.broadcast(raw)] for raw in (first, first, cheaper, too_much)
        ]
        await chain.mine()
        other = await chain.signed(buyer, merchant, value=2, gas=21_000, nonce=0)
        verdicts.append([sent.verdict for sent in await rpc.broadcast(other)])
        await rpc.aclose()

    assert verdicts == [["ok"], ["known"], ["underpriced"], ["no_funds"], ["nonce_low"]]
