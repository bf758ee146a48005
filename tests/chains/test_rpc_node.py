"""A node is asked who it is, put aside when it fails, and never shown with its key."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from payd.chains import rpc_node
from payd.chains.evm.dialect import EvmDialect
from payd.chains.rpc_errors import RpcError
from payd.chains.rpc_node import (
    BACKOFF_MAX_S,
    BATCH_LEARNT_S,
    BATCH_MAX,
    LIMITED_LEARNT_S,
    LIMITED_S,
    POSTS_MAX,
    Node,
    names_of,
)
from payd.chains.rpc_wire import Call, Fault
from payd.core.errors import InvalidParams
from payd.net.http import Client
from tests.chains.rpc_node import CHAIN_ID, KEY, FakeNode, Says, open_client, urls
from tests.receiver import Does, Received, Script

HEAD: list[Call] = [("eth_blockNumber",)]


@asynccontextmanager
async def open_node(fake: Script) -> AsyncIterator[Node]:
    async with open_client(fake) as client:
        yield Node(urls(1)[0], EvmDialect(CHAIN_ID), client=client, calls=Counter(), name="http://node0.test")


async def fails(node: Node, calls: list[Call] = HEAD) -> Fault:
    """The fault that the calls end in."""
    with pytest.raises(Fault) as caught:
        await node.ask(calls)
    return caught.value


async def test_a_node_says_once_which_chain_it_is_of() -> None:
    fake = FakeNode()
    async with open_node(fake) as node:
        assert await node.ask(HEAD) == ["0x10"]
        assert await node.ask(HEAD) == ["0x10"]

        assert fake.asked == [["eth_chainId"], ["eth_blockNumber"], ["eth_blockNumber"]]
        assert node.is_verified


async def test_the_first_who_come_together_ask_for_it_once() -> None:
    fake = FakeNode()
    async with open_node(fake) as node:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(node.ask, HEAD)

        assert fake.count("eth_chainId") == 1
        assert fake.count("eth_blockNumber") == 5


async def test_a_node_that_failed_says_again_which_chain_it_is_of() -> None:
    fake = FakeNode()
    async with open_node(fake) as node:
        await node.ask(HEAD)
        fake.does = Does(status=500)
        await fails(node)
        fake.does = None
        await node.ask(HEAD)

        assert fake.count("eth_chainId") == 2


async def test_a_node_of_another_chain_is_asked_nothing_until_it_says_the_right_one() -> None:
    fake = FakeNode(chain_id=1)
    async with open_node(fake) as node:
        with capture_logs() as lines:
            assert (await fails(node)).words == "it is of chain 1, and not of 8453"
            assert (await fails(node)).words == "it is of chain 1, and not of 8453"
            assert fake.asked == [["eth_chainId"]]
            await trio.sleep(0.5)
            await fails(node)
            assert fake.asked == [["eth_chainId"]] * 2
            assert not node.is_usable

        fake.chain_id = CHAIN_ID
        await trio.sleep(1)
        assert await node.ask(HEAD) == ["0x10"]
        assert [line["event"] for line in lines if line["log_level"] == "error"] == ["rpc.other_chain"]
        fake.does = Does(status=500)
        await fails(node)
        assert (node.is_healthy, node.is_usable) == (False, True)


@pytest.mark.parametrize("said", ["0x", "8453", None, 8453, Says(-32601, "no")])
async def test_a_node_that_does_not_say_which_chain_it_is_of_is_not_asked(said: object) -> None:
    fake = FakeNode({"eth_chainId": said})
    async with open_node(fake) as node:
        assert (await fails(node)).words.startswith("it does not say which chain it is of")
        assert fake.count("eth_blockNumber") == 0


async def test_each_failure_in_a_row_puts_it_aside_for_longer() -> None:
    fake = FakeNode(does=Does(status=500))
    async with open_node(fake) as node:
        waits = []
        with capture_logs() as lines:
            for _ in range(10):
                await fails(node)
                waits.append(node.aside_s)
                await trio.sleep(node.aside_s)
                assert node.is_healthy

        assert [line["event"] for line in lines] == ["rpc.node_down"]
        assert waits == [0.5, 1, 2, 4, 8, 16, 32, BACKOFF_MAX_S, BACKOFF_MAX_S, BACKOFF_MAX_S]


async def test_who_is_asked_though_it_was_put_aside_is_put_aside_for_no_longer_by_that() -> None:
    async with open_node(FakeNode(does=Does(status=500))) as node:
        for _ in range(10):
            await fails(node)

        assert (node.aside_s, node.failures, node.failures_ever) == (0.5, 1, 10)


async def test_a_success_forgets_the_failures() -> None:
    fake = FakeNode(does=Does(status=500))
    async with open_node(fake) as node:
        await fails(node)
        await fails(node)
        fake.does = None
        with capture_logs() as lines:
            await node.ask(HEAD)

        assert node.is_healthy
        assert (node.failures, node.failures_ever) == (0, 2)
        assert [line["event"] for line in lines] == ["rpc.node_up"]


async def test_requests_that_fail_together_are_one_failure() -> None:
    fake = FakeNode()
    async with open_node(fake) as node:
        await node.ask(HEAD)
        fake.does, fake.delay_s = Does(status=500), 1
        with capture_logs() as lines:
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(fails, node)

        assert (node.failures, node.aside_s) == (1, 0.5)
        assert [line["event"] for line in lines] == ["rpc.node_down"]


async def test_a_node_that_hangs_costs_a_crowd_one_deadline() -> None:
    fake = FakeNode(does=Does(hangs=True))
    async with open_node(fake) as node:
        begun_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(3 * POSTS_MAX):
                nursery.start_soon(fails, node)

        assert trio.current_time() - begun_s == 5
        assert len(fake.asked) == 1


async def test_so_many_requests_go_to_a_node_at_once_and_no_more() -> None:
    fake = FakeNode()
    async with open_node(fake) as node:
        await node.ask(HEAD)
        fake.delay_s = 1
        async with trio.open_nursery() as nursery:
            for _ in range(2 * POSTS_MAX):
                nursery.start_soon(node.ask, HEAD)
            await trio.sleep(0.5)
            assert len(fake.asked) == 2 + POSTS_MAX
        assert len(fake.asked) == 2 + 2 * POSTS_MAX


async def test_a_node_that_asks_for_patience_gets_it_up_to_a_minute() -> None:
    fake = FakeNode(does=Does(status=429, headers=(("retry-after", "7"),)))
    async with open_node(fake) as node:
        await fails(node)
        assert (node.aside_s, node.is_usable) == (7, False)

        fake.does = Does(status=503, headers=(("retry-after", "86400"),))
        await fails(node)
        assert (node.aside_s, node.is_usable) == (60, False)

        await trio.sleep(60)
        assert node.is_usable


async def test_a_limit_in_json_asks_for_patience_too() -> None:
    fake = FakeNode({"eth_blockNumber": Says(-32005, "request rate exceeded")})
    async with open_node(fake) as node:
        await fails(node)

        assert (node.aside_s, node.is_usable) == (0.5, False)


async def test_a_node_that_only_failed_may_still_be_asked_where_no_other_answers() -> None:
    async with open_node(FakeNode(does=Does(resets=True))) as node:
        await fails(node)

        assert (node.is_healthy, node.is_usable) == (False, True)


async def test_an_answer_may_be_long() -> None:
    block = {"number": "0x10", "transactions": ["0x" + "ab" * 1000] * 2000}
    async with open_node(FakeNode({"eth_getBlockByNumber": block})) as node:
        assert await node.ask([("eth_getBlockByNumber", "0x10", True)]) == [block]


async def test_a_batch_with_too_long_an_answer_is_asked_for_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever sends strange transactions to a merchant must not make a chain unreadable by them."""
    monkeypatch.setattr(rpc_node, "BODY_BYTES_MAX", 10_000)
    monkeypatch.setattr(rpc_node, "LONG_BYTES", 10_000)
    lengths = [3_000, 3_000, 3_000, 3_000, 9_000, 10, 10, 10]
    fake = FakeNode({"eth_call": lambda length: "x" * length})
    async with open_node(fake) as node:
        results = await node.ask([("eth_call", length) for length in lengths])

        assert [len(result) for result in results] == lengths
        assert node.failures_ever == 0
        assert [len(post) for post in fake.asked] == [1, 8, 4, 2, 2, 2, 2]
        await node.ask([("eth_call", 1)] * 100)
        assert len(fake.asked[-1]) == 100, "it is remembered of nobody"


