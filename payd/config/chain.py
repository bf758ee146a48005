"""What `[[chains]]` says of a chain of any kind: its nodes, who pays for what, and its pace.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from payd.chains.defaults import DepthPolicy
from payd.config.kinds import COUNT_MAX, FLAG, Kind, need, number, parse_target

NODES_MAX: Final = 8  # each one is asked for what decides over money


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
COINS_A_DAY: Final = "native coins in 24 hours"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyChainConfig:
    """What a table has whatever its kind. Fields that only have a type here, each kind says more of."""

    id: str
    rpc: Annotated[
        tuple[str, ...], NODES, "Nodes to ask, by JSON-RPC. With two or more, two must agree on a payment."
    ] = field(repr=False)
    ws: Annotated[str, WEBSOCKET, "Websocket of a node that tells news at once."] = field(
        default="", repr=False
    )
    sponsor: Annotated[bool, FLAG, "Whether payd pays the network's fee of signed payments."]
    depth: DepthPolicy
    gas_per_day: Decimal
    relays_per_buyer: Annotated[
        int,
        number("payments in 24 hours", 1, COUNT_MAX),
        "For how many of one account payd pays; further ones the buyer sends.",
    ]
    poll_ms: Annotated[int, number("milliseconds", 50, 60_000), "How often nodes are asked for news."]
    fee_address: str = ""
