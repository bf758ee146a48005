"""Confirms that race, come late or twice, or claim what is not theirs: each payment is paid once, by its own.

What a wallet signed is in its hands too: it may send it before it tells of it, or pay by a link besides.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import trio

from tests.live.handed import Handed, gains, hand_out, hand_out_again, signed_by_all, wealth
from tests.live.solana import (
    BUYER,
    BUYER_2,
    MERCHANT,
    POOR,
    SOL,
    USDC,
    USDC_MINT,
    USDT,
    USDT_MINT,
    LocalSolana,
    pubkey,
    tx_id_of,
)
from tests.live.solana_street import FEE_PAYER, SolanaStreet, open_solana_street

pytestmark = pytest.mark.real_time

AMOUNT: Final = 25_000_000
ALL_EVENTS: Final = ["payment.created", "payment.processing", "payment.succeeded", "payment.settled"]
WAYS: Final = {"our fee": (USDC, POOR), "the buyer's fee": (USDC, BUYER), "SOL": (SOL, BUYER)}
MERCHANTS_USDC: Final = (pubkey(MERCHANT), USDC_MINT)


@pytest.fixture
async def street(tmp_path: Path, solana: LocalSolana) -> AsyncIterator[SolanaStreet]:
    """Its blocks come when they are asked for."""
    async with open_solana_street(tmp_path / "house", solana) as opened:
        yield opened


@pytest.fixture(params=WAYS)
async def handed(request: pytest.FixtureRequest, street: SolanaStreet) -> Handed:
    return await hand_out(street, *WAYS[request.param])


async def at_once(confirms: list[tuple[Handed, str]]) -> list[httpx.Response]:
    """The answers to results that are given at the same moment, in the order of the results."""
    answers: dict[int, httpx.Response] = {}

    async def give(place: int, handed: Handed, result: str) -> None:
        answers[place] = await handed.confirm(result)

    async with trio.open_nursery() as nursery:
        for place, (handed, result) in enumerate(confirms):
            nursery.start_soon(give, place, handed, result)
    return [answers[place] for place in range(len(confirms))]


async def send_itself(handed: Handed) -> str:
    """What a wallet does that sends what it signs; gives the transaction's id."""
    return await handed.street.chain.send_raw(signed_by_all(handed.raw), skip_preflight=False)


async def transfers(street: SolanaStreet, payment_id: str) -> list[tuple[str, str]]:
    """What the payment shows: the kind and the transaction of each."""
    return [(one["kind"], one["txId"]) for one in (await street.detail(payment_id))["transfers"]]


async def expect_settled_by(handed: Handed, tx_id: str) -> None:
    """The payment settles by this transaction, and by no other."""
    await handed.street.until(handed.payment_id, "settled", mining=True)
    assert await transfers(handed.street, handed.payment_id) == [("matched", tx_id)]
    assert await handed.street.events(handed.payment_id) == ALL_EVENTS


# At the same moment.


async def test_the_same_transaction_many_times_at_once_pays_once(handed: Handed) -> None:
    result = handed.signed()
    answers = await at_once([(handed, result)] * 12)

    assert [one.status_code for one in answers] == [200] * 12
    await expect_settled_by(handed, tx_id_of(base64.b64decode(result)))


async def test_of_two_transactions_of_one_option_one_pays(street: SolanaStreet) -> None:
    """The wallet asked twice, a minute between: both are good, and both are signed."""
    first = await hand_out(street, USDC, POOR)
    await street.chain.slots(60)
    second = await hand_out_again(street, first.payment_id, first.option, POOR)
    assert second.raw != first.raw
    answers = await at_once([(first, first.signed()), (second, second.signed())])

    won = 0 if answers[0].status_code == 200 else 1
    assert answers[won].status_code == 200
    lost = answers[1 - won]
    assert (lost.status_code, lost.json()["code"]) == (400, "invalid_state"), lost.text
    assert "Do not pay again" in lost.json()["message"]
    await expect_settled_by(first, tx_id_of((first, second)[won].raw))
    assert gains(first.had, await wealth(street.chain))[MERCHANTS_USDC] == AMOUNT


@pytest.mark.parametrize(
    "other", [(USDC, BUYER_2), (USDT, POOR), (SOL, BUYER)], ids=["buyer", "token", "SOL"]
)
async def test_of_two_options_of_one_payment_one_pays(street: SolanaStreet, other: tuple[str, int]) -> None:
    first = await hand_out(street, USDC, POOR)
    option = await street.option(first.payment_id, *other)
    second = await hand_out_again(street, first.payment_id, option, other[1])
    answers = await at_once([(first, first.signed()), (second, second.signed())])

    assert sorted(one.status_code for one in answers) == [200, 400]
    won = (first, second)[answers[1].status_code == 200]
    await expect_settled_by(won, tx_id_of(signed_by_all(won.raw)))


async def test_a_confirm_and_a_transfer_by_the_link_at_the_same_moment_pay_once_and_show_both(
    street: SolanaStreet,
) -> None:
    handed = await hand_out(street, USDC, POOR)
    link = (await street.links(handed.payment_id))[USDC]
    assert link
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handed.confirm, handed.signed())
        nursery.start_soon(street.pay_by_link, handed.payment_id)
    await street.until(handed.payment_id, "settled", mining=True)

    async def all_shown() -> Any:
        got = gains(handed.had, await wealth(street.chain))[MERCHANTS_USDC]
        found = await transfers(street, handed.payment_id)
        return found if len(found) == got // AMOUNT else None

    kinds = [kind for kind, _ in await street.wait_for(all_shown, mining=True)]
    got = gains(handed.had, await wealth(street.chain))[MERCHANTS_USDC]
    assert kinds.count("matched") == 1
    assert (sorted(kinds), got) in ((["matched"], AMOUNT), (["matched", "surplus"], 2 * AMOUNT))
    assert (await street.events(handed.payment_id)).count("payment.succeeded") == 1


