"""Transfers that are not what was asked for, and claims of what is not one's own: none is credited.

Each is sent by a real wallet on a real node. What payd can see of it is recorded and shown, never dropped.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from payd.chains.evm.binding import payment_tag, tagged_transfer, transfer_call
from tests.live.chain import (
    BUYER,
    BUYER_2,
    FIRST_CONTRACT,
    MERCHANT,
    STRANGER,
    account,
    address,
    calldata,
)
from tests.live.street import DAI, ETH, SECOND_CONTRACT, Street

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000


async def send(street: Street, to: str, data: bytes, value: int = 0, place: int = BUYER) -> str:
    """A transaction of a buyer, mined."""
    receipt = await street.chain.done(account(place), to, data, value)
    return str(receipt["transactionHash"])


async def transfers(street: Street, payment_id: str, count: int = 1) -> list[tuple[str, str]]:
    """The kinds and values of so many transfers that the payment shows."""

    async def shown() -> list[tuple[str, str]] | None:
        found = (await street.detail(payment_id))["transfers"]
        return [(one["kind"], one["amount"]["value"]) for one in found] if len(found) >= count else None

    found: list[tuple[str, str]] = await street.wait_for(shown)
    return found


async def unmatched(street: Street, tx_id: str) -> dict[str, Any]:
    """The transfer as the merchant's list of strays has it."""

    async def shown() -> dict[str, Any] | None:
        page = (await street.call("GET", "/v1/transfers?matched=false")).json()
        return next((one for one in page["data"] if one["txId"] == tx_id), None)

    found: dict[str, Any] = await street.wait_for(shown)
    return found


async def offered(street: Street, asset: str = DAI) -> tuple[str, dict[str, Any]]:
    """A payment, and its option in this asset."""
    payment_id = await street.payment()
    return payment_id, await street.option(payment_id, asset)


@pytest.mark.parametrize(("value", "kind"), [(AMOUNT - 1, "partial"), (AMOUNT + 1, "surplus")])
async def test_a_wrong_amount_is_recorded_and_pays_nothing(street: Street, value: int, kind: str) -> None:
    payment_id, option = await offered(street)
    data = tagged_transfer(address(MERCHANT), value, payment_tag(payment_id))
    tx_id = await send(street, SECOND_CONTRACT, data)

    assert await transfers(street, payment_id) == [(kind, str(value))]
    assert (await unmatched(street, tx_id))["kind"] == kind
    told = await street.confirm(payment_id, option, tx_id)
    assert told.status_code == 400
    assert await street.status(payment_id) == "requires_action"

    await street.pay(payment_id, DAI)
    await street.until(payment_id, "settled")
    assert await transfers(street, payment_id, 2) == [(kind, str(value)), ("matched", str(AMOUNT))]


async def test_a_transfer_to_somebody_else_pays_nothing(street: Street) -> None:
    payment_id, option = await offered(street)
    tx_id = await send(
        street, SECOND_CONTRACT, tagged_transfer(address(STRANGER), AMOUNT, payment_tag(payment_id))
    )

    told = await street.confirm(payment_id, option, tx_id)

    assert told.status_code == 400
    assert await street.status(payment_id) == "requires_action"
    assert (await street.detail(payment_id))["transfers"] == []


async def test_a_transfer_in_another_token_pays_nothing(street: Street) -> None:
    """A token of the same name and amount, which anybody can make, is no payment; nor is one not offered."""
    payment_id, option = await offered(street)
    fake = await street.chain.token("Dai", "DAI", "1")
    await street.chain.mint(fake, address(BUYER), AMOUNT)
    data = tagged_transfer(address(MERCHANT), AMOUNT, payment_tag(payment_id))
    tx_id = await send(street, fake, data)

    told = await street.confirm(payment_id, option, tx_id)

    assert told.status_code == 400
    assert await street.status(payment_id) == "requires_action"
    assert (await street.detail(payment_id))["transfers"] == []


async def test_a_signature_for_another_chain_is_refused(street: Street) -> None:
    payment_id, option = await offered(street, f"eip155:31337/erc20:{FIRST_CONTRACT}")
    [action] = option["actions"]
    params = json.loads(action["params"])
    typed = json.loads(params[1])
    typed["domain"]["chainId"] = 1
    elsewhere = {**action, "params": json.dumps([params[0], json.dumps(typed)])}

    refused = await street.confirm(payment_id, option, await street.act(elsewhere))

    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_signature")
    assert await street.status(payment_id) == "requires_action"


@pytest.mark.parametrize("change", ["value", "to", "nonce", "validBefore"])
async def test_a_signature_of_anything_but_what_was_handed_out_is_refused(
    street: Street, change: str
) -> None:
    payment_id, option = await offered(street, f"eip155:31337/erc20:{FIRST_CONTRACT}")
    [action] = option["actions"]
    params = json.loads(action["params"])
    typed = json.loads(params[1])
    typed["message"][change] = {
        "value": "1",
        "to": address(STRANGER),
        "nonce": "0x" + "07" * 32,
        "validBefore": "99999999999",
    }[change]
    other = {**action, "params": json.dumps([params[0], json.dumps(typed)])}

    refused = await street.confirm(payment_id, option, await street.act(other))

    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_signature")


async def test_nobody_can_claim_the_transfer_of_somebody_else(street: Street) -> None:
    """The account in the options call is only claimed: a victim's equal transfer is bound to its payment."""
    victim, victims_option = await offered(street)
    attacker, attackers_option = await offered(street)
    [tx_id] = await street.execute(victims_option)

    claimed = await street.confirm(attacker, attackers_option, tx_id)

    assert claimed.status_code == 400
    await street.until(victim, "settled")
    assert await street.status(attacker) == "requires_action"
    assert (await street.detail(attacker))["transfers"] == []


