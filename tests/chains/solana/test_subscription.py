"""What is wanted is subscribed to as it changes, and each piece of news is passed on as a hint."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
from trio_websocket import ConnectionClosed

from payd.chains.socket import PING_S, PONG_S
from payd.chains.solana.subscription import SUBSCRIPTIONS_MAX, Wanted, follow_signatures
from payd.core.errors import InvalidParams
from tests.chains.socket_node import KEY, URL, Connection, dialing, found, speaking

CONFIRMED = {"commitment": "confirmed"}
LIMIT = {"code": -32603, "message": "Internal Error: Subscription refused. Node subscription limit reached"}


@dataclass
class Told:
    """A node that grants what it is asked for, under numbers from 100 on.

    Attributes:
        asked: The calls that came, without their ids.
        running: What is subscribed to, by its number.
        peak: So much was subscribed to at once.
        answer: Says something else to a call than that it is granted.
    """

    asked: list[list[Any]] = field(default_factory=list)
    running: dict[int, str] = field(default_factory=dict)
    peak: int = 0
    answer: Callable[[str, Any], dict[str, Any] | None] = lambda _method, _params: None
    _connection: Connection | None = None
    _next: int = 100

    async def __call__(self, connection: Connection) -> None:
        self._connection = connection
        with suppress(ConnectionClosed):
            while True:
                call = json.loads(await connection.get_message())
                self.asked.append([call["method"], *call["params"]])
                said = self.answer(call["method"], call["params"]) or self._granted(call)
                await self.say({"jsonrpc": "2.0", "id": call["id"], **said})

    def _granted(self, call: dict[str, Any]) -> dict[str, Any]:
        if call["method"].endswith("Unsubscribe"):
            del self.running[call["params"][0]]
            return {"result": True}
        about = call["params"][0]
        self._next += 1
        self.running[self._next] = about if isinstance(about, str) else about["mentions"][0]
        self.peak = max(self.peak, len(self.running))
        return {"result": self._next}

    async def say(self, said: object) -> None:
        assert self._connection is not None
        await self._connection.send_message(said if isinstance(said, str) else json.dumps(said))

    async def confirm(self, tx_id: str, error: Any = None) -> None:
        """Tell of a transaction, which ends the subscription."""
        [number] = [number for number, about in self.running.items() if about == tx_id]
        del self.running[number]
        await self.say(signature_news(number, error))

    async def mention(self, address: str) -> None:
        """Tell of an account."""
        [number] = [number for number, about in self.running.items() if about == address]
        await self.say(logs_news(number))

    async def close(self) -> None:
        assert self._connection is not None
        await self._connection.aclose()


class Slow(Told):
    """A node that answers nothing until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = trio.Event()

    async def say(self, said: object) -> None:
        await self.go_on.wait()
        await super().say(said)


def signature_news(number: int, error: Any = None) -> dict[str, Any]:
    result = {"context": {"slot": 5207624}, "value": {"err": error}}
    params = {"result": result, "subscription": number}
    return {"jsonrpc": "2.0", "method": "signatureNotification", "params": params}


def logs_news(number: int) -> dict[str, Any]:
    value = {"signature": "5h6xBEauJ3PK6SWC", "err": None, "logs": ["Program log: Instruction: Transfer"]}
    params = {"result": {"context": {"slot": 5208469}, "value": value}, "subscription": number}
    return {"jsonrpc": "2.0", "method": "logsNotification", "params": params}


@dataclass
class Following:
    """A connection at work: what is wanted, the news, and why it ended."""

    wanted: Wanted
    news: list[str]
    reasons: list[str]


@asynccontextmanager
async def following(
    node: Told, ids: tuple[str, ...] = (), addresses: tuple[str, ...] = ()
) -> AsyncIterator[Following]:
    at_work = Following(Wanted(), [], [])
    at_work.wanted.want_ids(ids)
    at_work.wanted.want_addresses(addresses)

    async with dialing(speaking(node)) as dial, trio.open_nursery() as nursery:

        async def follow() -> None:
            at_work.reasons.append(
                await follow_signatures(URL, at_work.wanted, at_work.news.append, resolve=found, dial=dial)
            )

        nursery.start_soon(follow)
        await settled()
        yield at_work
        nursery.cancel_scope.cancel()


