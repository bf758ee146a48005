"""Whose address counts: the peer's, unless the peer is trusted to name another."""

from __future__ import annotations

import pytest

from payd.web.client import HOPS_MAX, TrustedProxies, client_ip, parse_address, rate_key

PROXIES = TrustedProxies(["10.0.0.0/8", "127.0.0.1", "2001:db8:ffff::/48"])


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("192.0.2.1", None, "192.0.2.1"),
        ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "198.51.100.7, nonsense", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7, unknown, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", " , ", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7:4711", "198.51.100.7"),
        ("10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("10.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("2001:db8:ffff::5", "198.51.100.7", "198.51.100.7"),
        ("::ffff:10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("::ffff:192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("10.0.0.1", "::ffff:198.51.100.7", "198.51.100.7"),
        ("127.0.0.1", "127.0.0.1, 198.51.100.7", "198.51.100.7"),
        ("", "198.51.100.7", ""),
    ],
)
def test_the_client_is_the_rightmost_hop_that_no_proxy_stands_for(
    peer: str, forwarded_for: str | None, client: str
) -> None:
    assert client_ip(peer, forwarded_for, PROXIES) == client


def test_nobody_is_trusted_by_default() -> None:
    assert client_ip("127.0.0.1", "198.51.100.7", TrustedProxies()) == "127.0.0.1"


def test_a_long_chain_is_not_followed_to_its_start() -> None:
    chain = ", ".join(["198.51.100.7"] + ["10.0.0.2"] * 100_000)
    assert client_ip("10.0.0.1", chain, PROXIES) == "10.0.0.2"
    assert (
        client_ip("10.0.0.1", ", ".join(["198.51.100.7"] + ["10.0.0.2"] * (HOPS_MAX - 1)), PROXIES)
        == "198.51.100.7"
    )


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "1.2.3.4.5", "0x7f000001", "2130706433", "①.1.1.1"])
def test_what_is_no_address_is_none(text: str) -> None:
    assert parse_address(text) is None


def test_an_ipv6_customer_is_counted_by_its_network() -> None:
    assert rate_key("2001:db8:1:2:3:4:5:6") == rate_key("2001:db8:1:2::1") == "2001:db8:1:2::/64"
    assert rate_key("2001:db8:1:3::1") != rate_key("2001:db8:1:2::1")
    assert rate_key("192.0.2.1") == "192.0.2.1"
    assert rate_key("") == ""


def test_a_proxys_own_address_is_nobodys_slot() -> None:
    assert PROXIES.slot_key("10.1.2.3") == ""
    assert PROXIES.slot_key("192.0.2.1") == "192.0.2.1"
