"""News of transactions as a real node tells them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

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

pytestmark = pytest.mark.real_time


@asynccontextmanager
async def open_listening() -> AsyncIterator[tuple[LocalSolana, Wanted, trio.MemoryReceiveChannel[str]]]:
    """A chain, what is wanted of its node, and what that tells."""
    told, news = trio.open_memory_channel[str](100)
    wanted = Wanted()
    with trio.fail_after(20):
        async with open_svm_node() as node, trio.open_nursery() as nursery:
            solana = LocalSolana(node)
            await furnish_solana(solana)
            nursery.start_soon(follow_signatures, node.ws_url, wanted, told.send_nowait)
            yield solana, wanted, news
            nursery.cancel_scope.cancel()


async def signed(solana: LocalSolana, text: str) -> bytes:
    pay = pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, 25)
    return await solana.signed([memo(text), pay], keypair(BUYER))


async def test_a_transaction_is_told_of_when_it_is_confirmed() -> None:
    async with open_listening() as (solana, wanted, news):
        raws = [await signed(solana, text) for text in ("one", "two", "three")]
        ids = [tx_id_of(raw) for raw in raws]
        wanted.want_ids(ids[:2])
        for raw in raws:
            await solana.send_raw(raw)
        await solana.confirm()

        assert {await news.receive(), await news.receive()} == set(ids[:2])
        wanted.want_ids(ids)
        assert await news.receive() == ids[2]


async def test_what_happened_before_it_was_asked_for_is_told_too() -> None:
    async with open_listening() as (solana, wanted, news):
        tx_id = await solana.send_raw(await signed(solana, "early"))
        await solana.confirm()
        wanted.want_ids([tx_id])

        assert await news.receive() == tx_id


async def test_a_payment_to_a_token_account_is_told_of_without_a_name() -> None:
    async with open_listening() as (solana, wanted, news):
        wanted.want_addresses([str(token_account(pubkey(MERCHANT), USDC_MINT, TOKEN))])

        assert await _paid_until_told(solana, news) == ""


async def _paid_until_told(solana: LocalSolana, news: trio.MemoryReceiveChannel[str]) -> str:
    """The subscription may not stand yet when the first one is paid."""
    place = 0
    while True:
        place += 1
        await solana.send_raw(await signed(solana, str(place)))
        await solana.confirm()
        with trio.move_on_after(0.1):
            return await news.receive()


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
