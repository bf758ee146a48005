"""EIP-3009: what a buyer is asked to sign, and the calldata that carries it out."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from eth_abi.abi import decode
from eth_account import Account
from eth_account.messages import encode_typed_data
from hypothesis import given
from hypothesis import strategies as st

from payd.chains.assets import shipped_table
from payd.chains.evm.authorization import (
    Authorization,
    TokenDomain,
    authorization_digest,
    domain_separator,
    read_typed_data,
    recover_authorizer,
    transfer_with_authorization_call,
    typed_data,
)
from payd.chains.evm.codec import UINT256_MAX, keccak256, to_data
from payd.core.caip import AssetId, canonical_asset, parse_asset
from tests.chains.evm.json import BUYER, OTHER_SHOP, OTHER_TOKEN, SHOP, TOKEN

KEY = bytes(31) + b"\7"
SIGNER = Account.from_key(KEY).address.lower()
ASKED = Authorization(
    TokenDomain("USD Coin", "2", 8453, TOKEN), SIGNER, SHOP, 12_340_000, 1_900_000_000, bytes(range(32))
)

# What tokens themselves answer to DOMAIN_SEPARATOR(), as public files recorded it from their chains.
SEPARATORS = {
    "eip155:1/erc20:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48": (
        "06c37168a7db5138defc7866392bb87a741f9b3d104deb5094588ce041cae335"
    ),
    "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913": (
        "02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f"
    ),
    "eip155:42161/erc20:0xaf88d065e77c8cC2239327C5EDb3A432268e5831": (
        "08d11903f8419e68b1b8721bcbe2e9fc68569122a77ef18c216f10b3b5112c78"
    ),
    "eip155:10/erc20:0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85": (
        "26d9c34bb1a1c312f69c53b2d93b8be20faafba63af2438c6811713c9b1f933f"
    ),
    "eip155:137/erc20:0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359": (
        "caa2ce1a5703ccbe253a34eb3166df60a705c561b44b192061e28f2a985be2ca"
    ),
    "eip155:43114/erc20:0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E": (
        "bbea200329a938bc3438984a49cb0732e66d66d7bd59c127abacc1710e77f7b3"
    ),
    "eip155:1/erc20:0x1aBaEA1f7C830bD89Acc67eC4af516284b1bC33c": (
        "99f188f447f0c6eaf68589359cd2ead8c2faaaaee984ab926fdb734d0040073b"
    ),
    "eip155:8453/erc20:0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42": (
        "ec4dcbded0afd42599589b79220899bbe000bb5ea66d6f1bc176e78d094203bb"
    ),
    "eip155:43114/erc20:0xC891EB4cbdEFf6e073e859e987815Ed1505c2ACD": (
        "094e957ad84a5711a2d13ea2ddcfe3947fe1704472f07bf8a49718f55a65f4b1"
    ),
    "eip155:42161/erc20:0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9": (
        "566af68fb471b22d6421762f84aa7bd761c670a2e4d5c8a47d4085d5957b127c"
    ),
}

addresses = st.binary(min_size=20, max_size=20).map(to_data)
authorizations = st.builds(
    Authorization,
    domain=st.builds(
        TokenDomain,
        name=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        version=st.sampled_from(["1", "2"]),
        chain_id=st.integers(1, 2**53),
        token=addresses,
    ),
    sender=addresses,
    recipient=addresses,
    value=st.integers(0, UINT256_MAX),
    valid_before_s=st.integers(0, UINT256_MAX),
    nonce=st.binary(min_size=32, max_size=32),
)


def sign(typed: dict[str, Any]) -> bytes:
    return bytes(Account.from_key(KEY).sign_message(encode_typed_data(full_message=typed)).signature)


@given(authorizations)
def test_the_digest_is_that_of_another_implementation_of_eip_712(authorization: Authorization) -> None:
    theirs = encode_typed_data(full_message=typed_data(authorization))
    assert authorization_digest(authorization) == keccak256(b"\x19\x01" + theirs.header + theirs.body)
    assert domain_separator(authorization.domain) == theirs.header


@pytest.mark.parametrize("asset", SEPARATORS)
def test_the_separator_of_a_shipped_row_is_the_tokens_own(asset: str) -> None:
    [row] = [row for row in shipped_table().assets if row.asset == asset]
    assert row.domain is not None
    parsed = parse_asset(canonical_asset(parse_asset(row.asset)))
    domain = TokenDomain(row.domain.name, row.domain.version, int(parsed.chain.reference), parsed.reference)
    assert domain_separator(domain).hex() == SEPARATORS[asset]


def test_every_signable_row_has_a_separator_of_its_own() -> None:
    rows = [row for row in shipped_table().assets if row.domain is not None]
    separators = set()
    for row in rows:
        assert row.domain is not None
        asset: AssetId = parse_asset(canonical_asset(parse_asset(row.asset)))
        chain_id = int(asset.chain.reference)
        separators.add(
            domain_separator(TokenDomain(row.domain.name, row.domain.version, chain_id, asset.reference))
        )
    assert len(separators) == len(rows) > 0


def test_a_wallet_gets_its_domain_among_the_types_and_numbers_as_decimal_texts() -> None:
    typed = typed_data(ASKED)
    assert list(typed["types"]) == ["EIP712Domain", "TransferWithAuthorization"]
    assert typed["primaryType"] == "TransferWithAuthorization"
    assert typed["domain"]["chainId"] == 8453
    assert typed["message"]["value"] == "12340000"
    assert typed["message"]["validAfter"] == "0"
    assert typed["message"]["validBefore"] == "1900000000"
    assert typed["message"]["nonce"] == "0x" + bytes(range(32)).hex()


def test_a_wallet_gets_addresses_with_their_checksums() -> None:
    typed = typed_data(ASKED)
    assert typed["domain"]["verifyingContract"] == "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
    assert typed["message"]["from"] == Account.from_key(KEY).address


def test_who_signed_is_recovered() -> None:
    assert recover_authorizer(ASKED, sign(typed_data(ASKED))) == SIGNER


@pytest.mark.parametrize(
    "changes",
    [
        {"sender": BUYER},
        {"recipient": OTHER_SHOP},
        {"value": 12_339_999},
        {"valid_before_s": 1_900_000_001},
        {"nonce": bytes(32)},
        {"domain": TokenDomain("USDC", "2", 8453, TOKEN)},
        {"domain": TokenDomain("USD Coin", "1", 8453, TOKEN)},
        {"domain": TokenDomain("USD Coin", "2", 1, TOKEN)},
        {"domain": TokenDomain("USD Coin", "2", 8453, OTHER_TOKEN)},
    ],
)
def test_a_signature_is_for_nothing_else_than_what_was_signed(changes: dict[str, object]) -> None:
    signature = sign(typed_data(ASKED))
    assert recover_authorizer(msgspec.structs.replace(ASKED, **changes), signature) != SIGNER


@given(authorizations)
def test_what_was_handed_out_is_read_back(authorization: Authorization) -> None:
    stored = msgspec.json.decode(msgspec.json.encode(typed_data(authorization)))
    assert read_typed_data(stored) == authorization


def changed(path: tuple[str, ...], value: object) -> dict[str, Any]:
    typed: dict[str, Any] = copy.deepcopy(typed_data(ASKED))
    part = typed
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    return typed


@pytest.mark.parametrize(
    "typed",
    [
        {},
        changed(("domain",), None),
        changed(("message", "validAfter"), "5"),
        changed(("message", "nonce"), "0x00"),
        changed(("message", "nonce"), 5),
        changed(("message", "value"), "0x10"),
        changed(("message", "value"), "007"),
        changed(("message", "from"), "0x12"),
        changed(("message", "to"), 5),
        changed(("message", "extra"), "1"),
        changed(("primaryType",), "ReceiveWithAuthorization"),
        changed(("types", "TransferWithAuthorization"), []),
        changed(("domain", "verifyingContract"), "0x"),
    ],
)
def test_what_was_not_handed_out_is_not_read(typed: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        read_typed_data(typed)


def test_a_signature_of_a_key_goes_to_the_token_as_v_r_and_s() -> None:
    signature = sign(typed_data(ASKED))
    data = transfer_with_authorization_call(ASKED, signature)
    assert data[:4].hex() == "e3ee160e"
    types = ["address", "address", "uint256", "uint256", "uint256", "bytes32", "uint8", "bytes32", "bytes32"]
    *message, v, r, s = decode(types, data[4:])
    assert message == [SIGNER, SHOP, 12_340_000, 0, 1_900_000_000, ASKED.nonce]
    assert r + s + bytes([v]) == signature


def test_a_signature_of_a_smart_wallet_goes_to_the_token_as_bytes() -> None:
    data = transfer_with_authorization_call(ASKED, b"whatever the wallet reads")
    assert data[:4].hex() == "cf092995"
    types = ["address", "address", "uint256", "uint256", "uint256", "bytes32", "bytes"]
    *message, signature = decode(types, data[4:])
    assert message == [SIGNER, SHOP, 12_340_000, 0, 1_900_000_000, ASKED.nonce]
    assert signature == b"whatever the wallet reads"
