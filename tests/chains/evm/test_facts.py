"""Facts about accounts: one POST for all of them, kept for seconds; what cannot be read is not made up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from eth_abi.abi import encode

from payd.chains.evm import facts as evm_facts
from payd.chains.evm.abi import MULTICALL3
from payd.chains.evm.dialect import EvmDialect
from payd.chains.evm.facts import KEPT_MS, Answers, Balance, Code, Coins, Fact, Facts, GasPrice
from payd.chains.rpc import Rpc
from payd.core.errors import ChainUnavailable
from tests.chains.evm.json import BUYER, TOKEN, WALLET
from tests.chains.evm.scene import MINTED, Scene
from tests.chains.rpc_node import FakeNode, Says, open_rpc
from tests.live.anvil import Anvil
from tests.live.chain import BUYER as BUYER_PLACE
from tests.live.chain import DEPLOYER, STRANGER, account, address
from tests.live.proxy import FlakyProxy, open_proxy

NOW_MS = 1_780_000_000_000
WORD = "0x" + "00" * 31 + "07"


def simple_node(**more: Any) -> FakeNode:
    results = {"eth_call": WORD, "eth_getBalance": "0x9", "eth_getCode": "0x", "eth_gasPrice": "0x3b9aca00"}
    return FakeNode({**results, **more})


async def test_all_facts_are_read_in_one_post() -> None:
    node = simple_node()
    async with open_rpc(node) as rpc:
        facts = Facts(rpc)
        wanted: list[Fact] = [Balance(TOKEN, BUYER), Coins(BUYER), Code(BUYER), GasPrice(), Coins(WALLET)]
        await facts.read([*wanted, *wanted], NOW_MS)

        assert await facts.balance(TOKEN, BUYER, NOW_MS) == 7
        assert await facts.coins(BUYER, NOW_MS) == 9
        assert await facts.code(BUYER, NOW_MS) == b""
        assert await facts.gas_price(NOW_MS) == 10**9
        # The check of the chain's id, all of these at once, and whether there is an aggregate for next time.
        assert [len(post) for post in node.asked] == [1, 6]


async def test_a_fact_is_kept_for_some_seconds_and_read_again_after_them() -> None:
    node = simple_node()
    async with open_rpc(node) as rpc:
        facts = Facts(rpc)
        await facts.coins(BUYER, NOW_MS)
        node.results["eth_getBalance"] = "0x1"

        assert await facts.coins(BUYER, NOW_MS + KEPT_MS - 1) == 9
        assert await facts.coins(BUYER, NOW_MS + KEPT_MS) == 1


async def test_a_clock_that_is_set_back_does_not_keep_a_fact_for_longer() -> None:
    node = simple_node()
    async with open_rpc(node) as rpc:
        facts = Facts(rpc)
        await facts.coins(BUYER, NOW_MS)
        node.results["eth_getBalance"] = "0x1"

        assert await facts.coins(BUYER, NOW_MS - 3_600_000) == 1


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evm_facts, "KEPT_MAX", 3)
    node = simple_node()
    async with open_rpc(node) as rpc:
        facts = Facts(rpc)
        for number in range(10):
            assert await facts.coins(f"0x{number:040x}", NOW_MS) == 9

        assert len(facts._kept) == 3


@pytest.mark.parametrize("refusal", [Says(3, "execution reverted"), "0x", "0x07", None, "no hex"])
async def test_a_token_that_does_not_tell_a_balance_has_none(refusal: object) -> None:
    async with open_rpc(simple_node(eth_call=refusal)) as rpc:
        assert await Facts(rpc).balance(TOKEN, BUYER, NOW_MS) is None


@pytest.mark.parametrize("method", ["eth_getBalance", "eth_getCode", "eth_gasPrice"])
@pytest.mark.parametrize("answer", [None, "junk", {}, Says(-32000, "no"), Says(-32601, "method not found")])
async def test_a_node_that_does_not_answer_for_itself_makes_the_chain_unavailable(
    method: str, answer: object
) -> None:
    async with open_rpc(simple_node(**{method: answer})) as rpc:
        with pytest.raises(ChainUnavailable):
            await Facts(rpc).read([Coins(BUYER), Code(BUYER), GasPrice()], NOW_MS)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(WORD, True), ("0x" + "ff" * 32, True), ("0x", False), (Says(3, "execution reverted"), False)],
)
async def test_code_answers_for_signatures_when_it_answers_with_a_word_be_it_no(
    answer: object, expected: bool
) -> None:
    async with open_rpc(simple_node(eth_call=answer)) as rpc:
        assert await Facts(rpc).answers(BUYER, NOW_MS) is expected


async def test_where_there_is_no_aggregate_there_is_none_however_often_one_asks() -> None:
    async with open_rpc(simple_node()) as rpc:
        facts = Facts(rpc)

        assert [await facts.has_multicall(NOW_MS) for _ in range(2)] == [False, False]


@pytest.mark.parametrize("said", [(True, b""), (True, bytes(64)), (False, bytes(32))])
async def test_what_an_aggregate_does_not_tell_in_one_word_is_asked_alone(said: tuple[bool, bytes]) -> None:
    def answer(transaction: dict[str, str], block: str) -> str:
        is_aggregate = transaction["to"] == MULTICALL3
        return "0x" + encode(["(bool,bytes)[]"], [[said]]).hex() if is_aggregate else WORD

    async with open_rpc(simple_node(eth_call=answer, eth_getCode="0x60")) as rpc:
        facts = Facts(rpc)
        assert await facts.has_multicall(NOW_MS)

        assert await facts.balance(TOKEN, BUYER, NOW_MS) == 7


# On a real node, with the aggregate of many calls in one.


@asynccontextmanager
async def facts_on(anvil: Anvil) -> AsyncIterator[tuple[Facts, FlakyProxy]]:
    async with open_proxy(anvil) as proxy:
        rpc = Rpc([proxy.url], EvmDialect(31337))
        yield Facts(rpc), proxy
        await rpc.aclose()


@pytest.mark.real_time
async def test_a_thousand_balances_are_a_few_calls_where_the_aggregate_is_deployed(
    scene: Scene, anvil: Anvil
) -> None:
    async with facts_on(anvil) as (facts, proxy):
        buyer = address(BUYER_PLACE)
        assert await facts.has_multicall(NOW_MS)
        proxy.calls.clear()
        owners = [buyer, *(f"0x{number:040x}" for number in range(1, 500))]
        wanted = [fact for owner in owners for fact in (Balance(scene.usdc, owner), Coins(owner))]
        before = proxy.posts
        await facts.read(wanted, NOW_MS)

        assert proxy.posts == before + 1
        assert proxy.calls["eth_call"] == 5
        assert proxy.calls["eth_getBalance"] == 0
        assert await facts.balance(scene.usdc, buyer, NOW_MS) == MINTED
        assert await facts.balance(scene.usdc, owners[-1], NOW_MS) == 0
        assert await facts.coins(buyer, NOW_MS) == 10_000 * 10**18


@pytest.mark.real_time
async def test_a_token_that_fails_in_an_aggregate_takes_nothing_from_the_others(
    scene: Scene, anvil: Anvil
) -> None:
    async with facts_on(anvil) as (facts, _):
        assert await facts.has_multicall(NOW_MS)
        await facts.read([Balance(MULTICALL3, address(1)), Balance(scene.usdc, address(2))], NOW_MS)

        assert await facts.balance(MULTICALL3, address(1), NOW_MS) is None
        assert await facts.balance(scene.usdc, address(2), NOW_MS) == MINTED


@pytest.mark.real_time
async def test_an_aggregate_that_a_node_refuses_is_read_one_by_one(scene: Scene, anvil: Anvil) -> None:
    async with facts_on(anvil) as (facts, proxy):
        assert await facts.has_multicall(NOW_MS)

        def cut(request: dict[str, Any], result: Any) -> Any:
            to = request["params"][0]["to"] if request["method"] == "eth_call" else ""
            return "0x" if to == MULTICALL3 else result

        proxy.rewrite = cut
        await facts.read([Balance(scene.usdc, address(BUYER_PLACE)), Coins(address(STRANGER))], NOW_MS)

        assert await facts.balance(scene.usdc, address(BUYER_PLACE), NOW_MS) == MINTED
        assert await facts.coins(address(STRANGER), NOW_MS) == 10_000 * 10**18


@pytest.mark.real_time
async def test_a_real_wallet_answers_for_signatures_and_a_key_does_not(scene: Scene, anvil: Anvil) -> None:
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [account(DEPLOYER).address])
    async with facts_on(anvil) as (facts, _):
        await facts.read([Answers(wallet), Answers(address(BUYER_PLACE))], NOW_MS)

        assert await facts.answers(wallet, NOW_MS)
        assert not await facts.answers(address(BUYER_PLACE), NOW_MS)
        assert not await facts.answers(scene.usdc, NOW_MS)
