"""A transfer that nothing binds, on a real node: its merchant's word has it pay, proven like any other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from payd.chains.evm.binding import transfer_call
from tests.live.behind import Behind, open_behind
from tests.live.chain import BUYER, BUYER_2, FIRST_CONTRACT, MERCHANT, LocalChain, account, address
from tests.live.conformance import ALL_EVENTS
from tests.live.street import DAI, ETH, SECOND_CONTRACT, USDC, Street

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
ETHER = 10**16


@pytest.fixture
async def shop(tmp_path: Path, chain: LocalChain) -> AsyncIterator[Behind]:
    """Two nodes, and blocks at the pace of a chain."""
    async with open_behind(tmp_path / "house", chain) as opened:
        yield opened


@pytest.fixture
async def slow(tmp_path: Path, chain: LocalChain) -> AsyncIterator[Behind]:
    """Payments succeed six blocks deep; the chain stands still unless it is told to go on."""
    lines = "depth = 6\nfinal = 12"
    async with open_behind(tmp_path / "house", chain, block_s=None, lines=lines) as opened:
        yield opened


async def offered(street: Street, asset: str = DAI, **more: Any) -> str:
    payment_id = await street.payment(**more)
    await street.option(payment_id, asset)
    return payment_id


async def by_hand(street: Street, asset: str = DAI, place: int = BUYER) -> str:
    """The price, sent as any wallet sends it; mined."""
    if asset == ETH:
        receipt = await street.chain.done(account(place), address(MERCHANT), b"", ETHER)
    else:
        token = FIRST_CONTRACT if asset == USDC else SECOND_CONTRACT
        receipt = await street.chain.done(account(place), token, transfer_call(address(MERCHANT), AMOUNT))
    return str(receipt["transactionHash"])


async def match(street: Street, payment_id: str, tx_id: str) -> str:
    found = await street.call("POST", f"/v1/payments/{payment_id}/match", {"txId": tx_id})
    assert found.status_code == 200, found.text
    return str(found.json()["match"]["outcome"])


async def assert_paid_once(street: Street, payment_id: str, tx_id: str) -> None:
    assert await street.events(payment_id) == ALL_EVENTS
    detail = await street.detail(payment_id)
    assert [(one["kind"], one["txId"]) for one in detail["transfers"]] == [("matched", tx_id)]
    assert detail["info"]["txId"] == tx_id


@pytest.mark.parametrize("asset", [USDC, DAI, ETH])
async def test_what_a_buyer_sent_by_hand_pays_by_the_merchants_word(shop: Behind, asset: str) -> None:
    payment_id = await offered(shop.street, asset)
    tx_id = await by_hand(shop.street, asset, BUYER_2)

    assert await match(shop.street, payment_id, tx_id) == "matched"

    await shop.street.until(payment_id, "settled")
    await assert_paid_once(shop.street, payment_id, tx_id)
    assert await match(shop.street, payment_id, tx_id) == "matched"


async def test_the_answer_shows_the_payment_as_it_is_then(shop: Behind) -> None:
    payment_id = await offered(shop.street)
    tx_id = await by_hand(shop.street)
    found = await shop.street.call("POST", f"/v1/payments/{payment_id}/match", {"txId": tx_id})
    assert found.json()["payment"]["status"] in ("processing", "succeeded")
    assert found.json()["payment"]["transfers"] == found.json()["match"]["transfers"]


async def test_of_two_payments_one_is_paid(shop: Behind) -> None:
    payments = [await offered(shop.street) for _ in range(2)]
    tx_id = await by_hand(shop.street)
    outcomes: dict[str, str] = {}

    async def say(payment_id: str) -> None:
        outcomes[payment_id] = "disagreement"
        while outcomes[payment_id] == "disagreement":  # one node may be a block behind for a moment
            outcomes[payment_id] = await match(shop.street, payment_id, tx_id)

    async with trio.open_nursery() as nursery:
        for payment_id in payments:
            nursery.start_soon(say, payment_id)

    assert sorted(outcomes.values()) == ["matched", "other_payment"]
    for payment_id, outcome in outcomes.items():
        if outcome == "matched":
            await shop.street.until(payment_id, "settled")
        else:
            assert await shop.street.status(payment_id) == "requires_action"


async def test_a_word_and_the_end_of_the_window_that_race_end_in_exactly_one_of_the_two(shop: Behind) -> None:
    """The word comes around the end, which comes once the chain was read beyond it."""
    clock = shop.street.house.realms["live"].clock
    for after_ms in (0, 400, 1200, 1900, 2000, 2100, 4000):
        ends_s = clock.now_ms() // 1000 + 2
        payment_id = await offered(shop.street, expiresAt=ends_s)
        tx_id = await by_hand(shop.street)
        await trio.sleep(max(0, ends_s * 1000 + after_ms - clock.now_ms()) / 1000)

        outcome = await match(shop.street, payment_id, tx_id)

        end = await shop.street.until(payment_id, "settled", "expired")
        [transfer] = (await shop.street.detail(payment_id))["transfers"]
        paid = ("matched", "settled", "matched", ALL_EVENTS)
        late = ("recorded", "expired", "late", ["payment.created", "payment.expired"])
        assert (outcome, end, transfer["kind"], await shop.street.events(payment_id)) in (paid, late)


async def test_it_pays_once_it_is_deep_enough_and_a_reorg_moves_it(slow: Behind) -> None:
    payment_id = await offered(slow.street)
    tx_id = await by_hand(slow.street)
    await slow.mined(1)
    assert await match(slow.street, payment_id, tx_id) == "matched"
    assert await slow.street.status(payment_id) == "processing"
    raw = bytes.fromhex((await slow.chain.rpc("eth_getRawTransactionByHash", tx_id))[2:])
    await slow.chain.reorg(2, [(raw, 1)])
    await slow.followed(1)

    await slow.street.until(payment_id, "settled", mining=True)

    await assert_paid_once(slow.street, payment_id, tx_id)


async def test_what_a_reorg_took_for_good_is_not_credited(slow: Behind) -> None:
    payment_id = await offered(slow.street)
    tx_id = await by_hand(slow.street)
    await slow.mined(1)
    assert await match(slow.street, payment_id, tx_id) == "matched"
    await slow.chain.reorg(2)
    await slow.followed(1)
    await slow.chain.done(account(BUYER), address(BUYER))
    await slow.mined(30)

    assert await slow.street.events(payment_id) == ["payment.created", "payment.processing"]
    [transfer] = (await slow.street.detail(payment_id))["transfers"]
    assert transfer["onChain"] is False


async def test_one_node_that_shows_what_was_never_mined_is_not_believed(shop: Behind) -> None:
    """The second node does not know the transaction: the word is not taken until both do."""
    payment_id = await offered(shop.street)
    liar = shop.nodes[1]
    tx_id = await by_hand(shop.street)

    def hide(request: dict[str, Any], result: Any) -> Any:
        return (
            None if request["method"] in ("eth_getTransactionByHash", "eth_getTransactionReceipt") else result
        )

    liar.rewrite = hide
    assert await match(shop.street, payment_id, tx_id) in ("disagreement", "not_mined")
    assert (await shop.street.detail(payment_id))["transfers"] == []

    shop.recover()
    assert await match(shop.street, payment_id, tx_id) == "matched"
    await shop.street.until(payment_id, "settled")
