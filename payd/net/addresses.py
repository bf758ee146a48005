"""May this address be called? The one table against requests that a stranger aims at our own network.

The table is ours: `ipaddress.is_global` of Python 3.11 calls NAT64, 6to4, mapped carrier networks, site-local
and multicast addresses global. Ask about addresses that were resolved, never about names, and connect to the
address that was asked about.

Source: DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

OUT_OF_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What the kernel says where the process or the system has no more sockets to give."""

_REFUSED_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network; Linux connects to itself
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared with a carrier
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, cloud metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
# Everything outside this block is loopback, local, multicast, unassigned, or an embedded IPv4 address.
_GLOBAL_V6: Final = IPv6Network("2000::/3")
_REFUSED_V6: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)
# No configuration opens these: a metadata service hands out the machine's own credentials.
_NEVER: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/32",
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "100.100.100.200/32",  # metadata of Alibaba Cloud
        "168.63.129.16/32",  # metadata of Azure, on a public address
        "192.0.0.192/32",  # metadata of Oracle Cloud
        "224.0.0.0/4",
        "255.255.255.255/32",
        "::/128",
        "fd00:ec2::254/128",  # metadata of AWS
        "fd20:ce::254/128",  # metadata of Google Cloud
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
)
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOW_32_EMBED: Final = (
    IPv6Network("::/96"),  # IPv4-compatible
    IPv6Network("::ffff:0:0:0/96"),  # SIIT
    IPv6Network("64:ff9b:1::/48"),  # local NAT64
)
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")
_TEREDO: Final = IPv6Network("2001::/32")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)


# Addresses for documentation: no machine has one, so who can bind to them can bind to anything.
_NOBODYS: Final = {4: "192.0.2.1", 6: "2001:db8::1"}


def is_own(address: Address) -> bool:
    """Whether `address` is one of this machine's, which the rest of its services listen on.

    The kernel knows, at the time of asking: it lets a socket bind to its own addresses alone. Where
    `ip_nonlocal_bind` lifts that, this knows nothing and says no. So it does of an address that a router
    in front of this machine translates.

    Raises:
        OSError: The kernel has no room for the question, which is no answer.
    """
    return _can_bind(str(address)) and not _can_bind(_NOBODYS[address.version])


def _can_bind(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((address, 0))
    except OSError as error:
        if error.errno in OUT_OF_ROOM:
            raise
        return False
    return True


def is_never_called(address: str) -> bool:
    """Whether no configuration opens this resolved address: metadata services, link-local, multicast."""
    return not may_call(address, (IPv4Network("0.0.0.0/0"), IPv6Network("::/0")))


def may_call(
    address: Address | str,
    allow_networks: Iterable[Network] = (),
    own: Callable[[Address], bool] = is_own,
) -> bool:
    """Whether payd may connect to `address` on behalf of somebody else.

    Args:
        address: One that was resolved; text that is no address is refused.
        allow_networks: What the operator opened, this machine's own addresses too; never opens link-local,
            multicast or metadata addresses.
        own: Whether an address is this machine's.

    Raises:
        OSError: What `own` raised.
    """
    if isinstance(address, str):
        try:
            address = ipaddress.ip_address(address)
        except ValueError:
            return False
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        if address in _MAPPED:
            address = address.ipv4_mapped or address
    parts = (address, *_embedded(address))
    if any(_within(part, _NEVER) for part in parts):
        return False
    if _within(address, allow_networks):
        return True
    # The kernel is asked last: most of what is refused needs no asking.
    return _is_public(address) and not any(own(part) for part in parts)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not _within(address, _REFUSED_V4)
    if address in _NAT64:
        # How a network without IPv4 reaches the rest of the world.
        return _is_public(_low_32(address))
    if address not in _GLOBAL_V6 or _within(address, _REFUSED_V6):
        return False
    return all(_is_public(part) for part in _embedded(address))


def _embedded(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that an IPv6 address can be a wrapping of."""
    if isinstance(address, IPv4Address):
        return
    number = int(address)
    if address in _NAT64 or _within(address, _LOW_32_EMBED) or (number >> 32) & 0xFFFFFFFF in _ISATAP:
        yield _low_32(address)
    if address in _SIX_TO_FOUR:
        yield IPv4Address((number >> 80) & 0xFFFFFFFF)
    if address in _TEREDO:
        yield IPv4Address((number >> 64) & 0xFFFFFFFF)
        yield IPv4Address(~number & 0xFFFFFFFF)


def _low_32(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
