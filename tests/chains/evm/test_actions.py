"""Actions of an EVM chain: what they ask of a wallet, and that they are read back as they were written."""

from __future__ import annotations

import json

import pytest

from payd.chains.evm.actions import (
    Sending,
    read_actions,
    send_coin_action,
    send_token_action,
    sign_action,
)
from payd.chains.evm.authorization import Authorization, TokenDomain
from payd.chains.evm.binding import authorization_nonce, payment_tag, tagged_transfer
from payd.core.caip import ChainId
from payd.core.option import Action, Build, Quote, WalletRpc
from tests.chains.evm.json import BUYER, OTHER_SHOP, SHOP, TOKEN

BASE = ChainId("eip155", "8453")
TAG = payment_tag("pay_1")
DOMAIN = TokenDomain("USD Coin", "2", 8453, TOKEN)
MAIN = Authorization(DOMAIN, BUYER, SHOP, 24_000_000, 1_780_000_000, authorization_nonce("pay_1"))
FEE = Authorization(DOMAIN, BUYER, OTHER_SHOP, 1_000_000, 1_780_000_000, authorization_nonce("pay_1", "fee"))


def quote_of(*actions: Action, amount: int = 25_000_000) -> Quote:
    return Quote("opt_1", "pay_1", f"{BASE}/erc20:{TOKEN}", BUYER, amount, f"{BASE}:{SHOP}", actions, 0, 1)


def test_a_signature_is_asked_for_of_the_account_as_the_wallet_writes_it() -> None:
    account = BUYER.upper().replace("0X", "0x")
    action = sign_action(BASE, account, MAIN)

    assert (action.chain_id, action.method) == ("eip155:8453", "eth_signTypedData_v4")
    assert action.params[0] == account
    typed = json.loads(action.params[1])
    assert typed["message"]["to"].lower() == SHOP
    assert typed["message"]["value"] == "24000000"
    assert [part["name"] for part in typed["types"]["EIP712Domain"]] == [
        "name",
        "version",
        "chainId",
        "verifyingContract",
    ]


def test_a_token_is_sent_to_its_contract_with_the_tag_right_behind_the_call() -> None:
    action = send_token_action(BASE, BUYER, TOKEN, SHOP, 25, TAG)

    [asked] = action.params
    assert action.method == "eth_sendTransaction"
    assert asked["from"] == BUYER
    assert asked["to"].lower() == TOKEN
    assert bytes.fromhex(asked["data"][2:]) == tagged_transfer(SHOP, 25, TAG)
    assert asked["data"].endswith(TAG.hex())
    assert asked["value"] == "0x0"


def test_a_coin_is_sent_to_the_destination_with_the_tag_as_its_data() -> None:
    [asked] = send_coin_action(BASE, BUYER, SHOP, 10**18, TAG).params

    assert asked["to"].lower() == SHOP
    assert asked["data"] == "0x" + TAG.hex()
    assert int(asked["value"], 16) == 10**18


def test_what_was_written_is_read_back() -> None:
    signed = (sign_action(BASE, BUYER, MAIN), sign_action(BASE, BUYER, FEE))

    assert read_actions(signed) == (MAIN, FEE)
    assert read_actions([send_token_action(BASE, BUYER, TOKEN, SHOP, 25, TAG)]) == Sending(
        TOKEN, tagged_transfer(SHOP, 25, TAG), 0
    )
    assert read_actions([send_coin_action(BASE, BUYER, SHOP, 7, TAG)]) == Sending(SHOP, TAG, 7)


@pytest.mark.parametrize(
    "actions",
    [
        (),
        (Build("data"),),
        (WalletRpc("eip155:8453", "personal_sign", ["0x00", BUYER]),),
        (WalletRpc("eip155:8453", "eth_sendTransaction", [{"to": "0x12", "data": "0x", "value": "0x0"}]),),
        (WalletRpc("eip155:8453", "eth_signTypedData_v4", [BUYER, "{}"]),),
        (WalletRpc("eip155:8453", "eth_signTypedData_v4", [BUYER]),),
    ],
)
def test_other_actions_are_no_evm_chains(actions: tuple[Action, ...]) -> None:
    with pytest.raises(ValueError):
        read_actions(actions)
