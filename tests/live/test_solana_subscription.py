"""News of transactions as a real node tells them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import trio
from solders.pubkey import Pubkey

from payd.chains.solana.keys import TOKEN, token_account
from payd.chains.solana.subscription import Wanted, follow_signatures
from tests.live.solana import (
    BUYER,
    MERCHANT,
    USDC_MINT,
    LocalSolana,
    furnish_solana,
    keypair,
    memo,
    pay_token,
    pubkey,
    tx_id_of,
)
from tests.live.svm_node import open_svm_node
from tests.live.validator_chain import USDC_KEY, open_validator_chain

pytestmark = pytest.mark.real_time


@dataclass
class Listening:
    """A chain, what is wanted of its node, and what that tells.

    Attributes:
        mint: A token that the buyer has.
    """

    solana: LocalSolana
    mint: Pubkey
    wanted: Wanted
    news: trio.MemoryReceiveChannel[str]

    async def signed(self, text: str) -> bytes:
        """A payment that is like no other."""
        pay = pay_token(pubkey(BUYER), pubkey(MERCHANT), self.mint, 25)
        return await self.solana.signed([memo(text), pay], keypair(BUYER))


@asynccontextmanager
async def open_own() -> AsyncIterator[tuple[LocalSolana, str, Pubkey]]:
    """The tests' own node, its websocket, and a token."""
    async with open_svm_node() as node:
        solana = LocalSolana(node)
        await furnish_solana(solana)
        yield solana, node.ws_url, USDC_MINT


@asynccontextmanager
async def open_others() -> AsyncIterator[tuple[LocalSolana, str, Pubkey]]:
    """The same of a node that others wrote."""
    async with open_validator_chain() as chain:
        yield chain, chain.validator.ws_url, USDC_KEY.pubkey()


@pytest.fixture(params=[open_own, open_others], ids=["LiteSVM", "a validator"])
async def listening(request: pytest.FixtureRequest) -> AsyncIterator[Listening]:
    told, news = trio.open_memory_channel[str](100)
    wanted = Wanted()
    with trio.fail_after(20):
        async with request.param() as (solana, ws_url, mint), trio.open_nursery() as nursery:
            nursery.start_soon(follow_signatures, ws_url, wanted, told.send_nowait)
            yield Listening(solana, mint, wanted, news)
            nursery.cancel_scope.cancel()


async def test_a_transaction_is_told_of_when_it_is_confirmed(listening: Listening) -> None:
    solana, wanted, news = listening.solana, listening.wanted, listening.news
    raws = [await listening.signed(text) for text in ("one", "two", "three")]
    ids = [tx_id_of(raw) for raw in raws]
    wanted.want_ids(ids[:2])
    for raw in raws:
        await solana.send_raw(raw)
    await solana.confirm()

    assert {await news.receive(), await news.receive()} == set(ids[:2])
    wanted.want_ids(ids)
    assert await news.receive() == ids[2]


async def test_what_happened_before_it_was_asked_for_is_told_too(listening: Listening) -> None:
    tx_id = await listening.solana.send_raw(await listening.signed("early"))
    await listening.solana.confirm()
    listening.wanted.want_ids([tx_id])

    assert await listening.news.receive() == tx_id


async def test_a_payment_to_a_token_account_is_told_of_without_a_name(listening: Listening) -> None:
    listening.wanted.want_addresses([str(token_account(pubkey(MERCHANT), listening.mint, TOKEN))])

    assert await _paid_until_told(listening) == ""


async def _paid_until_told(listening: Listening) -> str:
    """The subscription may not stand yet when the first one is paid."""
    place = 0
    while True:
        place += 1
        await listening.solana.send_raw(await listening.signed(str(place)))
        await listening.solana.confirm()
        with trio.move_on_after(0.1):
            return await listening.news.receive()


async def test_a_node_that_dies_is_noticed() -> None:
    told, news = trio.open_memory_channel[str](1)
    reasons: list[str] = []
    wanted = Wanted()

    async def follow(url: str) -> None:
        reasons.append(await follow_signatures(url, wanted, told.send_nowait))

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery, open_svm_node() as node:
            solana = LocalSolana(node)
            wanted.want_ids([await solana.airdrop(pubkey(BUYER))])
            await solana.confirm()
            nursery.start_soon(follow, node.ws_url)
            await news.receive()

    assert reasons == ["it was cut off"]
