"""How a chain is followed: what that costs, heads by websocket, and clocks that do not agree.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import trio

from payd.chains.evm.chain import EvmChain
from payd.chains.evm.doctor import examine
from payd.clock import system_wall_ms
from payd.store.db import Tx
from tests.live.behind import Behind, open_behind
from tests.live.cable import open_cable
from tests.live.chain import LocalChain
from tests.live.conformance import ALL_EVENTS
from tests.live.street import DAI, ETH, USDC

pytestmark = pytest.mark.real_time

MINUTES_MS = 60_000
# At this pace alone, a payment would take longer than any test waits.
RARELY = "60000"
# Long enough for a look to end before the next block comes.
PAUSE_S = 0.5
MANY = 1000
FEW = 10
BLOCKS = 8
# So many blocks behind the newest, by the node's own word.
FINAL = 2
# The relayer looks after its purse once a minute.
BESIDES = 3


# What it costs.


async def test_a_thousand_open_payments_cost_no_more_questions_than_ten(
    tmp_path: Path, chain: LocalChain
) -> None:
    async with open_behind(tmp_path / "house", chain, block_s=None, poll_ms=RARELY) as shop:
        payment_id = await shop.street.payment()
        await shop.street.option(payment_id, DAI)
        await open_more(shop, payment_id, FEW)
        few = await cost_of_blocks(shop)
        await open_more(shop, payment_id, MANY)
        many = await cost_of_blocks(shop)

    of_blocks = [(calls["eth_getLogs"], calls["eth_getBlockByNumber"]) for calls, _ in (few, many)]
    assert of_blocks[0] == of_blocks[1]
    assert min(of_blocks[0]) >= BLOCKS
    assert many[1] <= few[1] + BESIDES


async def open_more(shop: Behind, payment_id: str, count: int) -> None:
    """So many payments like this one, whose options are out."""

    def copy(tx: Tx) -> int:
        for table, key in (("payments", "id"), ("watches", "payment_id")):
            copy_rows(tx, table, key, payment_id, count)
        return int(tx.execute("SELECT count(*) FROM watches WHERE chain = 'eip155:31337'").fetchone()[0])

    assert await shop.street.house.realms["live"].db.write(copy) >= count


def copy_rows(tx: Tx, table: str, key: str, payment_id: str, count: int) -> None:
    """Copies of a payment's rows, under ids that end in numbers, with bindings of their own."""
    names = [str(row[1]) for row in tx.execute(f"PRAGMA table_info({table})") if row[1] != "seq"]
    values = {name: name for name in names} | {key: f"{key} || '-' || number"}
    if "binding" in values:
        values["binding"] = "randomblob(32)"
    tx.execute(
        "WITH RECURSIVE numbers(number) AS (VALUES (1) UNION ALL SELECT number + 1 FROM numbers"
        f" WHERE number < ?) INSERT OR IGNORE INTO {table} ({', '.join(names)})"
        f" SELECT {', '.join(values[name] for name in names)} FROM {table}, numbers WHERE {key} = ?",
        (count, payment_id),
    )


async def cost_of_blocks(shop: Behind) -> tuple[Counter[str], int]:
    """The calls, by method, and the POSTs for a few blocks that are read one by one."""
    await read_one(shop)
    calls, posts = Counter(shop.room.rpc.calls), shop.room.rpc.posts
    for _ in range(BLOCKS):
        await read_one(shop)
    return shop.room.rpc.calls - calls, shop.room.rpc.posts - posts


async def read_one(shop: Behind) -> None:
    """Mine a block, and return when it was read, and what became final with it was read again."""
    await shop.mined(1)
    final = await shop.chain.head() - FINAL

    async def is_read_again() -> bool:
        await trio.lowlevel.checkpoint()
        return (shop.stats.final or 0) >= final

    await shop.street.wait_for(is_read_again)


# Heads by websocket.


async def test_with_a_websocket_payments_succeed_though_nobody_is_asked_for_a_minute(
    tmp_path: Path, chain: LocalChain
) -> None:
    lines = f'depth = 2\nws = "{chain.anvil.ws_url}"'
    async with open_behind(tmp_path / "house", chain, lines=lines, poll_ms=RARELY, block_s=PAUSE_S) as shop:
        for asset in (USDC, DAI):
            payment_id = await shop.street.payment()
            await shop.street.pay(payment_id, asset)
            await shop.street.until(payment_id, "settled")
            assert await shop.street.events(payment_id) == ALL_EVENTS


