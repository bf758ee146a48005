"""Nodes that fail, lag or lie: nothing is credited that did not happen, and nothing that did is lost.

The nodes stand in front of a real one, and say what a test has them say.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from payd.chains.evm.binding import payment_tag, tagged_transfer
from payd.chains.evm.codec import to_data, word_of_address
from payd.chains.evm.events import TRANSFER
from tests.live.behind import Behind, open_behind
from tests.live.chain import MERCHANT, STRANGER, LocalChain, account, address
from tests.live.conformance import ALL_EVENTS
from tests.live.proxy import Request, Rewrite, with_status
from tests.live.street import DAI, ETH, SECOND_CONTRACT, USDC

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
# So many blocks take a node out of the first row.
BEHIND = 40


@pytest.fixture
async def pair(tmp_path: Path, chain: LocalChain) -> AsyncIterator[Behind]:
    """A shop with two nodes."""
    async with open_behind(tmp_path / "house", chain) as opened:
        yield opened


@pytest.fixture
async def single(tmp_path: Path, chain: LocalChain) -> AsyncIterator[Behind]:
    """A shop with one node."""
    async with open_behind(tmp_path / "house", chain, nodes=1) as opened:
        yield opened


async def send(shop: Behind, asset: str = DAI) -> str:
    """A payment that a wallet has paid, of which nobody told the server; its id."""
    payment_id = await shop.street.payment()
    await shop.street.execute(await shop.street.option(payment_id, asset))
    return payment_id


# Nodes that lag.


@pytest.mark.parametrize(("laggard", "asset"), [(0, USDC), (1, DAI)])
async def test_a_payment_goes_on_with_the_node_that_is_there_and_succeeds_with_both(
    pair: Behind, laggard: int, asset: str
) -> None:
    await pair.mined(2 * BEHIND)
    payment_id = await pair.street.payment()
    option = await pair.street.option(payment_id, asset)
    pair.nodes[laggard].lag = BEHIND
    told = await pair.street.confirm(payment_id, option, *await pair.street.execute(option))
    assert told.status_code == 200
    await pair.street.until(payment_id, "processing")
    await pair.read()
    assert await pair.street.status(payment_id) == "processing"

    pair.recover()

    await pair.street.until(payment_id, "settled")
    assert await pair.street.events(payment_id) == ALL_EVENTS
    assert pair.stats.reorgs == 0


async def test_nodes_that_all_fall_behind_what_was_read_are_no_reorg(pair: Behind) -> None:
    payment_id = await send(pair)
    await pair.street.until(payment_id, "processing", "succeeded", "settled")
    other = await pair.street.payment()
    option = await pair.street.option(other, DAI)
    for node in pair.nodes:
        node.lag = 10_000
    await pair.asked(0, "eth_getBlockByNumber", 6)
    known = await pair.street.status(payment_id)
    [tx_id] = await pair.street.execute(option)
    await pair.chain.receipt(tx_id)
    await pair.asked(0, "eth_getBlockByNumber", 6)
    assert [await pair.street.status(one) for one in (payment_id, other)] == [known, "requires_action"]

    pair.recover()

    for one in (payment_id, other):
        await pair.street.until(one, "settled")
        assert await pair.street.events(one) == ALL_EVENTS
    assert pair.stats.reorgs == 0


async def test_a_payment_succeeds_later_where_the_nodes_are_a_few_blocks_behind(pair: Behind) -> None:
    for node, lag in zip(pair.nodes, (3, 5), strict=True):
        node.lag = lag
    payment_id = await send(pair)

    await pair.street.until(payment_id, "settled")
    assert await pair.street.events(payment_id) == ALL_EVENTS


# Nodes that lie.


def with_receipts(change: Any) -> Rewrite:
    """Rewrites receipts of transactions to the token."""

    def rewrite(request: Request, result: Any) -> Any:
        if request["method"] == "eth_getTransactionReceipt" and result is not None:
            return {**result, **change(result)}
        return result

    return rewrite


def transfer_log(receipt: dict[str, Any], value: int = AMOUNT) -> dict[str, Any]:
    """What the token would have logged for this transaction."""
    parties = [account(STRANGER).address.lower(), account(MERCHANT).address.lower()]
    return {
        "address": SECOND_CONTRACT.lower(),
        "topics": [to_data(TRANSFER), *(to_data(word_of_address(one)) for one in parties)],
        "data": "0x" + value.to_bytes(32, "big").hex(),
        "blockNumber": receipt["blockNumber"],
        "blockHash": receipt["blockHash"],
        "transactionHash": receipt["transactionHash"],
        "transactionIndex": receipt["transactionIndex"],
        "logIndex": "0x0",
        "removed": False,
    }


def with_invented_transfer(receipt: dict[str, Any], *, told_by_logs: bool) -> Rewrite:
    """Has a reverted transaction paid, by its receipt and maybe by the logs of its block."""
    log = transfer_log(receipt)
    paid = {**receipt, "status": "0x1", "logs": [log]}

    def rewrite(request: Request, result: Any) -> Any:
        match request["method"]:
            case "eth_getTransactionReceipt" if request["params"] == [receipt["transactionHash"]]:
                return paid
            case "eth_getLogs" if told_by_logs:
                [wanted] = request["params"]
                number = int(receipt["blockNumber"], 16)
                within = (
                    int(wanted.get("fromBlock", "0x0"), 16) <= number <= int(wanted.get("toBlock", "0x0"), 16)
                )
                return [*result, log] if wanted.get("blockHash") == receipt["blockHash"] or within else result
        return result

    return rewrite


async def reverted(shop: Behind, payment_id: str) -> dict[str, Any]:
    """The receipt of a transaction with the payment's tag, by somebody who has none of the token."""
    data = tagged_transfer(address(MERCHANT), AMOUNT, payment_tag(payment_id))
    sent = await shop.chain.send_as(account(STRANGER), SECOND_CONTRACT, data, gas=300_000)
    receipt = await shop.chain.receipt(sent)
    assert receipt["status"] == "0x0"
    return receipt


