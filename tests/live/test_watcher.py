"""The watcher on a real node: transfers of every kind, reorgs, and nodes that fail, lag or hide."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import trio
from eth_account.messages import encode_typed_data

from payd.actors.block_watcher import block_watcher
from payd.actors.watcher import Watcher
from payd.chains.assets import AssetBook
from payd.chains.evm.authorization import (
    Authorization,
    TokenDomain,
    transfer_with_authorization_call,
    typed_data,
)
from payd.chains.evm.binding import authorization_nonce, payment_tag, tagged_transfer
from payd.chains.evm.dialect import EvmDialect
from payd.chains.heads import follow_heads
from payd.chains.rpc import Rpc
from payd.clock import Clock
from payd.core.caip import parse_chain
from payd.store.db import Database
from payd.store.sightings import matched_of
from tests.chains.evm.json import SHOP, TOKEN
from tests.live.anvil import Anvil, running_anvil
from tests.live.chain import BUYER, STRANGER, LocalChain, account, address, calldata
from tests.live.proxy import Request, open_proxy
from tests.till import CHAIN, ETH, PRICE, WINDOW_MS, Till

pytestmark = pytest.mark.real_time

CHAIN_ID = 8453


@dataclass
class Scene:
    """A watcher, what it was asked to tell, and the chain under it."""

    chain: LocalChain
    till: Till
    watcher: Watcher
    rpc: Rpc
    told: list[str]

    async def sell(self, name: str = "1", **more: Any) -> str:
        """A payment that is offered by the chain's own clock."""
        return await self.till.sell(name, at_ms=await self.chain.now_s() * 1000, **more)

    async def send(self, to: str, data: bytes = b"", value: int = 0, place: int = BUYER) -> dict[str, Any]:
        """The receipt of a transaction in a block of its own."""
        tx_hash = await self.chain.send_as(account(place), to, data, value)
        await self.chain.rpc("evm_mine")
        return await self.chain.receipt(tx_hash)

    async def pay(self, payment_id: str) -> str:
        """The hash of a tagged transfer that pays it."""
        data = tagged_transfer(SHOP, PRICE, payment_tag(payment_id))
        return str((await self.send(TOKEN, data))["transactionHash"])

    def blocks_of(self, payment_id: str) -> list[int]:
        """Where the transfers are that pay it."""
        return [one.block_number for one in self.till.db.point(matched_of, payment_id)]


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    """Base's id and token, with blocks from `evm_mine` alone; the last but one block is final."""
    with running_anvil(chain_id=CHAIN_ID, mining=False, slots_in_an_epoch=1) as running:
        yield running


@asynccontextmanager
async def open_scene(anvil: Anvil, db: Database, *urls: str, **more: Any) -> AsyncIterator[Scene]:
    """A till on a chain where the buyer has tokens, read by the nodes at these URLs."""
    chain = LocalChain(anvil)
    await chain.rpc("evm_setAutomine", True)
    await chain.token_at(TOKEN)
    await chain.mint(TOKEN, address(BUYER), 100 * PRICE)
    await chain.rpc("evm_setAutomine", False)
    till, rpc = await Till(db).open(), Rpc(urls or [anvil.url], EvmDialect(CHAIN_ID))

    told: list[str] = []

    async def news(payment_id: str, chain_name: str) -> None:
        assert chain_name == CHAIN
        told.append(payment_id)

    watcher = block_watcher(
        db=db,
        clock=Clock(),
        rpc=rpc,
        chain=parse_chain(CHAIN),
        book=AssetBook(),
        news=news,
        **{"poll_ms": 2000, "final": "finalized", **more},
    )
    assert await watcher.run_once()
    yield Scene(chain, till, watcher, rpc, told)
    await rpc.aclose()


@pytest.fixture
async def scene(anvil: Anvil, realm_db: Database) -> AsyncIterator[Scene]:
    async with open_scene(anvil, realm_db) as opened:
        yield opened


async def test_transfers_of_every_kind_pay(scene: Scene) -> None:
    tagged, signed, wrapped, coins = [await scene.sell(name) for name in "1234"]
    await scene.till.offer(coins, asset=ETH, value=10**15, at_ms=await scene.chain.now_s() * 1000)
    authorization = Authorization(
        TokenDomain("USD Coin", "2", CHAIN_ID, TOKEN),
        address(BUYER).lower(),
        SHOP,
        PRICE,
        await scene.chain.now_s() + 900,
        authorization_nonce(signed),
    )
    message = encode_typed_data(full_message=typed_data(authorization))
    signature = bytes(account(BUYER).sign_message(message).signature)
    await scene.chain.rpc("evm_setAutomine", True)
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(BUYER)])
    await scene.chain.mint(TOKEN, wallet, PRICE)
    await scene.chain.rpc("evm_setAutomine", False)

    await scene.pay(tagged)
    await scene.send(TOKEN, transfer_with_authorization_call(authorization, signature), place=STRANGER)
    inner = tagged_transfer(SHOP, PRICE, payment_tag(wrapped))
    await scene.send(wallet, calldata("execute(address,uint256,bytes)", TOKEN, 0, inner))
    await scene.send(SHOP, payment_tag(coins), 10**15)
    await scene.watcher.run_once()

    assert [len(scene.blocks_of(payment)) for payment in (tagged, signed, wrapped, coins)] == [1, 1, 1, 1]
    assert set(scene.told) == {tagged, signed, wrapped, coins}


