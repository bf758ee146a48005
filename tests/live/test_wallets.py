"""Accounts of every kind pay as they can: keys, smart wallets, and keys that let code act for them.

What an account cannot do it is not offered; how a wallet writes its signature makes no difference.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_account import Account

from tests.live.chain import (
    BUYER,
    BUYER_2,
    FIRST_CONTRACT,
    MERCHANT,
    STRANGER,
    LocalChain,
    account,
    address,
    calldata,
)
from tests.live.strange import deploy_strange
from tests.live.street import (
    DAI,
    ETH,
    MINTED,
    SECOND_CONTRACT,
    USDC,
    Street,
    furnish_chain,
    open_street,
    signed,
)

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
SIGN, SEND = "eth_signTypedData_v4", "eth_sendTransaction"
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


async def smart_wallet(chain: LocalChain) -> str:
    """A wallet that the buyer's key owns, with both tokens in it."""
    wallet = await chain.deploy("Wallet1271", ["address"], [address(BUYER)])
    for token in (FIRST_CONTRACT, SECOND_CONTRACT):
        await chain.mint(token, wallet, MINTED)
    return wallet


def ways(options: list[dict[str, Any]]) -> dict[str, list[str]]:
    """What each asset asks for."""
    return {
        option["amount"]["unit"].removeprefix("caip19/"): [one["method"] for one in option["actions"]]
        for option in options
    }


def option_in(options: list[dict[str, Any]], asset: str) -> dict[str, Any]:
    return next(one for one in options if one["amount"]["unit"].lower() == f"caip19/{asset}".lower())


def typed_data(option: dict[str, Any]) -> str:
    """What its only action asks to sign."""
    [action] = option["actions"]
    return str(json.loads(action["params"])[1])


async def paid_by(street: Street, payment_id: str) -> str:
    """Who paid it in the end, in lower case, with one transfer of the exact amount."""
    await street.until(payment_id, "settled")
    [transfer] = (await street.detail(payment_id))["transfers"]
    assert (transfer["kind"], transfer["amount"]["value"]) == ("matched", str(AMOUNT))
    return str(transfer["from"]).rpartition(":")[2].lower()


async def confirmed(street: Street, payment_id: str, option: dict[str, Any], result: str) -> None:
    told = await street.confirm(payment_id, option, result)
    assert told.status_code == 200, told.text


async def test_a_smart_wallet_pays_by_the_signature_of_its_owner(street: Street) -> None:
    wallet = await smart_wallet(street.chain)
    payment_id = await street.payment()
    options = await street.options_of(payment_id, wallet)
    assert ways(options) == {USDC: [SIGN], DAI: [SEND]}
    option = option_in(options, USDC)
    stranger = await street.confirm(payment_id, option, signed(typed_data(option), STRANGER))
    assert (stranger.status_code, stranger.json()["code"]) == (422, "invalid_signature")

    await confirmed(street, payment_id, option, signed(typed_data(option)))

    assert await paid_by(street, payment_id) == wallet.lower()


async def test_a_smart_wallet_pays_by_a_signature_longer_than_a_keys(street: Street) -> None:
    wallet = await deploy_strange(street.chain, "TwoOwners", address(BUYER), address(BUYER_2))
    await street.chain.mint(FIRST_CONTRACT, wallet, AMOUNT)
    payment_id = await street.payment()
    option = option_in(await street.options_of(payment_id, wallet), USDC)
    first, second = signed(typed_data(option), BUYER), signed(typed_data(option), BUYER_2)
    half = await street.confirm(payment_id, option, first)
    assert (half.status_code, half.json()["code"]) == (422, "invalid_signature")

    await confirmed(street, payment_id, option, first + second.removeprefix("0x"))

    assert await paid_by(street, payment_id) == wallet.lower()


async def test_a_smart_wallet_pays_by_a_transaction_with_the_transfer_inside(street: Street) -> None:
    wallet = await smart_wallet(street.chain)
    payment_id = await street.payment()
    option = option_in(await street.options_of(payment_id, wallet), DAI)
    [asked] = json.loads(option["actions"][0]["params"])
    inner = bytes.fromhex(asked["data"].removeprefix("0x"))
    outer = calldata("execute(address,uint256,bytes)", asked["to"], 0, inner)
    told = await street.chain.done(account(BUYER), wallet, outer)

    await confirmed(street, payment_id, option, told["transactionHash"])

    assert await paid_by(street, payment_id) == wallet.lower()


async def test_a_wallet_that_is_not_deployed_is_told_why_its_signature_is_no_use(street: Street) -> None:
    """ERC-6492: the signature comes with the call that would deploy the wallet."""
    factory = await street.chain.deploy("WalletFactory")
    salt = bytes(32)
    [wallet] = await street.chain.view(factory, ["address"], "predict(address,bytes32)", address(BUYER), salt)
    await street.chain.mint(FIRST_CONTRACT, wallet, AMOUNT)
    payment_id = await street.payment()
    option = option_in(await street.options_of(payment_id, wallet), USDC)
    inner = bytes.fromhex(signed(typed_data(option)).removeprefix("0x"))
    deploying = calldata("deploy(address,bytes32)", address(BUYER), salt)
    wrapped = encode(["address", "bytes", "bytes"], [factory, deploying, inner]) + bytes.fromhex("6492" * 16)

    told = await street.confirm(payment_id, option, "0x" + wrapped.hex())

    assert (told.status_code, told.json()["code"]) == (422, "invalid_signature")
    assert "not deployed yet" in told.json()["message"]
    await street.chain.done(account(STRANGER), factory, deploying)
    await confirmed(street, payment_id, option, signed(typed_data(option)))
    assert await paid_by(street, payment_id) == wallet.lower()


