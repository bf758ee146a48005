"""What only the whole configuration shows: names that stand twice, and keys that do not fit each other."""

from __future__ import annotations

from decimal import Decimal

import pytest

from payd.chains.assets import Asset, Domain
from payd.config import Config, chain_config
from payd.config.checks import disagreements
from payd.config.keys import Place
from payd.config.sections import Fee, Rates

USDC = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
LOCAL = "eip155:31337"
FEE_ADDRESS = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"


def chains(*ids: str, **more: object) -> Config:
    return Config(
        chains=tuple(chain_config({"id": one, "rpc": ("https://a.example",), **more}) for one in ids)
    )


def row(asset: str, kind: str = "erc20", decimals: int = 18, domain: Domain | None = None) -> Asset:
    return Asset(asset=asset, symbol="X", name="X", decimals=decimals, kind=kind, domain=domain)  # type: ignore[arg-type]


def found(config: Config) -> list[tuple[Place, str]]:
    return list(disagreements(config))


def of(*rows: Asset) -> list[tuple[Place, str]]:
    return found(Config(assets=rows, chains=chains(LOCAL).chains))


def test_the_defaults_agree() -> None:
    assert found(Config()) == []


def test_a_chain_that_stands_twice_names_the_second() -> None:
    assert found(chains("eip155:1", "eip155:10")) == []
    assert found(chains("eip155:1", "eip155:10", "eip155:1")) == [
        (("chains", 2, "id"), "is that of chains[0] too")
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [(USDC, USDC.lower()), ("eip155:137/slip44:966", "eip155:137/slip44:60")],
)
def test_an_asset_that_stands_twice_is_found_in_any_spelling(first: str, second: str) -> None:
    kind = "native" if "slip44" in first else "erc20"
    assert of(row(first, kind)) == []
    assert of(row(first, kind), row(second, kind)) == [(("assets", 1, "asset"), "is that of assets[0] too")]


def test_an_asset_needs_a_chain_that_is_configured_or_known() -> None:
    assert of(row(USDC), row(USDC.replace("8453", "31337"))) == []
    [(place, words)] = of(row(USDC), row(USDC.replace("8453", "31338")))
    assert place == ("assets", 1, "asset")
    assert words.startswith("is on eip155:31338, which payd does not know")


def test_a_coin_is_native_and_nothing_else_is() -> None:
    assert of(row(f"{LOCAL}/slip44:60", "native")) == []
    assert [place for place, _ in of(row(f"{LOCAL}/slip44:60", "erc20"))] == [("assets", 0, "kind")]
    assert [place for place, _ in of(row(USDC, "native"))] == [("assets", 0, "kind")]


def test_a_domain_is_for_signed_authorizations_alone_and_they_need_one() -> None:
    domain = Domain("USD Coin", "2")
    assert of(row(USDC, "eip3009", 6, domain)) == []
    for kind, given in (("eip3009", None), ("erc20", domain)):
        assert [place for place, _ in of(row(USDC, kind, 6, given))] == [("assets", 0, "domain")]


def test_a_coin_has_the_decimals_that_chains_count_in() -> None:
    assert of(row(f"{LOCAL}/slip44:60", "native", 6)) == [
        (("assets", 0, "decimals"), f"must be 18, as the native coin of {LOCAL} has")
    ]


def test_the_coin_of_solana_has_its_own_decimals() -> None:
    chain = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
    assert of(row(f"{chain}/slip44:501", "native", 9)) == []
    [(place, words)] = of(row(f"{chain}/slip44:501", "native", 18))
    assert (place, words) == (("assets", 0, "decimals"), f"must be 9, as the native coin of {chain} has")


def test_a_chain_has_one_coin() -> None:
    assert of(row("eip155:1/slip44:60", "native")) == []
    shipped = of(row("eip155:1/slip44:61", "native"))
    added = of(row(f"{LOCAL}/slip44:60", "native"), row(f"{LOCAL}/slip44:1", "native"))
    words = "is a second native coin of {0}, which has {0}/slip44:60"
    assert shipped == [(("assets", 0, "asset"), words.format("eip155:1"))]
    assert added == [(("assets", 1, "asset"), words.format(LOCAL))]


def test_a_rate_is_of_an_asset_that_is_shipped_or_configured() -> None:
    table = (("USDC/USD", "1"), ("X/USD", "2"))
    assert found(Config(rates=Rates("table", table), assets=(row(USDC),))) == []
    assert found(Config(rates=Rates("table", table))) == [
        (("rates", "table", "X/USD"), "is of X, which is the symbol of no asset")
    ]


def test_rates_of_a_table_need_one() -> None:
    assert found(Config(rates=Rates("table"))) == [
        (("rates", "source"), 'is "table", but there is none in [rates] table')
    ]


def test_a_mandatory_fee_needs_to_go_somewhere_on_every_chain() -> None:
    two = chains("eip155:1").chains + chains("eip155:10", fee_address=FEE_ADDRESS).chains
    mandatory = Fee(percent=Decimal(1), mandatory=True)
    [(place, words)] = found(Config(chains=two, fee=mandatory))
    assert place == ("chains", 0, "fee_address")
    assert words.startswith("is missing")
    assert found(Config(chains=two[1:], fee=mandatory)) == []
    assert found(Config(chains=two, fee=Fee(mandatory=True))) == []
    assert found(Config(chains=two, fee=Fee(percent=mandatory.percent))) == []
