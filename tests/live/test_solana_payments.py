"""Wallets pay on Solana in every way they have: signing, links, transaction requests; with SOL or none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from solders.pubkey import Pubkey

from payd.chains.solana.keys import TOKEN, TOKEN_2022, token_account
from tests.live.solana import (
    BUYER,
    BUYER_2,
    LAMPORTS,
    MERCHANT,
    MERCHANT_2,
    OPERATOR,
    POOR,
    PYUSD,
    PYUSD_MINT,
    SOL,
    USDC,
    USDC_MINT,
    USDT,
    LocalSolana,
    Version,
    account_id,
    keypair,
    memo,
    pay_by_link,
    pay_sol,
    pay_token,
    pubkey,
)
from tests.live.solana_street import FEE_PAYER, SolanaStreet, open_solana_street

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
SOL_AMOUNT = 250_000_000
ALL_EVENTS = ["payment.created", "payment.processing", "payment.succeeded", "payment.settled"]


@pytest.fixture
async def street(tmp_path: Path, solana: LocalSolana) -> AsyncIterator[SolanaStreet]:
    async with open_solana_street(tmp_path / "house", solana, slot_s=0.05) as opened:
        yield opened


async def settled(street: SolanaStreet, payment_id: str, place: int) -> dict[str, Any]:
    """The only transfer of a payment that ended well, which this account sent."""
    await street.until(payment_id, "settled")
    assert await street.events(payment_id) == ALL_EVENTS
    detail = await street.detail(payment_id)
    [transfer] = detail["transfers"]
    assert transfer["kind"] == "matched"
    assert transfer["from"] == account_id(place)
    assert detail["info"]["txId"] == transfer["txId"]
    return dict(transfer)


@pytest.mark.parametrize("place", [BUYER, POOR], ids=["who has SOL", "who has none"])
@pytest.mark.parametrize("asset", [USDC, USDT, PYUSD], ids=["USDC", "USDT", "PYUSD"])
async def test_a_token_is_paid_with_by_one_signature(street: SolanaStreet, asset: str, place: int) -> None:
    had = await street.chain.lamports(FEE_PAYER), await street.chain.lamports(pubkey(place))
    payment_id = await street.payment()
    told = await street.pay(payment_id, asset, place)
    assert told.status_code == 200, told.text

    transfer = await settled(street, payment_id, place)

    assert transfer["amount"]["value"] == str(AMOUNT)
    spent = (
        had[0] - await street.chain.lamports(FEE_PAYER),
        had[1] - await street.chain.lamports(pubkey(place)),
    )
    assert (spent[0] > 0, spent[1] > 0) == (place == POOR, place == BUYER)


async def test_sol_is_paid_by_who_has_it_and_not_offered_to_who_has_none(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    assert SOL not in {
        one["amount"]["unit"].removeprefix("caip19/") for one in await street.options(payment_id, POOR)
    }
    await street.pay(payment_id, SOL)

    assert (await settled(street, payment_id, BUYER))["amount"]["value"] == str(SOL_AMOUNT)


async def test_the_merchants_token_account_comes_to_be_with_the_first_payment(
    tmp_path: Path, solana: LocalSolana
) -> None:
    fresh = pubkey(MERCHANT_2)
    await solana.fund(fresh, LAMPORTS)
    async with open_solana_street(tmp_path / "house", solana, destination=fresh, slot_s=0.05) as street:
        for asset, mint, program in ((USDC, USDC_MINT, TOKEN), (PYUSD, PYUSD_MINT, TOKEN_2022)):
            payment_id = await street.payment()
            await street.pay(payment_id, asset, POOR)
            await settled(street, payment_id, POOR)

            assert await solana.tokens(fresh, mint, program) == AMOUNT


@pytest.mark.parametrize("asset", [USDC, USDT, SOL], ids=["USDC", "USDT", "SOL"])
async def test_a_transfer_by_a_link_is_found_by_its_reference(street: SolanaStreet, asset: str) -> None:
    payment_id = await street.payment()

    tx_id = await street.pay_by_link(payment_id, asset)

    assert (await settled(street, payment_id, BUYER))["txId"] == tx_id


@pytest.mark.parametrize("version", [0, 1])
async def test_a_wallet_may_pay_by_a_transaction_of_a_newer_version(
    street: SolanaStreet, version: Version
) -> None:
    payment_id = await street.payment()

    tx_id = await street.pay_by_link(payment_id, USDC, version=version)

    assert (await settled(street, payment_id, BUYER))["txId"] == tx_id


@pytest.mark.parametrize("asset", [USDC, PYUSD, SOL], ids=["USDC", "PYUSD", "SOL"])
async def test_a_wallet_that_asks_for_a_transaction_sends_it_itself(street: SolanaStreet, asset: str) -> None:
    payment_id = await street.payment()

    tx_id = await street.pay_by_request(payment_id, asset)

    assert (await settled(street, payment_id, BUYER))["txId"] == tx_id


async def test_who_has_no_sol_asks_for_a_transaction_too(street: SolanaStreet) -> None:
    payment_id = await street.payment()

    tx_id = await street.pay_by_request(payment_id, USDC, POOR)

    assert (await settled(street, payment_id, POOR))["txId"] == tx_id


async def test_a_link_that_is_paid_twice_pays_once(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    link = (await street.links(payment_id))[USDC]
    for place in (BUYER, BUYER_2):
        await street.chain.send(pay_by_link(link, pubkey(place)), keypair(place))
    await street.until(payment_id, "settled")
    await street.caught_up()

    kinds = [one["kind"] for one in (await street.detail(payment_id))["transfers"]]
    assert sorted(kinds) == ["matched", "surplus"]


async def test_a_link_with_a_part_of_the_amount_is_partial(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    link = (await street.links(payment_id))[USDC].replace("amount=25", "amount=24.99")
    await street.chain.send(pay_by_link(link, pubkey(BUYER)), keypair(BUYER))

    async def seen() -> Any:
        return (await street.detail(payment_id))["transfers"]

    [transfer] = await street.wait_for(seen)
    assert (transfer["kind"], transfer["amount"]["value"]) == ("partial", "24990000")
    assert await street.status(payment_id) == "requires_action"


async def test_the_operators_fee_goes_in_the_same_transaction(tmp_path: Path, solana: LocalSolana) -> None:
    await solana.fund(pubkey(OPERATOR), LAMPORTS)
    await solana.give(pubkey(OPERATOR), USDC_MINT, 0)
    lines = f'fee_address = "{pubkey(OPERATOR)}"'
    async with open_solana_street(
        tmp_path / "house", solana, slot_s=0.05, fee='percent = "1"', lines=lines
    ) as street:
        payment_id = await street.payment()
        await street.pay(payment_id, USDC, POOR)
        transfer = await settled(street, payment_id, POOR)

    assert transfer["amount"]["value"] == "24750000"
    assert await solana.tokens(pubkey(MERCHANT), USDC_MINT) == 24_750_000
    assert await solana.tokens(pubkey(OPERATOR), USDC_MINT) == 250_000


async def test_money_that_is_for_no_payment_is_shown_to_the_merchant(street: SolanaStreet) -> None:
    await street.options(await street.payment())
    sent = [
        await street.chain.send([memo("hello"), one], keypair(BUYER))
        for one in (
            pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, 7),
            pay_sol(pubkey(BUYER), pubkey(MERCHANT), 9),
        )
    ]

    async def seen() -> Any:
        found = (await street.call("GET", "/v1/transfers")).json()["data"]
        return found if len(found) == 2 else None

    found = await street.wait_for(seen)
    assert {one["txId"] for one in found} == set(sent)
    assert {one["kind"] for one in found} == {"unmatched"}


async def test_a_token_with_the_same_name_of_another_mint_pays_nothing(street: SolanaStreet) -> None:
    fake = await street.chain.mint(Pubkey(bytes([77]) * 32))
    for place in (BUYER, MERCHANT):
        await street.chain.give(pubkey(place), fake, AMOUNT)
    payment_id = await street.payment()
    link = (await street.links(payment_id))[USDC]
    honest = pay_by_link(link, pubkey(BUYER))
    reference = honest[-1].accounts[-1].pubkey
    forged = pay_token(pubkey(BUYER), pubkey(MERCHANT), fake, AMOUNT, reference)
    await street.chain.send([*honest[:-1], forged], keypair(BUYER))
    await street.chain.slots(6)
    await street.caught_up()

    assert (await street.detail(payment_id))["transfers"] == []
    assert await street.status(payment_id) == "requires_action"
    assert str(token_account(pubkey(MERCHANT), fake, TOKEN)) not in link
