"""A node that says other things of what is signed than the others: it stops nothing for long."""

from __future__ import annotations

import pytest

from payd.store.db import Database
from tests.actors.relay_bench import LIMITS, buyer, buyer_address, open_bench
from tests.actors.relay_chain import STATE_SELECTOR, PoolNode, Refusal

SOON_S = 31


def say_used(node: PoolNode, used: bool) -> None:
    """Have one node say so of every authorization, for ever."""
    honest = node.result

    def result(method: str, *params: object) -> object:
        if method == "eth_call" and params[0]["data"].startswith("0x" + STATE_SELECTOR.hex()):  # type: ignore[index]
            return "0x" + bytes([used]).rjust(32, b"\0").hex()
        return honest(method, *params)

    node.result = result  # type: ignore[method-assign]


def refuse(node: PoolNode) -> None:
    """Have one node say that every call reverts, for ever."""
    honest = node.result

    def result(method: str, *params: object) -> object:
        said = honest(method, *params)
        is_call = method == "eth_call" and len(params[0]["data"]) > 200  # type: ignore[index]
        if is_call or method == "eth_estimateGas":
            raise Refusal(3, "execution reverted: no")
        return said

    node.result = result  # type: ignore[method-assign]


@pytest.mark.parametrize("liar", [0, 1, 2])
@pytest.mark.parametrize("lie", ["used", "refused", "nonsense"])
async def test_what_one_node_of_three_speaks_against_is_brought_to_the_chain(
    realm_db: Database, liar: int, lie: str
) -> None:
    async with open_bench(realm_db, nodes=3) as bench:
        if lie == "used":
            say_used(bench.nodes[liar], True)
        elif lie == "refused":
            refuse(bench.nodes[liar])
        else:
            say(bench.nodes[liar], "eth_call", "0x")
        owed = await bench.owe()
        await bench.tick()
        await bench.tick(SOON_S)
        bench.mine()
        await bench.tick(6)
        assert bench.landed(owed)
        assert bench.state() == "landed"


@pytest.mark.parametrize("liar", [0, 1, 2])
async def test_what_was_brought_has_landed_although_one_node_of_three_denies_it(
    realm_db: Database, liar: int
) -> None:
    async with open_bench(realm_db, nodes=3) as bench:
        say_used(bench.nodes[liar], False)
        owed = await bench.owe()
        bench.chain.use(owed.data, owed.target)
        for _ in range(30):
            await bench.tick(10)
        assert (bench.state(), bench.pool) == ("landed", [])


async def test_who_is_ahead_of_two_others_is_not_outvoted_at_once(realm_db: Database) -> None:
    """A stranger brings what was signed: it costs no gas where the first node alone has the block yet."""
    async with open_bench(realm_db, nodes=3) as bench:
        owed = await bench.owe()
        bench.nodes[1].lag = bench.nodes[2].lag = 1
        bench.chain.use(owed.data, owed.target)
        await bench.tick()
        assert (bench.state(), bench.pool) == ("queued", [])
        bench.nodes[1].lag = bench.nodes[2].lag = 0
        await bench.tick(SOON_S)
        assert (bench.state(), bench.pool) == ("landed", [])


async def test_one_node_that_refuses_while_the_other_is_away_gives_nothing_up(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        owed = await bench.owe()
        bench.chain.refused[buyer_address(0)] = "no"
        bench.nodes[0].status = 503
        for _ in range(60):
            await bench.tick(10)
        assert bench.state() == "queued"
        assert bench.job().tries >= 4
        bench.chain.refused.clear()
        bench.nodes[0].status = None
        await bench.tick(480)
        bench.mine()
        await bench.tick(6)
        assert bench.landed(owed)


async def test_too_little_gas_by_the_word_of_one_node_is_spent_once(realm_db: Database) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        say(bench.nodes[0], "eth_estimateGas", "0x7530")
        owed = await bench.owe()
        await bench.tick()
        bench.mine()
        await bench.tick(6)
        assert (bench.state(), bench.landed(owed)) == ("queued", False)
        await bench.tick(SOON_S)
        bench.mine()
        await bench.tick(6)
        assert bench.landed(owed)
        assert bench.relayer.stats().reverts == 1


@pytest.mark.parametrize("liar", [0, 1])
async def test_what_was_reverted_is_brought_although_one_node_of_two_says_that_it_was_not(
    realm_db: Database, liar: int
) -> None:
    async with open_bench(realm_db, nodes=2) as bench:
        owed = await bench.owe()
        await bench.tick()
        bench.chain.refused[buyer_address(0)] = "paused"
        [mined] = bench.mine()
        honest = bench.nodes[liar].result

        def result(method: str, *params: object) -> object:
            said = honest(method, *params)
            return said | {"status": "0x1"} if params == (mined,) else said

        bench.nodes[liar].result = result  # type: ignore[method-assign]
        await bench.tick(6)
        await bench.tick(16)
        assert bench.state() == "queued"
        bench.chain.refused.clear()
        await bench.tick(SOON_S)
        bench.mine()
        await bench.tick(6)
        assert bench.landed(owed)


@pytest.mark.parametrize("nodes", [1, 2])
async def test_what_one_node_says_that_it_cost_ends_no_budget(realm_db: Database, nodes: int) -> None:
    async with open_bench(realm_db, nodes=nodes) as bench:
        honest = bench.nodes[0].result

        def result(method: str, *params: object) -> object:
            said = honest(method, *params)
            is_mined = method == "eth_getTransactionReceipt" and said is not None
            return said | {"effectiveGasPrice": hex(10**40)} if is_mined else said

        bench.nodes[0].result = result  # type: ignore[method-assign]
        for number in range(3):
            owed = await bench.owe(f"pay_{number}", number)
            await bench.tick(6)
            bench.mine()
            await bench.tick(6)
            assert bench.landed(owed)
        assert bench.relayer.stats().spent_today < LIMITS.gas_per_day / 10
        assert bench.relayer.can_relay(buyer(9))


def say(node: PoolNode, method: str, said: object) -> None:
    """Have one node say that to everything that is asked so."""
    honest = node.result
    node.result = lambda asked, *params: said if asked == method else honest(asked, *params)  # type: ignore[method-assign]
