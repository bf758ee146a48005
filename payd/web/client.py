"""Who sent a request: the peer, or whom a trusted proxy names, and under which key an address is counted.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# One customer of an IPv6 provider has at least a /64: counting single addresses would count nothing.
IPV6_PREFIX: Final = 64
# A chain of proxies is short. What stands further left was written by strangers.
HOPS_MAX: Final = 16


class TrustedProxies:
    """The networks whose `X-Forwarded-For` is believed."""

    def __init__(self, networks: Iterable[Network | str] = ()) -> None:
        self._networks = tuple(ipaddress.ip_network(network) for network in networks)

    def __contains__(self, text: str) -> bool:
        address = parse_address(text)
        return address is not None and any(address in network for network in self._networks)

    def slot_key(self, ip: str) -> str:
        """Under which key `Slots` count an address; "" for a proxy, behind which everybody is."""
        return "" if ip in self else rate_key(ip)


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address | None:
    """The address in `text`, with IPv4 taken out of IPv6; None if it is not one."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped if mapped is not None else address


def client_ip(peer: str, forwarded_for: str | None, trusted: TrustedProxies) -> str:
    """The address of the client: the peer, or the rightmost hop that no trusted proxy stands for.

    Args:
        peer: The address at the other end of the socket.
        forwarded_for: The joined `X-Forwarded-For` headers; looked at only if the peer is trusted.
        trusted: Whose word counts.
    """
    client = _plain(peer)
    if not forwarded_for or client not in trusted:
        return client
    for hop in reversed(forwarded_for.split(",")[-HOPS_MAX:]):
        named = _hop_address(hop.strip())
        if named is None:
            return client
        client = named
        if client not in trusted:
            return client
    return client


@lru_cache(maxsize=4096)
def rate_key(ip: str) -> str:
    """Under which key an address is counted: itself, or its /64 for IPv6."""
    address = parse_address(ip)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(address), IPV6_PREFIX), strict=False))
    return ip


@lru_cache(maxsize=4096)
def _plain(text: str) -> str:
    address = parse_address(text)
    return text if address is None else str(address)


def _hop_address(hop: str) -> str | None:
    """The address of one hop, written `1.2.3.4`, `1.2.3.4:567`, `2001:db8::1` or `[2001:db8::1]:567`."""
    if hop.startswith("["):
        hop = hop[1:].partition("]")[0]
    elif hop.count(":") == 1:
        hop = hop.partition(":")[0]
    address = parse_address(hop)
    return None if address is None else str(address)