async def test_a_single_answer_that_is_too_long_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_node, "BODY_BYTES_MAX", 10_000)
    monkeypatch.setattr(rpc_node, "LONG_BYTES", 10_000)
    fake = FakeNode({"eth_call": lambda length: "x" * length})
    async with open_node(fake) as node:
        assert (
            await fails(node, [("eth_call", 11_000)] * 2)
        ).words == "its answer is too long, or was cut off"


async def test_a_long_batch_goes_out_in_pieces() -> None:
    fake = FakeNode({"eth_call": lambda place: place})
    async with open_node(fake) as node:
        results = await node.ask([("eth_call", place) for place in range(2 * BATCH_MAX + 1)])

        assert results == list(range(2 * BATCH_MAX + 1))
        assert [len(post) for post in fake.asked[1:]] == [BATCH_MAX, BATCH_MAX, 1]
        assert node.posts == 4


@pytest.mark.parametrize(("most", "refusals"), [(1, 4), (3, 3), (10, 1)])
async def test_a_node_that_takes_few_calls_at_once_is_given_few(most: int, refusals: int) -> None:
    fake = FakeNode({"eth_call": lambda place: place}, batch_max=most)
    async with open_node(fake) as node:
        calls: list[Call] = [("eth_call", place) for place in range(21)]
        assert await node.ask(calls) == list(range(21))
        learnt = len(fake.asked)
        assert await node.ask(calls) == list(range(21))

        assert sum(len(post) > most for post in fake.asked[:learnt]) == refusals
        assert all(len(post) <= most for post in fake.asked[learnt:])
        # The last piece was short by itself.
        assert [len(post) for post in fake.asked[learnt:]] == [
            len(post) for post in fake.asked[1 + refusals : learnt]
        ]


