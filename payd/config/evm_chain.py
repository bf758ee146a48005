"""A table of `[[chains]]` whose id begins with `eip155:`.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Final, Literal

from payd.chains.defaults import DEPTH_MAX, EVM_COIN_DECIMALS, DepthPolicy, EvmDefaults, evm_defaults_of
from payd.config.chain import COINS_A_DAY, AnyChainConfig
from payd.config.keys import Row, keys_of
from payd.config.kinds import COUNT_MAX, Kind, decimal, need, text
from payd.core.caip import AccountId, AssetId, destination_problem, parse_chain

FINAL_BLOCKS_MAX: Final = 10_000
WEI_PER_GWEI: Final = 10**9


def _parse_depth(value: Any) -> DepthPolicy:
    policy = DepthPolicy.of(value)
    need(all(step.depth != "confirmed" for step in policy.steps))
    return policy


def _parse_final(value: Any) -> int | Literal["finalized"]:
    if value == "finalized":
        return "finalized"
    need(type(value) is int and 1 <= value <= FINAL_BLOCKS_MAX)
    return int(value)


def _parse_address(value: Any) -> str:
    need(type(value) is str)
    if value:
        # Any EVM chain has the same rules.
        chain = parse_chain("eip155:1")
        need(destination_problem(AssetId(chain, "slip44", "60"), AccountId(chain, value)) is None)
    return str(value).lower()


ID: Final = text(
    'the CAIP-2 id of an EVM chain, such as "eip155:8453", or of a Solana one, such as "solana:mainnet"',
    r"eip155:[1-9][0-9]{0,17}",
)
DEPTH: Final = Kind(
    f'1 to {DEPTH_MAX} blocks, "safe", "finalized", or a table of these by US dollars that starts at "0" and'
    ' asks no less of larger payments, such as { "0" = 3, "1000" = "finalized" }',
    _parse_depth,
    shown=DepthPolicy.written,
)
FINAL: Final = Kind(f'"finalized", or 1 to {FINAL_BLOCKS_MAX} blocks', _parse_final)
ADDRESS: Final = Kind(
    'an EVM address (0x and 40 hex digits, in lower case or with the right EIP-55 checksum), or "" for none',
    _parse_address,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvmChainConfig(AnyChainConfig):
    """One table, whole."""

    id: Annotated[str, ID, "CAIP-2 id of the chain."]
    depth: Annotated[DepthPolicy, DEPTH, "How deep a transfer lies when its payment has succeeded."]
    final: Annotated[
        int | Literal["finalized"], FINAL, "What settles a payment; blocks, where nodes have no such tag."
    ]
    max_fee_gwei: Annotated[
        Decimal,
        decimal("gwei for a unit of gas", COUNT_MAX, 9, positive=True),
        "The most that the relayer offers.",
    ]
    gas_per_day: Annotated[
        Decimal,
        decimal(COINS_A_DAY, COUNT_MAX, EVM_COIN_DECIMALS, positive=True),
        "What the relayer may spend.",
    ]
    fee_address: Annotated[str, ADDRESS, "Where the operator's fee goes; [fee] says how much."] = ""

    @property
    def number(self) -> int:
        """The chain id of EIP-155."""
        return int(self.id.rpartition(":")[2])

    @property
    def max_fee_wei(self) -> int:
        """`max_fee_gwei` in the smallest unit."""
        return int(Fraction(self.max_fee_gwei) * WEI_PER_GWEI)

    @property
    def gas_per_day_wei(self) -> int:
        """`gas_per_day` in the smallest unit."""
        return int(Fraction(self.gas_per_day) * 10**EVM_COIN_DECIMALS)

    @property
    def shipped(self) -> EvmDefaults:
        """What payd ships for the chain: names, pace, and what is not configured."""
        return evm_defaults_of(self.id)


BY_EVM_CHAIN: Final = (
    "sponsor",
    "depth",
    "final",
    "max_fee_gwei",
    "gas_per_day",
    "relays_per_buyer",
    "poll_ms",
)
"""The keys whose default depends on the chain."""


def _config(given: Mapping[str, Any]) -> EvmChainConfig:
    shipped = evm_defaults_of(given["id"])
    return EvmChainConfig(**{**{name: getattr(shipped, name) for name in BY_EVM_CHAIN}, **given})


EVM_ROW: Final = Row(dict(keys_of(EvmChainConfig)), frozenset({"id", "rpc"}), _config)
