"""What no key shows alone: tables that name one thing twice, and keys that do not fit each other.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Iterator

from payd.chains.assets import Asset, shipped_table
from payd.chains.defaults import coin_decimals_of
from payd.config.keys import Place
from payd.config.sections import Config
from payd.core.caip import canonical_asset, parse_asset

Disagreement = tuple[Place, str]
"""Where it shows, and what is wrong there."""


def disagreements(config: Config) -> Iterator[Disagreement]:
    """All of them; none, and the configuration can be used."""
    yield from _repeated("chains", "id", [chain.id for chain in config.chains])
    keys = [canonical_asset(parse_asset(row.asset)) for row in config.assets]
    yield from _repeated("assets", "asset", keys)
    known_chains = shipped_table().networks.keys() | {chain.id for chain in config.chains}
    for place, row in enumerate(config.assets):
        for name, words in _row_problems(row, known_chains):
            yield ("assets", place, name), words
    yield from _second_coins(keys)
    yield from _rate_problems(config)
    if config.fee.is_on and config.fee.mandatory:
        for place, chain in enumerate(config.chains):
            if not chain.fee_address:
                words = "is missing: with a mandatory [fee], nothing on this chain could be paid without it"
                yield ("chains", place, "fee_address"), words


def _repeated(rows: str, key: str, values: list[str]) -> Iterator[Disagreement]:
    for place, value in enumerate(values):
        if (first := values.index(value)) < place:
            yield (rows, place, key), f"is that of {rows}[{first}] too"


def _row_problems(row: Asset, known_chains: set[str]) -> Iterator[tuple[str, str]]:
    asset = parse_asset(row.asset)
    if str(asset.chain) not in known_chains:
        yield "asset", f"is on {asset.chain}, which payd does not know; configure it in [[chains]] first"
    is_coin = asset.namespace == "slip44"
    if is_coin != (row.kind == "native"):
        yield "kind", 'must be "native" for a slip44 asset, and for no other'
    if (row.domain is not None) != (row.kind == "eip3009"):
        yield "domain", 'must be there for kind = "eip3009", and for no other'
    if row.token_2022 and row.kind != "spl":
        yield "token_2022", 'must be true for kind = "spl" alone'
    if is_coin and row.decimals != (decimals := coin_decimals_of(str(asset.chain))):
        yield "decimals", f"must be {decimals}, as the native coin of {asset.chain} has"


def _second_coins(keys: list[str]) -> Iterator[Disagreement]:
    """Native coins besides the one that a chain has, shipped or configured before."""
    coins = {
        str(parse_asset(row.asset).chain): row.asset for row in shipped_table().assets if row.kind == "native"
    }
    for place, key in enumerate(keys):
        asset = parse_asset(key)
        if asset.namespace == "slip44" and (coin := coins.setdefault(str(asset.chain), key)) != key:
            yield ("assets", place, "asset"), f"is a second native coin of {asset.chain}, which has {coin}"


def _rate_problems(config: Config) -> Iterator[Disagreement]:
    symbols = {row.symbol for row in (*shipped_table().assets, *config.assets)}
    for pair, _ in config.rates.table:
        symbol = pair.partition("/")[0]
        if symbol not in symbols:
            yield ("rates", "table", pair), f"is of {symbol}, which is the symbol of no asset"
    if config.rates.source == "table" and not config.rates.table:
        yield ("rates", "source"), 'is "table", but there is none in [rates] table'
