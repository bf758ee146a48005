"""The operator's fee on Solana: a transfer in the same transaction, which lands with the payment or never."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import pytest
from solders.pubkey import Pubkey

from payd.chains.solana.keys import TOKEN, TOKEN_2022, token_account
from tests.live.handed import Handed, gains, hand_out, wealth
from tests.live.solana import (
    BUYER,
    LAMPORTS,
    MERCHANT,
    OPERATOR,
    POOR,
    PYUSD,
    PYUSD_MINT,
    SOL,
    STRANGER,
    USDC,
    USDC_MINT,
    USDT,
    LocalSolana,
    close_holding,
    hand_over,
    keypair,
    pubkey,
)
from tests.live.solana_street import SolanaStreet, open_furnished, open_solana_street

pytestmark = pytest.mark.real_time

AMOUNT, FEE = 25_000_000, 625_000
PERCENT: Final = 'percent = "2.5"'
LINES: Final = f'fee_address = "{pubkey(OPERATOR)}"'
# With its mint, what leaves the buyer, and the operator's part.
CASES: Final = {
    "USDC, our fee": (USDC, POOR, USDC_MINT, AMOUNT, FEE),
    "USDC, the buyer's fee": (USDC, BUYER, USDC_MINT, AMOUNT, FEE),
    "PYUSD, our fee": (PYUSD, POOR, PYUSD_MINT, AMOUNT, FEE),
    "SOL": (SOL, BUYER, None, 250_000_000, 6_250_000),
}


@pytest.fixture
async def solana() -> AsyncIterator[LocalSolana]:
    """With an operator who has a wallet, and accounts for two of the tokens."""
    async with open_furnished() as local:
        await local.fund(pubkey(OPERATOR), LAMPORTS)
        await local.give(pubkey(OPERATOR), USDC_MINT, 0)
        await local.give(pubkey(OPERATOR), PYUSD_MINT, 0, TOKEN_2022)
        yield local


def opened(
    tmp_path: Path, solana: LocalSolana, fee: str = PERCENT
) -> AbstractAsyncContextManager[SolanaStreet]:
    return open_solana_street(tmp_path / "house", solana, fee=fee, lines=LINES)


@pytest.fixture
async def street(tmp_path: Path, solana: LocalSolana) -> AsyncIterator[SolanaStreet]:
    """Its blocks come when they are asked for."""
    async with opened(tmp_path, solana) as running:
        yield running


async def assets(street: SolanaStreet, place: int = BUYER) -> set[str]:
    """What an account is offered to pay a fresh payment in."""
    offered = await street.options(await street.payment(), place)
    return {one["amount"]["unit"].removeprefix("caip19/") for one in offered}


async def processing(street: SolanaStreet, payment_id: str) -> dict[str, Any]:
    """What the webhook said when the buyer had committed."""
    page = (await street.call("GET", f"/v1/events?type=payment.processing&paymentId={payment_id}")).json()
    [event] = page["data"]
    return dict(event["envelope"]["data"]["processing"])


async def expect_no_fee_taken(street: SolanaStreet, handed: Handed, mint: Pubkey) -> None:
    """It settles, and all of it is the merchant's."""
    changed = await handed.is_paid()
    assert changed[pubkey(MERCHANT), mint] == AMOUNT
    assert (pubkey(OPERATOR), mint) not in changed
    said = await processing(street, handed.payment_id)
    assert said["fee"] is None
    assert said["settlement_amount"]["value"] == str(AMOUNT)


@pytest.mark.parametrize("case", CASES)
async def test_fee_and_payment_land_together_and_both_are_told(street: SolanaStreet, case: str) -> None:
    asset, place, mint, amount, fee = CASES[case]
    handed = await hand_out(street, asset, place)
    unit = handed.option["amount"]["unit"]
    assert handed.option["amount"]["value"] == str(amount)

    changed = await handed.is_paid()

    assert changed[pubkey(MERCHANT), mint] == amount - fee
    assert changed[pubkey(OPERATOR), mint] == fee
    spent = -amount - (handed.fee if mint is None else 0)
    assert changed[pubkey(place), mint] == spent
    said = await processing(street, handed.payment_id)
    assert said["fee"] == {
        "kind": "base_plus_percent",
        "base_amount": {"unit": unit, "value": "0"},
        "percent": {"numerator": "1", "denominator": "40"},
        "percent_amount": {"unit": unit, "value": str(fee)},
        "total_amount": {"unit": unit, "value": str(fee)},
    }
    assert said["settlement_amount"] == {"unit": unit, "value": str(amount - fee)}
    [transfer] = (await street.detail(handed.payment_id))["transfers"]
    assert (transfer["kind"], transfer["amount"]["value"]) == ("matched", str(amount - fee))


@pytest.mark.parametrize("case", CASES)
async def test_a_transaction_whose_fee_was_taken_out_or_turned_is_refused(
    street: SolanaStreet, case: str
) -> None:
    asset, place, mint, _, fee = CASES[case]
    handed = await hand_out(street, asset, place)
    *rest, last = handed.instructions
    theirs = pubkey(STRANGER)
    if mint is not None:
        program = TOKEN_2022 if asset == PYUSD else TOKEN
        theirs = token_account(theirs, mint, program)
    assert "the wallet changed" in await handed.refused(handed.with_instructions(rest))
    at = 1 if mint is None else 2
    accounts = list(last.accounts)
    accounts[at] = type(accounts[at])(theirs, is_signer=False, is_writable=True)
    turned = type(last)(last.program_id, bytes(last.data), accounts)
    assert "the wallet changed" in await handed.refused(handed.with_instructions([*rest, turned]))

    assert (await handed.is_paid())[pubkey(OPERATOR), mint] == fee