async def test_a_node_without_batches_gets_single_calls() -> None:
    fake = FakeNode({"eth_call": lambda place: place}, batch_max=0)
    async with open_node(fake) as node:
        assert await node.ask([("eth_call", place) for place in range(3)]) == [0, 1, 2]


@pytest.mark.parametrize("words", ["Internal error", "Unable to complete request at this time."])
async def test_a_node_that_refused_everything_for_a_while_gets_batches_again(words: str) -> None:
    fake = FakeNode({"eth_call": lambda place: place})
    calls: list[Call] = [("eth_call", place) for place in range(20)]
    async with open_node(fake) as node:
        await node.ask(calls)
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": words}}
        fake.does = Does(body=msgspec.json.encode(error))
        assert all(isinstance(one, RpcError) for one in await node.ask(calls))
        fake.does = None
        assert await node.ask(calls) == list(range(20))
        assert len(fake.asked[-1]) == 20


async def test_a_node_that_refused_some_batches_in_a_year_is_given_long_ones_again() -> None:
    fake = FakeNode({"eth_call": lambda place: place})
    calls: list[Call] = [("eth_call", place) for place in range(20)]
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": 19, "message": "Temporary internal error"}}
    troubles: list[Does] = []

    def script(received: Received) -> Does:
        return troubles.pop() if troubles and received.body.startswith(b"[") else fake(received)

    async with open_node(script) as node:
        await node.ask(calls)
        for _ in range(10):
            troubles = [Does(body=msgspec.json.encode(error))]
            assert await node.ask(calls) == list(range(20))
            await trio.sleep(BATCH_LEARNT_S / 5)
        troubles.clear()
        await trio.sleep(BATCH_LEARNT_S)
        assert await node.ask(calls) == list(range(20))

    assert len(fake.asked[-1]) == 20


@pytest.mark.parametrize("whole", [False, True], ids=["one by one", "all of it"])
async def test_a_node_that_answers_few_calls_a_second_answers_a_long_batch_in_some_seconds(
    whole: bool,
) -> None:
    slow = FakeNode({"a": lambda number: number}, calls_a_s=6, refuses_whole=whole)
    wanted: list[Call] = [("a", number) for number in range(40)]
    async with open_node(slow) as node:
        found = None
        while found is None and trio.current_time() < 60:
            with suppress(Fault):
                found = await node.ask(wanted)
            await trio.sleep(1)
        assert found == list(range(40))


