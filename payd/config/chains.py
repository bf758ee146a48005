"""`[[chains]]`: the blockchains that live payments are made on, one table each.

What a table leaves out is filled in from what payd ships for its chain, so that who reads a `ChainConfig`
asks nobody else.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from payd.chains.defaults import DEPTH_MAX, ChainDefaults, DepthPolicy, defaults_of
from payd.config.keys import Rows, keys_of
from payd.config.kinds import COUNT_MAX, FLAG, Kind, decimal, need, number, parse_target, text
from payd.core.caip import AccountId, AssetId, destination_problem, parse_chain

NODES_MAX: Final = 8  # each one is asked for what decides over money
FINAL_BLOCKS_MAX: Final = 10_000
WEI_PER_GWEI: Final = 10**9
WEI_PER_COIN: Final = 10**18


def shown_node(url: str) -> str:
    """What may be shown of a node's URL: its scheme and host. The rest may be a key."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _parse_nodes(value: Any) -> tuple[str, ...]:
    need(type(value) is list and 1 <= len(value) <= NODES_MAX)
    urls = tuple(parse_target(item) for item in value)
    need(all(urls))
    from payd.net.http import Target  # brings the HTTP client, which few commands need

    # The same node twice would agree with itself, where two are asked because one may be wrong.
    need(len({Target.of(url) for url in urls}) == len(urls))
    return urls


def _parse_websocket(value: Any) -> str:
    need(type(value) is str and (value == "" or value.startswith(("ws://", "wss://"))))
    parse_target(value.replace("ws", "http", 1) if value else "")
    return str(value)


def _parse_final(value: Any) -> int | Literal["finalized"]:
    if value == "finalized":
        return "finalized"
    need(type(value) is int and 1 <= value <= FINAL_BLOCKS_MAX)
    return int(value)


def _parse_evm_address(value: Any) -> str:
    need(type(value) is str)
    if value:
        # Any EVM chain has the same rules.
        chain = parse_chain("eip155:1")
        need(destination_problem(AssetId(chain, "slip44", "60"), AccountId(chain, value)) is None)
    return str(value).lower()


CHAIN: Final = text(
    'the CAIP-2 id of an EVM chain, such as "eip155:8453" (chains of other kinds: not yet)',
    r"eip155:[1-9][0-9]{0,17}",
)
NODES: Final = Kind(
    f"a list of 1 to {NODES_MAX} different http or https URLs without user and password",
    _parse_nodes,
    is_secret=True,
    shown=lambda urls: [shown_node(url) for url in urls],
)
WEBSOCKET: Final = Kind(
    'a ws or wss URL without user and password, or "" for none',
    _parse_websocket,
    is_secret=True,
    shown=lambda url: shown_node(url) if url else "",
)
DEPTH: Final = Kind(
    f'1 to {DEPTH_MAX} blocks, "safe", "finalized", or a table of these by US dollars that starts at "0" and'
    ' asks no less of larger payments, such as { "0" = 3, "1000" = "finalized" }',
    DepthPolicy.of,
    shown=DepthPolicy.written,
)
FINAL: Final = Kind(f'"finalized", or 1 to {FINAL_BLOCKS_MAX} blocks', _parse_final)
EVM_ADDRESS: Final = Kind(
    'an EVM address (0x and 40 hex digits, in lower case or with the right EIP-55 checksum), or "" for none',
    _parse_evm_address,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainConfig:
    """One table of `[[chains]]`, whole."""

    id: Annotated[str, CHAIN, "CAIP-2 id of the chain."]
    rpc: Annotated[
        tuple[str, ...], NODES, "Nodes to ask, by JSON-RPC. With two or more, two must agree on a payment."
    ] = field(repr=False)
    ws: Annotated[str, WEBSOCKET, "Websocket of a node that tells new blocks at once."] = field(
        default="", repr=False
    )
    sponsor: Annotated[
        bool, FLAG, "Whether the relayer pays the gas of signed payments; else buyers send transactions."
    ]
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
        decimal("native coins in 24 hours", COUNT_MAX, 18, positive=True),
        "What the relayer may spend.",
    ]
    relays_per_buyer: Annotated[
        int,
        number("payments in 24 hours", 1, COUNT_MAX),
        "How many of one account the relayer carries; further ones the buyer sends.",
    ]
    poll_ms: Annotated[int, number("milliseconds", 50, 60_000), "How often nodes are asked for new blocks."]
    fee_address: Annotated[str, EVM_ADDRESS, "Where the operator's fee goes; [fee] says how much."] = ""

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
        return int(Fraction(self.gas_per_day) * WEI_PER_COIN)

    @property
    def shipped(self) -> ChainDefaults:
        """What payd ships for the chain: names, pace, and what is not configured."""
        return defaults_of(self.id)


BY_CHAIN: Final = (
    "sponsor",
    "depth",
    "final",
    "max_fee_gwei",
    "gas_per_day",
    "relays_per_buyer",
    "poll_ms",
)
"""The keys whose default depends on the chain."""


def chain_config(given: Mapping[str, Any]) -> ChainConfig:
    """A chain from what is configured of it: `id`, `rpc` and whatever else, all of it parsed."""
    shipped = defaults_of(given["id"])
    return ChainConfig(**{**{name: getattr(shipped, name) for name in BY_CHAIN}, **given})


CHAIN_ROWS: Final = Rows(dict(keys_of(ChainConfig)), frozenset({"id", "rpc"}), chain_config)