async def delegate(chain: LocalChain, place: int, code: str) -> None:
    """Let code act for an account, as EIP-7702 has it."""
    await chain.rpc("anvil_setCode", address(place), "0xef0100" + code.removeprefix("0x"))


async def test_a_delegated_account_that_answers_for_signatures_signs(street: Street) -> None:
    """The token asks the code that acts for the account, and no longer the key."""
    code = await street.chain.deploy("Wallet1271", ["address"], [address(STRANGER)])
    await delegate(street.chain, BUYER, code)
    owner = "0x" + address(BUYER).removeprefix("0x").rjust(64, "0").lower()
    await street.chain.rpc("anvil_setStorageAt", address(BUYER), "0x0", owner)
    payment_id = await street.payment()
    options = await street.options(payment_id)
    assert ways(options) == {USDC: [SIGN], DAI: [SEND], ETH: [SEND]}
    option = option_in(options, USDC)

    await confirmed(street, payment_id, option, signed(typed_data(option)))

    assert await paid_by(street, payment_id) == address(BUYER).lower()


async def test_a_delegated_account_that_does_not_answer_sends(street: Street) -> None:
    """A signature of its key would be refused by the token: it is not asked for one."""
    code = await street.chain.deploy("Feed", ["uint8", "string"], [8, "no wallet"])
    await delegate(street.chain, BUYER, code)
    payment_id = await street.payment()
    options = await street.options(payment_id)
    assert ways(options) == {USDC: [SEND], DAI: [SEND], ETH: [SEND]}
    option = option_in(options, USDC)

    await confirmed(street, payment_id, option, *await street.execute(option))

    assert await paid_by(street, payment_id) == address(BUYER).lower()


def low_v(signature: bytes) -> bytes:
    """With v as 0 or 1, as some hardware has it."""
    return signature[:-1] + bytes([signature[-1] - 27])


def compact(signature: bytes) -> bytes:
    """EIP-2098: in 64 bytes, with v as the highest bit of s."""
    s = int.from_bytes(signature[32:64], "big") | (signature[-1] - 27) << 255
    return signature[:32] + s.to_bytes(32, "big")


def high_s(signature: bytes) -> bytes:
    """The other signature that is as valid by arithmetic, and by EIP-2 is none."""
    s = ORDER - int.from_bytes(signature[32:64], "big")
    return signature[:32] + s.to_bytes(32, "big") + bytes([55 - signature[-1]])


@pytest.mark.parametrize("form", [low_v, compact])
async def test_forms_of_a_signature_that_wallets_have_are_taken(street: Street, form: Any) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id)
    signature = bytes.fromhex(signed(typed_data(option)).removeprefix("0x"))

    await confirmed(street, payment_id, option, "0x" + form(signature).hex())

    assert await paid_by(street, payment_id) == address(BUYER).lower()


async def test_a_signature_that_the_token_would_refuse_for_its_high_s_is_refused(street: Street) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id)
    signature = bytes.fromhex(signed(typed_data(option)).removeprefix("0x"))

    told = await street.confirm(payment_id, option, "0x" + high_s(signature).hex())

    assert (told.status_code, told.json()["code"]) == (422, "invalid_signature")
    assert await street.status(payment_id) == "requires_action"
    await confirmed(street, payment_id, option, "0x" + signature.hex())
    assert await paid_by(street, payment_id) == address(BUYER).lower()


async def test_a_destination_with_code_is_offered_tokens_and_no_coins(
    tmp_path: Path, chain: LocalChain
) -> None:
    """Its code could lose the tag, or refuse the coins."""
    await furnish_chain(chain)
    till = await chain.deploy("Wallet1271", ["address"], [address(MERCHANT)])
    async with open_street(tmp_path / "house", chain, block_s=0.2, destination=till) as street:
        payment_id = await street.payment()
        assert ways(await street.options(payment_id)) == {USDC: [SIGN], DAI: [SEND]}
        await street.pay(payment_id, DAI)
        assert await paid_by(street, payment_id) == address(BUYER).lower()
    assert await chain.balance(SECOND_CONTRACT, till) == AMOUNT


async def test_nobody_is_offered_what_they_cannot_pay(street: Street) -> None:
    nothing, tokens, short, gas = (str(Account.create(word).address) for word in "abcd")
    for token in (FIRST_CONTRACT, SECOND_CONTRACT):
        await street.chain.mint(token, tokens, AMOUNT)
        await street.chain.mint(token, short, AMOUNT - 1)
    await street.chain.rpc("anvil_setBalance", gas, hex(10**16))  # the price is exactly this, without gas
    payment_id = await street.payment()

    offered = {one: ways(await street.options_of(payment_id, one)) for one in (nothing, tokens, short, gas)}

    assert offered == {nothing: {}, tokens: {USDC: [SIGN]}, short: {}, gas: {}}


async def test_one_who_has_coins_alone_is_offered_coins(street: Street) -> None:
    payment_id = await street.payment()

    assert ways(await street.options(payment_id, STRANGER)) == {ETH: [SEND]}