async def test_a_reorg_takes_a_transfer_and_gives_it_back_in_another_block(scene: Scene) -> None:
    payment = await scene.sell()
    data = tagged_transfer(SHOP, PRICE, payment_tag(payment))
    raw = await scene.chain.signed(account(BUYER), TOKEN, data)
    await scene.chain.rpc("eth_sendRawTransaction", "0x" + raw.hex())
    await scene.chain.rpc("evm_mine")
    await scene.chain.mine(2)
    await scene.watcher.run_once()
    [before] = scene.blocks_of(payment)

    await scene.chain.reorg(3)
    assert await scene.watcher.run_once()
    assert scene.blocks_of(payment) == []
    assert scene.watcher.stats().reorgs == 1

    await scene.chain.rpc("eth_sendRawTransaction", "0x" + raw.hex())
    await scene.chain.mine(2)
    await scene.watcher.run_once()
    [after] = scene.blocks_of(payment)
    assert after > before
    assert scene.till.count("transfers") == 1


async def test_a_reorg_that_moves_a_transfer_within_the_same_heights_is_followed(scene: Scene) -> None:
    payment = await scene.sell()
    data = tagged_transfer(SHOP, PRICE, payment_tag(payment))
    raw = await scene.chain.signed(account(BUYER), TOKEN, data)
    await scene.chain.rpc("eth_sendRawTransaction", "0x" + raw.hex())
    await scene.chain.rpc("evm_mine")
    await scene.chain.mine(3)
    await scene.watcher.run_once()
    [before] = scene.blocks_of(payment)
    await scene.chain.reorg(4, [(raw, 2)])
    await scene.watcher.run_once()
    assert scene.blocks_of(payment) == [before + 2]


async def test_a_payment_that_is_mined_while_the_node_answers_503_is_found_afterwards(
    anvil: Anvil, realm_db: Database
) -> None:
    async with open_proxy(anvil) as proxy, open_scene(anvil, realm_db, proxy.url) as scene:
        payment = await scene.sell()
        proxy.status = 503
        await scene.pay(payment)
        await scene.chain.mine(3)
        assert not await scene.watcher.run_once()
        proxy.status = None
        while not await scene.watcher.run_once():
            await trio.sleep(0.1)
        assert len(scene.blocks_of(payment)) == 1


async def test_a_node_that_lags_takes_nothing_back(anvil: Anvil, realm_db: Database) -> None:
    async with open_proxy(anvil) as proxy, open_scene(anvil, realm_db, proxy.url, anvil.url) as scene:
        payment = await scene.sell()
        await scene.pay(payment)
        await scene.watcher.run_once()
        proxy.lag = 3
        assert await scene.watcher.run_once()
        assert len(scene.blocks_of(payment)) == 1
        assert scene.watcher.stats().reorgs == 0
        other = await scene.sell("2")
        await scene.pay(other)
        assert await scene.watcher.run_once()
        assert len(scene.blocks_of(other)) == 1


async def test_what_a_node_hides_the_other_shows_once_it_is_final(anvil: Anvil, realm_db: Database) -> None:
    def without_logs(request: Request, result: Any) -> Any:
        return [] if request["method"] == "eth_getLogs" else result

    async with open_proxy(anvil) as proxy, open_scene(anvil, realm_db, proxy.url, anvil.url) as scene:
        proxy.rewrite = without_logs
        payment = await scene.sell()
        await scene.pay(payment)
        await scene.watcher.run_once()
        assert scene.blocks_of(payment) == []
        await scene.chain.mine(2)
        await scene.watcher.run_once()
        assert len(scene.blocks_of(payment)) == 1


async def test_a_long_downtime_is_read_up(scene: Scene) -> None:
    payment = await scene.sell()
    await scene.pay(payment)
    await scene.chain.mine(1200)
    await scene.watcher.run_once()
    assert len(scene.blocks_of(payment)) == 1
    assert scene.watcher.stats().read == await scene.chain.head()
    assert scene.watcher.stats().final == await scene.chain.head() - 2


async def test_a_head_told_by_websocket_is_read_at_once(anvil: Anvil, realm_db: Database) -> None:
    heads = partial(follow_heads, anvil.ws_url)
    async with open_scene(anvil, realm_db, poll_ms=60_000, follow_heads=heads) as scene:
        payment = await scene.sell(window_ms=WINDOW_MS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.watcher.run)
            with trio.fail_after(20):
                await scene.pay(payment)
                while not scene.told:
                    await trio.sleep(0.05)
                    await scene.chain.rpc("evm_mine")
            nursery.cancel_scope.cancel()
        assert len(scene.blocks_of(payment)) == 1


async def test_a_transaction_is_matched_by_its_id(anvil: Anvil, realm_db: Database) -> None:
    def without_logs(request: Request, result: Any) -> Any:
        return [] if request["method"] == "eth_getLogs" else result

    async with open_proxy(anvil) as proxy, open_scene(anvil, realm_db, proxy.url) as scene:
        proxy.rewrite = without_logs
        payment = await scene.sell()
        tx_id = await scene.pay(payment)
        await scene.watcher.run_once()
        assert scene.blocks_of(payment) == []
        result = await scene.watcher.match(tx_id)
        assert (result.outcome, scene.told) == ("recorded", [payment])
        assert len(scene.blocks_of(payment)) == 1
