"""What a wallet is asked to do, byte for byte."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from Crypto.Hash import keccak

from payd.chains.simulated_actions import (
    PERMIT2,
    Transfer,
    actions_for,
    binding,
    executed_actions,
    resolve_build,
)
from payd.core.caip import parse_account, parse_asset
from payd.core.errors import InvalidParams
from payd.core.option import Build, WalletRpc
from payd.core.payment import Payment

PAYMENT = Payment(
    id="pay_t01jw0000000000000000000000000000000a",
    account_id="acct_1",
    merchant_id="mrch_1",
    reference_id="ORDER-1",
    currency="USD",
    value=1000,
    created_at_ms=1_780_000_000_000,
    expires_at_ms=1_780_000_900_999,
    updated_at_ms=1_780_000_000_000,
)
BUYER = "0x" + "ab" * 20
SHOP = "0x" + "5e" * 20
USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
USDT = "0xdAC17F958D2ee523a2206206994597C13D831ec7"
TOKEN = "0x" + "cd" * 20
SOLANA = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
SOLANA_BUYER = "7v91N7iZ9mNicL8WfG6cgSCKyRXydQjLh6UYBWwm6y1Q"
SOLANA_SHOP = "2wmVCSfPxGPjrnMMn7rchp4uaeoTqN39mXFC2zhPdri9"
# 10 000 000 in 32 bytes.
AMOUNT_WORD = "0000000000000000000000000000000000000000000000000000000000989680"


def transfer(
    chain: str, asset: str, buyer: str = BUYER, shop: str = SHOP, amount: int = 10_000_000
) -> Transfer:
    return Transfer(
        payment=PAYMENT,
        asset=parse_asset(f"{chain}/{asset}"),
        buyer=parse_account(f"{chain}:{buyer}"),
        destination=parse_account(f"{chain}:{shop}"),
        amount=amount,
    )


def only_rpc(asked: Transfer) -> WalletRpc:
    actions = actions_for(asked)
    assert actions is not None
    (action,) = actions
    assert isinstance(action, WalletRpc)
    return action


def typed_data(action: WalletRpc) -> dict[str, Any]:
    signer, text = action.params
    assert action.method == "eth_signTypedData_v4"
    assert signer == BUYER
    typed = json.loads(text)
    assert isinstance(typed, dict)
    return typed


def keccak256(data: bytes) -> bytes:
    return keccak.new(data=data, digest_bits=256).digest()


def domain_separator(typed: dict[str, Any]) -> str:
    """EIP-712's hashStruct of a domain of strings, numbers and addresses, written from the standard."""
    fields = typed["types"]["EIP712Domain"]
    declared = ",".join(f"{field['type']} {field['name']}" for field in fields)
    words = [keccak256(f"EIP712Domain({declared})".encode())]
    for field in fields:
        value = typed["domain"][field["name"]]
        match field["type"]:
            case "string":
                words.append(keccak256(value.encode()))
            case "uint256":
                words.append(value.to_bytes(32, "big"))
            case "address":
                words.append(bytes.fromhex(value[2:]).rjust(32, b"\x00"))
    return "0x" + keccak256(b"".join(words)).hex()


def test_a_known_eip_3009_token_asks_for_one_signature_of_a_transfer_to_the_destination() -> None:
    typed = typed_data(only_rpc(transfer("eip155:8453", f"erc20:{USDC.lower()}")))

    assert typed["primaryType"] == "TransferWithAuthorization"
    assert typed["types"]["TransferWithAuthorization"] == [
        {"name": "from", "type": "address"},
        {"name": "to", "type": "address"},
        {"name": "value", "type": "uint256"},
        {"name": "validAfter", "type": "uint256"},
        {"name": "validBefore", "type": "uint256"},
        {"name": "nonce", "type": "bytes32"},
    ]
    assert typed["message"] == {
        "from": BUYER,
        "to": SHOP,
        "value": "10000000",
        "validAfter": "0",
        "validBefore": "1780001200",  # five minutes after the payment
        "nonce": "0x" + binding(PAYMENT.id, "eip3009").hex(),
    }


@pytest.mark.parametrize(
    ("chain", "token", "separator"),
    [
        # What DOMAIN_SEPARATOR() of these contracts answers.
        ("eip155:8453", USDC, "0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f"),
        (
            "eip155:8453",
            "0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42",
            "0xec4dcbded0afd42599589b79220899bbe000bb5ea66d6f1bc176e78d094203bb",
        ),
        (
            "eip155:42161",
            "0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9",
            "0x566af68fb471b22d6421762f84aa7bd761c670a2e4d5c8a47d4085d5957b127c",
        ),
    ],
)
def test_the_domain_is_the_one_that_the_token_itself_has(chain: str, token: str, separator: str) -> None:
    typed = typed_data(only_rpc(transfer(chain, f"erc20:{token.lower()}")))

    assert domain_separator(typed) == separator


def test_an_unknown_token_asks_for_a_tagged_transfer() -> None:
    action = only_rpc(transfer("eip155:8453", f"erc20:{TOKEN}"))

    assert action.method == "eth_sendTransaction"
    assert action.params == [
        {
            "from": BUYER,
            "to": TOKEN,
            "data": "0xa9059cbb" + "00" * 12 + "5e" * 20 + AMOUNT_WORD + binding(PAYMENT.id, "tag").hex(),
            "value": "0x0",
        }
    ]


