"""`[[assets]]`: assets that the shipped table lacks, or says something else of.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from payd.chains.assets import Asset, Domain
from payd.chains.assets import Kind as AssetKind
from payd.config.evm_chain import ID as EVM_ID
from payd.config.keys import Row, Rows, keys_of
from payd.config.kinds import FLAG, Kind, choice, need, number, text
from payd.config.solana_chain import ID as SOLANA_ID
from payd.core.caip import AccountId, account_problem, canonical_asset, parse_asset
from payd.core.money import MINOR_UNITS

DECIMALS_MAX: Final = 18  # what payments are shown and counted in
DOMAIN_CHARS_MAX: Final = 64
SOLANA_COIN: Final = "501"  # SLIP-44's number of SOL
SYMBOL: Final = "[!-.0-~]{1,16}"
"""No slash, which stands between a symbol and a currency in `[rates] table`."""


def _parse_evm_asset(value: Any) -> str:
    need(type(value) is str)
    asset = parse_asset(value)
    EVM_ID.parse(str(asset.chain))
    if asset.namespace == "slip44":
        need(asset.reference.isdigit())
    else:
        need(asset.namespace == "erc20")
        need(account_problem(AccountId(asset.chain, asset.reference)) is None)
    return str(value)


def _parse_solana_asset(value: Any) -> str:
    need(type(value) is str)
    asset = parse_asset(canonical_asset(parse_asset(value)))
    SOLANA_ID.parse(str(asset.chain))
    if asset.namespace == "slip44":
        need(asset.reference == SOLANA_COIN)
    else:
        need(asset.namespace == "token")
        need(account_problem(AccountId(asset.chain, asset.reference)) is None)
    return str(asset)


def _parse_domain(value: Any) -> Domain:
    need(type(value) is dict and value.keys() == {"name", "version"})
    need(all(type(part) is str and 1 <= len(part) <= DOMAIN_CHARS_MAX for part in value.values()))
    return Domain(**value)


def _domain_shown(domain: Domain | None) -> dict[str, str] | None:
    return None if domain is None else {"name": domain.name, "version": domain.version}


def _parse_par(value: Any) -> str | None:
    need(value == "" or value in MINOR_UNITS)
    return str(value) or None


EVM_ASSET: Final = Kind(
    "the CAIP-19 id of an asset: eip155:<chain>/erc20:<contract> in lower case or with the right EIP-55"
    " checksum, eip155:<chain>/slip44:<coin>, solana:<chain>/token:<mint>, or solana:<chain>/slip44:501",
    _parse_evm_asset,
)
SOLANA_ASSET: Final = Kind(
    f"the CAIP-19 id of a Solana asset: solana:<chain>/token:<mint>, or solana:<chain>/slip44:{SOLANA_COIN}",
    _parse_solana_asset,
)
DOMAIN: Final = Kind(
    '{ name = "…", version = "…" } of the token\'s EIP-712 domain', _parse_domain, shown=_domain_shown
)
PAR: Final = Kind('a currency of ISO 4217, such as "USD", or "" for none', _parse_par)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetKeys:
    """The keys of any table of `[[assets]]`; a row of them is a `payd.chains.assets.Asset`."""

    asset: str
    symbol: Annotated[str, text("1 to 16 visible ASCII characters but /", SYMBOL), "Such as USDC."]
    name: Annotated[str, text("1 to 64 characters", r"[^\x00-\x1f\x7f]{1,64}"), "For people."]
    decimals: Annotated[int, number("decimal digits", 0, DECIMALS_MAX), "Of the smallest unit."]
    kind: AssetKind
    par: Annotated[str | None, PAR, "The currency that the asset stands for one to one."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvmAssetKeys(AssetKeys):
    """Those of an asset on an EVM chain."""

    asset: Annotated[str, EVM_ASSET, "CAIP-19 id of the asset."]
    kind: Annotated[
        AssetKind,
        choice("eip3009", "erc20", "native"),
        "eip3009: a token that takes signed authorizations; erc20: any other; native: the chain's coin.",
    ]
    domain: Annotated[Domain | None, DOMAIN, "What a signed authorization names; for eip3009 alone."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SolanaAssetKeys(AssetKeys):
    """Those of an asset on a Solana chain."""

    asset: Annotated[str, SOLANA_ASSET, "CAIP-19 id of the asset."]
    kind: Annotated[AssetKind, choice("spl", "native"), "spl: a token; native: SOL."]
    token_2022: Annotated[bool, FLAG, "Whether a token is of the Token-2022 program, as PYUSD is."] = False


REQUIRED: Final = frozenset({"asset", "symbol", "name", "decimals", "kind"})


def _asset(given: Mapping[str, Any]) -> Asset:
    return Asset(**given)


ASSET_ROWS: Final = Rows(
    "asset",
    {
        "eip155:": Row(dict(keys_of(EvmAssetKeys)), REQUIRED, _asset),
        "solana:": Row(dict(keys_of(SolanaAssetKeys)), REQUIRED, _asset),
    },
)