async def assert_nothing_is_credited(shop: Behind, payment_id: str) -> None:
    """Neither now nor many blocks later."""
    await shop.read()
    assert not {"payment.succeeded", "payment.settled"} & set(await shop.street.events(payment_id))


async def test_a_status_is_no_proof(pair: Behind) -> None:
    payment_id = await pair.street.payment()
    option = await pair.street.option(payment_id, DAI)
    pair.nodes[0].rewrite = with_status(1)
    receipt = await reverted(pair, payment_id)

    told = await pair.street.confirm(payment_id, option, receipt["transactionHash"])

    assert told.status_code == 400
    await assert_nothing_is_credited(pair, payment_id)
    assert await pair.street.status(payment_id) == "requires_action"


async def test_a_status_is_no_proof_where_there_is_one_node(single: Behind) -> None:
    payment_id = await single.street.payment()
    option = await single.street.option(payment_id, DAI)
    single.nodes[0].rewrite = with_status(1)
    receipt = await reverted(single, payment_id)

    told = await single.street.confirm(payment_id, option, receipt["transactionHash"])

    assert told.status_code == 400
    await assert_nothing_is_credited(single, payment_id)
    assert await single.street.status(payment_id) == "requires_action"


async def test_a_receipt_that_one_node_invents_is_not_found_by_its_own_logs(single: Behind) -> None:
    payment_id = await single.street.payment()
    await single.street.option(payment_id, DAI)
    receipt = await reverted(single, payment_id)
    single.nodes[0].rewrite = with_invented_transfer(receipt, told_by_logs=False)

    await assert_nothing_is_credited(single, payment_id)

    assert await single.street.events(payment_id) == ["payment.created"]


@pytest.mark.parametrize("liar", [0, 1])
async def test_a_buyer_who_pays_after_a_node_invented_a_transfer_is_credited(pair: Behind, liar: int) -> None:
    payment_id = await pair.street.payment()
    option = await pair.street.option(payment_id, DAI)
    pair.fail()
    await pair.unread()
    receipt = await reverted(pair, payment_id)
    pair.recover()
    pair.nodes[liar].rewrite = with_invented_transfer(receipt, told_by_logs=True)
    await assert_nothing_is_credited(pair, payment_id)
    pair.recover()

    await pair.street.execute(option)

    await pair.street.until(payment_id, "settled")
    assert await pair.street.events(payment_id) == ALL_EVENTS


@pytest.mark.parametrize("liar", [0, 1])
async def test_what_one_node_invents_does_not_stop_a_buyer_who_pays_with_another_asset(
    pair: Behind, liar: int
) -> None:
    payment_id = await pair.street.payment()
    await pair.street.option(payment_id, DAI)
    pair.fail()
    await pair.unread()
    receipt = await reverted(pair, payment_id)
    pair.recover()
    pair.nodes[liar].rewrite = with_invented_transfer(receipt, told_by_logs=True)
    await pair.read()
    assert await pair.street.events(payment_id) == ["payment.created"], "one node's word moves nothing"

    await pair.street.pay(payment_id, USDC)

    await pair.street.until(payment_id, "settled")
    assert await pair.street.events(payment_id) == ALL_EVENTS


