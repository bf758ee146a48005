"""Reorgs on a real node: what is taken is not credited, what comes back is, once; nothing told is untold.

This node does not give dropped transactions back to its pool: they come again when somebody sends them again.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from payd.chains.evm.binding import payment_tag, tagged_transfer
from tests.live.anvil import running_anvil
from tests.live.behind import LONG, Behind, open_behind
from tests.live.chain import BUYER, FIRST_CONTRACT, MAX_FEE, MERCHANT, RELAYER, LocalChain, account, address
from tests.live.conformance import ALL_EVENTS
from tests.live.street import DAI, ETH, SECOND_CONTRACT, USDC

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
# Succeeds in the second block and settles in the twelfth: room for reorgs on either side of success.
DEPTHS = "depth = 2\nfinal = 12"
DEEP = "depth = 6\nfinal = 12"


@pytest.fixture
async def slow(tmp_path: Path, chain: LocalChain) -> AsyncIterator[Behind]:
    """Payments succeed six blocks deep; the chain stands still unless it is told to go on."""
    async with open_behind(tmp_path / "house", chain, block_s=None, lines=DEEP) as opened:
        yield opened


@pytest.fixture
async def quick(tmp_path: Path, chain: LocalChain) -> AsyncIterator[Behind]:
    """As `slow`, but payments succeed two blocks deep, long before they are final."""
    async with open_behind(tmp_path / "house", chain, block_s=None, lines=DEPTHS) as opened:
        yield opened


async def seen(shop: Behind, asset: str = DAI) -> tuple[str, dict[str, Any], str]:
    """A payment that is processing by what its chain showed: its id, its option, its transaction."""
    payment_id = await shop.street.payment()
    option = await shop.street.option(payment_id, asset)
    await shop.street.confirm(payment_id, option, *await shop.street.execute(option))
    return payment_id, option, (await transfer_of(shop, payment_id))["txId"]


async def transfer_of(shop: Behind, payment_id: str) -> dict[str, Any]:
    """The transfer that pays it, as it is shown."""

    async def shown() -> dict[str, Any] | None:
        found = (await shop.street.detail(payment_id))["transfers"]
        return next((one for one in found if one["kind"] == "matched"), None)

    transfer: dict[str, Any] = await shop.street.wait_for(shown)
    return transfer


async def take(shop: Behind, tx_id: str) -> int:
    """A reorg in whose blocks the transaction is not; how deep it was."""
    number = int((await shop.chain.receipt(tx_id))["blockNumber"], 16)
    depth = await shop.chain.head() - number + 1
    reorgs = shop.stats.reorgs
    await shop.chain.reorg(depth)
    await shop.chain.mine()
    assert await shop.chain.rpc("eth_getTransactionReceipt", tx_id) is None
    await shop.followed(reorgs + 1)
    return depth


async def received(shop: Behind, asset: str = DAI) -> int:
    """What the merchant has."""
    if asset == ETH:
        return int(await shop.chain.rpc("eth_getBalance", address(MERCHANT), "latest"), 16) - 10**22
    return await shop.chain.balance(FIRST_CONTRACT if asset == USDC else SECOND_CONTRACT, address(MERCHANT))


async def assert_settles_once(shop: Behind, payment_id: str, tx_id: str) -> None:
    await shop.street.until(payment_id, "settled", mining=True)
    assert await shop.street.events(payment_id) == ALL_EVENTS
    detail = await shop.street.detail(payment_id)
    assert detail["info"]["txId"] == tx_id
    assert [one["txId"] for one in detail["transfers"] if one["kind"] == "matched"] == [tx_id]


# Before success.


@pytest.mark.parametrize("asset", [DAI, ETH])
async def test_a_reorg_takes_a_transfer_and_it_is_not_credited(slow: Behind, asset: str) -> None:
    """Bitcart credits what a reorg took. Here it counts again when it is mined again, and once."""
    payment_id, option, tx_id = await seen(slow, asset)
    await slow.mined(2)
    await take(slow, tx_id)
    await slow.mined()
    assert await received(slow, asset) == 0
    assert await slow.street.events(payment_id) == ["payment.created", "payment.processing"]

    # The wallet sends it again: the same nonce, so that it is the same transaction.
    assert await slow.street.execute(option) == [tx_id]

    await assert_settles_once(slow, payment_id, tx_id)


async def test_a_transfer_that_a_reorg_moves_to_another_block_is_credited_once(slow: Behind) -> None:
    payment_id, _, tx_id = await seen(slow)
    before = int((await slow.chain.receipt(tx_id))["blockNumber"], 16)
    raw = bytes.fromhex((await slow.chain.rpc("eth_getRawTransactionByHash", tx_id))[2:])
    await slow.mined(2)
    await slow.chain.reorg(3, [(raw, 2)])
    await slow.followed(1)

    await assert_settles_once(slow, payment_id, tx_id)
    assert int((await slow.chain.receipt(tx_id))["blockNumber"], 16) == before + 2
    assert await received(slow) == AMOUNT


async def test_a_speed_up_in_place_of_what_a_reorg_took_pays(slow: Behind) -> None:
    payment_id, _, tx_id = await seen(slow)
    await take(slow, tx_id)
    data = tagged_transfer(address(MERCHANT), AMOUNT, payment_tag(payment_id))
    faster = await slow.chain.send_as(account(BUYER), SECOND_CONTRACT, data, max_fee=2 * MAX_FEE, gas=300_000)
    assert faster != tx_id

    await slow.street.until(payment_id, "settled", mining=True)
    assert await slow.street.events(payment_id) == ALL_EVENTS
    assert (await slow.street.detail(payment_id))["info"]["txId"] == faster
    assert await received(slow) == AMOUNT


async def test_what_a_wallet_replaced_after_a_reorg_is_never_credited(slow: Behind) -> None:
    payment_id, _, tx_id = await seen(slow)
    await take(slow, tx_id)
    await slow.chain.done(account(BUYER), address(BUYER))

    await slow.mined(2 * LONG)

    assert await slow.street.events(payment_id) == ["payment.created", "payment.processing"]
    assert await received(slow) == 0


async def test_the_relayer_brings_a_signed_payment_again_that_a_reorg_took(slow: Behind) -> None:
    payment_id, _, tx_id = await seen(slow, USDC)
    await slow.mined(2)
    await take(slow, tx_id)

    await assert_settles_once(slow, payment_id, tx_id)
    assert await received(slow, USDC) == AMOUNT
    assert int(await slow.chain.rpc("eth_getTransactionCount", address(RELAYER), "latest"), 16) == 1


# After success.


async def test_after_success_the_relayer_brings_it_again_and_settled_waits_until_it_is_final(
    quick: Behind, capsys: pytest.CaptureFixture[str]
) -> None:
    payment_id, _, tx_id = await seen(quick, USDC)
    await quick.street.until(payment_id, "succeeded", mining=True)
    await take(quick, tx_id)
    assert await quick.street.status(payment_id) == "succeeded"
    assert quick.stats.lost == 1
    assert "chain.reorg_after_success" in capsys.readouterr().out

    again = await quick.chain.receipt(tx_id)

    # Final where it is now, and not where it was.
    first_final = int(again["blockNumber"], 16) + 11
    while await quick.chain.head() < first_final:
        assert "payment.settled" not in await quick.street.events(payment_id)
        await quick.mined(1)
    await assert_settles_once(quick, payment_id, tx_id)
    assert await received(quick, USDC) == AMOUNT


async def test_what_never_comes_back_after_success_is_never_settled(quick: Behind) -> None:
    payment_id, option, tx_id = await seen(quick)
    await quick.street.until(payment_id, "succeeded", mining=True)
    await take(quick, tx_id)
    await quick.mined(4 * LONG)
    assert await quick.street.events(payment_id) == ALL_EVENTS[:3]
    assert quick.stats.lost == 1

    # It may come very late; then it settles after all.
    assert await quick.street.execute(option) == [tx_id]
    await assert_settles_once(quick, payment_id, tx_id)


# How deep.


@pytest.mark.parametrize(("value", "rule"), [("2500", 3), ("25000", "safe"), ("250000", "finalized")])
async def test_the_more_it_is_worth_the_deeper_it_must_lie(
    tmp_path: Path, value: str, rule: int | str
) -> None:
    depths = 'depth = { "0" = 3, "100" = "safe", "1000" = "finalized" }'
    with running_anvil(slots_in_an_epoch=5) as anvil:
        chain = LocalChain(anvil)
        async with open_behind(tmp_path / "house", chain, block_s=None, lines=depths) as shop:
            payment_id = await shop.street.payment(value)
            await shop.street.pay(payment_id, DAI)
            tx_id = (await transfer_of(shop, payment_id))["txId"]
            number = int((await chain.receipt(tx_id))["blockNumber"], 16)

            while await shop.street.status(payment_id) == "processing":
                await shop.mined(1)
                reached = await chain.head() - 2
                if isinstance(rule, str):
                    reached = int((await chain.rpc("eth_getBlockByNumber", rule, False))["number"], 16)
                assert reached >= number or await shop.street.status(payment_id) == "processing"

            assert await shop.street.status(payment_id) == "succeeded"
            assert await chain.head() - number < 20
