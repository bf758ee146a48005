"""`Rpc` against real nodes of Solana, good and bad, over real connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio
from solders.hash import Hash
from solders.pubkey import Pubkey

from payd.chains.rpc import Call, NodesDown, Rpc, RpcError
from payd.chains.solana.asking import (
    account_calls,
    clock_call,
    height_call,
    latest_blockhash_call,
    listing_call,
    rent_call,
    simulate_call,
    slot_call,
    statuses_call,
    transaction_call,
)
from payd.chains.solana.dialect import SolanaDialect
from tests.live.proxy import Request, serving
from tests.live.solana import (
    BUYER,
    MERCHANT,
    USDC_MINT,
    LocalSolana,
    furnish_solana,
    keypair,
    pay_sol,
    pay_token,
    pubkey,
    tx_id_of,
)
from tests.live.solana_proxy import SolanaProxy, open_solana_proxy, with_err
from tests.live.svm_methods import MAINNET_GENESIS, SvmNode

pytestmark = pytest.mark.real_time

DIALECT = SolanaDialect(MAINNET_GENESIS[:32])
OTHER_GENESIS = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"


class Trying(SolanaProxy):
    """A node that tries each transaction, though it was told not to."""

    def answer(self, request: Request) -> Any:
        if request["method"] != "sendTransaction":
            return super().answer(request)
        config = {"encoding": "base64", "preflightCommitment": "processed"}
        return self.node.ask("sendTransaction", request["params"][0], config)


@pytest.fixture
async def solana() -> LocalSolana:
    """A chain, by a node that is good."""
    local = LocalSolana(SvmNode(finalized=4))
    await furnish_solana(local)
    return local


@asynccontextmanager
async def open_proxied(
    solana: LocalSolana, count: int, *, deadline_s: float = 5
) -> AsyncIterator[tuple[Rpc, list[SolanaProxy]]]:
    """One chain behind so many nodes."""
    assert isinstance(solana.node, SvmNode)
    async with AsyncExitStack() as stack:
        proxies = [
            await stack.enter_async_context(open_solana_proxy(solana.node.ledger)) for _ in range(count)
        ]
        rpc = Rpc([proxy.url for proxy in proxies], DIALECT, deadline_s=deadline_s)
        stack.push_async_callback(rpc.aclose)
        yield rpc, proxies


async def signed(solana: LocalSolana, amount: int = 25, blockhash: str | None = None) -> bytes:
    """A transfer of USDC from the buyer to the merchant."""
    pay = pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, amount)
    return await solana.signed([pay], keypair(BUYER), blockhash=blockhash)


async def test_every_call_is_understood_by_a_real_node(solana: LocalSolana) -> None:
    raw = await signed(solana)
    tx_id = await solana.send_raw(raw)
    await solana.finalize()
    slot = await solana.rpc("getSlot", {"commitment": "finalized"})
    fresh = await signed(solana)
    calls: list[Call] = [
        *account_calls([pubkey(BUYER), USDC_MINT], "finalized"),
        clock_call("finalized"),
        transaction_call(tx_id, "finalized"),
        statuses_call([tx_id]),
        listing_call(pubkey(BUYER), limit=10, commitment="finalized", min_slot=slot),
        latest_blockhash_call(),
        slot_call("confirmed"),
        height_call("finalized"),
        simulate_call(fresh, sig_verify=True, min_slot=slot),
        rent_call(165),
    ]
    async with open_proxied(solana, 1) as (rpc, _):
        results = await rpc.batch(calls)

    assert not [result for result in results if isinstance(result, RpcError)]
    accounts, clock, landed, statuses, listing, blockhash, head, height, tried, rent = results
    assert (accounts["context"]["slot"], clock["context"]["slot"]) == (slot, slot)
    assert [account is not None for account in accounts["value"]] == [True, True]
    assert landed["meta"]["err"] is None
    assert statuses["value"][0]["confirmationStatus"] == "finalized"
    assert tx_id in [one["signature"] for one in listing]
    assert Hash.from_string(blockhash["value"]["blockhash"]) != Hash.default()
    assert head > height > 0
    assert tried["value"]["err"] is None
    assert rent == 2_039_280


async def test_a_node_that_is_behind_says_so_and_the_next_is_asked(solana: LocalSolana) -> None:
    tx_id = await solana.send_raw(await signed(solana))
    await solana.slots(3)
    async with open_proxied(solana, 2) as (rpc, [laggard, good]):
        laggard.node.lag = 3
        await rpc.heads()
        slot = await rpc.call(*slot_call(), node=rpc.nodes[1])
        listing = await rpc.call(*listing_call(pubkey(BUYER), min_slot=slot))

        assert [one["signature"] for one in listing] == [tx_id]
        assert laggard.calls["getSignaturesForAddress"] == 1
        assert good.calls["getSignaturesForAddress"] == 1
        assert rpc.lag(rpc.nodes[0]) == 3

        [error, past, now] = await rpc.batch(
            [listing_call(pubkey(BUYER), min_slot=slot), clock_call(), transaction_call(tx_id)],
            node=rpc.nodes[0],
        )
        assert (error.code, error.kind) == (-32016, "cannot")
        assert past["context"]["slot"] == slot - 3
        assert now is None


async def test_what_no_node_knows_as_the_end_of_a_listing_is_an_error(solana: LocalSolana) -> None:
    unknown = tx_id_of(await signed(solana))
    async with open_proxied(solana, 2) as (rpc, _):
        with pytest.raises(RpcError) as caught:
            await rpc.call(*listing_call(pubkey(BUYER), until=unknown))

    assert (caught.value.code, caught.value.kind) == (-32020, "cannot")


async def test_a_node_of_another_chain_takes_no_part_in_anything(solana: LocalSolana) -> None:
    assert isinstance(solana.node, SvmNode)
    raw = await signed(solana)
    async with open_solana_proxy(solana.node.ledger, genesis=OTHER_GENESIS) as other:
        async with open_solana_proxy(solana.node.ledger) as ours:
            rpc = Rpc([other.url, ours.url], DIALECT)
            assert await rpc.call("getGenesisHash") == MAINNET_GENESIS
            assert [node for node, _ in await rpc.ask_all([slot_call()])] == [rpc.nodes[1]]
            assert [sent.verdict for sent in await rpc.broadcast(raw)] == ["down", "ok"]
            await rpc.aclose()

        assert other.calls["sendTransaction"] == 0


async def test_a_quorum_shows_who_lies_and_who_has_forgotten(solana: LocalSolana) -> None:
    tx_id = await solana.send_raw(await signed(solana))
    await solana.confirm()
    async with open_proxied(solana, 3) as (rpc, proxies):
        proxies[1].rewrite = with_err({"InstructionError": [0, {"Custom": 1}]})
        proxies[2].node.forgotten.add(tx_id)
        answers = await rpc.ask_all([transaction_call(tx_id)])

    [[honest], [liar], [forgetful]] = [results for _, results in answers]
    assert honest["meta"]["err"] is None
    assert liar["meta"]["err"] is not None
    assert forgetful is None


async def test_a_transaction_lands_past_a_dead_and_a_censoring_node(solana: LocalSolana) -> None:
    raw = await signed(solana)
    async with open_proxied(solana, 3) as (rpc, [dead, censor, _]):
        dead.status = 500
        censor.node.censored.add(pubkey(MERCHANT))
        sent = await rpc.broadcast(raw)

        assert [one.verdict for one in sent] == ["down", "ok", "ok"]
        assert await solana.status(tx_id_of(raw)) is not None
        again = await rpc.broadcast(raw)
        assert [one.verdict for one in again] == ["down", "ok", "ok"]


async def test_what_a_node_says_that_tries_a_transaction_all_the_same_is_understood(
    solana: LocalSolana,
) -> None:
    landed = await signed(solana)
    await solana.send_raw(landed)
    stale = await signed(solana, blockhash=str(Hash.new_unique()))
    too_much = await signed(solana, 10**15)
    poor = await solana.signed([pay_sol(pubkey(77), pubkey(MERCHANT), 1)], keypair(77))
    assert isinstance(solana.node, SvmNode)
    async with serving(Trying(SvmNode(solana.node.ledger))) as proxy:
        rpc = Rpc([proxy.url], DIALECT)
        sent = [await rpc.broadcast(raw) for raw in (landed, stale, too_much, poor)]
        await rpc.aclose()

    verdicts = [one.verdict for [one] in sent]
    assert verdicts == ["known", "expired", "other", "no_funds"]


async def test_a_weary_node_is_left_alone_for_as_long_as_it_asks(solana: LocalSolana) -> None:
    async with open_proxied(solana, 2) as (rpc, [weary, other]):
        await rpc.call(*slot_call())
        weary.status, weary.retry_after = 429, "1"
        assert await rpc.call(*slot_call()) == await solana.rpc("getSlot", {"commitment": "confirmed"})
        posts = weary.posts
        other.status = 503
        with pytest.raises(NodesDown, match="HTTP 503"):
            await rpc.call(*slot_call())

        assert weary.posts == posts
        weary.status = None
        with trio.fail_after(10):
            while not rpc.nodes[0].is_healthy:
                await trio.sleep(0.05)
        assert await rpc.call(*slot_call()) > 0


async def test_a_thousand_accounts_are_read_through_a_node_that_takes_few_calls(solana: LocalSolana) -> None:
    async with open_proxied(solana, 1) as (rpc, [proxy]):
        proxy.batch_max = 3
        many = [Pubkey(number.to_bytes(32, "big")) for number in range(1000)]
        results = await rpc.batch(account_calls(many))

    assert sum(len(result["value"]) for result in results) == 1000