@pytest.mark.parametrize(("liar", "asset"), [(0, USDC), (1, DAI), (0, ETH)])
async def test_a_payment_succeeds_only_when_both_nodes_show_it(pair: Behind, liar: int, asset: str) -> None:
    """The liar has it reverted; whoever asks both believes neither."""
    pair.nodes[liar].rewrite = with_receipts(lambda receipt: {"status": "0x0", "logs": []})
    payment_id = await pair.street.payment()
    option = await pair.street.option(payment_id, asset)
    await pair.street.confirm(payment_id, option, *await pair.street.execute(option))
    await pair.street.until(payment_id, "processing")
    await assert_nothing_is_credited(pair, payment_id)

    pair.recover()

    await pair.street.until(payment_id, "settled")
    assert await pair.street.events(payment_id) == ALL_EVENTS


async def test_another_block_hash_is_another_block(pair: Behind) -> None:
    pair.nodes[0].rewrite = with_receipts(lambda receipt: {"blockHash": "0x" + "77" * 32})
    payment_id = await send(pair)
    await pair.read()
    assert await pair.street.events(payment_id) == ["payment.created"]

    pair.recover()

    await pair.street.until(payment_id, "settled")
    assert await pair.street.events(payment_id) == ALL_EVENTS


async def test_a_node_with_headers_of_its_own_takes_nothing_back(pair: Behind) -> None:
    """It has other hashes for every block: with the other node, the chain goes on as it was."""

    def rewrite(request: Request, result: Any) -> Any:
        if request["method"] == "eth_getBlockByNumber" and result is not None:
            return {**result, "hash": "0x" + "66" * 32, "parentHash": "0x" + "55" * 32}
        return result

    payment_id = await send(pair)
    await pair.street.until(payment_id, "settled")
    pair.nodes[0].rewrite = rewrite
    other = await send(pair)
    await pair.street.until(other, "processing")
    await assert_nothing_is_credited(pair, other)

    pair.recover()

    await pair.street.until(other, "settled")
    for one in (payment_id, other):
        assert await pair.street.events(one) == ALL_EVENTS
    assert pair.stats.lost == 0


# Nodes that fail.


async def test_a_block_missed_while_the_nodes_fail_is_read_afterwards(pair: Behind) -> None:
    """Bitcart's first fault: a block that came while the node failed is never looked at again."""
    payments = [await pair.street.payment() for _ in range(3)]
    options = [
        await pair.street.option(one, asset) for one, asset in zip(payments, (USDC, DAI, ETH), strict=True)
    ]
    signature = await pair.street.execute(options[0])
    pair.fail()
    await pair.unread(1)
    for option in options[1:]:
        await pair.street.execute(option)
    await pair.blocks()
    await pair.unread(1)
    assert {await pair.street.status(one) for one in payments} == {"requires_action"}

    pair.recover()

    for one in payments[1:]:
        await pair.street.until(one, "settled")
        assert await pair.street.events(one) == ALL_EVENTS
    await pair.street.confirm(payments[0], options[0], *signature)
    await pair.street.until(payments[0], "settled")


async def test_a_payment_that_is_mined_while_the_nodes_answer_503_for_20_seconds_is_found(
    pair: Behind,
) -> None:
    """Longer than the first steps of the backoff from a node that fails."""
    signed, sent = await pair.street.payment(), await pair.street.payment()
    signature_for = await pair.street.option(signed, USDC)
    option = await pair.street.option(sent, DAI)
    told = await pair.street.confirm(signed, signature_for, *await pair.street.execute(signature_for))
    assert told.json()["status"] == "processing"
    pair.fail()
    await pair.street.execute(option)
    await trio.sleep(20)
    pair.recover()

    for payment_id in (signed, sent):
        await pair.street.until(payment_id, "settled")
        assert await pair.street.events(payment_id) == ALL_EVENTS


async def test_a_payment_that_was_paid_in_time_succeeds_though_no_node_told_of_it_until_its_window_was_over(
    pair: Behind,
) -> None:
    ends_s = await pair.chain.now_s() + 3
    paid, unpaid = [await pair.street.payment(expiresAt=ends_s) for _ in range(2)]
    option, other = [await pair.street.option(one, DAI) for one in (paid, unpaid)]
    pair.fail()
    await pair.unread(1)
    [tx_id] = await pair.street.execute(option)
    assert int((await pair.chain.receipt(tx_id))["blockNumber"], 16) > (pair.stats.read or 0)

    async def is_over() -> bool:
        answers = [
            await pair.street.confirm(paid, option, tx_id),
            await pair.street.confirm(unpaid, other, tx_id),
        ]
        return {answer.status_code for answer in answers} == {410}

    await pair.street.wait_for(is_over)
    assert {await pair.street.status(one) for one in (paid, unpaid)} == {"requires_action"}

    pair.recover()

    await pair.street.until(paid, "settled")
    await pair.street.until(unpaid, "expired")
    assert await pair.street.events(paid) == ALL_EVENTS
    assert await pair.street.events(unpaid) == ["payment.created", "payment.expired"]