async def test_a_token_that_the_operator_has_no_account_for_goes_without_a_fee(street: SolanaStreet) -> None:
    handed = await hand_out(street, USDT, POOR)

    await expect_no_fee_taken(street, handed, Pubkey.from_string(USDT.rpartition(":")[2]))


async def test_an_operators_account_that_is_somebody_elses_gets_no_fee(
    tmp_path: Path, solana: LocalSolana
) -> None:
    await solana.send([hand_over(pubkey(OPERATOR), USDC_MINT, pubkey(STRANGER))], keypair(OPERATOR))
    await solana.slots(2)
    async with opened(tmp_path, solana) as street:
        await expect_no_fee_taken(street, await hand_out(street, USDC, POOR), USDC_MINT)


async def test_a_mandatory_fee_leaves_only_what_can_carry_it(tmp_path: Path, solana: LocalSolana) -> None:
    async with opened(tmp_path, solana, f"{PERCENT}\nmandatory = true") as street:
        assert await assets(street, POOR) == {USDC, PYUSD}
        assert await assets(street, BUYER) == {USDC, PYUSD, SOL}
        # A link has no place for it.
        links = await street.call("GET", f"/v1/solana-pay/{await street.payment()}/links")
        assert links.json().get("links", []) == []


@pytest.mark.parametrize("mandatory", ["", "\nmandatory = true"], ids=["optional", "mandatory"])
async def test_an_operators_account_that_is_closed_after_the_options_makes_the_quote_old(
    tmp_path: Path, solana: LocalSolana, mandatory: str
) -> None:
    async with opened(tmp_path, solana, PERCENT + mandatory) as street:
        payment_id = await street.payment()
        option = await street.option(payment_id, USDC, POOR)
        await solana.send([close_holding(pubkey(OPERATOR), USDC_MINT)], keypair(OPERATOR))
        await solana.slots(2)

        told = await street.fetch(option)

        assert (told.status_code, told.json()["code"]) == (400, "quote_expired"), told.text
        assert "Ask for options again" in told.json()["message"]


async def test_an_operators_account_that_is_closed_after_the_fetch_refuses_the_whole(
    street: SolanaStreet,
) -> None:
    """The merchant is not paid less than was agreed, and the buyer is not charged for half of it."""
    handed = await hand_out(street, USDC, POOR)
    await street.chain.send([close_holding(pubkey(OPERATOR), USDC_MINT)], keypair(OPERATOR))
    await street.chain.slots(2)
    now = await wealth(street.chain)
    await handed.refused(handed.signed(), "quote_expired", "invalid_params")

    assert gains(now, await wealth(street.chain)) == {}
    await street.chain.give(pubkey(OPERATOR), USDC_MINT, 0)
    assert (await handed.is_paid())[pubkey(OPERATOR), USDC_MINT] == FEE


async def test_a_link_goes_without_the_fee_where_it_may(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    had = await wealth(street.chain)
    await street.pay_by_link(payment_id, USDC)
    await street.until(payment_id, "settled", mining=True)

    changed = gains(had, await wealth(street.chain))
    assert changed[pubkey(MERCHANT), USDC_MINT] == AMOUNT
    assert (pubkey(OPERATOR), USDC_MINT) not in changed
    said = await processing(street, payment_id)
    assert said["fee"] is None
    assert said["settlement_amount"]["value"] == str(AMOUNT)


async def test_a_buyer_who_leaves_the_operator_out_has_paid_the_merchant_and_no_fee_is_told(
    street: SolanaStreet,
) -> None:
    """Nobody can keep a wallet from sending its own; the merchant has what it was promised."""
    handed = await hand_out(street, USDC, BUYER)
    await street.chain.send(handed.instructions[:-1], keypair(BUYER))
    await street.until(handed.payment_id, "settled", mining=True)

    changed = gains(handed.had, await wealth(street.chain))
    assert changed[pubkey(MERCHANT), USDC_MINT] == AMOUNT - FEE
    assert (pubkey(OPERATOR), USDC_MINT) not in changed
    said = await processing(street, handed.payment_id)
    assert said["fee"] is None
    assert said["settlement_amount"]["value"] == str(AMOUNT - FEE)


async def test_a_transaction_request_carries_the_fee(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    had = await wealth(street.chain)
    await street.pay_by_request(payment_id, USDC, POOR)
    await street.until(payment_id, "settled", mining=True)

    changed = gains(had, await wealth(street.chain))
    assert changed[pubkey(MERCHANT), USDC_MINT] == AMOUNT - FEE
    assert changed[pubkey(OPERATOR), USDC_MINT] == FEE
    said = await processing(street, payment_id)
    assert said["fee"]["total_amount"]["value"] == str(FEE)
    assert said["settlement_amount"]["value"] == str(AMOUNT - FEE)


async def test_an_operator_who_buys_or_sells_pays_no_fee_to_themselves(street: SolanaStreet) -> None:
    await street.chain.give(pubkey(OPERATOR), USDC_MINT, AMOUNT)
    handed = await hand_out(street, USDC, OPERATOR)

    changed = await handed.is_paid()

    assert changed[pubkey(MERCHANT), USDC_MINT] == AMOUNT
    assert changed[pubkey(OPERATOR), USDC_MINT] == -AMOUNT