async def test_one_transfer_never_pays_for_two_payments(street: Street) -> None:
    """Both payments' tags in one transaction: the wallet's own call carries one, junk behind it another."""
    first, _ = await offered(street)
    second, second_option = await offered(street)
    to = address(MERCHANT)
    data = tagged_transfer(to, AMOUNT, payment_tag(first)) + tagged_transfer(to, AMOUNT, payment_tag(second))
    tx_id = await send(street, SECOND_CONTRACT, data)
    for option in (second_option,):
        await street.confirm(second, option, tx_id)

    ended = [await street.until(first, "settled"), await street.status(second)]

    assert ended == ["settled", "requires_action"]
    assert await street.chain.balance(SECOND_CONTRACT, to) == AMOUNT


async def test_a_transfer_without_a_tag_is_shown_as_a_stray(street: Street) -> None:
    payment_id, option = await offered(street)
    tx_id = await send(street, SECOND_CONTRACT, transfer_call(address(MERCHANT), AMOUNT))

    assert (await unmatched(street, tx_id))["kind"] == "unmatched"
    assert (await street.confirm(payment_id, option, tx_id)).status_code == 400
    assert await street.status(payment_id) == "requires_action"


async def test_an_unannounced_sender_pays_by_the_tag_alone(street: Street) -> None:
    """Bitcart never finds it: the sender is another account than the one that asked for options."""
    payment_id, _ = await offered(street)
    data = tagged_transfer(address(MERCHANT), AMOUNT, payment_tag(payment_id))
    await send(street, SECOND_CONTRACT, data, place=BUYER_2)

    await street.until(payment_id, "settled")
    [transfer] = (await street.detail(payment_id))["transfers"]
    assert transfer["from"].endswith(address(BUYER_2).lower())


async def test_two_open_payments_of_one_payer_with_one_amount_are_told_apart(street: Street) -> None:
    """Bitcart overwrites the first by the second, and loses a payment."""
    options = [await offered(street) for _ in range(2)]
    for _, option in reversed(options):
        await street.execute(option)

    for payment_id, _ in options:
        await street.until(payment_id, "settled")
    paid = [(await street.detail(payment_id))["info"]["txId"] for payment_id, _ in options]
    assert len(set(paid)) == 2


async def test_a_payment_that_is_paid_twice_is_credited_once_and_the_rest_is_shown(street: Street) -> None:
    payment_id, option = await offered(street)
    await street.execute(option)
    await street.until(payment_id, "settled")
    again = await street.execute(option)

    assert (await unmatched(street, again[0]))["kind"] == "surplus"
    assert await transfers(street, payment_id, 2) == [("matched", str(AMOUNT)), ("surplus", str(AMOUNT))]
    assert (await street.events(payment_id)).count("payment.succeeded") == 1


async def test_a_late_transfer_is_recorded_and_changes_nothing(street: Street) -> None:
    payment_id = await street.payment(expiresAt=await street.chain.now_s() + 3)
    option = await street.option(payment_id, DAI)
    await street.until(payment_id, "expired")
    [tx_id] = await street.execute(option)
    street.wake()

    stray = await unmatched(street, tx_id)

    assert (stray["kind"], stray["paymentId"]) == ("late", payment_id)
    assert await street.status(payment_id) == "expired"
    assert await street.events(payment_id) == ["payment.created", "payment.expired"]


async def test_a_transfer_in_time_counts_though_its_confirm_never_came(street: Street) -> None:
    for asset in (DAI, ETH):
        payment_id, option = await offered(street, asset)
        await street.execute(option)
        await street.until(payment_id, "settled")
        assert await street.events(payment_id) == [
            "payment.created",
            "payment.processing",
            "payment.succeeded",
            "payment.settled",
        ]


async def test_what_came_too_late_for_its_price_pays_once_it_is_told_for_a_newer_one(street: Street) -> None:
    payment_id, option = await offered(street, ETH)
    await street.later(300)
    [tx_id] = await street.execute(option)
    [(kind, value)] = await transfers(street, payment_id)
    assert (kind, value) == ("late", option["amount"]["value"])
    # As a page does that is loaded again, and still has what the wallet handed out.
    told = await street.confirm(payment_id, await street.option(payment_id, ETH), tx_id)

    assert (told.status_code, told.json()["status"]) == (200, "processing")
    await street.until(payment_id, "settled")


async def test_a_hash_that_nobody_knows_leaves_the_payment_open(street: Street) -> None:
    payment_id, option = await offered(street)
    told = await street.confirm(payment_id, option, "0x" + "ab" * 32)

    assert (told.status_code, told.json()["status"]) == (200, "requires_action")
    await street.pay(payment_id, DAI)
    await street.until(payment_id, "settled")


async def test_a_token_that_keeps_a_part_credits_nothing(street: Street) -> None:
    payment_id, option = await offered(street)
    await send(street, SECOND_CONTRACT, calldata_set_skim(100))
    await street.execute(option)

    assert await transfers(street, payment_id) == [("partial", str(AMOUNT * 99 // 100))]
    with trio.move_on_after(1):
        await street.until(payment_id, "processing", "succeeded")
        pytest.fail("a part is no payment")
    assert await street.status(payment_id) == "requires_action"


def calldata_set_skim(bps: int) -> bytes:
    """TestUSD keeps so many hundredths of a percent of each transfer from now on."""
    return calldata("setSkim(uint256)", bps)