def test_a_coin_asks_for_its_value_with_the_tag_as_data() -> None:
    action = only_rpc(transfer("eip155:8453", "slip44:60"))

    assert action.method == "eth_sendTransaction"
    assert action.params == [
        {"from": BUYER, "to": SHOP, "data": "0x" + binding(PAYMENT.id, "tag").hex(), "value": "0x989680"}
    ]


def test_usdt_asks_for_a_build_action_that_resolves_into_an_approval_and_a_permit() -> None:
    asked = transfer("eip155:1", f"erc20:{USDT}")
    actions = actions_for(asked)
    assert actions is not None
    (build,) = actions
    assert isinstance(build, Build)
    approve, permit = resolve_build(asked, build.data)

    assert approve.method == "eth_sendTransaction"
    assert approve.params == [
        {
            "from": BUYER,
            "to": USDT,
            "data": "0x095ea7b3" + "00" * 12 + PERMIT2[2:].lower() + AMOUNT_WORD,
            "value": "0x0",
        }
    ]
    typed = typed_data(permit)
    # What DOMAIN_SEPARATOR() of Permit2 answers on Ethereum.
    assert domain_separator(typed) == "0x866a5aba21966af95d6c7ab78eb2b2fc913915c28be3b9aa07cc04ff903e3f28"
    assert typed["primaryType"] == "PermitTransferFrom"
    assert typed["message"] == {
        "permitted": {"token": USDT, "amount": "10000000"},
        "spender": SHOP,
        "nonce": str(int.from_bytes(binding(PAYMENT.id, "permit2"), "big")),
        "deadline": "1780001200",
    }


def test_executed_actions_hold_no_build_action_and_keep_the_order() -> None:
    asked = transfer("eip155:1", f"erc20:{USDT}")
    actions = actions_for(asked)
    assert actions is not None
    plain = WalletRpc("eip155:1", "personal_sign", ["0x00", BUYER])

    assert executed_actions(asked, (plain, *actions)) == (plain, *resolve_build(asked, actions[0].data))  # type: ignore[union-attr]


def test_a_build_action_of_something_else_resolves_into_nothing() -> None:
    with pytest.raises(InvalidParams):
        resolve_build(transfer("eip155:1", f"erc20:{USDT}"), "")


@pytest.mark.parametrize(
    "asset", ["slip44:501", "token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", f"token:{SOLANA_BUYER}"]
)
def test_solana_asks_for_a_signed_transaction_and_does_not_let_the_wallet_send_it(asset: str) -> None:
    action = only_rpc(transfer(SOLANA, asset, SOLANA_BUYER, SOLANA_SHOP))
    raw = base64.b64decode(action.params[0]["transaction"], validate=True)

    assert action.method == "solana_signTransaction"
    assert action.chain_id == SOLANA
    assert raw[:65] == b"\x01" + bytes(64)
    assert binding(PAYMENT.id, "tag").hex().encode() in raw


def test_an_alias_of_a_chain_is_resolved_for_the_wallet() -> None:
    action = only_rpc(transfer("solana:mainnet", "slip44:501", SOLANA_BUYER, SOLANA_SHOP))

    assert action.chain_id == SOLANA


@pytest.mark.parametrize(
    ("chain", "asset", "buyer", "shop"),
    [
        ("bip122:000000000019d6689c085ae165831e93", "slip44:0", "anyone", "somebody"),
        ("eip155:1", "erc20:not-an-address", BUYER, SHOP),
        ("eip155:1", "points:1", BUYER, SHOP),
        (SOLANA, "token:short", SOLANA_BUYER, SOLANA_SHOP),
        (SOLANA, "points:1", SOLANA_BUYER, SOLANA_SHOP),
    ],
)
def test_what_payd_knows_no_transaction_of_asks_for_a_signed_message(
    chain: str, asset: str, buyer: str, shop: str
) -> None:
    action = only_rpc(transfer(chain, asset, buyer, shop))
    message, signer = action.params

    assert action.method == "personal_sign"
    assert action.chain_id == chain
    assert signer == buyer
    assert f"to {chain}:{shop}" in bytes.fromhex(message[2:]).decode()


@pytest.mark.parametrize(
    ("chain", "asset", "people", "most"),
    [
        (SOLANA, "slip44:501", (SOLANA_BUYER, SOLANA_SHOP), 2**64 - 1),
        ("eip155:1", "slip44:60", (BUYER, SHOP), 2**256 - 1),
    ],
)
def test_more_than_a_chain_can_carry_has_no_actions(
    chain: str, asset: str, people: tuple[str, str], most: int
) -> None:
    assert actions_for(transfer(chain, asset, *people, amount=most)) is not None
    assert actions_for(transfer(chain, asset, *people, amount=most + 1)) is None


def test_bindings_differ_by_payment_and_by_purpose() -> None:
    found = {binding(payment_id, purpose) for payment_id in ("pay_ta", "pay_tb") for purpose in ("tag", "x")}

    assert len(found) == 4
    assert {len(each) for each in found} == {32}
