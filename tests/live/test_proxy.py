"""The bad node is as bad as it is told to be, and no worse."""

from __future__ import annotations

import pytest

from payd.net.http import Client, Reply, Target
from tests.live.anvil import Anvil, Refused
from tests.live.chain import BUYER, DEPLOYER, MERCHANT, LocalChain, account, address, calldata
from tests.live.proxy import FlakyProxy, open_proxy, with_status, without_logs

pytestmark = pytest.mark.real_time

TRANSFER = "transfer(address,uint256)"


def ask(proxy: FlakyProxy, method: str, *params: object) -> object:
    """What the proxy says to one call, without the network in between."""
    return proxy.result({"id": 1, "method": method, "params": params})


async def posted(proxy: FlakyProxy, body: bytes, deadline_s: float = 5) -> Reply:
    client = Client(may_call=lambda _: True)
    reply = await client.send("POST", Target.of(proxy.url), (), body, deadline_s=deadline_s)
    await client.aclose()
    return reply


ONE = b'{"jsonrpc":"2.0","id":7,"method":"eth_chainId","params":[]}'


async def test_a_good_one_says_what_the_node_says(anvil: Anvil) -> None:
    async with open_proxy(anvil) as proxy:
        assert (await posted(proxy, ONE)).body == b'{"jsonrpc": "2.0", "id": 7, "result": "0x7a69"}'
        assert (await posted(proxy, b"[" + ONE + b"]")).body.startswith(b'[{"jsonrpc"')

        assert proxy.calls == {"eth_chainId": 2}
        assert proxy.posts == 2


async def test_it_fails_as_it_is_told(anvil: Anvil) -> None:
    async with open_proxy(anvil) as proxy:
        proxy.status, proxy.retry_after = 503, "7"
        down = await posted(proxy, ONE)
        proxy.status, proxy.raw = None, b"<html>"
        odd = await posted(proxy, ONE)
        proxy.raw, proxy.resets = None, True
        cut = await posted(proxy, ONE)
        proxy.resets, proxy.hang = False, True
        silent = await posted(proxy, ONE, deadline_s=0.05)

    assert (down.status, down.header("retry-after")) == (503, "7")
    assert (odd.status, odd.body) == (200, b"<html>")
    assert cut.error_class == "connection_reset"
    assert silent.error_class == "timeout_response"


async def test_a_laggard_knows_nothing_of_the_newest_blocks(chain: LocalChain) -> None:
    token = await chain.token()
    await chain.mint(token, address(BUYER), 100)
    paid = await chain.done(account(BUYER), token, calldata(TRANSFER, address(MERCHANT), 60))
    proxy = FlakyProxy(chain.anvil, lag=1)
    held = {"to": token, "data": "0x" + calldata("balanceOf(address)", address(MERCHANT)).hex()}

    assert ask(proxy, "eth_blockNumber") == "0x2"
    assert ask(proxy, "eth_getBlockByNumber", "0x3", False) is None
    assert ask(proxy, "eth_getTransactionReceipt", paid["transactionHash"]) is None
    assert ask(proxy, "eth_getLogs", {"fromBlock": "0x3", "toBlock": "latest"}) == []
    assert int(str(ask(proxy, "eth_call", held, "latest")), 16) == 0
    with pytest.raises(Refused, match="header not found"):
        ask(proxy, "eth_call", held, "0x3")

    proxy.lag = 0
    assert int(str(ask(proxy, "eth_call", held, "latest")), 16) == 60


async def test_a_liar_invents_and_hides(chain: LocalChain) -> None:
    sent = await chain.done(account(DEPLOYER), address(BUYER), value=1)
    known = sent["transactionHash"]
    proxy = FlakyProxy(chain.anvil, rewrite=with_status(0))
    lied = ask(proxy, "eth_getTransactionReceipt", known)
    proxy.rewrite = without_logs
    bare = ask(proxy, "eth_getTransactionReceipt", known)
    proxy.rewrite, proxy.hidden = None, {known}

    assert isinstance(lied, dict)
    assert lied["status"] == "0x0"
    assert isinstance(bare, dict)
    assert bare["logs"] == []
    assert ask(proxy, "eth_getTransactionReceipt", known) is None
    assert ask(proxy, "eth_getTransactionByHash", known) is None


async def test_a_censor_says_yes_and_drops_it(chain: LocalChain) -> None:
    proxy = FlakyProxy(chain.anvil, censors=True)
    raw = await chain.signed(account(BUYER), address(MERCHANT), value=1, gas=21_000)

    ask(proxy, "eth_sendRawTransaction", "0x" + raw.hex())

    assert await chain.rpc("txpool_status") == {"pending": "0x0", "queued": "0x0"}
    assert await chain.head() == 0
