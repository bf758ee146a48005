"""Which addresses may be called on behalf of a stranger."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.net import addresses
from payd.net.addresses import Address, is_never_called, is_own, may_call

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
    "64:ff9b::101:101",
    "64:ff9b::5db8:d822",
    "192.88.98.255",
    "192.88.100.1",
    "3fff:1000::1",
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
    # what Svix and Hook0 try, where it is not above
    "10.254.0.0",
    "192.168.10.65",
    "172.16.10.65",
    "172.16.5.4",
    "169.254.1.1",
    "169.254.45.1",
    "192.0.2.255",
    "198.51.100.65",
    "203.0.113.6",
    "100.100.0.0",
    "192.0.0.0",
    "250.10.20.30",
    "198.18.0.0",
    "192.88.99.1",
    "239.255.255.250",
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
    "1::1",
    "0:0:0:1::1",
    "0:0:0:ffff::1",
    "ff:ffff::1",
    "100:0:0:1::1",
    "2001:1::1",
    "2001:1::2",
    "2001:3::1",
    "2001:4:112::1",
    "2001:2f::1",
    "2001:1ff::1",
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
    "::a9fe:a9fe",
    "::ffff:0.0.0.1",
    "::ffff:0:a9fe:a9fe",
    "::ffff:0:5db8:d822",
    "::5efe:a9fe:a9fe",
    "64:ff9b::",
    "64:ff9b::e000:1",
    "64:ff9b::c058:6301",
    "64:ff9b:0:1::1",
    "64:ff9b:1::1",
    "2002:5db8:d822::1",
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
    "2001:0:808:808:0:0:5601:5601",
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


OWN = {"93.184.216.34", "2606:4700::1"}


def is_ours(address: Address) -> bool:
    return str(address) in OWN


@pytest.mark.parametrize("address", [*sorted(OWN), "::ffff:93.184.216.34", "64:ff9b::5db8:d822"])
def test_an_address_of_this_machine_is_refused_however_public_it_is(address: str) -> None:
    assert may_call(address, own=lambda _: False)
    assert not may_call(address, own=is_ours)


def test_the_operator_can_open_an_address_of_this_machine() -> None:
    assert may_call("93.184.216.34", [ipaddress.ip_network("93.184.216.0/24")], own=is_ours)


def test_metadata_stays_closed_though_it_is_opened_and_nobody_calls_it_ours() -> None:
    assert not may_call("169.254.169.254", EVERYTHING, own=lambda _: False)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9"])
def test_this_machine_knows_its_own_addresses(address: str) -> None:
    assert is_own(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "fe80::1"])
def test_an_address_of_somebody_else_is_not_ours(address: str) -> None:
    assert not is_own(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111"])
def test_where_anything_can_be_bound_nothing_is_called_ours(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "_can_bind", lambda _address: True)

    assert not is_own(ipaddress.ip_address(address))
    assert may_call(address)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOBUFS])
def test_without_a_socket_to_ask_with_no_address_is_called_somebody_elses(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> socket.socket:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket, "socket", refuse)

    with pytest.raises(OSError, match=os.strerror(number)):
        may_call("8.8.8.8")
    assert not may_call("127.0.0.1")


@pytest.mark.parametrize(
    "name", ["2130706433", "0x7f000001", "127.1", "0xA9FEA9FE", "１２７.0.0.1", "①②⑦.⓪.⓪.①"]
)
def test_what_the_resolver_makes_of_a_disguised_number_is_refused(name: str) -> None:
    found = {str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}

    assert found
    assert not any(may_call(address) for address in found)


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_judged_as_the_one_inside(address: ipaddress.IPv4Address) -> None:
    assert may_call(f"::ffff:{address}") == may_call(address)


@given(st.ip_addresses(v=4))
def test_a_nat64_address_is_judged_as_the_one_inside(address: ipaddress.IPv4Address) -> None:
    assert may_call(ipaddress.IPv6Address((0x0064FF9B << 96) | int(address))) == may_call(address)


@given(st.ip_addresses(v=6))
def test_no_address_outside_of_global_unicast_is_called(address: ipaddress.IPv6Address) -> None:
    if may_call(address):
        assert (
            address in ipaddress.ip_network("2000::/3")
            or address.ipv4_mapped
            or int(address) >> 32 == (0x0064FF9B << 64)
        )


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fe80::1", "fd00:ec2::254", "::ffff:169.254.1.1", "224.0.0.1"]
)
def test_what_no_configuration_opens_is_told_apart(address: str) -> None:
    assert is_never_called(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "::1", "93.184.216.34", "fd12::1"])
def test_from_what_an_operator_can_open(address: str) -> None:
    assert not is_never_called(address)
