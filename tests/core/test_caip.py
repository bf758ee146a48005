"""CAIP identifiers, and what may receive funds."""

from __future__ import annotations

import re

import base58
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.caip import (
    AccountId,
    AssetId,
    ChainId,
    MalformedCaip,
    account_problem,
    canonical_account,
    canonical_asset,
    canonical_chain,
    destination_problem,
    parse_account,
    parse_asset,
    parse_chain,
    to_checksum_address,
)

# The vectors of EIP-55: two whose checksum is all capitals, two all small, four mixed.
CHECKSUMMED = [
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
    "0xde709f2102306220921060314715629080e2fb77",
    "0x27b1fdb04752bbc536007a920d24acb045561c26",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
]
USDC = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
SOLANA = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
WALLET = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"

EVM_ADDRESSES = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())
SPEC_ASSET = re.compile(r"^[-a-zA-Z0-9]{3,8}:[-a-zA-Z0-9]{1,32}/[-a-zA-Z0-9]{3,8}:[-a-zA-Z0-9]{1,128}\Z")
SPEC_ACCOUNT = re.compile(r"^[-a-zA-Z0-9]{3,8}:[-a-zA-Z0-9]{1,32}:[-a-zA-Z0-9]{1,128}\Z")


def problem(asset: str, destination: str) -> str | None:
    return destination_problem(parse_asset(asset), parse_account(destination))


@given(st.from_regex(SPEC_ASSET))
def test_an_asset_of_the_pattern_is_parsed_and_written_the_same(text: str) -> None:
    assert str(parse_asset(text)) == text


@given(st.from_regex(SPEC_ACCOUNT))
def test_an_account_of_the_pattern_is_parsed_and_written_the_same(text: str) -> None:
    account = parse_account(text)

    assert str(account) == text
    assert parse_chain(str(account.chain)) == account.chain


@given(st.text(alphabet="aZ09-:/.\n é", max_size=40))
def test_whatever_is_not_of_the_pattern_is_refused(text: str) -> None:
    for pattern, parse in ((SPEC_ASSET, parse_asset), (SPEC_ACCOUNT, parse_account)):
        if pattern.match(text) is None:
            with pytest.raises(MalformedCaip):
                parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "eip155",
        "ei:1",
        "eip155eip:1",
        "eip155:",
        "eip155:" + "1" * 33,
        "eip155:1\n",
        " eip155:1",
        "eip155:1:2",
        "eip_155:1",
        "eip155:１",
    ],
)
def test_a_chain_has_two_parts_of_three_to_eight_and_up_to_32_characters(text: str) -> None:
    with pytest.raises(MalformedCaip, match="CAIP-2"):
        parse_chain(text)


@pytest.mark.parametrize(
    "text", ["eip155:1", "eip155:1:", "eip155:1:" + "a" * 129, "eip155:1:a\n", "eip155:1/a:b"]
)
def test_an_account_has_three_parts(text: str) -> None:
    with pytest.raises(MalformedCaip, match=r"CAIP-10.* such as eip155:8453:0x"):
        parse_account(text)


@pytest.mark.parametrize(
    "text",
    [
        "eip155:1:erc20:a",
        "eip155:1/er:a",
        "eip155:1/erc20:",
        "eip155:1/erc20:" + "a" * 129,
        USDC + "/1",
        USDC + "\n",
    ],
)
def test_an_asset_has_four_parts(text: str) -> None:
    with pytest.raises(MalformedCaip, match=r"CAIP-19.* such as eip155:8453/erc20:0x"):
        parse_asset(text)


def test_the_parts_of_an_asset_have_their_names() -> None:
    asset = parse_asset(USDC)

    assert asset == AssetId(ChainId("eip155", "8453"), "erc20", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")
    assert parse_account("a-b:c:d") == AccountId(ChainId("a-b", "c"), "d")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (USDC, USDC.lower()),
        (USDC.replace("erc20", "ERC20"), USDC.lower()),
        ("EIP155:1/slip44:60", "eip155:1/slip44:60"),
        (f"solana:mainnet/spl:{MINT}", f"{SOLANA}/token:{MINT}"),
        (f"solana:mainnet/token:{MINT}", f"{SOLANA}/token:{MINT}"),
        (f"{SOLANA}/token:{MINT}", f"{SOLANA}/token:{MINT}"),
        ("solana:devnet/slip44:501", "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1/slip44:501"),
        ("solana:testnet/slip44:501", "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z/slip44:501"),
        ("cosmos:Hub-4/ICS20:AbC", "cosmos:Hub-4/ICS20:AbC"),
        ("cosmos:mainnet/spl:AbC", "cosmos:mainnet/spl:AbC"),
        ("eip155:1/spl:AbC", "eip155:1/spl:abc"),
    ],
)
def test_an_asset_has_one_canonical_text(text: str, canonical: str) -> None:
    assert canonical_asset(parse_asset(text)) == canonical


