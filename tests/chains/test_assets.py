"""The table of known assets."""

from __future__ import annotations

import re

import base58
import pytest

from payd.chains.assets import (
    Asset,
    AssetBook,
    Domain,
    display_of,
    find_asset,
    find_network,
    shipped_table,
)
from payd.core.caip import ChainId, canonical_asset, parse_asset, to_checksum_address
from payd.core.money import MINOR_UNITS
from payd.core.option import Display

ROWS = shipped_table().assets
# SPEC.md, "Crypto settlement".
PATTERN = re.compile(r"[-a-zA-Z0-9]{3,8}:[-a-zA-Z0-9]{1,32}/[-a-zA-Z0-9]{3,8}:[-a-zA-Z0-9]{1,128}")

BASE_USDC = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.asset)
def test_every_row_can_be_registered_and_shown(row: Asset) -> None:
    asset = parse_asset(row.asset)

    assert PATTERN.fullmatch(row.asset)
    assert find_asset(asset) is row
    assert find_network(asset)
    assert row.symbol
    assert row.name
    assert 0 < row.decimals <= 18
    assert row.par is None or row.par in MINOR_UNITS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.asset)
def test_every_row_is_of_the_kind_that_its_identifier_says(row: Asset) -> None:
    asset = parse_asset(row.asset)
    kinds = {"slip44": {"native"}, "erc20": {"erc20", "eip3009"}, "token": {"spl"}}

    assert row.kind in kinds[asset.namespace]
    assert (row.domain is not None) == (row.kind == "eip3009")
    assert not row.permit2 or row.kind == "erc20"
    assert not row.token_2022 or row.kind == "spl"
    assert (row.par is None) == (row.kind == "native")


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.asset.startswith("eip155")], ids=lambda row: row.asset
)
def test_every_evm_contract_has_its_checksum(row: Asset) -> None:
    asset = parse_asset(row.asset)
    if asset.namespace == "erc20":
        assert asset.reference == to_checksum_address(asset.reference)


@pytest.mark.parametrize("row", [row for row in ROWS if row.kind == "spl"], ids=lambda row: row.asset)
def test_every_mint_is_a_key(row: Asset) -> None:
    assert len(base58.b58decode(parse_asset(row.asset).reference)) == 32


def test_no_identifier_stands_for_two_assets() -> None:
    spelled = {canonical_asset(parse_asset(row.asset)) for row in ROWS}

    assert len(spelled) == len(ROWS)


@pytest.mark.parametrize("row", [row for row in ROWS if row.kind == "native"], ids=lambda row: row.asset)
def test_a_coin_stands_in_the_table_by_its_canonical_name(row: Asset) -> None:
    assert canonical_asset(parse_asset(row.asset)) == row.asset


@pytest.mark.parametrize(
    "text", [BASE_USDC, BASE_USDC.lower(), BASE_USDC.replace("0x833589fCD", "0x833589FCD")]
)
def test_an_asset_is_found_in_any_spelling(text: str) -> None:
    row = find_asset(parse_asset(text))

    assert row is not None
    assert row.asset == BASE_USDC


def test_a_coin_is_found_by_the_other_identifiers_in_use_for_it() -> None:
    assert find_asset(parse_asset("eip155:137/slip44:60")) == find_asset(parse_asset("eip155:137/slip44:966"))


def test_the_same_token_has_another_domain_on_another_chain() -> None:
    domains = {row.domain.name for row in ROWS if row.symbol == "EURC" and row.domain is not None}

    assert domains == {"Euro Coin", "EURC"}


def test_usdc_has_18_decimals_on_bnb_smart_chain_and_6_elsewhere() -> None:
    decimals = {str(parse_asset(row.asset).chain): row.decimals for row in ROWS if row.symbol == "USDC"}

    assert decimals.pop("eip155:56") == 18
    assert set(decimals.values()) == {6}


def test_a_known_asset_is_shown_with_its_network() -> None:
    assert display_of(parse_asset(BASE_USDC)) == Display("USDC", "USD Coin", 6, network_name="Base")


def test_an_unknown_asset_on_a_known_network_has_no_row_but_a_network() -> None:
    asset = parse_asset("eip155:8453/erc20:0x" + "ab" * 20)

    assert find_asset(asset) is None
    assert display_of(asset) is None
    assert find_network(asset) == "Base"
    assert ChainId("eip155", "8453") == asset.chain


def test_an_unknown_network_has_no_name() -> None:
    assert find_network(parse_asset("eip155:31337/slip44:60")) is None


LOCAL_TOKEN = "eip155:31337/erc20:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
ADDED = Asset(LOCAL_TOKEN, "TUSD", "Test Dollar", 6, "eip3009", Domain("Test Dollar", "1"), par="USD")


def test_a_book_has_the_shipped_rows_and_those_that_were_added() -> None:
    book = AssetBook([ADDED], {"eip155:31337": "Chain 31337"})
    asset = parse_asset(LOCAL_TOKEN.lower())

    assert book.rows == (*ROWS, ADDED)
    assert book.find(asset) == ADDED
    assert book.display(asset) == Display("TUSD", "Test Dollar", 6, network_name="Chain 31337")
    assert book.rows_of(ChainId("eip155", "31337")) == (ADDED,)
    assert [row.symbol for row in book.rows_of(ChainId("eip155", "56"))] == ["USDC", "USDT", "DAI", "BNB"]
    assert find_asset(asset) is None, "the shipped table stays as it is"


def test_the_shipped_name_of_a_network_stays() -> None:
    assert AssetBook(networks={"eip155:1": "Mine"}).network(ChainId("eip155", "1")) == "Ethereum"


@pytest.mark.parametrize("text", ["eip155:137/slip44:966", "eip155:137/slip44:60"])
def test_a_row_over_a_shipped_one_keeps_its_identifiers_however_it_is_spelled(text: str) -> None:
    book = AssetBook([Asset(text, "POL", "Polygon", 18, "native")])
    row = book.find(parse_asset("eip155:137/slip44:60"))

    assert row is not None
    assert (row.asset, row.name) == ("eip155:137/slip44:966", "Polygon")
    assert book.find(parse_asset("eip155:137/slip44:966")) is row
    assert len(book.rows) == len(ROWS)