async def test_a_node_that_answers_hardly_any_call_is_not_waited_for_long() -> None:
    fake = FakeNode({"a": 1})
    async with open_node(fake) as node:
        await node.ask([("a",)])
        fake.calls_a_s = 1
        await trio.sleep(1)
        began_s = trio.current_time()
        assert (await fails(node, [("a",)] * 80)).patience_s == 0
        assert trio.current_time() - began_s <= LIMITED_S


async def test_a_batch_that_was_limited_is_as_long_as_before_after_a_minute() -> None:
    fake = FakeNode({"a": 1}, refuses_whole=True)
    async with open_node(fake) as node:
        await node.ask([("a",)])
        fake.calls_a_s = 10
        for _ in range(8):
            await node.ask([("a",)])
        await fails(node, [("a",)])
        for _ in range(2):
            await trio.sleep(1)
            await fails(node, [("a",)] * 20)
        await trio.sleep(1)
        assert await node.ask([("a",)] * 20) == [1] * 20
        fake.calls_a_s = None
        await node.ask([("a",)] * 20)
        assert len(fake.asked[-1]) == 5
        await trio.sleep(LIMITED_LEARNT_S)
        await node.ask([("a",)] * 20)
        assert len(fake.asked[-1]) == 20


async def test_logs_of_too_many_blocks_are_no_failure_of_the_node_and_no_batch_that_was_too_long() -> None:
    fake = FakeNode()

    def script(received: Received) -> Does:
        asked = msgspec.json.decode(received.body)
        refused = [one for one in asked if one["method"] == "eth_getLogs"] if isinstance(asked, list) else []
        if not isinstance(asked, list) and asked["method"] == "eth_getLogs":
            refused = [asked]
        if not refused:
            return fake(received)
        error = {"code": -32614, "message": "eth_getLogs is limited to a 5 range"}
        return Does(413, body=msgspec.json.encode({"id": refused[0]["id"], "error": error}))

    async with open_node(script) as node:
        before, logs, after = await node.ask([*HEAD, ("eth_getLogs", {}), *HEAD])

        assert (before, logs.kind, after) == ("0x10", "too_wide", "0x10")
        assert node.failures_ever == 0
        await node.ask(HEAD * 20)
        assert len(fake.asked[-1]) == 20


async def test_the_newest_block_that_it_named_is_known() -> None:
    fake = FakeNode({"eth_blockNumber": "0x10", "eth_getBlockByNumber": {"number": "0x12"}})
    async with open_node(fake) as node:
        heads = [node.head]
        await node.ask(HEAD)
        heads.append(node.head)
        assert heads == [None, 16]
        await node.ask([("eth_getBlockByNumber", "latest", False)])
        assert (node.head, node.head_at_s) == (18, trio.current_time())
        fake.results["eth_getBlockByNumber"] = {"number": "0x1"}
        await node.ask([("eth_getBlockByNumber", "0x1", False)])
        assert node.head == 18


async def test_a_request_that_its_caller_gave_up_is_no_failure() -> None:
    fake = FakeNode()
    async with open_node(fake) as node:
        await node.ask(HEAD)
        fake.does = Does(hangs=True)
        with trio.move_on_after(1):
            await node.ask(HEAD)

        assert node.is_healthy
        assert node.failures_ever == 0


async def test_a_node_is_shown_by_its_host_alone() -> None:
    async with open_node(FakeNode(does=Does(status=500))) as node:
        with capture_logs() as lines:
            fault = await fails(node)

        assert KEY not in f"{node!r} {node.last_error} {lines} {fault}"


def test_two_nodes_on_one_host_have_two_names() -> None:
    same = "https://node.test/v2/"
    assert names_of([same + "a", same + "b", "http://other.test:8545", same + "c"]) == [
        "https://node.test",
        "https://node.test#2",
        "http://other.test:8545",
        "https://node.test#3",
    ]


def test_a_url_that_cannot_be_called_is_refused_at_once() -> None:
    with pytest.raises(InvalidParams):
        Node(
            "ws://node.test", EvmDialect(1), client=Client(may_call=lambda _: True), calls=Counter(), name="x"
        )