async def test_a_websocket_that_is_cut_is_opened_again(tmp_path: Path, chain: LocalChain) -> None:
    async with open_cable(chain.anvil.port) as cable:
        lines = f'depth = 2\nws = "{cable.url}"'
        async with open_behind(
            tmp_path / "house", chain, lines=lines, poll_ms=RARELY, block_s=PAUSE_S
        ) as shop:
            first = await shop.street.payment()
            await shop.street.pay(first, DAI)
            await shop.street.until(first, "settled")
            cable.cut()
            second = await shop.street.payment()
            await shop.street.pay(second, DAI)
            await shop.street.until(second, "settled")

    assert cable.connections == 2


# Clocks.


@pytest.mark.parametrize("minutes", [10, -10])
async def test_a_server_whose_clock_is_wrong_by_minutes_is_paid(
    tmp_path: Path, chain: LocalChain, minutes: int
) -> None:
    def wall() -> int:
        return system_wall_ms() + minutes * MINUTES_MS

    async with open_behind(tmp_path / "house", chain, wall=wall) as shop:
        signed = await shop.street.payment()
        await shop.street.pay(signed, USDC)
        await shop.street.until(signed, "settled")
        for asset in (DAI, ETH):
            sent = await shop.street.payment()
            told = await shop.street.pay(sent, asset)
            assert told.status_code == 200, told.text
            await shop.street.until(sent, "settled")


async def test_a_window_of_a_fast_clock_stays_open_until_the_chain_is_past_it(
    tmp_path: Path, chain: LocalChain
) -> None:
    """The server believes that it is over; what is sent within it by the chain's clock still counts."""

    def wall() -> int:
        return system_wall_ms() + MINUTES_MS

    async with open_behind(tmp_path / "house", chain, wall=wall) as shop:
        expires_s = wall() // 1000 + 4
        paid, unpaid = [await shop.street.payment(expiresAt=expires_s) for _ in range(2)]
        option = await shop.street.option(paid, DAI)
        await shop.street.option(unpaid, DAI)

        async def is_refused() -> bool:
            return (await shop.street.confirm(unpaid, option, "0x" + "ab" * 32)).status_code == 410

        await shop.street.wait_for(is_refused)
        await shop.read()
        assert {await shop.street.status(one) for one in (paid, unpaid)} == {"requires_action"}
        await shop.street.execute(option)
        await shop.street.until(paid, "settled")
        assert await shop.street.status(unpaid) == "requires_action"

        await chain.rpc("evm_increaseTime", 100)
        await shop.street.until(unpaid, "expired")


@pytest.mark.parametrize(("seconds", "status"), [(60, "settled"), (-60, "settled"), (600, "requires_action")])
async def test_an_unannounced_transfer_counts_as_long_as_the_clocks_are_off_by_less_than_the_grace(
    tmp_path: Path, chain: LocalChain, seconds: int, status: str
) -> None:
    """Beyond it nobody can tell whether a quote held; it is shown all the same."""

    def wall() -> int:
        return system_wall_ms() + seconds * 1000

    async with open_behind(tmp_path / "house", chain, wall=wall) as shop:
        payment_id = await shop.street.payment()
        [tx_id] = await shop.street.execute(await shop.street.option(payment_id, ETH))

        async def is_shown() -> bool:
            page = (await shop.street.call("GET", "/v1/transfers")).json()
            return any(one["txId"] == tx_id for one in page["data"])

        await shop.street.wait_for(is_shown)
        assert await shop.street.until(payment_id, status) == status


@pytest.mark.parametrize("minutes", [0, 10, -10])
async def test_the_doctor_names_a_clock_that_is_not_the_chains(
    tmp_path: Path, chain: LocalChain, minutes: int
) -> None:
    async with open_behind(tmp_path / "house", chain) as shop:
        await shop.blocks(1)
        assert isinstance(shop.room.chain, EvmChain)
        findings = await examine(shop.room.chain, system_wall_ms() + minutes * MINUTES_MS)

    assert any("this machine's clock" in one.words for one in findings) is (minutes != 0)