@given(st.from_regex(SPEC_ASSET), st.from_regex(SPEC_ACCOUNT))
def test_a_canonical_text_is_its_own_canonical_text(asset: str, account: str) -> None:
    once, once_account = canonical_asset(parse_asset(asset)), canonical_account(parse_account(account))

    assert canonical_asset(parse_asset(once)) == once
    assert canonical_account(parse_account(once_account)) == once_account


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (f"eip155:1:{CHECKSUMMED[4]}", f"eip155:1:{CHECKSUMMED[4].lower()}"),
        (f"solana:mainnet:{WALLET}", f"{SOLANA}:{WALLET}"),
        ("cosmos:hub:AbC", "cosmos:hub:AbC"),
    ],
)
def test_an_account_has_one_canonical_text(text: str, canonical: str) -> None:
    assert canonical_account(parse_account(text)) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("eip155:137/slip44:60", "eip155:137/slip44:966"),
        ("EIP155:56/SLIP44:60", "eip155:56/slip44:714"),
        ("eip155:43114/slip44:9000", "eip155:43114/slip44:9005"),
        ("eip155:43114/slip44:60", "eip155:43114/slip44:9005"),
        ("eip155:1/slip44:60", "eip155:1/slip44:60"),
        ("eip155:8453/slip44:966", "eip155:8453/slip44:966"),
    ],
)
def test_a_coin_that_is_numbered_in_several_ways_is_one_asset(text: str, canonical: str) -> None:
    assert canonical_asset(parse_asset(text)) == canonical


def test_an_alias_is_the_chain_it_stands_for() -> None:
    assert canonical_chain(parse_chain("solana:mainnet")) == parse_chain(SOLANA)
    assert canonical_chain(parse_chain("cosmos:mainnet")) == parse_chain("cosmos:mainnet")


@pytest.mark.parametrize("address", CHECKSUMMED)
def test_the_checksum_is_that_of_eip_55(address: str) -> None:
    assert to_checksum_address(address.lower()) == address
    assert to_checksum_address("0x" + address[2:].upper()) == address


@pytest.mark.parametrize("address", ["", "0x", "0x" + "g" * 40, "0X" + "a" * 40, "a" * 40, "0x" + "a" * 41])
def test_only_an_evm_address_has_a_checksum(address: str) -> None:
    with pytest.raises(ValueError, match="40 hex digits"):
        to_checksum_address(address)


@given(EVM_ADDRESSES)
def test_an_evm_account_is_fine_in_small_letters_and_with_its_checksum(address: str) -> None:
    for text in (address, to_checksum_address(address)):
        assert account_problem(AccountId(ChainId("eip155", "1"), text)) is None


@given(EVM_ADDRESSES, st.integers(2, 41))
def test_one_letter_in_the_wrong_case_breaks_the_checksum(address: str, place: int) -> None:
    right = to_checksum_address(address)
    wrong = right[:place] + right[place].swapcase() + right[place + 1 :]
    if wrong not in (right, address):
        assert "EIP-55" in (account_problem(AccountId(ChainId("eip155", "1"), wrong)) or "")


def test_all_capitals_are_no_excuse_for_a_wrong_checksum() -> None:
    shouted = "0x" + CHECKSUMMED[4][2:].upper()

    assert "EIP-55" in (account_problem(parse_account(f"eip155:1:{shouted}")) or "")
    assert account_problem(parse_account(f"eip155:1:{CHECKSUMMED[0]}")) is None


@pytest.mark.parametrize(
    "account",
    [
        "eip155:1:abc",
        "eip155:1:0x" + "a" * 39,
        "eip155:1:0x" + "g" * 40,
        "eip155:1:0X" + "a" * 40,
        "EIP155:1:0xabc",
    ],
)
def test_an_evm_account_is_20_bytes_of_hex(account: str) -> None:
    assert "40 hex digits" in (account_problem(parse_account(account)) or "")


@given(st.binary(min_size=32, max_size=32))
def test_any_32_bytes_are_a_solana_account(key: bytes) -> None:
    assert account_problem(AccountId(ChainId("solana", "mainnet"), base58.b58encode(key).decode())) is None


@given(st.binary(max_size=80).filter(lambda key: len(key) != 32))
def test_other_than_32_bytes_are_no_solana_account(key: bytes) -> None:
    address = base58.b58encode(key).decode()

    assert account_problem(AccountId(ChainId("solana", "mainnet"), address)) is not None


