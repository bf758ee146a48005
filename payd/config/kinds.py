"""What a value of the configuration can be: the words that people read, and the check behind them.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from payd.core.errors import InvalidParams

DAY_S: Final = 86_400
DAY_MS: Final = DAY_S * 1000
COUNT_MAX: Final = 1_000_000  # more connections or requests than one process can have
WHOLE_DIGITS_MAX: Final = 9  # of a decimal

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Address(NamedTuple):
    """A host and a port to listen on; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Kind(NamedTuple):
    """A type of value; `parse` raises `ValueError` or `TypeError` for what is not allowed."""

    words: str  # what is allowed, for people
    parse: Callable[[Any], Any]  # from the TOML value to ours
    from_text: Callable[[str], Any] = str  # from an environment variable to the TOML value
    unit: str = ""
    is_secret: bool = False  # not to be repeated where it is wrong
    shown: Callable[[Any], Any] | None = None  # as it is written, without what is secret

    def refusal(self, value: Any) -> str:
        """What is said of a value that is not allowed."""
        return f"must be {self.words}" + ("" if self.is_secret else f", not {value!r}")


def need(condition: bool) -> None:
    """Refuse a value, unless the condition holds."""
    if not condition:
        raise ValueError


def number(unit: str, low: int, high: int) -> Kind:
    """A whole number of something."""

    def parse(value: Any) -> int:
        need(type(value) is int and low <= value <= high)
        return int(value)

    return Kind(f"a whole number of {unit}, {low} to {high}", parse, int, unit)


def decimal(unit: str, high: int, places: int, *, positive: bool = False) -> Kind:
    """A decimal as text, because a binary fraction is not what was written; whole numbers need no quotes."""
    pattern = re.compile(rf"(0|[1-9][0-9]{{0,{WHOLE_DIGITS_MAX - 1}}})(\.[0-9]{{1,{places}}})?")

    def parse(value: Any) -> Decimal:
        text = str(value) if type(value) is int else value
        need(type(text) is str and pattern.fullmatch(text) is not None)
        found = Decimal(text)
        need(found <= high and (found > 0 or not positive))
        return found

    words = f'a decimal in quotes, such as "0.5", {"above 0 and" if positive else "0 or more,"} up to {high}'
    return Kind(f"{words}, at most {places} places", parse, str, unit, shown=lambda found: f"{found:f}")


def choice(*words: str) -> Kind:
    """One of a few words."""

    def parse(value: Any) -> str:
        need(value in words)
        return str(value)

    return Kind("one of " + ", ".join(f'"{word}"' for word in words), parse)


def text(words: str, pattern: str) -> Kind:
    """Text of a pattern."""
    compiled = re.compile(pattern)

    def parse(value: Any) -> str:
        need(type(value) is str and compiled.fullmatch(value) is not None)
        return str(value)

    return Kind(words, parse)


def _parse_flag(value: Any) -> bool:
    need(type(value) is bool)
    return bool(value)


def _parse_folder(value: Any) -> Path:
    need(type(value) is str and value != "" and "\0" not in value)
    # Only shells know what it stands for, and not everywhere: a folder of this name is one `rm` from a home.
    need(not value.startswith("~"))
    return Path(value)


def _parse_file(value: Any) -> Path | None:
    return None if value == "" else _parse_folder(value)


def _parse_address(value: Any) -> Address:
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})", value)
    if match is None or int(match[3]) > 65535:
        raise ValueError
    return Address(match[2] or str(ipaddress.IPv6Address(match[1])), int(match[3]))


def _parse_url(value: Any) -> str:
    """As browsers name it, which is what passkeys and origins are compared with."""
    need(type(value) is str and "?" not in value and "#" not in value)
    if not value:
        return ""
    from payd.core.endpoint import DEFAULT_PORTS, check_url

    try:
        scheme, host, port = check_url(value, allow_http=True)
    except InvalidParams:
        raise ValueError from None
    host = f"[{host}]" if ":" in host else host
    at = host if port == DEFAULT_PORTS[scheme] else f"{host}:{port}"
    return f"{scheme}://{at}{urlsplit(value).path.rstrip('/')}"


def parse_target(value: Any) -> str:
    """A URL that payd's own client can call, or nothing.

    Raises:
        ValueError: It is another text, or none.
    """
    need(type(value) is str)
    if value:
        from payd.core.endpoint import check_url  # brings much of the core, which few commands need

        try:
            check_url(value, allow_http=True)
        except InvalidParams:
            raise ValueError from None
    return str(value)


def _parse_proxy(value: Any) -> str:
    need(type(value) is str)
    if value:
        from payd.net.proxy import Proxy  # brings the HTTP client, which few commands need

        Proxy.of(value)
    return str(value)


def _parse_sources(value: Any) -> tuple[str, ...]:
    need(type(value) is list and all(type(item) is str for item in value))
    addresses = [ipaddress.ip_address(item) for item in value]
    need(len({address.version for address in addresses}) == len(addresses))
    need(not any(address.is_unspecified or address.is_multicast for address in addresses))
    return tuple(map(str, addresses))


def _parse_networks(value: Any) -> tuple[Network, ...]:
    need(type(value) is list and all(type(item) is str for item in value))
    return tuple(ipaddress.ip_network(item) for item in value)


def _parse_token(value: Any) -> str:
    need(type(value) is str and (value == "" or re.fullmatch(r"[!-~]{16,256}", value) is not None))
    return str(value)


def split_list(text: str) -> list[str]:
    """The items of a list as a variable has them: separated by commas."""
    return [item.strip() for item in text.split(",") if item.strip()]


TOKEN: Final = Kind('16 to 256 visible ASCII characters, or "" for none', _parse_token, is_secret=True)
FLAG: Final = Kind("true or false", _parse_flag, {"true": True, "false": False}.get)
FILE: Final = Kind('a path without ~, or "" for none', _parse_file)
FOLDER: Final = Kind("a path without ~", _parse_folder)
ADDRESS: Final = Kind('"host:port", such as "127.0.0.1:8420" or "[::1]:8420"', _parse_address)
URL: Final = Kind('an http or https URL without query, or ""', _parse_url)
NETWORKS: Final = Kind(
    'a list of addresses or networks, such as ["127.0.0.0/8", "::1"], each network by its first address',
    _parse_networks,
    split_list,
)
SOURCES: Final = Kind(
    'a list of at most one IPv4 and one IPv6 address, such as ["203.0.113.7", "2001:db8::7"]',
    _parse_sources,
    split_list,
)
PROXY: Final = Kind('"http://[user:password@]host:port", or ""', _parse_proxy, is_secret=True)
TARGET: Final = Kind('an http or https URL without user and password, or ""', parse_target, is_secret=True)
OPEN: Final = number("connections", 0, COUNT_MAX)
RATE: Final = number("requests a second", 0, COUNT_MAX)
