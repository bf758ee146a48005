"""The assets and networks that payd knows by name: the table in `data/assets.json`, and how to find a row.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec

from payd.core.caip import AssetId, ChainId, canonical_asset, canonical_chain, parse_asset
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


class AssetTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Networks by CAIP-2 with their names, and assets."""

    networks: Mapping[str, str]
    assets: tuple[Asset, ...]


class AssetBook:
    """Assets by any of their spellings: the shipped table, with rows that somebody added or put over it.

    A row over a shipped one keeps the shipped identifier, so that the asset is shown as it was.
    """

    def __init__(self, added: Iterable[Asset] = (), networks: Mapping[str, str] | None = None) -> None:
        """The book.

        Args:
            added: Rows to add, and to put in place of shipped ones. No asset stands in them twice.
            networks: Names by CAIP-2 of networks that the table lacks.
        """
        table = shipped_table()
        self._networks = {**(networks or {}), **table.networks}
        rows = {canonical_asset(parse_asset(row.asset)): row for row in table.assets}
        for row in added:
            key = canonical_asset(parse_asset(row.asset))
            if (over := rows.get(key)) is not None:
                row = msgspec.structs.replace(row, asset=over.asset)
            rows[key] = row
        self._by_key = rows
        self.rows: Final = tuple(rows.values())

    def find(self, asset: AssetId) -> Asset | None:
        """The row of the asset, however it is spelled; None when the book does not have it."""
        return self._by_key.get(canonical_asset(asset))

    def network(self, chain: ChainId) -> str | None:
        """The name of a network; None when the book does not have it."""
        return self._networks.get(str(canonical_chain(chain)))

    def display(self, asset: AssetId) -> Display | None:
        """How amounts of a known asset are shown; None when the book does not have it."""
        row = self.find(asset)
        if row is None:
            return None
        return Display(row.symbol, row.name, row.decimals, network_name=self.network(asset.chain))

    def rows_of(self, chain: ChainId) -> tuple[Asset, ...]:
        """The assets of one chain, in the table's order."""
        wanted = canonical_chain(chain)
        return tuple(row for row in self.rows if parse_asset(row.asset).chain == wanted)


@cache
def shipped_table() -> AssetTable:
    """The table as it ships; read once."""
    return msgspec.json.decode(_TABLE.read_bytes(), type=AssetTable)


@cache
def shipped_book() -> AssetBook:
    """The shipped table and nothing more."""
    return AssetBook()


def find_asset(asset: AssetId) -> Asset | None:
    """The shipped row of the asset, however it is spelled; None when payd does not know it."""
    return shipped_book().find(asset)


def find_network(asset: AssetId) -> str | None:
    """The name of the asset's network; None when payd does not know it."""
    return shipped_book().network(asset.chain)


def display_of(asset: AssetId) -> Display | None:
    """How amounts of a shipped asset are shown; None when payd does not know it."""
    return shipped_book().display(asset)
