"""Which addresses may be called on behalf of a stranger."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.net.addresses import may_call

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "198.17.255.255",
    "198.20.0.1",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001:81b::200e",
    "2001:4860:4860::8888",
    "2001:200::1",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]
REFUSED = [
    # IPv4
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.0.255",
    "192.0.2.1",
    "192.88.99.3",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.7",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    # IPv6 of our own
    "::",
    "::1",
    "100::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fdff::1",
    "fe80::1",
    "fe80::1%eth0",
    "febf::1",
    "fec0::1",
    "feff::1",
    "ff02::1",
    "ff05::2",
    "ff0e::1",
    # assigned to something else, or to nobody
    "2001::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "3fff::1",
    "3fff:fff::1",
    "4000::1",
    "5f00::1",
    "5f00:1234::1",
    "8000::1",
    # an IPv4 address inside
    "::7f00:1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:100.100.0.1",
    "::ffff:192.168.1.1",
    "::ffff:0:7f00:1",
    "::ffff:0:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1",
    "64:ff9b:1::808:808",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
    "2002:808:808::1",
    "2001:0:7f00:1::1",
    "2001:0:808:808:0:0:80ff:fffe",
    "::5efe:7f00:1",
    "fe80::5efe:7f00:1",
    "2001:470::5efe:7f00:1",
    "2001:470::200:5efe:a00:1",
    # no address at all
    "",
    "localhost",
    "127.1",
    "0x7f000001",
    "2130706433",
    "１２７.0.0.1",
    "[::1]",
    "1.1.1.1:80",
]
NEVER = [
    "0.0.0.0",
    "169.254.169.254",
    "169.254.1.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "::ffff:169.254.169.254",
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::1",
    "2001:470::5efe:a9fe:a9fe",
]
EVERYTHING = [ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_called(address: str) -> None:
    assert may_call(address)


@pytest.mark.parametrize("address", REFUSED)
def test_anything_else_may_not(address: str) -> None:
    assert not may_call(address)


@pytest.mark.parametrize("address", NEVER)
def test_no_configuration_opens_metadata_link_local_or_multicast(address: str) -> None:
    assert not may_call(address, EVERYTHING)


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "::1", "172.18.3.4", "fd12::1"])
def test_the_operator_can_open_private_networks(address: str) -> None:
    networks = [ipaddress.ip_network(text) for text in ("127.0.0.0/8", "::1", "172.18.0.0/16", "fd12::/16")]

    assert may_call(address, networks)
    assert not may_call(address)


def test_an_opened_network_opens_no_other() -> None:
    assert not may_call("10.0.0.1", [ipaddress.ip_network("172.18.0.0/16")])


@pytest.mark.parametrize("name", ["2130706433", "0x7f000001", "127.1", "0xA9FEA9FE"])
def test_what_the_resolver_makes_of_a_disguised_number_is_refused(name: str) -> None:
    addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}

    assert addresses
    assert not any(may_call(address) for address in addresses)


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_judged_as_the_one_inside(address: ipaddress.IPv4Address) -> None:
    assert may_call(f"::ffff:{address}") == may_call(address)


@given(st.ip_addresses(v=6))
def test_no_address_outside_of_global_unicast_is_called(address: ipaddress.IPv6Address) -> None:
    if may_call(address):
        assert (
            address in ipaddress.ip_network("2000::/3")
            or address.ipv4_mapped
            or int(address) >> 32 == (0x0064FF9B << 64)
        )
