"""What goes wrong on Solana moves nobody's money: forks, black holes, changed accounts."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from solders.hash import Hash
from solders.transaction import VersionedTransaction

from payd.chains.solana.binding import reference_key
from tests.live.solana import (
    BUYER,
    MERCHANT,
    POOR,
    STRANGER,
    USDC,
    USDC_MINT,
    LocalSolana,
    close_holding,
    create_holding,
    hand_over,
    keypair,
    pay_token,
    pubkey,
)
from tests.live.solana_street import FEE_PAYER, SolanaStreet, open_solana_street, signed
from tests.live.svm_node import ServedNode

pytestmark = pytest.mark.real_time

AMOUNT: Final = 25_000_000
ALL_EVENTS: Final = ["payment.created", "payment.processing", "payment.succeeded", "payment.settled"]


@pytest.fixture
async def street(tmp_path: Path, solana: LocalSolana) -> AsyncIterator[SolanaStreet]:
    """Blocks come when a test asks for them."""
    async with open_solana_street(tmp_path / "house", solana) as opened:
        yield opened


def node_of(street: SolanaStreet) -> ServedNode:
    """The node, for what no call of JSON-RPC does."""
    assert isinstance(street.chain.node, ServedNode)
    return street.chain.node


async def known(street: SolanaStreet, tx_id: str) -> None:
    """Wait until the node has a transaction."""

    async def there() -> Any:
        return await street.chain.status(tx_id)

    await street.wait_for(there)


async def refused(street: SolanaStreet, option: dict[str, Any], text: str) -> str:
    """The words with which results are refused, while the payment stays open."""
    payment_id = street.paying[option["id"]]
    told = await street.confirm(payment_id, option, text)
    assert told.status_code in (400, 409, 422), told.text
    assert await street.status(payment_id) == "requires_action"
    return str(told.json()["message"])


# What becomes of a transaction on its way


async def test_a_transaction_that_a_fork_lost_is_sent_again(street: SolanaStreet) -> None:
    await street.chain.rpc("payd_mode", "drop")
    payment_id, tx_id = await street.committed()
    await known(street, tx_id)
    await street.chain.rpc("payd_mode", "normal")
    await street.chain.slots(1)

    await street.until(payment_id, "settled", mining=True)

    assert await street.events(payment_id) == ALL_EVENTS
    assert await street.received() == AMOUNT


async def test_what_a_node_called_confirmed_and_a_fork_took_lands_again_and_settles(
    street: SolanaStreet,
) -> None:
    payment_id, tx_id = await street.committed()
    await known(street, tx_id)
    await street.chain.slots(1)
    await street.until(payment_id, "succeeded")
    assert await street.chain.rpc("payd_fork", 2) == [tx_id]
    assert await street.received() == 0

    await street.until(payment_id, "settled", mining=True)

    assert await street.events(payment_id) == ALL_EVENTS
    assert await street.received() == AMOUNT
    [transfer] = (await street.detail(payment_id))["transfers"]
    assert (transfer["kind"], transfer["txId"]) == ("matched", tx_id)


async def test_what_was_confirmed_and_a_node_forgot_settles_only_when_it_is_shown_again(
    street: SolanaStreet,
) -> None:
    payment_id, tx_id = await street.committed()
    await known(street, tx_id)
    await street.chain.slots(1)
    await street.until(payment_id, "succeeded")
    node_of(street).forgotten.add(tx_id)
    await street.caught_up()
    detail = await street.detail(payment_id)
    assert (detail["status"], detail["settlement"]["settled"]) == ("succeeded", False)
    node_of(street).forgotten.clear()

    await street.until(payment_id, "settled", mining=True)

    assert await street.events(payment_id) == ALL_EVENTS
    assert await street.received() == AMOUNT


async def test_what_falls_into_a_black_hole_lands_as_soon_as_somebody_takes_it(street: SolanaStreet) -> None:
    await street.chain.rpc("payd_mode", "blackhole")
    payment_id, tx_id = await street.committed()
    await street.chain.slots(140)
    assert await street.status(payment_id) == "processing"
    await street.chain.rpc("payd_mode", "normal")

    await known(street, tx_id)
    await street.until(payment_id, "settled", mining=True)

    assert await street.received() == AMOUNT


async def test_what_can_land_no_more_fails_only_when_that_is_final(street: SolanaStreet) -> None:
    await street.chain.rpc("payd_mode", "blackhole")
    payment_id, tx_id = await street.committed()
    await street.chain.slots(152)
    await street.caught_up(final=False)
    assert await street.status(payment_id) == "processing"
    await street.chain.slots(6)

    await street.until(payment_id, "failed", "expired", mining=True)

    assert await street.chain.status(tx_id) is None
    assert await street.received() == 0


async def test_a_transaction_is_found_by_its_reference_after_a_crash(
    tmp_path: Path, solana: LocalSolana
) -> None:
    async with open_solana_street(tmp_path / "house", solana) as street:
        payment_id = await street.payment()
        option = await street.option(payment_id, USDC, POOR)
        raw = signed(await street.handed_out(option, POOR), POOR)
    # The wallet sends it while the server is away.
    tx_id = await solana.send_raw(raw)
    await solana.slots(10)
    async with open_solana_street(tmp_path / "house", solana, slot_s=0.05) as street:
        await street.until(payment_id, "settled")

        assert (await street.detail(payment_id))["info"]["txId"] == tx_id
    listed = await solana.rpc("getSignaturesForAddress", str(reference_key(payment_id)), {"limit": 10})
    assert [one["signature"] for one in listed] == [tx_id]


async def test_what_was_confirmed_before_a_restart_is_brought_after_it(
    tmp_path: Path, solana: LocalSolana
) -> None:
    async with open_solana_street(tmp_path / "house", solana) as street:
        await solana.rpc("payd_mode", "blackhole")
        payment_id, tx_id = await street.committed()
    assert await solana.status(tx_id) is None
    await solana.rpc("payd_mode", "normal")
    async with open_solana_street(tmp_path / "house", solana, slot_s=0.05) as street:
        await street.until(payment_id, "settled")

        assert (await street.detail(payment_id))["info"]["txId"] == tx_id


async def test_confirms_at_the_same_moment_bring_one_transaction(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id, USDC, POOR)
    results = await street.execute(option, POOR)
    answers: list[int] = []

    async def confirm() -> None:
        answers.append((await street.confirm(payment_id, option, *results)).status_code)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(confirm)
    await street.until(payment_id, "settled", mining=True)

    assert answers == [200] * 10
    assert await street.received() == AMOUNT


# What wallets give back


async def test_a_transaction_with_another_blockhash_is_refused(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id, USDC, POOR)
    raw = await street.handed_out(option, POOR)
    was = bytes(VersionedTransaction.from_bytes(raw).message.recent_blockhash)
    forged = signed(raw.replace(was, bytes(Hash.new_unique())), POOR)

    words = await refused(street, option, base64.b64encode(forged).decode())

    assert "blockhash" in words
    assert await street.received() == 0


async def test_a_transaction_that_is_too_old_is_refused_and_fetched_again(
    street: SolanaStreet,
) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id, USDC, POOR)
    [old] = await street.execute(option, POOR)
    await street.chain.slots(151)
    await street.caught_up(final=False)
    words = await refused(street, option, old)
    assert "Fetch" in words

    told = await street.confirm(payment_id, option, *await street.execute(option, POOR))
    assert told.status_code == 200, told.text
    await street.until(payment_id, "settled", mining=True)
    assert await street.received() == AMOUNT


# Accounts that change in between


async def test_a_buyer_who_spent_the_tokens_meanwhile_is_refused_in_words(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id, USDC, BUYER)
    [text] = await street.execute(option, BUYER)
    held = await street.chain.tokens(pubkey(BUYER), USDC_MINT)
    away = [
        create_holding(pubkey(BUYER), pubkey(STRANGER), USDC_MINT),
        pay_token(pubkey(BUYER), pubkey(STRANGER), USDC_MINT, held - 1),
    ]
    await street.chain.send(away, keypair(BUYER))
    await street.chain.slots(2)

    assert await refused(street, option, text)
    assert await street.received() == 0


async def test_a_buyer_who_is_drained_after_the_confirm_costs_the_merchant_nothing(
    street: SolanaStreet,
) -> None:
    await street.chain.rpc("payd_mode", "blackhole")
    payment_id, tx_id = await street.committed(BUYER)
    await street.chain.rpc("payd_mode", "normal")
    held = await street.chain.tokens(pubkey(BUYER), USDC_MINT)
    away = pay_token(pubkey(BUYER), pubkey(POOR), USDC_MINT, held)
    await street.chain.send([away], keypair(BUYER))
    await known(street, tx_id)

    await street.until(payment_id, "failed", "expired", mining=True)

    assert await street.received() == 0
    assert (await street.detail(payment_id))["transfers"] == []


async def test_a_token_account_that_the_merchant_gave_away_is_paid_no_more(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id, USDC, POOR)
    [text] = await street.execute(option, POOR)
    await street.chain.send([hand_over(pubkey(MERCHANT), USDC_MINT, pubkey(STRANGER))], keypair(MERCHANT))
    await street.chain.slots(2)

    assert await refused(street, option, text)
    fetched = await street.fetch(option)
    assert fetched.status_code in (400, 409, 422), fetched.text
    assert await street.received() == 0


async def test_a_token_account_that_was_given_away_after_the_confirm_proves_nothing(
    street: SolanaStreet,
) -> None:
    await street.chain.rpc("payd_mode", "blackhole")
    payment_id, tx_id = await street.committed()
    await street.chain.rpc("payd_mode", "normal")
    await street.chain.send([hand_over(pubkey(MERCHANT), USDC_MINT, pubkey(STRANGER))], keypair(MERCHANT))
    await known(street, tx_id)
    await street.chain.slots(8)
    await street.caught_up()

    assert await street.status(payment_id) in ("processing", "failed", "expired")
    assert (await street.detail(payment_id))["transfers"] == []


async def test_a_token_account_that_was_closed_comes_to_be_again(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id, USDC, POOR)
    [old] = await street.execute(option, POOR)
    await street.chain.send([close_holding(pubkey(MERCHANT), USDC_MINT)], keypair(MERCHANT))
    await street.chain.slots(2)
    assert "Fetch" in await refused(street, option, old)

    told = await street.confirm(payment_id, option, *await street.execute(option, POOR))
    assert told.status_code == 200, told.text
    await street.until(payment_id, "settled", mining=True)
    assert await street.received() == AMOUNT


# A purse that is looked after


async def test_who_has_no_sol_is_offered_nothing_while_the_fee_payer_is_empty(
    tmp_path: Path, solana: LocalSolana
) -> None:
    await solana.fund(FEE_PAYER, 1000)
    async with open_solana_street(tmp_path / "house", solana) as street:
        payment_id = await street.payment()
        option = await street.options(payment_id, POOR)
        rich = await street.options(payment_id, BUYER)
        fetched = [await street.fetch(one) for one in option]

    assert all(one.status_code != 200 for one in fetched)
    assert len(rich) == 4


async def test_a_day_has_only_so_much_to_spend(tmp_path: Path, solana: LocalSolana) -> None:
    lines = 'gas_per_day = "0.00002"'
    async with open_solana_street(tmp_path / "house", solana, lines=lines) as street:
        answers = []
        for _ in range(4):
            payment_id = await street.payment()
            option = next(iter(await street.options(payment_id, POOR)), None)
            answers.append(0 if option is None else (await street.fetch(option)).status_code)

    assert answers[0] == 200
    assert answers[-1] != 200


async def test_a_websocket_hastens_and_its_end_harms_nothing(tmp_path: Path, solana: LocalSolana) -> None:
    assert isinstance(solana.node, ServedNode)
    lines = f'ws = "{solana.node.ws_url}"'
    async with open_solana_street(
        tmp_path / "house", solana, slot_s=0.05, lines=lines, poll_ms="60000"
    ) as street:
        payment_id, _ = await street.committed()

        await street.until(payment_id, "succeeded", "settled")

        assert await street.received() == AMOUNT
