"""Nodes of Solana that are of another chain, behind, or weary are left, and the next one is asked."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import msgspec
import pytest
import trio

from payd.chains.rpc import Call, NodesDown, RpcError
from payd.chains.solana.asking import listing_call, slot_call, statuses_call, transaction_call
from payd.chains.solana.dialect import SolanaDialect
from payd.chains.solana.keys import MEMO
from tests.chains.rpc_node import FakeNode, Says, open_rpc
from tests.receiver import Does, Received

MAINNET = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
DEVNET = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"
DIALECT = SolanaDialect(MAINNET[:32])
TX = "5h6xBEauJ3PK6SWCZ1PGjBvj8vDdWG3KpwATGy1ARAXFSDwt8GFXM7W5Ncn16wmqokgpiKRLuS83KUxyZyv2sUYv"
BEHIND = Says(-32016, "Minimum context slot has not been reached", {"contextSlot": 90})
WEARY = Says(429, "Too many requests for a specific RPC call, please contact your app developer")
LISTING = listing_call(MEMO, min_slot=100)


def solana(genesis: str = MAINNET, **results: Any) -> FakeNode:
    """A node at slot 100 that says this to the methods."""
    return FakeNode({"getGenesisHash": genesis, "getSlot": 100, **results})


class SellsBatches(FakeNode):
    """A node whose free plan has no batches."""

    def __call__(self, received: Received) -> Does:
        if not received.body.startswith(b"["):
            return super().__call__(received)
        self.asked.append(["batch"])
        words = "Batch requests are only available for paid plans. Please upgrade if you would like"
        error = {"jsonrpc": "2.0", "error": {"code": -32403, "message": f"{words} to gain access"}}
        return Does(status=403, body=msgspec.json.encode(error))


async def test_a_node_of_another_chain_is_put_aside_and_the_next_is_asked() -> None:
    first, second = solana(DEVNET), solana()
    async with open_rpc(first, second, dialect=DIALECT) as rpc:
        assert await rpc.call(*slot_call()) == 100
        assert await rpc.call(*slot_call()) == 100

        assert first.asked == [["getGenesisHash"]]
        assert rpc.nodes[0].last_error == (
            "it is of chain EtWTRABZaYq6iMfeYKouRu166VU2xqa1, and not of 5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
        )
        assert not rpc.nodes[0].is_usable


@pytest.mark.parametrize("said", [7, "mainnet", Says(-32601, "Method not found")])
async def test_a_node_that_does_not_say_which_chain_it_is_of_is_not_asked(said: Any) -> None:
    node = solana(getGenesisHash=said) if not isinstance(said, str) else solana(said)
    async with open_rpc(node, dialect=DIALECT) as rpc:
        with pytest.raises(NodesDown, match="it does not say which chain it is of"):
            await rpc.call(*slot_call())

        assert node.count("getSlot") == 0


async def test_heads_are_confirmed_slots_and_a_laggard_is_asked_after_the_others() -> None:
    nodes = [solana(getSlot=100), solana(getSlot=200)]
    async with open_rpc(*nodes, dialect=DIALECT) as rpc:
        assert await rpc.heads() == [(rpc.nodes[0], 100), (rpc.nodes[1], 200)]
        assert rpc.lag(rpc.nodes[0]) == 100
        assert rpc.pick() is rpc.nodes[1]


async def test_a_node_that_is_behind_says_so_and_the_next_is_asked() -> None:
    first, second = solana(getSignaturesForAddress=BEHIND), solana(getSignaturesForAddress=[])
    async with open_rpc(first, second, dialect=DIALECT) as rpc:
        assert await rpc.call(*LISTING) == []
        assert rpc.nodes[0].is_healthy

        second.results["getSignaturesForAddress"] = BEHIND
        with pytest.raises(RpcError) as caught:
            await rpc.call(*LISTING)
        assert (caught.value.kind, caught.value.data) == ("cannot", {"contextSlot": 90})


async def test_a_node_without_history_is_no_answer_where_another_has_one() -> None:
    gone = Says(-32011, "Transaction history is not available from this node")
    first, second = solana(getTransaction=gone), solana(getTransaction={"slot": 7})
    async with open_rpc(first, second, dialect=DIALECT) as rpc:
        assert await rpc.batch([slot_call(), transaction_call(TX)]) == [100, {"slot": 7}]


async def test_a_node_that_asks_for_patience_gets_it_and_the_next_is_asked() -> None:
    first, second = solana(), solana(getSlot=101)
    async with open_rpc(first, second, dialect=DIALECT) as rpc:
        await rpc.call(*slot_call())
        first.does = Does(status=429, headers=(("retry-after", "10"),), body=b"<html>")
        assert await rpc.call(*slot_call()) == 101
        first.does, asked = None, len(first.asked)
        second.does = Does(status=503)
        with pytest.raises(NodesDown, match="HTTP 503"):
            await rpc.call(*slot_call())

        assert len(first.asked) == asked
        await trio.sleep(10)
        assert await rpc.call(*slot_call()) == 100


async def test_a_limit_on_one_call_of_a_batch_hands_all_of_it_to_the_next() -> None:
    calls: list[Call] = [slot_call(), LISTING, statuses_call([TX])]
    rest: dict[str, Any] = {"getSignatureStatuses": {"context": {"slot": 100}, "value": [None]}}
    first = solana(getSignaturesForAddress=WEARY, **rest)
    second = solana(getSlot=99, getSignaturesForAddress=[], **rest)
    async with open_rpc(first, second, dialect=DIALECT) as rpc:
        assert await rpc.batch(calls) == [99, [], rest["getSignatureStatuses"]]
        assert rpc.nodes[0].last_error == "it answers too few calls a second"
        assert not rpc.nodes[0].is_usable


async def test_where_all_ask_for_patience_nothing_is_known() -> None:
    async with open_rpc(solana(getSlot=WEARY), solana(getSlot=WEARY), dialect=DIALECT) as rpc:
        with pytest.raises(NodesDown, match="it asks for patience"):
            await rpc.call(*slot_call())


async def test_a_node_that_sells_batches_gets_single_calls_and_is_healthy() -> None:
    node = SellsBatches({"getGenesisHash": MAINNET, "getSlot": 100, "getSignaturesForAddress": []})
    async with open_rpc(node, dialect=DIALECT) as rpc:
        assert await rpc.batch([slot_call(), *[LISTING] * 6, slot_call()]) == [100, *[[]] * 6, 100]
        learnt = node.count("batch")
        assert await rpc.batch([slot_call(), LISTING]) == [100, []]

        assert (learnt, node.count("batch")) == (3, 3)
        assert rpc.nodes[0].failures_ever == 0


async def test_a_batch_that_is_too_long_goes_out_in_pieces() -> None:
    node = solana(getSignaturesForAddress=[])
    node.batch_max = 10
    async with open_rpc(node, dialect=DIALECT) as rpc:
        assert await rpc.batch([LISTING] * 100) == [[]] * 100
        assert max(len(post) for post in node.asked[-10:]) <= 10


async def test_each_node_says_for_itself_what_it_thinks_of_a_transaction() -> None:
    sent: list[Any] = []

    def take(text: str, config: Any) -> str:
        sent.append((b64decode(text), config["skipPreflight"]))
        return TX

    tried = "Transaction simulation failed: "
    nodes = [
        solana(sendTransaction=take),
        solana(sendTransaction=Says(-32002, tried, {"err": "AlreadyProcessed"})),
        solana(sendTransaction=Says(-32002, tried + "Blockhash not found", {"err": "BlockhashNotFound"})),
        solana(sendTransaction=Says(-32002, tried, {"err": "InsufficientFundsForFee"})),
        solana(sendTransaction=Says(-32003, "Transaction signature verification failure")),
        solana(sendTransaction=WEARY),
        solana(DEVNET, sendTransaction=take),
    ]
    async with open_rpc(*nodes, dialect=DIALECT) as rpc:
        said = await rpc.broadcast(b"\x01signed")

        verdicts = ["ok", "known", "expired", "no_funds", "other", "down", "down"]
        assert [one.verdict for one in said] == verdicts
        assert sent == [(b"\x01signed", True)]
        assert nodes[-1].count("sendTransaction") == 0