@pytest.mark.parametrize("address", ["0" * 44, "O" * 43, "I" * 43, "l" * 43, WALLET[:-1] + "-", "z" * 128])
def test_what_is_not_base58_is_no_solana_account(address: str) -> None:
    assert "base58" in (account_problem(AccountId(ChainId("solana", "mainnet"), address)) or "")


@pytest.mark.parametrize("number", range(1, 7))
def test_the_magic_buyers_are_accounts_but_no_destinations(number: int) -> None:
    magic = parse_account(f"eip155:8453:0x{number:040x}")

    assert account_problem(magic) is None
    assert "precompiled" in (destination_problem(parse_asset(USDC), magic) or "")


def test_chains_of_another_kind_have_no_rules_for_accounts() -> None:
    assert account_problem(parse_account("cosmos:hub:anything")) is None


@pytest.mark.parametrize(
    ("asset", "destination"),
    [
        (USDC, f"eip155:8453:{CHECKSUMMED[4]}"),
        (USDC, f"eip155:8453:{CHECKSUMMED[4].lower()}"),
        (USDC, f"eip155:8453:0x{0x200:040x}"),
        ("eip155:1/slip44:60", f"eip155:1:{CHECKSUMMED[5]}"),
        (f"{SOLANA}/token:{MINT}", f"{SOLANA}:{WALLET}"),
        (f"{SOLANA}/token:{MINT}", f"solana:mainnet:{WALLET}"),
        (f"{SOLANA}/slip44:501", f"{SOLANA}:{WALLET}"),
        ("cosmos:cosmoshub-4/slip44:118", "cosmos:cosmoshub-4:cosmos1t2uflqwqe0fsj0shcfkrvpukewcw40yjj6hdc0"),
        ("bip122:000000000019d6689c085ae165831e93/slip44:0", "bip122:000000000019d6689c085ae165831e93:0"),
    ],
)
def test_a_wallet_on_the_assets_chain_may_receive_it(asset: str, destination: str) -> None:
    assert problem(asset, destination) is None


@pytest.mark.parametrize(
    ("asset", "destination", "words"),
    [
        (USDC, f"eip155:1:{CHECKSUMMED[4]}", "on eip155:1, but the asset is on eip155:8453"),
        (f"solana:devnet/token:{MINT}", f"{SOLANA}:{WALLET}", "but the asset is on"),
        ("cosmos:a/slip44:1", "cosmos:b:x", "but the asset is on"),
        (USDC, "eip155:8453:0x" + "ab" * 19, "40 hex digits"),
        (USDC, "eip155:8453:" + CHECKSUMMED[4].replace("0x5a", "0x5A"), "EIP-55"),
        (USDC, f"eip155:8453:0x{0:040x}", "zero address"),
        (USDC, f"eip155:8453:0x{1:040x}", "precompiled"),
        (USDC, f"eip155:8453:0x{0x1FF:040x}", "precompiled"),
        (USDC, f"eip155:8453:{USDC.rpartition(':')[2]}", "own contract"),
        (USDC, f"eip155:8453:{USDC.rpartition(':')[2].lower()}", "own contract"),
        (
            USDC.replace("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "0x" + "AB" * 20),
            "eip155:8453:0x" + "ab" * 20,
            "own contract",
        ),
        ("eip155:1/erc721:0x" + "ab" * 20, f"eip155:1:{CHECKSUMMED[4]}", "non-fungible"),
        ("eip155:1/ERC1155:0x" + "ab" * 20, f"eip155:1:{CHECKSUMMED[4]}", "non-fungible"),
        (f"{SOLANA}/nft:{MINT}", f"{SOLANA}:{WALLET}", "non-fungible"),
        (f"{SOLANA}/metaplex:{MINT}", f"{SOLANA}:{WALLET}", "non-fungible"),
        ("stacks:1/nft:abc", "stacks:1:abc", "non-fungible"),
        (f"{SOLANA}/token:{MINT}", f"{SOLANA}:{CHECKSUMMED[4]}", "base58"),
        (f"{SOLANA}/token:{MINT}", f"{SOLANA}:{MINT}", "own mint"),
        (f"solana:mainnet/spl:{MINT}", f"{SOLANA}:{MINT}", "own mint"),
        (f"{SOLANA}/token:{MINT}", f"{SOLANA}:{'1' * 32}", "System Program"),
    ],
)
def test_a_destination_where_funds_would_be_lost_is_refused_with_the_reason(
    asset: str, destination: str, words: str
) -> None:
    assert words in (problem(asset, destination) or "")