async def settled() -> None:
    """Until nothing happens any more without somebody's doing; virtual time passes."""
    await trio.sleep(1)


async def test_what_is_wanted_at_the_beginning_is_asked_for() -> None:
    node = Told()
    async with following(node, ("tx1",), ("account1",)):
        assert sorted(node.asked, key=str) == [
            ["logsSubscribe", {"mentions": ["account1"]}, CONFIRMED],
            ["signatureSubscribe", "tx1", CONFIRMED],
        ]


async def test_news_of_a_transaction_name_it_and_news_of_an_account_nothing() -> None:
    node = Told()
    async with following(node, ("tx1", "tx2"), ("account1",)) as at_work:
        at_work.news.clear()
        await node.confirm("tx2")
        await node.mention("account1")
        await node.confirm("tx1", {"InstructionError": [3, {"Custom": 1}]})
        await node.mention("account1")
        await settled()

        assert at_work.news == ["tx2", "", "tx1", ""]
        await node.close()
        await settled()
        assert at_work.reasons == ["it was cut off"]


async def test_what_becomes_wanted_is_asked_for_and_what_is_not_any_more_is_given_up() -> None:
    node = Told()
    async with following(node, ("tx1", "tx2"), ("account1",)) as at_work:
        node.asked.clear()
        at_work.wanted.want_ids({"tx2", "tx3"})
        at_work.wanted.want_addresses({"account2"})
        await settled()

        assert sorted(node.running.values()) == ["account2", "tx2", "tx3"]
        assert sorted(call[0] for call in node.asked) == [
            "logsSubscribe",
            "logsUnsubscribe",
            "signatureSubscribe",
            "signatureUnsubscribe",
        ]
        await node.confirm("tx3")
        await settled()
        assert at_work.news == ["", "", "tx3"]


async def test_what_may_have_happened_to_an_account_before_it_is_subscribed_to_is_looked_for_once() -> None:
    node = Slow()
    async with following(node, ("tx1",), ("account1", "account2")) as at_work:
        assert at_work.news == []
        node.go_on.set()
        await settled()

        assert at_work.news == ["", ""]


async def test_wanting_the_same_again_asks_for_nothing() -> None:
    node = Told()
    async with following(node, ("tx1",), ("account1",)) as at_work:
        before = at_work.wanted.changed
        at_work.wanted.want_ids(["tx1"])
        at_work.wanted.want_addresses(["account1"])
        await settled()

        assert len(node.asked) == 2
        assert at_work.wanted.changed is before


async def test_a_transaction_is_told_of_once_and_not_given_up_then() -> None:
    node = Told()
    async with following(node, ("tx1",)) as at_work:
        await node.confirm("tx1")
        await settled()
        at_work.wanted.want_ids({"tx1", "tx2"})
        await settled()
        at_work.wanted.want_ids(())
        await settled()

        assert [call[0] for call in node.asked] == [
            "signatureSubscribe",
            "signatureSubscribe",
            "signatureUnsubscribe",
        ]
        assert node.asked[1][1] == "tx2"


async def test_a_transaction_that_is_wanted_anew_is_asked_for_anew() -> None:
    node = Told()
    async with following(node, ("tx1",)) as at_work:
        await node.confirm("tx1")
        await settled()
        at_work.wanted.want_ids(())
        await settled()
        at_work.wanted.want_ids({"tx1"})
        await settled()

        assert [call[:2] for call in node.asked] == [["signatureSubscribe", "tx1"]] * 2


async def test_what_is_given_up_while_it_is_asked_for_is_given_up_when_it_is_granted() -> None:
    node = Slow()
    async with following(node, ("tx1",)) as at_work:
        at_work.wanted.want_ids(())
        await settled()
        assert node.running
        node.go_on.set()
        await settled()

        assert not node.running


