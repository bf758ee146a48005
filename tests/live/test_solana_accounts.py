"""Accounts that change under a payment: given away, closed, frozen, emptied; and a purse with little in it.

Whatever happens between an option and its landing, the buyer is told in words, nobody pays for nothing, and
what can be made good by fetching again is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import trio
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from tests.live.handed import Handed, gains, hand_out, hand_out_again, wealth
from tests.live.solana import (
    BUYER,
    BUYER_2,
    CHAIN,
    LAMPORTS,
    MERCHANT,
    MINTED,
    MINTS,
    POOR,
    SOL,
    STRANGER,
    USDC,
    USDC_MINT,
    USDT,
    LocalSolana,
    close_holding,
    hand_over,
    keypair,
    pay_sol,
    pay_token,
    pubkey,
)
from tests.live.solana_street import FEE_PAYER, SolanaStreet, open_solana_street

pytestmark = pytest.mark.real_time

AMOUNT: Final = 25_000_000
HOLDING_RENT: Final = 2_039_280
PAYERS: Final = {"our fee": POOR, "the buyer's fee": BUYER}


@pytest.fixture
async def street(tmp_path: Path, solana: LocalSolana) -> AsyncIterator[SolanaStreet]:
    """Its blocks come when they are asked for."""
    async with open_solana_street(tmp_path / "house", solana) as opened:
        yield opened


@pytest.fixture(params=PAYERS)
def place(request: pytest.FixtureRequest) -> int:
    return PAYERS[request.param]


async def assets(street: SolanaStreet, payment_id: str, place: int) -> set[str]:
    """What an account is offered to pay in."""
    offered = await street.options(payment_id, place)
    return {one["amount"]["unit"].removeprefix("caip19/") for one in offered}


def words_of(answer: httpx.Response, *codes: str) -> str:
    """Of a refusal with one of these codes."""
    assert answer.status_code in (400, 409, 410, 422, 429), answer.text
    assert answer.json()["code"] in codes, answer.text
    return str(answer.json()["message"])


async def merchant_gives_account_away(chain: LocalSolana) -> None:
    await chain.send([hand_over(pubkey(MERCHANT), USDC_MINT, pubkey(STRANGER))], keypair(MERCHANT))
    await chain.slots(2)


async def merchant_closes_account(chain: LocalSolana) -> None:
    await chain.send([close_holding(pubkey(MERCHANT), USDC_MINT)], keypair(MERCHANT))
    await chain.slots(2)


async def empty(chain: LocalSolana, place: int) -> None:
    """The buyer pays all they have to somebody else; a friend pays the network."""
    amount = await chain.tokens(pubkey(place), USDC_MINT)
    await chain.give(pubkey(STRANGER), USDC_MINT, 0)
    drain = pay_token(pubkey(place), pubkey(STRANGER), USDC_MINT, amount)
    await chain.send([drain], keypair(BUYER_2), keypair(place))
    await chain.slots(2)


# The merchant's account.


async def test_a_token_account_that_was_given_away_before_is_not_paid_to(
    street: SolanaStreet, place: int
) -> None:
    await merchant_gives_account_away(street.chain)
    offered = await assets(street, await street.payment(), place)

    assert USDC not in offered
    assert USDT in offered


async def test_a_token_account_that_is_given_away_after_the_options_is_told_of(
    street: SolanaStreet, place: int
) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id, USDC, place)
    await merchant_gives_account_away(street.chain)

    words = words_of(await street.fetch(option), "invalid_state")

    assert (
        words == "The merchant's token account does not belong to the merchant any more. Pay in another way."
    )
    assert (await (await hand_out(street, USDT, place)).is_paid())[pubkey(MERCHANT), _mint(USDT)] == AMOUNT


def _mint(asset: str) -> Pubkey:
    return Pubkey.from_string(asset.rpartition(":")[2])


async def test_a_token_account_that_is_given_away_after_the_fetch_is_not_paid_to(
    street: SolanaStreet, place: int
) -> None:
    handed = await hand_out(street, USDC, place)
    await merchant_gives_account_away(street.chain)

    assert "An account that the transaction needs has changed" in await handed.refused(
        handed.signed(), "quote_expired"
    )

    words_of(await street.fetch(handed.option), "invalid_state")
    assert await street.chain.tokens(pubkey(MERCHANT), USDC_MINT) == 0
    # Whoever sends it all the same has paid a stranger, which is no payment.
    assert await street.status(handed.payment_id) == "requires_action"


async def test_a_token_account_that_is_closed_after_the_fetch_comes_to_be_with_the_next(
    street: SolanaStreet, place: int
) -> None:
    handed = await hand_out(street, USDC, place)
    await merchant_closes_account(street.chain)
    words = await handed.refused(handed.signed(), "quote_expired")
    assert words.endswith("Fetch the option's action again; nothing was paid.")

    again = await hand_out_again(street, handed.payment_id, handed.option, place)

    assert await again.is_paid() == {
        (pubkey(place), USDC_MINT): -AMOUNT,
        (pubkey(MERCHANT), USDC_MINT): AMOUNT,
        (again.payer, None): -again.fee - HOLDING_RENT,
    } | ({} if place == POOR else {(pubkey(place), None): -again.fee - HOLDING_RENT})


async def test_a_token_account_that_comes_to_be_in_between_is_not_created_twice(
    tmp_path: Path, solana: LocalSolana, place: int
) -> None:
    await merchant_closes_account(solana)
    async with open_solana_street(tmp_path / "house", solana) as street:
        handed, other = await hand_out(street, USDC, place), await hand_out(street, USDC, BUYER_2)
        await other.is_paid()
        changed = await handed.is_paid()

    assert changed[handed.payer, None] == -handed.fee
    assert await solana.tokens(pubkey(MERCHANT), USDC_MINT) == 2 * AMOUNT


@pytest.mark.parametrize("whose", ["the merchant's", "the buyer's"])
async def test_a_token_account_that_is_frozen_in_between_is_told_of_and_pays_when_it_is_thawed(
    street: SolanaStreet, place: int, whose: str
) -> None:
    frozen = pubkey(place if whose == "the buyer's" else MERCHANT)
    has = MINTED if whose == "the buyer's" else 0
    handed = await hand_out(street, USDC, place)
    await street.chain.give(frozen, USDC_MINT, has, state=2)
    assert "frozen" in await handed.refused(handed.signed())
    assert "frozen" in words_of(await street.fetch(handed.option), "invalid_state")
    await street.chain.give(frozen, USDC_MINT, has)

    assert (await handed.is_paid())[pubkey(MERCHANT), USDC_MINT] == AMOUNT


# The buyer's.


async def test_who_has_spent_the_tokens_before_the_confirm_is_refused(
    street: SolanaStreet, place: int
) -> None:
    handed = await hand_out(street, USDC, place)
    await empty(street.chain, place)
    words = await handed.refused(handed.signed())
    assert "the buyer's account does not hold enough" in words
    assert "still open" in words
    assert "does not hold enough" in words_of(await street.fetch(handed.option), "invalid_state")

    # With the tokens back it pays, as it stands.
    await street.chain.give(pubkey(place), USDC_MINT, AMOUNT)
    assert (await handed.is_paid())[pubkey(MERCHANT), USDC_MINT] == AMOUNT


async def test_who_spends_the_tokens_before_it_lands_has_failed_and_costs_us_no_more_than_the_fee(
    street: SolanaStreet, place: int
) -> None:
    handed = await hand_out(street, USDC, place)
    await street.chain.rpc("payd_mode", "blackhole")
    assert (await handed.confirm(handed.signed())).json()["status"] == "processing"
    await street.chain.rpc("payd_mode", "normal")
    await empty(street.chain, place)
    emptied = await wealth(street.chain)
    street.wake()

    await street.until(handed.payment_id, "failed", mining=True)

    assert gains(emptied, await wealth(street.chain)) == {(handed.payer, None): -handed.fee}
    assert await street.events(handed.payment_id) == [
        "payment.created",
        "payment.processing",
        "payment.failed",
    ]
    detail = await street.detail(handed.payment_id)
    assert detail["transfers"] == []
    page = await street.call("GET", f"/v1/events?type=payment.failed&paymentId={handed.payment_id}")
    assert "the buyer's account does not hold enough" in page.text
    assert "Nothing was paid" in page.text


async def test_who_spends_the_sol_before_the_confirm_is_refused(street: SolanaStreet) -> None:
    handed = await hand_out(street, SOL, BUYER)
    await street.chain.send([pay_sol(pubkey(BUYER), pubkey(BUYER_2), 9_900_000_000)], keypair(BUYER))
    await street.chain.slots(2)

    assert "does not hold enough" in await handed.refused(handed.signed())
    assert "does not hold enough" in words_of(await street.fetch(handed.option), "invalid_state")


async def test_a_merchant_does_not_pay_itself_and_neither_do_we(street: SolanaStreet) -> None:
    for mint, program in MINTS.items():
        await street.chain.give(pubkey(MERCHANT), mint, MINTED, program)
        await street.chain.give(FEE_PAYER, mint, MINTED, program)
    payment_id = await street.payment()

    assert await street.options(payment_id, MERCHANT) == []
    assert await street.offered(payment_id, f"{CHAIN}:{FEE_PAYER}") == []


# Our purse.


async def test_one_account_has_its_fee_paid_so_often_a_day(tmp_path: Path, solana: LocalSolana) -> None:
    async with open_solana_street(tmp_path / "house", solana, relays="2") as street:
        payments = [await street.payment() for _ in range(3)]
        options = [await street.option(one, USDC, POOR) for one in payments]
        # The same payment again is no other one.
        told = [await street.fetch(option) for option in (options[0], options[0], options[1], options[2])]

        assert [one.status_code for one in told] == [200, 200, 200, 429]
        words = words_of(told[3], "rate_limited")
        assert "has paid network fees for this account often enough today" in words
        assert await assets(street, await street.payment(), POOR) == set()
        # Whoever has SOL needs none of ours.
        assert USDC in await assets(street, await street.payment(), BUYER)
        await solana.fund(pubkey(POOR), LAMPORTS)
        assert (await street.fetch(options[2])).status_code == 200


async def test_a_day_has_only_so_much_for_fees_however_many_ask_at_once(
    tmp_path: Path, solana: LocalSolana
) -> None:
    """Each reserves what it may cost in the step that signs it: no two take the same lamport."""
    async with open_solana_street(tmp_path / "probe", solana) as street:
        cost = (await hand_out(street, USDC, POOR)).fee
    room = 3
    lines = f'gas_per_day = "{(room * cost + 15_000) / LAMPORTS:.9f}"'
    async with open_solana_street(tmp_path / "house", solana, lines=lines) as street:
        options = [await street.option(await street.payment(), USDC, POOR) for _ in range(12)]
        told: list[httpx.Response] = []

        async def fetch(option: dict[str, Any]) -> None:
            told.append(await street.fetch(option))

        async with trio.open_nursery() as nursery:
            for option in options:
                nursery.start_soon(fetch, option)

        given = [one for one in told if one.status_code == 200]
        most = (room * cost + 15_000) // cost
        assert len(given) == most
        for one in told:
            if one not in given:
                assert "used up for today" in words_of(one, "rate_limited")


async def test_a_payment_is_not_prepared_for_ever_more_accounts(street: SolanaStreet) -> None:
    """Whoever has its link may name any account; the budget is for who pays."""
    buyers = [Keypair.from_seed(bytes([60 + number]) * 32).pubkey() for number in range(18)]
    for buyer in buyers:
        await street.chain.give(buyer, USDC_MINT, MINTED)
    payment_id, other = await street.payment(), await street.payment()
    accounts = [f"{CHAIN}:{buyer}" for buyer in buyers]
    offered = await street.offered(payment_id, *accounts[:9]) + await street.offered(
        payment_id, *accounts[9:]
    )
    street.paying |= {one["id"]: payment_id for one in offered}
    told = [await street.fetch(option) for option in offered]

    assert [one.status_code for one in told] == [200] * 16 + [429] * 2
    assert "prepared for too many accounts" in words_of(told[-1], "rate_limited")
    assert (await street.fetch(await street.option(other, USDC, POOR))).status_code == 200


async def test_an_empty_purse_offers_nothing_to_who_has_no_sol(tmp_path: Path, solana: LocalSolana) -> None:
    await solana.fund(FEE_PAYER, 890_880 + 10_000)
    async with open_solana_street(tmp_path / "house", solana) as street:
        payment_id = await street.payment()

        assert await assets(street, payment_id, POOR) == set()
        assert USDC in await assets(street, payment_id, BUYER)


async def test_a_purse_that_is_emptied_after_the_options_is_told_of(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id, USDC, POOR)
    await street.chain.fund(FEE_PAYER, 890_880)

    words = words_of(await street.fetch(option), "invalid_state")

    assert words.startswith("This server has no SOL left to pay network fees for others.")


async def test_a_purse_that_is_emptied_after_the_fetch_loses_nobody_a_thing(street: SolanaStreet) -> None:
    handed = await hand_out(street, USDC, POOR)
    await street.chain.fund(FEE_PAYER, 890_880)
    assert "less SOL than the network lets it have" in await handed.refused(handed.signed())
    await street.chain.fund(FEE_PAYER)

    assert (await handed.is_paid())[FEE_PAYER, None] == -handed.fee


async def test_without_a_sponsor_who_has_no_sol_is_offered_nothing(
    tmp_path: Path, solana: LocalSolana
) -> None:
    async with open_solana_street(tmp_path / "house", solana, lines="sponsor = false") as street:
        payment_id = await street.payment()

        assert await assets(street, payment_id, POOR) == set()
        changed = await (await hand_out(street, USDC, BUYER)).is_paid()
    assert (FEE_PAYER, None) not in changed
    assert changed[pubkey(MERCHANT), USDC_MINT] == AMOUNT


async def test_who_has_no_sol_any_more_when_the_transaction_is_fetched_has_it_paid_by_us(
    street: SolanaStreet,
) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id, USDC, BUYER)
    await street.chain.fund(pubkey(BUYER), 0)
    handed: Handed = await hand_out_again(street, payment_id, option, BUYER)

    assert handed.is_sponsored
    assert (await handed.is_paid())[pubkey(MERCHANT), USDC_MINT] == AMOUNT
