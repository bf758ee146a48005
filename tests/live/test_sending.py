"""What a wallet sends may be sped up, cancelled or reverted after it was told; payd finds out which.

Nothing fails before final blocks show that it can not come any more. The node mines when a test says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.live.chain import BUYER, DEPLOYER, MERCHANT, URGENT, LocalChain, account, address, calldata
from tests.live.conformance import ALL_EVENTS
from tests.live.street import DAI, ETH, SECOND_CONTRACT, Street, furnish_chain, open_street

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
ENDED = ["payment.created", "payment.processing", "payment.failed"]


@pytest.fixture
async def street(tmp_path: Path, chain: LocalChain) -> AsyncIterator[Street]:
    await furnish_chain(chain)
    async with open_street(tmp_path / "house", chain) as opened:
        await chain.rpc("evm_setAutomine", False)
        yield opened


async def sent(street: Street, asset: str, *, told: bool = True) -> tuple[str, dict[str, Any]]:
    """A payment, and the transaction for it that waits in the pool."""
    payment_id = await street.payment()
    option = await street.option(payment_id, asset)
    [tx_id] = await street.execute(option)
    if told:
        answer = await street.confirm(payment_id, option, tx_id)
        assert (answer.status_code, answer.json()["status"]) == (200, "processing"), answer.text
    return payment_id, await street.chain.rpc("eth_getTransactionByHash", tx_id)


async def speed_up(street: Street, first: dict[str, Any]) -> str:
    """The same again for the same nonce, and dearer."""
    data = bytes.fromhex(first["input"].removeprefix("0x"))
    nonce, value = int(first["nonce"], 16), int(first["value"], 16)
    return await street.chain.send_as(
        account(BUYER), first["to"], data, value, nonce=nonce, gas=300_000, **URGENT
    )


async def settles(street: Street, payment_id: str) -> str:
    """It is paid by one transfer, whose transaction this is."""
    await street.until(payment_id, "settled", mining=True)
    assert await street.events(payment_id) == ALL_EVENTS
    [transfer] = (await street.detail(payment_id))["transfers"]
    assert transfer["kind"] == "matched"
    return str(transfer["txId"])


async def fails(street: Street, payment_id: str) -> str:
    """Why, in words, minute by minute: unproven ends are looked at again that often."""

    async def ended() -> bool:
        await street.later(61)
        return await street.status(payment_id) != "processing"

    await street.wait_for(ended)
    assert await street.events(payment_id) == ENDED
    page = (await street.call("GET", f"/v1/events?type=payment.failed&paymentId={payment_id}")).json()
    return str(page["data"][0]["envelope"]["data"])


async def waits(street: Street, payment_id: str) -> None:
    """It is not failed by blocks that a reorg could still take, however old they are."""
    await street.later(3600)
    await street.caught_up()
    with trio.move_on_after(0.5):
        await street.until(payment_id, "failed", "expired")
        pytest.fail("these blocks are not final")


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize("asset", [DAI, ETH], ids=["token", "coin"])
async def test_a_transaction_that_the_wallet_sped_up_pays(street: Street, asset: str, told: bool) -> None:
    payment_id, first = await sent(street, asset, told=told)
    second = await speed_up(street, first)
    assert second != first["hash"]

    assert await settles(street, payment_id) == second


async def test_a_transaction_that_the_wallet_cancelled_fails_the_payment_when_that_is_final(
    street: Street,
) -> None:
    payment_id, first = await sent(street, DAI)
    await street.chain.send_as(account(BUYER), address(BUYER), nonce=int(first["nonce"], 16), **URGENT)
    await waits(street, payment_id)

    words = await fails(street, payment_id)

    assert "replaced" in words
    assert await street.chain.balance(SECOND_CONTRACT, address(MERCHANT)) == 0


async def test_who_replaced_what_the_wallet_told_of_pays_in_another_asset(street: Street) -> None:
    payment_id, first = await sent(street, DAI, told=False)
    dai, coin = await street.option(payment_id, DAI), await street.option(payment_id, ETH)
    assert (await street.confirm(payment_id, dai, first["hash"])).json()["status"] == "processing"
    await street.chain.send_as(account(BUYER), address(BUYER), nonce=int(first["nonce"], 16), **URGENT)

    [second] = await street.execute(coin)

    assert await settles(street, payment_id) == second
    assert await street.chain.balance(SECOND_CONTRACT, address(MERCHANT)) == 0


async def test_a_transaction_that_is_reverted_fails_the_payment_when_that_is_final(street: Street) -> None:
    payment_id, first = await sent(street, DAI)
    await street.chain.send_as(
        account(DEPLOYER), SECOND_CONTRACT, calldata("setPaused(bool)", True), **URGENT
    )
    await waits(street, payment_id)
    assert (await street.chain.receipt(first["hash"]))["status"] == "0x0"

    assert "reverted" in await fails(street, payment_id)


async def test_a_transaction_that_nobody_mines_stays_processing_for_days(street: Street) -> None:
    """It is in no block and in no pool; whoever has it can still send it."""
    payment_id, first = await sent(street, DAI)
    raw = await street.chain.rpc("debug_getRawTransaction", first["hash"])
    await street.chain.rpc("anvil_dropTransaction", first["hash"])
    for _ in range(3):
        await street.later(24 * 3600)
        await street.chain.mine(3)
    assert await street.status(payment_id) == "processing"

    await street.chain.rpc("eth_sendRawTransaction", raw)

    assert await settles(street, payment_id) == first["hash"]
