"""Reads go to the first healthy node, a quorum to several, a transaction to all."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio

from payd.chains.evm.dialect import EvmDialect
from payd.chains.rpc import BROADCAST_GRACE_S, HEADS_APART_S, Call, NodesDown, Rpc, RpcError
from payd.chains.rpc_node import LIMITED_FIRST_S
from payd.net.http import Client
from tests.chains.rpc_node import CHAIN_ID, KEY, FakeNode, Says, open_rpc, urls
from tests.receiver import Does

REVERT = Says(3, "execution reverted: paused", "0x08c379a0")
UNKNOWN = Says(-32000, "header not found")
RAW = bytes.fromhex("02f86c")
TX = "0x" + "ab" * 32


def named(block: int) -> FakeNode:
    return FakeNode({"eth_blockNumber": hex(block)})


def taking(said: Any) -> FakeNode:
    """A node that says this to a transaction."""
    return FakeNode({"eth_sendRawTransaction": said})


async def test_the_first_node_is_asked_and_the_others_are_left_alone() -> None:
    first, second = named(1), named(2)
    async with open_rpc(first, second) as rpc:
        assert await rpc.call("eth_blockNumber") == "0x1"
        assert second.asked == []


@pytest.mark.parametrize(
    "does",
    [
        Does(status=429),
        Does(status=503),
        Does(status=500),
        Does(status=403),
        Does(status=302),
        Does(resets=True),
        Does(hangs=True),
        Does(body=b"<html>it is all right</html>"),
        Does(body=b'{"jsonrpc":"2.0","id":99,"result":"0x1"}'),
        Does(raw=b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"),
    ],
)
async def test_a_node_that_gives_no_answer_hands_over_to_the_next_and_is_put_aside(does: Does) -> None:
    first, second = named(1), named(2)
    async with open_rpc(first, second) as rpc:
        await rpc.call("eth_blockNumber")
        first.does = does
        assert await rpc.call("eth_blockNumber") == "0x2"
        asked = len(first.asked)
        assert await rpc.call("eth_blockNumber") == "0x2"

        assert len(first.asked) == asked
        assert not rpc.nodes[0].is_healthy


async def test_a_node_comes_back_to_its_place_after_its_back_off() -> None:
    first, second = FakeNode(does=Does(status=500)), named(2)
    async with open_rpc(first, second) as rpc:
        await rpc.call("eth_blockNumber")
        first.does = None
        await trio.sleep(0.5)

        assert await rpc.call("eth_blockNumber") == "0x10"


async def test_what_a_contract_answers_is_asked_of_nobody_else() -> None:
    first, second = FakeNode({"eth_call": REVERT}), FakeNode({"eth_call": "0x1"})
    async with open_rpc(first, second) as rpc:
        with pytest.raises(RpcError, match="paused") as caught:
            await rpc.call("eth_call", {}, "latest")

        assert (caught.value.code, caught.value.data, caught.value.is_revert) == (3, "0x08c379a0", True)
        assert second.asked == []
        assert rpc.nodes[0].is_healthy


@pytest.mark.parametrize("said", [UNKNOWN, Says(-32601, "no such method")])
async def test_what_one_node_cannot_tell_the_next_is_asked(said: Says) -> None:
    first, second = FakeNode({"eth_call": said}), FakeNode({"eth_call": "0x1"})
    async with open_rpc(first, second) as rpc:
        assert await rpc.call("eth_call", {}, "latest") == "0x1"
        assert rpc.nodes[0].is_healthy


@pytest.mark.parametrize(
    "said",
    [
        Says(-32000, "Unauthorized: You must authenticate your request with an API key."),
        Says(-32046, "Cannot fulfill request"),
        Says(-32012, "credits limited to 6000/sec"),
        Says(-32000, "words that nobody knows"),
    ],
)
async def test_what_a_providers_plan_does_not_allow_the_next_node_is_asked(said: Says) -> None:
    first, second = FakeNode({"eth_getBalance": said}), FakeNode({"eth_getBalance": "0x1"})
    async with open_rpc(first, second) as rpc:
        assert await rpc.call("eth_getBalance", "0xab", "latest") == "0x1"


async def test_a_key_that_is_no_longer_good_costs_one_request_and_says_so() -> None:
    """As Ankr answers: with one error, whatever was asked, and the status of success."""
    error = {"code": -32000, "message": "Unauthorized: You must authenticate your request with an API key."}
    first, second = named(1), FakeNode({"eth_call": "0x2"})
    async with open_rpc(first, second) as rpc:
        await rpc.call("eth_blockNumber")
        first.does = Does(body=msgspec.json.encode({"jsonrpc": "2.0", "error": error, "id": None}))

        assert await rpc.batch([("eth_call", {}, "latest")] * 8) == ["0x2"] * 8
        assert len(first.asked) == 3  # who it is, the first call, and these
        assert "You must authenticate" in rpc.nodes[0].last_error


async def test_what_no_node_can_tell_is_an_error_and_no_outage() -> None:
    down = FakeNode(does=Does(status=500))
    async with open_rpc(FakeNode({"eth_call": UNKNOWN}), down, FakeNode({"eth_call": UNKNOWN})) as rpc:
        with pytest.raises(RpcError, match="header not found") as caught:
            await rpc.call("eth_call", {}, "latest")

        assert caught.value.kind == "cannot"


async def test_a_limit_is_never_an_answer() -> None:
    limited = Says(-32005, "request rate exceeded")
    async with open_rpc(FakeNode({"eth_call": limited}), FakeNode({"eth_call": limited})) as rpc:
        with pytest.raises(NodesDown, match="request rate exceeded"):
            await rpc.call("eth_call", {}, "latest")


async def test_who_has_another_node_waits_for_none_that_answers_too_few_calls_a_second() -> None:
    slow, quick = FakeNode({"a": 1}, calls_a_s=6), FakeNode({"a": 2})
    async with open_rpc(slow, quick) as rpc:
        began_s = trio.current_time()
        assert await rpc.batch([("a",)] * 20) == [2] * 20
        assert trio.current_time() - began_s < LIMITED_FIRST_S


async def test_the_last_node_that_answers_too_few_calls_a_second_is_waited_for() -> None:
    async with open_rpc(FakeNode({"a": 1}, calls_a_s=6)) as rpc:
        assert await rpc.batch([("a",)] * 20) == [1] * 20


async def test_a_node_that_answers_too_few_calls_a_second_is_waited_for_while_the_others_are_down() -> None:
    slow, broken = FakeNode({"a": 1}, calls_a_s=6), FakeNode(does=Does(resets=True))
    async with open_rpc(slow, broken) as rpc:
        await rpc.heads()
        assert await rpc.batch([("a",)] * 20) == [1] * 20


async def test_a_batch_comes_from_one_node_alone() -> None:
    first = FakeNode({"a": 1, "b": UNKNOWN, "c": 1})
    second = FakeNode({"a": 2, "b": 2, "c": 2})
    async with open_rpc(first, second) as rpc:
        assert await rpc.batch([("a",), ("b",), ("c",)]) == [2, 2, 2]


async def test_of_nodes_that_cannot_tell_all_the_one_that_can_tell_most_counts() -> None:
    first = FakeNode({"a": 1, "b": UNKNOWN, "c": UNKNOWN})
    second = FakeNode({"a": 2, "b": 2, "c": UNKNOWN})
    async with open_rpc(first, second) as rpc:
        one, two, error = await rpc.batch([("a",), ("b",), ("c",)])

        assert (one, two) == (2, 2)
        assert isinstance(error, RpcError)


async def test_no_calls_are_no_request() -> None:
    async with open_rpc(named(1)) as rpc:
        assert await rpc.batch([]) == []
        assert rpc.posts == 0


async def test_where_no_node_answers_each_is_named_with_its_trouble_and_without_its_key() -> None:
    async with open_rpc(FakeNode(does=Does(status=500)), FakeNode(chain_id=1)) as rpc:
        with pytest.raises(NodesDown) as caught:
            await rpc.call("eth_blockNumber")

        assert str(caught.value) == (
            "http://node0.test: HTTP 500: ok; http://node1.test: it is of chain 1, and not of 8453"
        )
        assert KEY not in repr(caught.value)


async def test_a_node_that_was_put_aside_is_asked_when_no_other_answers() -> None:
    first, second = FakeNode(does=Does(status=500)), named(2)
    async with open_rpc(first, second) as rpc:
        await rpc.call("eth_blockNumber")
        first.does, second.does = None, Does(status=500)

        assert await rpc.call("eth_blockNumber") == "0x10"


async def test_a_node_that_asked_for_patience_is_not_asked_even_then() -> None:
    only = FakeNode(does=Does(status=429, headers=(("retry-after", "30"),)))
    async with open_rpc(only) as rpc:
        with pytest.raises(NodesDown):
            await rpc.call("eth_blockNumber")
        only.does = None
        asked = len(only.asked)
        with pytest.raises(NodesDown, match="HTTP 429"):
            await rpc.call("eth_blockNumber")
        with pytest.raises(NodesDown, match="HTTP 429"):
            rpc.pick()
        assert len(only.asked) == asked

        await trio.sleep(30)
        assert await rpc.call("eth_blockNumber") == "0x10"


async def test_a_node_of_another_chain_is_asked_for_nothing_even_then() -> None:
    first, second = FakeNode(chain_id=1), FakeNode(does=Does(status=500))
    async with open_rpc(first, second) as rpc:
        for _ in range(3):
            with pytest.raises(NodesDown):
                await rpc.call("eth_blockNumber")

        assert first.asked == [["eth_chainId"]]


async def test_a_pinned_series_stays_with_its_node() -> None:
    first, second = named(1), named(2)
    async with open_rpc(first, second) as rpc:
        node = rpc.pick()
        assert await rpc.call("eth_blockNumber", node=node) == "0x1"
        first.does = Does(status=500)
        with pytest.raises(NodesDown, match=r"http://node0\.test: HTTP 500"):
            await rpc.call("eth_blockNumber", node=node)

        assert second.asked == []
        assert rpc.pick() is rpc.nodes[1]


async def test_a_pinned_node_that_cannot_tell_says_so() -> None:
    async with open_rpc(FakeNode({"eth_call": UNKNOWN}), FakeNode({"eth_call": "0x1"})) as rpc:
        with pytest.raises(RpcError, match="header not found"):
            await rpc.call("eth_call", {}, "latest", node=rpc.pick())


async def test_while_a_node_is_on_trial_the_others_answer() -> None:
    first, second = FakeNode(does=Does(status=500)), named(2)
    async with open_rpc(first, second) as rpc, trio.open_nursery() as nursery:
        await rpc.call("eth_blockNumber")
        first.does = Does(hangs=True)
        await trio.sleep(0.5)
        nursery.start_soon(rpc.call, "eth_blockNumber")
        await trio.sleep(1)
        begun_s = trio.current_time()
        assert await rpc.call("eth_blockNumber") == "0x2"

        assert trio.current_time() == begun_s


async def test_a_quorum_hears_every_healthy_node_at_once() -> None:
    nodes = [named(1), named(2), named(3)]
    async with open_rpc(*nodes) as rpc:
        await rpc.heads()
        nodes[0].delay_s, nodes[1].delay_s, nodes[2].delay_s = 1, 3, 2
        begun_s = trio.current_time()
        answers = await rpc.ask_all([("eth_blockNumber",)])

        assert [results for _, results in answers] == [["0x1"], ["0x2"], ["0x3"]]
        assert trio.current_time() - begun_s == 3


async def test_who_gives_no_answer_is_no_part_of_a_quorum() -> None:
    nodes = [
        named(1),
        FakeNode(does=Does(resets=True)),
        FakeNode({"eth_blockNumber": REVERT}),
        FakeNode(chain_id=1),
    ]
    async with open_rpc(*nodes) as rpc:
        answers = await rpc.ask_all([("eth_blockNumber",)])

        assert [node for node, _ in answers] == [rpc.nodes[0], rpc.nodes[2]]
        assert answers[0][1] == ["0x1"]
        assert isinstance(answers[1][1][0], RpcError)


async def test_a_node_that_was_put_aside_keeps_no_quorum_waiting() -> None:
    nodes = [FakeNode(does=Does(hangs=True)), named(2)]
    async with open_rpc(*nodes) as rpc:
        await rpc.heads()
        asked, begun_s = len(nodes[0].asked), trio.current_time()
        await trio.sleep(0.25)
        assert [node for node, _ in await rpc.ask_all([("eth_blockNumber",)])] == [rpc.nodes[1]]

        assert len(nodes[0].asked) == asked
        assert trio.current_time() - begun_s == 0.25


async def test_where_one_of_a_quorum_fails_the_next_is_asked_instead() -> None:
    nodes = [named(1), FakeNode(does=Does(status=500)), named(3), named(4)]
    async with open_rpc(*nodes) as rpc:
        answers = await rpc.ask_all([("eth_blockNumber",)], at_most=2)

        assert [results for _, results in answers] == [["0x1"], ["0x3"]]
        assert nodes[3].asked == []


async def test_a_transaction_goes_to_every_node_the_unhealthy_ones_too() -> None:
    nodes = [taking(TX), taking(Says(-32000, "already known")), taking(TX), taking(TX)]
    nodes[2].does, nodes[3].chain_id = Does(status=500), 1
    async with open_rpc(*nodes) as rpc:
        await rpc.ask_all([("eth_blockNumber",)])
        nodes[2].does = None
        sent = await rpc.broadcast(RAW)

        assert [one.verdict for one in sent] == ["ok", "known", "ok", "down"]
        assert [one.node for one in sent] == list(rpc.nodes)
        assert sent[3].message == "it is of chain 1, and not of 8453"
        assert nodes[3].count("eth_sendRawTransaction") == 0


async def test_a_transaction_is_sent_as_hex() -> None:
    seen: list[str] = []

    def take(raw: str) -> str:
        seen.append(raw)
        return TX

    async with open_rpc(taking(take)) as rpc:
        await rpc.broadcast(RAW)

    assert seen == ["0x02f86c"]


async def test_each_node_says_for_itself_what_it_thinks_of_a_transaction() -> None:
    words = ["nonce too low", "replacement transaction underpriced", "insufficient funds", "odd"]
    async with open_rpc(*[taking(Says(-32000, one)) for one in words]) as rpc:
        sent = await rpc.broadcast(RAW)

        assert [one.verdict for one in sent] == ["nonce_low", "underpriced", "no_funds", "other"]
        assert [one.message for one in sent] == words


@pytest.mark.parametrize(("said", "verdict"), [(TX, "ok"), (Says(-32000, "already known"), "known")])
async def test_a_node_that_hangs_keeps_a_transaction_waiting_only_briefly(said: Any, verdict: str) -> None:
    async with open_rpc(taking(said), FakeNode(does=Does(hangs=True))) as rpc:
        begun_s = trio.current_time()
        sent = await rpc.broadcast(RAW)

        assert [one.verdict for one in sent] == [verdict, "down"]
        assert trio.current_time() - begun_s == BROADCAST_GRACE_S


async def test_where_no_node_takes_a_transaction_the_slow_ones_are_waited_for() -> None:
    slow = taking(TX)
    async with open_rpc(taking(Says(-32000, "txpool is full")), slow) as rpc:
        await rpc.call("eth_chainId", node=rpc.nodes[1])
        slow.delay_s = 8
        sent = await rpc.broadcast(RAW)

        assert [one.verdict for one in sent] == ["down", "ok"]


async def test_a_node_that_lags_far_behind_is_asked_after_the_others() -> None:
    first, second = named(100), named(131)
    async with open_rpc(first, second) as rpc:
        assert await rpc.heads() == [(rpc.nodes[0], 100), (rpc.nodes[1], 131)]
        assert [rpc.lag(node) for node in rpc.nodes] == [31, 0]
        assert rpc.pick() is rpc.nodes[1]

        first.results["eth_blockNumber"] = hex(101)
        await rpc.heads()
        assert rpc.pick() is rpc.nodes[0]


async def test_a_node_that_was_not_asked_for_long_is_no_laggard_for_that() -> None:
    first, second = named(100), named(100)
    async with open_rpc(first, second) as rpc:
        await rpc.heads()
        first.results["eth_blockNumber"] = second.results["eth_blockNumber"] = hex(200)
        await trio.sleep(HEADS_APART_S + 0.1)
        await rpc.call("eth_blockNumber")

        assert [rpc.lag(node) for node in rpc.nodes] == [0, 0]
        first.results["eth_blockNumber"] = hex(169)
        await rpc.heads()
        assert [rpc.lag(node) for node in rpc.nodes] == [31, 0]


async def test_a_head_that_was_named_long_ago_hides_no_laggard() -> None:
    async with open_rpc(named(100), named(140), named(5)) as rpc:
        await rpc.heads()
        await trio.sleep(HEADS_APART_S + 0.1)
        for node in rpc.nodes[:2]:
            await rpc.call("eth_blockNumber", node=node)

        assert rpc.lag(rpc.nodes[0]) == 40


async def test_one_node_of_three_cannot_make_the_others_laggards() -> None:
    async with open_rpc(named(100), named(101), named(10**9)) as rpc:
        await rpc.heads()

        assert [rpc.lag(node) for node in rpc.nodes] == [1, 0, 0]
        assert rpc.pick() is rpc.nodes[0]


async def test_what_is_no_number_is_no_head() -> None:
    async with open_rpc(FakeNode({"eth_blockNumber": "latest"}), FakeNode({"eth_blockNumber": None})) as rpc:
        assert await rpc.heads() == []


async def test_calls_are_counted_by_method_and_requests_by_number() -> None:
    calls: list[Call] = [("eth_blockNumber",)] * 3
    async with open_rpc(named(1)) as rpc:
        await rpc.batch(calls)

        assert rpc.calls == {"eth_chainId": 1, "eth_blockNumber": 3}
        assert rpc.posts == 2


async def test_a_chain_needs_a_node() -> None:
    with pytest.raises(ValueError, match="needs a node"):
        Rpc([], EvmDialect(CHAIN_ID))


async def test_a_client_that_was_given_stays_open() -> None:
    closed: list[bool] = []

    class Watched(Client):
        async def aclose(self) -> None:
            closed.append(True)
            await super().aclose()

    client = Watched(may_call=lambda _: True)
    await Rpc(urls(1), EvmDialect(CHAIN_ID), client=client).aclose()
    assert closed == []
    await Rpc(urls(1), EvmDialect(CHAIN_ID)).aclose()
