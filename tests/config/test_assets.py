"""Rows of assets in payd.toml: what each key may be."""

from __future__ import annotations

import pytest

from payd.chains.assets import Asset, Domain
from payd.config.assets import ASSET_ROWS
from tests.config.conftest import Loaded, Problems

TOKEN = "eip155:8453/erc20:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
GIVEN = {
    "asset": f'"{TOKEN}"',
    "symbol": '"GBPX"',
    "name": '"Pound Token"',
    "decimals": "2",
    "kind": '"eip3009"',
    "domain": '{ name = "Pound", version = "1" }',
    "par": '"GBP"',
}


def table(**given: str) -> str:
    return "[[assets]]\n" + "".join(f"{name} = {value}\n" for name, value in (GIVEN | given).items() if value)


def test_a_table_becomes_a_row_of_the_asset_table(loaded: Loaded) -> None:
    assert loaded(table()).assets == (
        Asset(
            asset=TOKEN,
            symbol="GBPX",
            name="Pound Token",
            decimals=2,
            kind="eip3009",
            domain=Domain("Pound", "1"),
            par="GBP",
        ),
    )


def test_what_stands_for_no_currency_has_no_par(loaded: Loaded) -> None:
    for par in ("", '""'):
        [found] = loaded(table(kind='"erc20"', domain="", par=par)).assets
        assert (found.par, found.domain) == (None, None)


def test_the_coin_of_a_configured_chain_is_an_asset(loaded: Loaded) -> None:
    coin = table(
        asset='"eip155:31337/slip44:60"', decimals="18", kind='"native"', domain="", symbol='"ETH"', par=""
    )
    [found] = loaded(f'{coin}[[chains]]\nid = "eip155:31337"\nrpc = ["http://127.0.0.1:8545"]\n').assets
    assert (found.kind, found.decimals) == ("native", 18)


WRONG = [
    ("asset", '"USDC"'),
    ("asset", "5"),
    ("asset", '"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/slip44:501"'),
    ("asset", f'"{TOKEN.replace("aAeb", "aaeb")}"'),
    ("asset", '"eip155:8453/erc20:0x1234"'),
    ("asset", f'"{TOKEN.replace("erc20", "erc721")}"'),
    ("asset", f'"{TOKEN.replace("erc20", "ERC20")}"'),
    ("asset", f'"{TOKEN.replace("8453", "08453")}"'),
    ("asset", '"eip155:8453/slip44:eth"'),
    ("symbol", '""'),
    ("symbol", '"US/DC"'),
    ("symbol", '"US DC"'),
    ("symbol", '"SEVENTEENLETTERSX"'),
    ("name", '""'),
    ("name", '"a\\nb"'),
    ("name", '"' + "x" * 65 + '"'),
    ("decimals", "-1"),
    ("decimals", "19"),
    ("decimals", '"6"'),
    ("decimals", "true"),
    ("kind", '"spl"'),
    ("kind", '"permit2"'),
    ("domain", '{ name = "Pound" }'),
    ("domain", '{ name = "Pound", version = 1 }'),
    ("domain", '{ name = "", version = "1" }'),
    ("domain", '{ name = "Pound", version = "1", chainId = 1 }'),
    ("domain", '"Pound"'),
    ("par", '"gbp"'),
    ("par", '"USDC"'),
    ("par", "5"),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_what_cannot_be_is_refused_with_what_can(problems: Problems, key: str, value: str) -> None:
    [problem] = problems(table(**{key: value}))
    line = 2 + list(GIVEN).index(key)
    assert problem.startswith(f"payd.toml:{line}: assets[0].{key} must be {ASSET_ROWS.keys[key].kind.words}")


@pytest.mark.parametrize("key", ["asset", "symbol", "name", "decimals", "kind"])
def test_what_a_row_cannot_do_without_is_asked_for(problems: Problems, key: str) -> None:
    [problem] = problems(table(**{key: ""}))
    assert problem.startswith(f"payd.toml:1: assets[0].{key} is missing: ")