async def test_news_that_overtake_the_answer_count() -> None:
    class Hasty(Told):
        async def say(self, said: object) -> None:
            if isinstance(said, dict) and "result" in said:
                await super().say(signature_news(said["result"]))
            await super().say(said)

    node = Hasty()
    async with following(node, ("tx1", "tx2")) as at_work:
        assert sorted(at_work.news) == ["tx1", "tx2"]


async def test_news_of_what_nobody_asked_for_are_passed_over() -> None:
    node = Told()
    async with following(node, ("tx1",)) as at_work:
        for number in range(2 * SUBSCRIPTIONS_MAX):
            await node.say(signature_news(10_000 + number))
        await node.say({"jsonrpc": "2.0", "id": 4711, "result": True})
        await node.say({"jsonrpc": "2.0", "method": "hello"})
        await node.confirm("tx1")
        await settled()

        assert (at_work.news, at_work.reasons) == (["tx1"], [])


async def test_no_more_is_asked_for_than_a_node_grants_and_transactions_come_first() -> None:
    ids = [f"tx{number}" for number in range(SUBSCRIPTIONS_MAX - 2)]
    node = Told()
    async with following(node, tuple(ids), tuple(f"account{number}" for number in range(9))) as at_work:
        assert len(node.running) == SUBSCRIPTIONS_MAX
        assert set(ids) <= set(node.running.values())
        kept = set(node.running.values())

        at_work.wanted.want_ids([*ids, "another"])
        await settled()
        assert len(set(node.running.values()) - kept) == 1
        assert "another" in node.running.values()

        at_work.wanted.want_ids([*ids, *(f"more{number}" for number in range(600))])
        await settled()
        assert set(ids) <= set(node.running.values())
        assert not any(about.startswith("account") for about in node.running.values())
        assert node.peak == SUBSCRIPTIONS_MAX


@pytest.mark.parametrize("kind", ["ids", "addresses"])
async def test_what_has_a_place_keeps_it_when_more_is_wanted(kind: str) -> None:
    many = [f"one{number}" for number in range(SUBSCRIPTIONS_MAX + 100)]
    more = [*many, *(f"more{number}" for number in range(3000))]
    node = Told()
    async with following(node, **{kind: tuple(many)}) as at_work:
        node.asked.clear()
        if kind == "ids":
            at_work.wanted.want_ids(more)
        else:
            at_work.wanted.want_addresses(more)
        await settled()

        assert node.asked == []


async def test_a_place_that_becomes_free_is_taken() -> None:
    ids = [f"tx{number}" for number in range(SUBSCRIPTIONS_MAX + 1)]
    node = Told()
    async with following(node, tuple(ids)):
        [left_out] = set(ids) - set(node.running.values())
        await node.confirm(next(iter(node.running.values())))
        await settled()

        assert left_out in node.running.values()


async def test_places_that_are_given_up_while_all_are_asked_for_are_taken_when_they_are_free() -> None:
    node = Slow()
    async with following(node, tuple(f"tx{number}" for number in range(SUBSCRIPTIONS_MAX))) as at_work:
        others = {f"other{number}" for number in range(SUBSCRIPTIONS_MAX)}
        at_work.wanted.want_ids(others)
        await settled()
        node.go_on.set()
        await settled()

        assert set(node.running.values()) == others
        assert node.peak == SUBSCRIPTIONS_MAX


async def test_accounts_that_are_being_asked_for_give_way_to_transactions_too() -> None:
    node = Slow()
    accounts = tuple(f"account{number}" for number in range(SUBSCRIPTIONS_MAX))
    async with following(node, (), accounts) as at_work:
        ids = {f"tx{number}" for number in range(SUBSCRIPTIONS_MAX)}
        at_work.wanted.want_ids(ids)
        await settled()
        node.go_on.set()
        await settled()

        assert set(node.running.values()) == ids
        assert node.peak == SUBSCRIPTIONS_MAX


