"""The operator's fee: a second signature, carried with the first in one transaction or not at all.

Each of the two can be submitted alone by whoever sees it. Then the rest is carried, and no payment is lost.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from payd.chains.evm.authorization import read_typed_data, transfer_with_authorization_call
from tests.live.chain import (
    BUYER,
    FIRST_CONTRACT,
    MERCHANT,
    OPERATOR,
    RELAYER,
    STRANGER,
    LocalChain,
    account,
    address,
    calldata,
)
from tests.live.street import DAI, ETH, USDC, Street, furnish_chain, open_street, signed

pytestmark = pytest.mark.real_time

AMOUNT, FEE = 25_000_000, 625_000
PERCENT = 'percent = "2.5"'
SIGN, SEND = "eth_signTypedData_v4", "eth_sendTransaction"
CHAIN_LINES = f'depth = 2\nfee_address = "{address(OPERATOR)}"'


@pytest.fixture
async def street(tmp_path: Path, chain: LocalChain) -> AsyncIterator[Street]:
    await furnish_chain(chain)
    async with open_street(tmp_path / "house", chain, block_s=0.2, lines=CHAIN_LINES, fee=PERCENT) as opened:
        yield opened


def methods(options: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {
        option["amount"]["unit"].removeprefix("caip19/"): [one["method"] for one in option["actions"]]
        for option in options
    }


async def got(chain: LocalChain) -> tuple[int, int]:
    """What the merchant and the operator have."""
    merchant = await chain.balance(FIRST_CONTRACT, address(MERCHANT))
    return merchant, await chain.balance(FIRST_CONTRACT, address(OPERATOR))


async def envelope(street: Street, payment_id: str, kind: str) -> dict[str, Any]:
    """What the webhook of an event said."""
    page = (await street.call("GET", f"/v1/events?type={kind}&paymentId={payment_id}")).json()
    [event] = page["data"]
    return dict(event["envelope"])


async def test_fee_and_payment_land_together_and_both_are_told(street: Street) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id)
    assert option["amount"]["value"] == str(AMOUNT)
    told = await street.confirm(payment_id, option, *await street.execute(option))
    assert told.status_code == 200, told.text

    await street.until(payment_id, "settled")

    assert await got(street.chain) == (AMOUNT - FEE, FEE)
    unit = option["amount"]["unit"]
    said = (await envelope(street, payment_id, "payment.processing"))["data"]["processing"]
    assert said["fee"] == {
        "kind": "base_plus_percent",
        "base_amount": {"unit": unit, "value": "0"},
        "percent": {"numerator": "1", "denominator": "40"},
        "percent_amount": {"unit": unit, "value": str(FEE)},
        "total_amount": {"unit": unit, "value": str(FEE)},
    }
    assert said["settlement_amount"] == {"unit": unit, "value": str(AMOUNT - FEE)}
    [transfer] = (await street.detail(payment_id))["transfers"]
    assert transfer["amount"]["value"] == str(AMOUNT - FEE)
    receipt = await street.chain.receipt(transfer["txId"])
    assert [int(log["data"], 16) for log in receipt["logs"] if log["data"] != "0x"] == [AMOUNT - FEE, FEE]


async def test_what_cannot_carry_the_fee_goes_without_it(street: Street) -> None:
    payment_id = await street.payment()
    assert methods(await street.options(payment_id)) == {USDC: [SIGN, SIGN], DAI: [SEND], ETH: [SEND]}

    await street.pay(payment_id, DAI)
    await street.until(payment_id, "settled")

    said = (await envelope(street, payment_id, "payment.processing"))["data"]["processing"]
    assert said["fee"] is None
    assert said["settlement_amount"]["value"] == str(AMOUNT)


async def test_a_mandatory_fee_leaves_only_what_carries_it(tmp_path: Path, chain: LocalChain) -> None:
    await furnish_chain(chain)
    fee = f"{PERCENT}\nmandatory = true"
    async with open_street(tmp_path / "house", chain, lines=CHAIN_LINES, fee=fee) as street:
        assert methods(await street.options(await street.payment())) == {USDC: [SIGN, SIGN]}


async def test_one_signature_without_the_other_pays_nothing(street: Street) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id)
    main, fee = await street.execute(option)

    swapped = await street.confirm(payment_id, option, fee, main)

    assert (swapped.status_code, swapped.json()["status"]) == (200, "failed")
    assert await got(street.chain) == (0, 0)


def alone(option: dict[str, Any], signatures: list[str], leg: int) -> bytes:
    """A call that carries out only one of the two; 0 is the merchant's."""
    asked = read_typed_data(json.loads(json.loads(option["actions"][leg]["params"])[1]))
    return transfer_with_authorization_call(asked, bytes.fromhex(signatures[leg].removeprefix("0x")))


