"""Rows of assets in payd.toml: what each key may be."""

from __future__ import annotations

import pytest

from payd.chains.assets import Asset, Domain
from payd.config.assets import ASSET_ROWS
from tests.config.conftest import Loaded, Problems

TOKEN = "eip155:8453/erc20:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
EVM, SOLANA = ASSET_ROWS.kinds.values()
MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
LOCAL = "solana:TQeXUnUQS3Kz8DEDrAZtE81ovTnN5a3P"
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
    assert problem.startswith(f"payd.toml:{line}: assets[0].{key} must be {EVM.keys[key].kind.words}")


@pytest.mark.parametrize("key", ["asset", "symbol", "name", "decimals", "kind"])
def test_what_a_row_cannot_do_without_is_asked_for(problems: Problems, key: str) -> None:
    [problem] = problems(table(**{key: ""}))
    assert problem.startswith(f"payd.toml:1: assets[0].{key} is missing: ")


SPL = {"asset": f'"{LOCAL}/token:{MINT}"', "kind": '"spl"', "domain": ""}
CHAIN = f'[[chains]]\nid = "{LOCAL}"\nrpc = ["http://127.0.0.1:8899"]\n'


def test_a_token_of_solana_is_a_row_too(loaded: Loaded) -> None:
    [found] = loaded(table(**SPL) + CHAIN).assets
    assert found == Asset(
        asset=f"{LOCAL}/token:{MINT}", symbol="GBPX", name="Pound Token", decimals=2, kind="spl", par="GBP"
    )


def test_a_token_says_of_which_program_it_is(loaded: Loaded, problems: Problems) -> None:
    text = table(**SPL) + "token_2022 = true\n"
    assert loaded(text + CHAIN).assets[0].token_2022
    assert not loaded(table(**SPL) + CHAIN).assets[0].token_2022
    coin = SPL | {"asset": f'"{LOCAL}/slip44:501"', "kind": '"native"', "par": "", "decimals": "9"}
    [problem] = problems(table(**coin) + "token_2022 = true\n" + CHAIN)
    assert problem.endswith('token_2022 must be true for kind = "spl" alone')


def test_an_asset_of_solana_is_kept_by_its_canonical_name(loaded: Loaded) -> None:
    [found] = loaded(table(**SPL | {"asset": f'"solana:mainnet/spl:{MINT}"'})).assets
    assert found.asset == f"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/token:{MINT}"


def test_the_coin_of_a_chain_of_solana_has_its_nine_decimals(loaded: Loaded, problems: Problems) -> None:
    coin = SPL | {"asset": f'"{LOCAL}/slip44:501"', "kind": '"native"', "par": "", "symbol": '"SOL"'}
    [found] = loaded(table(**coin | {"decimals": "9"}) + CHAIN).assets
    assert (found.kind, found.decimals) == ("native", 9)
    [problem] = problems(table(**coin | {"decimals": "18"}) + CHAIN)
    assert problem == f"payd.toml:5: assets[0].decimals must be 9, as the native coin of {LOCAL} has"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("asset", f'"{LOCAL}/token:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"'),
        ("asset", f'"{LOCAL}/token:{MINT[:-3]}"'),
        ("asset", f'"{LOCAL}/erc20:{MINT}"'),
        ("asset", f'"{LOCAL}/nft:{MINT}"'),
        ("asset", f'"{LOCAL}/slip44:60"'),
        ("asset", f'"solana:localnet/token:{MINT}"'),
        ("kind", '"erc20"'),
        ("kind", '"eip3009"'),
        ("decimals", "19"),
        ("par", '"USDC"'),
    ],
)
def test_what_cannot_be_on_solana_is_refused_with_what_can(problems: Problems, key: str, value: str) -> None:
    given = SPL | {key: value}
    [problem] = problems(table(**given) + CHAIN)
    line = 2 + [name for name in GIVEN if (GIVEN | given)[name]].index(key)
    assert problem.startswith(f"payd.toml:{line}: assets[0].{key} must be {SOLANA.keys[key].kind.words}")


def test_a_domain_is_nothing_that_a_token_of_solana_has(problems: Problems) -> None:
    [problem] = problems(table(**SPL | {"domain": '{ name = "Pound", version = "1" }'}) + CHAIN)
    assert problem.startswith("payd.toml:7: assets[0].domain is not for a table with this asset; such a one")


def test_a_token_of_solana_is_not_native_and_its_coin_is_not_a_token(problems: Problems) -> None:
    for given in ({"kind": '"native"'}, {"asset": f'"{LOCAL}/slip44:501"', "decimals": "9"}):
        [problem] = problems(table(**SPL | given) + CHAIN)
        assert problem.endswith('kind must be "native" for a slip44 asset, and for no other')
