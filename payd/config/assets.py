"""`[[assets]]`: assets that the shipped table lacks, or says something else of.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from payd.chains.assets import Asset, Domain
from payd.chains.assets import Kind as AssetKind
from payd.config.chains import CHAIN
from payd.config.keys import Rows, keys_of
from payd.config.kinds import Kind, choice, need, number, text
from payd.core.caip import AccountId, account_problem, parse_asset
from payd.core.money import MINOR_UNITS

DECIMALS_MAX: Final = 18  # what payments are shown and counted in
DOMAIN_CHARS_MAX: Final = 64
SYMBOL: Final = "[!-.0-~]{1,16}"
"""No slash, which stands between a symbol and a currency in `[rates] table`."""


def _parse_asset(value: Any) -> str:
    need(type(value) is str)
    asset = parse_asset(value)
    CHAIN.parse(str(asset.chain))
    if asset.namespace == "slip44":
        need(asset.reference.isdigit())
    else:
        need(asset.namespace == "erc20")
        need(account_problem(AccountId(asset.chain, asset.reference)) is None)
    return str(value)


def _parse_domain(value: Any) -> Domain:
    need(type(value) is dict and value.keys() == {"name", "version"})
    need(all(type(part) is str and 1 <= len(part) <= DOMAIN_CHARS_MAX for part in value.values()))
    return Domain(**value)


def _domain_shown(domain: Domain | None) -> dict[str, str] | None:
    return None if domain is None else {"name": domain.name, "version": domain.version}


def _parse_par(value: Any) -> str | None:
    need(value == "" or value in MINOR_UNITS)
    return str(value) or None


ASSET: Final = Kind(
    "the CAIP-19 id of an EVM asset: eip155:<chain>/erc20:<contract> in lower case or with the right EIP-55"
    " checksum, or eip155:<chain>/slip44:<coin>",
    _parse_asset,
)
DOMAIN: Final = Kind(
    '{ name = "…", version = "…" } of the token\'s EIP-712 domain', _parse_domain, shown=_domain_shown
)
PAR: Final = Kind('a currency of ISO 4217, such as "USD", or "" for none', _parse_par)


@dataclass(frozen=True, slots=True)
class AssetKeys:
    """The keys of a table of `[[assets]]`; a row of them is a `payd.chains.assets.Asset`."""

    asset: Annotated[str, ASSET, "CAIP-19 id of the asset."]
    symbol: Annotated[str, text("1 to 16 visible ASCII characters but /", SYMBOL), "Such as USDC."]
    name: Annotated[str, text("1 to 64 characters", r"[^\x00-\x1f\x7f]{1,64}"), "For people."]
    decimals: Annotated[
        int, number("decimal digits", 0, DECIMALS_MAX), "Of the smallest unit; a native coin has 18."
    ]
    kind: Annotated[
        AssetKind,
        choice("eip3009", "erc20", "native"),
        "eip3009: a token that takes signed authorizations; erc20: any other; native: the chain's coin.",
    ]
    domain: Annotated[Domain | None, DOMAIN, "What a signed authorization names; for eip3009 alone."] = None
    par: Annotated[str | None, PAR, "The currency that the asset stands for one to one."] = None


ASSET_ROWS: Final = Rows(
    dict(keys_of(AssetKeys)),
    frozenset({"asset", "symbol", "name", "decimals", "kind"}),
    lambda given: Asset(**given),
)
