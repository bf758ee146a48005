"""The assets and networks that payd knows by name: the table in `data/assets.json`, and how to find a row.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from payd.core.caip import AssetId, canonical_asset, canonical_chain, parse_asset
from payd.core.option import Display

Kind = Literal["eip3009", "erc20", "native", "spl"]

_TABLE: Final = Path(__file__).with_name("data") / "assets.json"


class Domain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The EIP-712 domain of a token, as far as it is not its chain and its address."""

    name: str
    version: str


class Asset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row: an asset that payd knows.

    Attributes:
        asset: CAIP-19, an EVM contract with its checksum.
        kind: How it is paid with; `eip3009` is a token whose `domain` is known well enough to sign with.
        domain: Only for `eip3009`.
        permit2: An `erc20` that is paid through Permit2: an approval and a signature.
        token_2022: An `spl` of the Token-2022 program, not the first Token program.
        par: The currency that the asset stands for one to one, None for a volatile asset.
        aliases: Other CAIP-19 identifiers in use for the same asset.
    """

    asset: str
    symbol: str
    name: str
    decimals: int
    kind: Kind
    domain: Domain | None = None
    permit2: bool = False
    token_2022: bool = False
    par: str | None = None
    aliases: tuple[str, ...] = ()


class AssetTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Networks by CAIP-2 with their names, and assets."""

    networks: Mapping[str, str]
    assets: tuple[Asset, ...]


@cache
def shipped_table() -> AssetTable:
    """The table as it ships; read once."""
    return msgspec.json.decode(_TABLE.read_bytes(), type=AssetTable)


def find_asset(asset: AssetId) -> Asset | None:
    """The row of the asset, however it is spelled; None when payd does not know it."""
    return _rows().get(canonical_asset(asset))


def find_network(asset: AssetId) -> str | None:
    """The name of the asset's network; None when payd does not know it."""
    return shipped_table().networks.get(str(canonical_chain(asset.chain)))


def display_of(asset: AssetId) -> Display | None:
    """How amounts of a known asset are shown; None when payd does not know it."""
    row = find_asset(asset)
    if row is None:
        return None
    return Display(row.symbol, row.name, row.decimals, network_name=find_network(asset))


@cache
def _rows() -> Mapping[str, Asset]:
    rows = {}
    for row in shipped_table().assets:
        for text in (row.asset, *row.aliases):
            rows[canonical_asset(parse_asset(text))] = row
    return MappingProxyType(rows)