# Sent by the wallet itself.


async def test_a_transaction_that_its_wallet_has_sent_already_is_taken(handed: Handed) -> None:
    tx_id = await send_itself(handed)
    told = await handed.confirm(handed.signed())

    assert told.status_code == 200, told.text
    await expect_settled_by(handed, tx_id)


@pytest.mark.parametrize("wanted", ["processing", "succeeded", "settled"])
async def test_a_confirm_of_what_the_chain_showed_first_is_welcome_in_every_state(
    handed: Handed, wanted: str
) -> None:
    street = handed.street
    tx_id = await send_itself(handed)
    await street.until(handed.payment_id, *{wanted, "succeeded", "settled"}, mining=True)
    told = await handed.confirm(handed.signed())

    assert told.status_code == 200, told.text
    assert told.json()["status"] in ("processing", "succeeded")
    await expect_settled_by(handed, tx_id)


async def test_a_transaction_that_is_never_told_of_is_found(handed: Handed) -> None:
    await expect_settled_by(handed, await send_itself(handed))


# Paid otherwise meanwhile.


async def test_what_a_wallet_signed_is_not_sent_where_the_link_was_paid_before(handed: Handed) -> None:
    street = handed.street
    tx_id = await street.pay_by_link(handed.payment_id, USDC, BUYER_2)
    await street.until(handed.payment_id, "succeeded", "settled", mining=True)
    paid = await wealth(street.chain)
    told = await handed.confirm(handed.signed())

    assert (told.status_code, told.json()["code"]) == (400, "invalid_state"), told.text
    assert "Do not pay again" in told.json()["message"]
    await expect_settled_by(handed, tx_id)
    assert gains(paid, await wealth(street.chain)) == {}


async def test_a_transaction_request_that_was_scanned_and_paid_ends_the_option(handed: Handed) -> None:
    street = handed.street
    tx_id = await street.pay_by_request(handed.payment_id, USDC, BUYER_2)
    await street.until(handed.payment_id, "succeeded", "settled", mining=True)
    told = await handed.confirm(handed.signed())

    assert (told.status_code, told.json()["code"]) == (400, "invalid_state"), told.text
    await expect_settled_by(handed, tx_id)


async def test_what_was_signed_and_kept_back_is_surplus_when_its_wallet_sends_it_after_all(
    street: SolanaStreet,
) -> None:
    """We cannot take back a signature; the merchant sees what came of it."""
    handed = await hand_out(street, USDC, POOR)
    first = await street.pay_by_link(handed.payment_id, USDC, BUYER_2)
    await street.until(handed.payment_id, "succeeded", "settled", mining=True)
    again = await send_itself(handed)
    await street.until(handed.payment_id, "settled", mining=True)

    async def both() -> Any:
        found = await transfers(street, handed.payment_id)
        return found if len(found) == 2 else None

    found = await street.wait_for(both, mining=True)
    assert sorted(found) == sorted([("matched", first), ("surplus", again)])
    assert (await street.events(handed.payment_id)) == ALL_EVENTS


async def test_a_cancelled_payments_transaction_is_not_sent(handed: Handed) -> None:
    street = handed.street
    cancelled = await street.call("POST", f"/v1/payments/{handed.payment_id}/cancel")
    assert cancelled.status_code == 200, cancelled.text
    told = await handed.confirm(handed.signed())

    assert (told.status_code, told.json()["status"]) == (200, "cancelled")
    await street.chain.slots(6)
    assert gains(handed.had, await wealth(street.chain)) == {}


# Of somebody else.


async def test_one_transaction_pays_one_payment_before_and_after_it_has_landed(handed: Handed) -> None:
    street = handed.street
    asset, place = handed.option["amount"]["unit"].removeprefix("caip19/"), handed.place
    twin = await hand_out(street, asset, place)
    result = handed.signed()
    await twin.refused(result)
    assert (await handed.confirm(result)).status_code == 200
    await twin.refused(result)
    await expect_settled_by(handed, tx_id_of(base64.b64decode(result)))
    await twin.refused(result)

    assert await transfers(street, twin.payment_id) == []
    told = await twin.confirm(twin.signed())
    assert told.status_code == 200, told.text
    await expect_settled_by(twin, tx_id_of(base64.b64decode(twin.signed())))


async def test_a_transaction_of_one_option_is_none_of_another(street: SolanaStreet) -> None:
    first = await hand_out(street, USDC, POOR)
    option = await street.option(first.payment_id, USDT, POOR)
    second = await hand_out_again(street, first.payment_id, option, POOR)
    for one, other in ((first, second), (second, first)):
        # A wallet that mixes up what it fetched has not tampered with it.
        words = await one.refused(other.signed(), "quote_expired")
        assert "Fetch the option's action again; nothing was paid." in words

    assert (await first.is_paid())[FEE_PAYER, None] == -first.fee
    assert await street.chain.tokens(pubkey(MERCHANT), USDT_MINT) == 0


async def test_who_paid_what_a_victim_was_handed_has_paid_for_the_victim(street: SolanaStreet) -> None:
    """The reference is in the transaction, not in who asked: nobody can have another's money counted."""
    victim, thief = await hand_out(street, USDC, POOR), await hand_out(street, USDC, BUYER)
    tx_id = await send_itself(victim)
    await street.chain.slots(2)
    assert "the wallet changed" in await thief.refused(victim.signed())

    await expect_settled_by(victim, tx_id)
    assert await street.status(thief.payment_id) == "requires_action"
