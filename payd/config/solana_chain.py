"""A table of `[[chains]]` whose id begins with `solana:`.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Final

from payd.chains.defaults import SOL_DECIMALS, DepthPolicy, SolanaDefaults, solana_defaults_of
from payd.config.chain import COINS_A_DAY, AnyChainConfig
from payd.config.keys import Row, keys_of
from payd.config.kinds import COUNT_MAX, Kind, decimal, need, number
from payd.core.caip import AccountId, AssetId, canonical_chain, destination_problem, parse_chain

UNIT_PRICE_MAX: Final = 100_000_000
"""Micro-lamports: a payment of a hundred thousand units would cost a hundredth of a SOL."""

_GENESIS: Final = re.compile("[1-9A-HJ-NP-Za-km-z]{32}")


def _parse_id(value: Any) -> str:
    need(type(value) is str and value.startswith("solana:"))
    chain = canonical_chain(parse_chain(value))
    need(_GENESIS.fullmatch(chain.reference) is not None)
    return str(chain)


def _parse_depth(value: Any) -> DepthPolicy:
    policy = DepthPolicy.of(value)
    need(all(step.depth in ("confirmed", "finalized") for step in policy.steps))
    return policy


def _parse_address(value: Any) -> str:
    need(type(value) is str)
    if value:
        # Any Solana chain has the same rules.
        chain = canonical_chain(parse_chain("solana:mainnet"))
        need(destination_problem(AssetId(chain, "slip44", "501"), AccountId(chain, value)) is None)
    return str(value)


ID: Final = Kind(
    '"solana:mainnet", "solana:devnet", "solana:testnet", or the CAIP-2 id of any Solana chain: "solana:" and'
    " the first 32 characters of its genesis hash",
    _parse_id,
)
DEPTH: Final = Kind(
    '"confirmed", "finalized", or a table of these by US dollars that starts at "0" and asks no less of'
    ' larger payments, such as { "0" = "confirmed", "1000" = "finalized" }',
    _parse_depth,
    shown=DepthPolicy.written,
)
ADDRESS: Final = Kind(
    'a Solana address (32 bytes in base58) of a wallet, or "" for none',
    _parse_address,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SolanaChainConfig(AnyChainConfig):
    """One table, whole."""

    id: Annotated[str, ID, "CAIP-2 id of the chain."]
    depth: Annotated[DepthPolicy, DEPTH, "How sure a transfer is when its payment has succeeded."]
    unit_price_max: Annotated[
        int,
        number("micro-lamports for a compute unit", 1, UNIT_PRICE_MAX),
        "The highest priority fee of a payment.",
    ]
    gas_per_day: Annotated[
        Decimal,
        decimal(COINS_A_DAY, COUNT_MAX, SOL_DECIMALS, positive=True),
        "What the fee payer may spend.",
    ]
    fee_address: Annotated[str, ADDRESS, "Wallet that the operator's fee goes to; [fee] says how much."] = ""

    @property
    def genesis(self) -> str:
        """What the genesis hash of each of its nodes starts with."""
        return self.id.rpartition(":")[2]

    @property
    def gas_per_day_lamports(self) -> int:
        """`gas_per_day` in the smallest unit."""
        return int(Fraction(self.gas_per_day) * 10**SOL_DECIMALS)

    @property
    def shipped(self) -> SolanaDefaults:
        """What payd ships for the chain: names, pace, and what is not configured."""
        return solana_defaults_of(self.id)


BY_SOLANA_CHAIN: Final = ("sponsor", "depth", "unit_price_max", "gas_per_day", "relays_per_buyer", "poll_ms")
"""The keys whose default depends on the chain."""


def _config(given: Mapping[str, Any]) -> SolanaChainConfig:
    shipped = solana_defaults_of(given["id"])
    return SolanaChainConfig(**{**{name: getattr(shipped, name) for name in BY_SOLANA_CHAIN}, **given})


SOLANA_ROW: Final = Row(dict(keys_of(SolanaChainConfig)), frozenset({"id", "rpc"}), _config)
