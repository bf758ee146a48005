"""The node that the live realm is tested on does what those tests lean on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.anvil import Anvil, Refused, running_anvil
from tests.live.chain import BUYER, DEPLOYER, LocalChain, account, address

pytestmark = pytest.mark.real_time


def test_it_is_of_the_chain_that_was_asked_for() -> None:
    with running_anvil(chain_id=8453) as anvil:
        assert anvil.ask("eth_chainId") == hex(8453)


def test_a_refusal_is_raised_with_its_code(anvil: Anvil) -> None:
    with pytest.raises(Refused) as refused:
        anvil.ask("eth_noSuchThing")

    assert refused.value.code == -32601


async def test_without_mining_a_transaction_waits_for_its_block() -> None:
    with running_anvil(mining=False) as anvil:
        chain = LocalChain(anvil)
        sent = await chain.send_as(account(DEPLOYER), address(BUYER), value=1, gas=21_000)

        assert await chain.rpc("eth_getTransactionReceipt", sent) is None
        await chain.rpc("evm_mine")
        assert (await chain.receipt(sent))["status"] == "0x1"


async def test_finalized_is_two_short_epochs_behind(chain: LocalChain) -> None:
    await chain.mine(10)

    found = [await chain.rpc("eth_getBlockByNumber", tag, False) for tag in ("latest", "safe", "finalized")]

    assert [int(block["number"], 16) for block in found] == [10, 9, 8]


async def test_a_reorg_takes_a_transaction_and_its_block_away(chain: LocalChain) -> None:
    before = await chain.done(account(DEPLOYER), address(BUYER), value=1)
    await chain.mine(2)

    await chain.reorg(3)

    assert await chain.rpc("eth_getTransactionReceipt", before["transactionHash"]) is None
    block = await chain.rpc("eth_getBlockByNumber", before["blockNumber"], False)
    assert block["hash"] != before["blockHash"]
    assert await chain.head() == 3


async def test_a_chain_can_be_kept_over_a_restart(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with running_anvil(state=state) as anvil:
        port = anvil.port
        await LocalChain(anvil).mine(7)
    with running_anvil(state=state, port=port) as anvil:
        assert await LocalChain(anvil).head() == 7


def test_a_node_that_cannot_start_says_why(anvil: Anvil) -> None:
    with pytest.raises(RuntimeError, match="in use"), running_anvil(port=anvil.port):
        pass
