"""Nodes of Solana that fail, lag or lie delay a payment, and prove nothing that is not so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.live.proxy import Rewrite
from tests.live.solana import (
    BUYER,
    POOR,
    SOL,
    STRANGER,
    USDC,
    LocalSolana,
    address,
)
from tests.live.solana_proxy import (
    SolanaProxy,
    open_solana_proxy,
    with_err,
    with_level,
    with_more,
    with_owner,
)
from tests.live.solana_street import SolanaStreet, open_solana_street
from tests.live.svm_node import ServedNode

pytestmark = pytest.mark.real_time

AMOUNT: Final = 25_000_000
ALL_EVENTS: Final = ["payment.created", "payment.processing", "payment.succeeded", "payment.settled"]


@asynccontextmanager
async def open_between(
    folder: Path, solana: LocalSolana, count: int = 2
) -> AsyncIterator[tuple[SolanaStreet, Sequence[SolanaProxy]]]:
    """A shop that asks these nodes of the chain, each bad in its own way when it is told."""
    assert isinstance(solana.node, ServedNode)
    async with AsyncExitStack() as stack:
        proxies = [
            await stack.enter_async_context(open_solana_proxy(solana.node.ledger)) for _ in range(count)
        ]
        opened = open_solana_street(folder, solana, [one.url for one in proxies], slot_s=0.05)
        yield await stack.enter_async_context(opened), proxies


@pytest.mark.parametrize("bad", [0, 1])
async def test_one_node_of_two_may_be_down(tmp_path: Path, solana: LocalSolana, bad: int) -> None:
    async with open_between(tmp_path / "house", solana) as (street, nodes):
        nodes[bad].status = 503
        payment_id, _ = await street.committed()

        assert await street.until(payment_id, "succeeded", "settled", "processing") is not None
        nodes[bad].status = None
        await street.until(payment_id, "settled")
        assert await street.received() == AMOUNT


async def has_disagreed(street: SolanaStreet) -> bool:
    """Have two nodes said different things of one transfer?"""
    [chain] = street.house.realms["live"].live_chains
    return chain.chain.evidence.disagreements > 0


LIES: Final = {
    "failed": with_err({"InstructionError": [3, {"Custom": 1}]}),
    "more": with_more(1),
    "another owner": with_owner(address(STRANGER)),
}


@pytest.mark.parametrize("lie", LIES)
async def test_nodes_that_do_not_agree_prove_nothing(tmp_path: Path, solana: LocalSolana, lie: str) -> None:
    async with open_between(tmp_path / "house", solana) as (street, nodes):
        nodes[1].rewrite = LIES[lie]
        payment_id, _ = await street.committed()
        await street.wait_for(partial(has_disagreed, street))
        assert await street.status(payment_id) == "processing"
        nodes[1].rewrite = None

        await street.until(payment_id, "settled")

        assert await street.events(payment_id) == ALL_EVENTS
        assert await street.received() == AMOUNT


@pytest.mark.parametrize("lie", LIES)
async def test_what_the_first_node_made_up_is_found_by_the_second_reading(
    tmp_path: Path, solana: LocalSolana, lie: str
) -> None:
    async with open_between(tmp_path / "house", solana) as (street, nodes):
        nodes[0].rewrite = LIES[lie]
        told = nodes[0].calls["getTransaction"]
        payment_id, _ = await street.committed()

        async def has_lied() -> bool:
            return nodes[0].calls["getTransaction"] > told

        await street.wait_for(has_lied)
        assert await street.status(payment_id) == "processing"
        nodes[0].rewrite = None

        await street.until(payment_id, "settled")

        assert await street.events(payment_id) == ALL_EVENTS
        assert await street.received() == AMOUNT


@pytest.mark.parametrize("rewrite", [with_level("finalized"), with_level(None)], ids=["too soon", "never"])
async def test_a_node_that_lies_about_how_far_things_are_settles_nothing_early(
    tmp_path: Path, solana: LocalSolana, rewrite: Rewrite
) -> None:
    async with open_between(tmp_path / "house", solana) as (street, nodes):
        nodes[0].rewrite = rewrite
        payment_id, _ = await street.committed()

        await street.until(payment_id, "settled")

        assert await street.events(payment_id) == ALL_EVENTS


async def test_a_node_that_lags_delays_and_deceives_nobody(tmp_path: Path, solana: LocalSolana) -> None:
    async with open_between(tmp_path / "house", solana) as (street, nodes):
        nodes[1].node.lag = 20
        payment_id, _ = await street.committed(BUYER, SOL)

        await street.until(payment_id, "settled")

        assert await street.events(payment_id) == ALL_EVENTS


async def test_an_index_that_lags_is_read_again(tmp_path: Path, solana: LocalSolana) -> None:
    async with open_between(tmp_path / "house", solana) as (street, nodes):
        for one in nodes:
            one.node.index_lag = 3
        payment_id = await street.payment()
        tx_id = await street.pay_by_link(payment_id)

        await street.until(payment_id, "settled")

        assert (await street.detail(payment_id))["info"]["txId"] == tx_id


async def test_a_node_that_is_busy_is_asked_later(tmp_path: Path, solana: LocalSolana) -> None:
    async with open_between(tmp_path / "house", solana, 1) as (street, [node]):
        payment_id = await street.payment()
        option = await street.option(payment_id, USDC, POOR)
        results = await street.execute(option, POOR)
        node.status, node.retry_after = 429, "1"
        told = await street.confirm(payment_id, option, *results)
        assert told.status_code == 503, told.text
        node.status = None

        async def again() -> bool:
            return (await street.confirm(payment_id, option, *results)).status_code == 200

        await street.wait_for(again)
        await street.until(payment_id, "settled")