async def test_what_a_node_refuses_is_left_out_and_the_rest_goes_on() -> None:
    node = Told(answer=lambda method, _: {"error": LIMIT} if method == "logsSubscribe" else None)
    async with following(node, ("tx1",), ("account1", "account2")) as at_work:
        at_work.wanted.want_ids({"tx1", "tx2"})
        await settled()
        await node.confirm("tx2")
        await settled()

        assert [call[0] for call in node.asked].count("logsSubscribe") == 2
        assert (at_work.news, at_work.reasons) == (["tx2"], [])


async def test_a_node_that_refuses_all_is_left() -> None:
    refusal = {"error": {"code": -32601, "message": f"Method not found for {KEY}"}}
    node = Told(answer=lambda _method, _params: refusal)
    async with following(node, ("tx1",), ("account1",)) as at_work:
        assert at_work.reasons == ["it refuses subscriptions: Method not found for [redacted]"]


async def test_a_node_that_wants_to_be_left_alone_is_left() -> None:
    node = Told()
    async with following(node, ("tx1",)) as at_work:
        await node.say({"jsonrpc": "2.0", "id": None, "error": {"code": 429, "message": "Too many requests"}})
        await settled()

        assert at_work.reasons == ["it says: Too many requests"]


@pytest.mark.parametrize(
    "said",
    [
        "{",
        "7",
        "[]",
        "[" * 99_999,
        '{"id":"1","result":7}',
        '{"params":{}}',
        '{"params":{"subscription":null}}',
        '{"params":{"subscription":1.5}}',
        '{"params":[1]}',
        '{"error":"no"}',
        '{"id":1,"result":{"subscription":1}}',
    ],
)
async def test_what_is_no_notification_ends_it(said: str) -> None:
    node = Told()
    async with following(node, ("tx1",)) as at_work:
        await node.say(said)
        await settled()

        assert (at_work.news, at_work.reasons) == ([], ["what came is no notification"])


@pytest.mark.parametrize("granted", [True, None, {"a": 1}])
async def test_a_subscription_without_a_number_ends_it(granted: Any) -> None:
    node = Told(answer=lambda _method, _params: {"result": granted})
    async with following(node, ("tx1",)) as at_work:
        assert at_work.reasons == ["what came is no notification"]


async def test_one_number_for_two_subscriptions_ends_it() -> None:
    node = Told(answer=lambda _method, _params: {"result": 0})
    async with following(node, ("tx1", "tx2")) as at_work:
        assert at_work.reasons == ["what came is no notification"]
        assert len(node.asked) == 2


async def test_a_number_may_be_text() -> None:
    node = Told(answer=lambda _method, _params: {"result": "0x1f"})
    async with following(node, ("tx1",)) as at_work:
        await node.say(json.dumps(signature_news(0)).replace('"subscription": 0', '"subscription": "0x1f"'))
        await settled()

        assert at_work.news == ["tx1"]


async def test_a_silent_node_is_asked_whether_it_is_there() -> None:
    node = Told()
    async with following(node, ("tx1",)) as at_work:
        await trio.sleep(5 * (PING_S + PONG_S))
        assert at_work.reasons == []
        await node.confirm("tx1")
        await settled()

        assert at_work.news == ["tx1"]


async def test_with_nothing_wanted_nothing_is_said() -> None:
    node = Told()
    async with following(node) as at_work:
        await trio.sleep(PING_S)

        assert (node.asked, at_work.reasons) == ([], [])


async def test_several_connections_follow_the_same_wishes() -> None:
    first, second = Told(), Told()
    async with following(first, ("tx1",)) as at_work, dialing(speaking(second)) as dial:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_follow, at_work, dial)
            await settled()
            at_work.wanted.want_ids({"tx2"})
            await settled()
            nursery.cancel_scope.cancel()

        assert [*first.running.values(), *second.running.values()] == ["tx2", "tx2"]


async def _follow(at_work: Following, dial: Any) -> None:
    await follow_signatures(URL, at_work.wanted, at_work.news.append, resolve=found, dial=dial)


async def test_a_url_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(InvalidParams):
        await follow_signatures("ftp://node.test/", Wanted(), lambda _: None)