@pytest.mark.parametrize("leg", [0, 1], ids=["the merchant's", "the operator's"])
async def test_a_leg_that_a_stranger_submits_alone_is_not_carried_again_and_the_other_is(
    street: Street, leg: int
) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id)
    signatures = await street.execute(option)
    await street.chain.rpc("anvil_setBalance", address(RELAYER), "0x0")
    told = await street.confirm(payment_id, option, *signatures)
    assert (told.status_code, told.json()["status"]) == (200, "processing")
    await street.chain.done(account(STRANGER), FIRST_CONTRACT, alone(option, signatures, leg))
    await street.chain.rpc("anvil_setBalance", address(RELAYER), hex(10**18))

    await street.until(payment_id, "settled")
    await street.later(31)  # a fee that is left alone waits until the merchant is seen to be paid

    async def all_is_there() -> bool:
        return await got(street.chain) == (AMOUNT - FEE, FEE)

    await street.wait_for(all_is_there)
    assert (await street.events(payment_id)).count("payment.succeeded") == 1
    [transfer] = (await street.detail(payment_id))["transfers"]
    assert transfer["amount"]["value"] == str(AMOUNT - FEE)


@pytest.mark.parametrize("leg", [0, 1], ids=["the merchant's", "the operator's"])
async def test_a_leg_that_lands_before_the_confirm_loses_the_payment_nothing(
    street: Street, leg: int
) -> None:
    """Only the buyer has the signatures by then; what the merchant is due is there, or is still carried."""
    payment_id = await street.payment()
    option = await street.option(payment_id)
    signatures = await street.execute(option)
    await street.chain.done(account(STRANGER), FIRST_CONTRACT, alone(option, signatures, leg))

    told = await street.confirm(payment_id, option, *signatures)

    assert told.status_code == 200, told.text
    await street.until(payment_id, "settled")
    [transfer] = (await street.detail(payment_id))["transfers"]
    assert (transfer["kind"], transfer["amount"]["value"]) == ("matched", str(AMOUNT - FEE))
    assert (await got(street.chain))[0] == AMOUNT - FEE


async def test_a_buyer_who_takes_back_the_payment_is_not_charged_the_fee(street: Street) -> None:
    """The merchant's authorization is cancelled on the chain, and the operator's is still good."""
    payment_id = await street.payment()
    option = await street.option(payment_id)
    signatures = await street.execute(option)
    await street.chain.rpc("anvil_setBalance", address(RELAYER), "0x0")
    await street.confirm(payment_id, option, *signatures)
    await take_back(street, option)
    await street.chain.rpc("anvil_setBalance", address(RELAYER), hex(10**18))
    relayer = street.house.realms["live"].live_chains[0].relayer
    assert relayer is not None

    for _ in range(3):
        await street.later(61)
        await relayer.run_once()

    assert await got(street.chain) == (0, 0)
    assert relayer.stats().spent_today == 0
    await street.later(3600)

    # Too late to be sent: it has failed once that was read which others may have brought.
    async def has_failed() -> bool:
        await relayer.run_once()
        return bool((await street.detail(payment_id))["status"] == "failed")

    await street.wait_for(has_failed, mining=True)


async def take_back(street: Street, option: dict[str, Any]) -> None:
    """The buyer cancels the merchant's authorization."""
    typed = json.loads(json.loads(option["actions"][0]["params"])[1])
    nonce = typed["message"]["nonce"]
    cancels = {
        **typed,
        "primaryType": "CancelAuthorization",
        "types": {
            "EIP712Domain": typed["types"]["EIP712Domain"],
            "CancelAuthorization": [
                {"name": "authorizer", "type": "address"},
                {"name": "nonce", "type": "bytes32"},
            ],
        },
        "message": {"authorizer": address(BUYER), "nonce": nonce},
    }
    signature = bytes.fromhex(signed(json.dumps(cancels))[2:])
    call = calldata(
        "cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)",
        address(BUYER),
        bytes.fromhex(nonce[2:]),
        signature[64],
        signature[:32],
        signature[32:64],
    )
    await street.chain.done(account(STRANGER), FIRST_CONTRACT, call)
