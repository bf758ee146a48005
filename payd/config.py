"""Configuration: `payd.toml` and `PAYD_*` become one frozen `Config`, and a mistake names its line.

The dataclasses below are the table of keys: type, what is allowed, unit, default and meaning stand together.
Rooms receive values, never this object.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import re
import tomllib
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

from payd.core.errors import InvalidParams

FILE_NAME: Final = "payd.toml"
FILE_BYTES_MAX: Final = 1 << 20  # a configuration is read by people; more is a wrong file
DAY_S: Final = 86_400
DAY_MS: Final = DAY_S * 1000
COUNT_MAX: Final = 1_000_000  # more connections or requests than one process can have
NEAR: Final = 0.8  # how alike a name must be to be what was meant; most variables share their beginning

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ConfigError(ValueError):
    """The configuration cannot be used. `problems` has one line for each mistake."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


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
    is_secret: bool = False  # not to be repeated where it is wrong, nor shown

    def refusal(self, value: Any) -> str:
        """What is said of a value that is not allowed."""
        return f"must be {self.words}" + ("" if self.is_secret else f", not {value!r}")


class Key(NamedTuple):
    """One key of the configuration."""

    kind: Kind
    default: Any
    meaning: str

    @property
    def unit(self) -> str:
        """Such as "seconds"; empty for what has none."""
        return self.kind.unit


def _need(condition: bool) -> None:
    if not condition:
        raise ValueError


def _number(unit: str, low: int, high: int) -> Kind:
    def parse(value: Any) -> int:
        _need(type(value) is int and low <= value <= high)
        return int(value)

    return Kind(f"a whole number of {unit}, {low} to {high}", parse, int, unit)


def _choice(*words: str) -> Kind:
    def parse(value: Any) -> str:
        _need(value in words)
        return str(value)

    return Kind("one of " + ", ".join(f'"{word}"' for word in words), parse)


def _parse_flag(value: Any) -> bool:
    _need(type(value) is bool)
    return bool(value)


def _parse_folder(value: Any) -> Path:
    _need(type(value) is str and value != "" and "\0" not in value)
    return Path(value)


def _parse_file(value: Any) -> Path | None:
    return None if value == "" else _parse_folder(value)


def _parse_address(value: Any) -> Address:
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})", value)
    if match is None or int(match[3]) > 65535:
        raise ValueError
    return Address(match[2] or str(ipaddress.IPv6Address(match[1])), int(match[3]))


def _parse_url(value: Any) -> str:
    _need(type(value) is str)
    if not value:
        return ""
    parts = urlsplit(value)
    _need(parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment))
    _need(parts.username is None and parts.password is None)
    return str(value).rstrip("/")


def _parse_target(value: Any) -> str:
    _need(type(value) is str)
    if value:
        from payd.net.http import Target  # brings the HTTP client, which few commands need

        try:
            Target.of(value)
        except InvalidParams:
            raise ValueError from None
    return str(value)


def _parse_proxy(value: Any) -> str:
    _need(type(value) is str)
    if value:
        from payd.net.proxy import Proxy  # brings the HTTP client, which few commands need

        Proxy.of(value)
    return str(value)


def _parse_sources(value: Any) -> tuple[str, ...]:
    _need(type(value) is list and all(type(item) is str for item in value))
    addresses = [ipaddress.ip_address(item) for item in value]
    _need(len({address.version for address in addresses}) == len(addresses))
    _need(not any(address.is_unspecified or address.is_multicast for address in addresses))
    return tuple(map(str, addresses))


def _parse_networks(value: Any) -> tuple[Network, ...]:
    _need(type(value) is list and all(type(item) is str for item in value))
    return tuple(ipaddress.ip_network(item) for item in value)


def _parse_token(value: Any) -> str:
    _need(type(value) is str and (value == "" or re.fullmatch(r"[!-~]{16,256}", value) is not None))
    return str(value)


_TOKEN = Kind('16 to 256 visible ASCII characters, or "" for none', _parse_token, is_secret=True)
_FLAG = Kind("true or false", _parse_flag, {"true": True, "false": False}.get)
_FILE = Kind('a path, or "" for none', _parse_file)
_FOLDER = Kind("a path", _parse_folder)
_ADDRESS = Kind('"host:port", such as "127.0.0.1:8420" or "[::1]:8420"', _parse_address)
_URL = Kind('an http or https URL without query, or ""', _parse_url)
_NETWORKS = Kind(
    'a list of addresses or networks, such as ["127.0.0.0/8", "::1"]',
    _parse_networks,
    lambda text: [item.strip() for item in text.split(",") if item.strip()],
)
_SOURCES = Kind(
    'a list of at most one IPv4 and one IPv6 address, such as ["203.0.113.7", "2001:db8::7"]',
    _parse_sources,
    lambda text: [item.strip() for item in text.split(",") if item.strip()],
)
_PROXY = Kind('"http://[user:password@]host:port", or ""', _parse_proxy, is_secret=True)
_TARGET = Kind('an http or https URL without user and password, or ""', _parse_target, is_secret=True)
_OPEN = _number("connections", 0, COUNT_MAX)
_RATE = _number("requests a second", 0, COUNT_MAX)
_LISTEN_DEFAULT: Final = Address("127.0.0.1", 8420)


@dataclass(frozen=True, slots=True)
class Log:
    """`[log]`."""

    format: Annotated[str, _choice("auto", "console", "json"), "auto: console on a tty, else json."] = "auto"
    level: Annotated[str, _choice("debug", "info", "warning", "error"), "What is logged: it and up."] = "info"


@dataclass(frozen=True, slots=True)
class Http:
    """`[http]`."""

    trusted_proxies: Annotated[
        tuple[Network, ...], _NETWORKS, "Proxies whose X-Forwarded-For is believed; nobody else's is."
    ] = ()
    connections_max: Annotated[
        int, _number("connections", 1, COUNT_MAX), "Open connections in all; more wait to be accepted."
    ] = 25_000
    connections_per_ip: Annotated[int, _OPEN, "Those of one address, proxies aside; 0 is no limit."] = 1000


@dataclass(frozen=True, slots=True)
class Api:
    """`[api]`."""

    body_max: Annotated[int, _number("bytes", 1024, 16 << 20), "Largest request body; over it: 413."] = 65_536


@dataclass(frozen=True, slots=True)
class RateLimits:
    """`[rate_limits]`: token buckets; 0 is off."""

    per_key: Annotated[int, _RATE, "Of one API key; 0 is off."] = 1000
    per_ip: Annotated[int, _RATE, "Of one address, without a key; 0 is off."] = 200
    failed_auth: Annotated[
        int, _number("failures a minute", 0, COUNT_MAX), "Failed authentications of one address; 0 is off."
    ] = 10


@dataclass(frozen=True, slots=True)
class Payments:
    """`[payments]`."""

    lifetime_s: Annotated[
        int, _number("seconds", 1, DAY_S), "How long a payment can be paid when its creator does not say."
    ] = 900


@dataclass(frozen=True, slots=True)
class Simulated:
    """`[test]`: how fast the simulated chain is."""

    confirm_after_ms: Annotated[
        int, _number("milliseconds", 0, DAY_MS), "From the confirmed results to succeeded."
    ] = 1000
    settle_after_ms: Annotated[int, _number("milliseconds", 0, DAY_MS), "From succeeded to settled."] = 1000


@dataclass(frozen=True, slots=True)
class LiveWebhooks:
    """`[webhooks.live]`: endpoints are https on public addresses."""

    allow_networks: Annotated[
        tuple[Network, ...], _NETWORKS, "Networks that are not public and may be called."
    ] = ()
    ca_file: Annotated[Path | None, _FILE, "PEM file of authorities to trust besides the usual ones."] = None


@dataclass(frozen=True, slots=True)
class TestWebhooks(LiveWebhooks):
    """`[webhooks.test]`: as live, and plain http may be opened for a laptop."""

    __test__ = False  # not a test case, whatever its name

    allow_http: Annotated[bool, _FLAG, "Accept http:// endpoints."] = False


@dataclass(frozen=True, slots=True)
class Webhooks:
    """`[webhooks]`: deliveries of both modes."""

    bind: Annotated[
        tuple[str, ...], _SOURCES, "Source addresses, one of each family at most; none: the system's choice."
    ] = ()
    proxy: Annotated[str, _PROXY, "HTTP proxy for all deliveries; none is read from the environment."] = ""
    keep_days: Annotated[
        int, _number("days", 15, 3650), "How long events, deliveries and their attempts are kept."
    ] = 30
    canary: Annotated[bool, _FLAG, "Prove each minute that a delivery arrives, by one to payd itself."] = True
    test: TestWebhooks = field(default_factory=TestWebhooks)
    live: LiveWebhooks = field(default_factory=LiveWebhooks)


@dataclass(frozen=True, slots=True)
class Notify:
    """`[notify]`: where the operator hears of endpoints that fail."""

    url: Annotated[str, _TARGET, "Gets a signed POST; `payd notify show` shows the secret."] = ""


@dataclass(frozen=True, slots=True)
class Feeds:
    """`[feeds]`: websockets."""

    max: Annotated[int, _OPEN, "Open feeds in all."] = 20_000
    per_ip: Annotated[int, _OPEN, "Those of one address; 0 is no limit."] = 200


@dataclass(frozen=True, slots=True)
class Metrics:
    """`[metrics]`: who may read `GET /metrics`."""

    token: Annotated[str, _TOKEN, "Bearer token for scrapes from other machines."] = ""


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration; `file` is where it came from, if from a file."""

    data_dir: Annotated[Path, _FOLDER, "Databases, seal key and admin socket."] = Path("data")
    listen: Annotated[Address, _ADDRESS, "Where HTTP is served; put TLS in front of it."] = _LISTEN_DEFAULT
    base_url: Annotated[str, _URL, 'What links begin with; "" is http://<listen>.'] = ""
    log: Log = field(default_factory=Log)
    http: Http = field(default_factory=Http)
    api: Api = field(default_factory=Api)
    rate_limits: RateLimits = field(default_factory=RateLimits)
    payments: Payments = field(default_factory=Payments)
    test: Simulated = field(default_factory=Simulated)
    webhooks: Webhooks = field(default_factory=Webhooks)
    notify: Notify = field(default_factory=Notify)
    feeds: Feeds = field(default_factory=Feeds)
    metrics: Metrics = field(default_factory=Metrics)
    file: Path | None = None

    def public_url(self, bound_port: int | None = None) -> str:
        """What every absolute URL begins with, without a slash at its end.

        Args:
            bound_port: The port that was bound, for `listen` with port 0.
        """
        if self.base_url:
            return self.base_url
        return self.own_url(bound_port)

    def own_url(self, bound_port: int | None = None) -> str:
        """Where the server is reached on this machine, without a slash at its end."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.listen.host, self.listen.host)
        return f"http://{Address(host, bound_port or self.listen.port)}"


def _walk(section: type[Any], prefix: str = "") -> Iterator[tuple[str, Key]]:
    hints = typing.get_type_hints(section, include_extras=True)
    for each in dataclasses.fields(section):
        hint = hints[each.name]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield from _walk(hint, f"{prefix}{each.name}.")
        elif kind := getattr(hint, "__metadata__", None):
            yield prefix + each.name, Key(kind[0], each.default, kind[1])


KEYS: Final[Mapping[str, Key]] = dict(_walk(Config))
"""Every key by its dotted name."""

VARIABLES: Final[Mapping[str, str]] = {"PAYD_" + key.upper().replace(".", "_"): key for key in KEYS}
"""The key that each environment variable sets."""

_SECTIONS: Final = frozenset(key[:at] for key in KEYS for at, letter in enumerate(key) if letter == ".")


def load(path: Path | None = None, env: Mapping[str, str] | None = None) -> Config:
    """The configuration from a file, overridden by the environment.

    The file is `path`, else `PAYD_CONFIG`, else `payd.toml` in the data directory, else `./payd.toml`, else
    none. Relative paths in a file start at the file's own folder.

    Raises:
        ConfigError: The file cannot be read, or something in it or in a variable is wrong.
    """
    env = {} if env is None else env
    file = _find(path, env)
    problems: list[str] = []
    values = {} if file is None else _from_file(file, problems)
    for variable, key in VARIABLES.items():
        if text := env.get(variable):
            try:
                values[key] = KEYS[key].kind.parse(KEYS[key].kind.from_text(text))
            except (ValueError, TypeError):
                problems.append(f"{variable}: {KEYS[key].kind.refusal(text)}")
    if problems:
        raise ConfigError(problems)
    config = _build(Config, values)
    assert isinstance(config, Config)
    return dataclasses.replace(config, file=file)


def unknown_variables(env: Mapping[str, str]) -> dict[str, str | None]:
    """Variables that begin with `PAYD_` and set nothing, each with the one that is probably meant.

    Orchestrators add their own: no error.
    """
    # The last two are what `payd listen` and `payd webhook verify` read.
    known = (*VARIABLES, "PAYD_CONFIG", "PAYD_API_KEY", "PAYD_WEBHOOK_SECRET")
    unknown = sorted(name for name in env if name.startswith("PAYD_") and name not in known)
    return {name: next(iter(difflib.get_close_matches(name, known, 1, NEAR)), None) for name in unknown}


def _find(path: Path | None, env: Mapping[str, str]) -> Path | None:
    if path is not None or env.get("PAYD_CONFIG"):
        return path or Path(env["PAYD_CONFIG"])
    folders = (Path(env.get("PAYD_DATA_DIR") or KEYS["data_dir"].default), Path("."))
    return next((folder / FILE_NAME for folder in folders if (folder / FILE_NAME).is_file()), None)


def _from_file(file: Path, problems: list[str]) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            text = opened.read(FILE_BYTES_MAX).decode()
    except OSError as error:
        raise ConfigError([f"{file}: cannot be read: {error.strerror or error}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"{file}: cannot be read: {error}"]) from None
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise ConfigError([f"{file}:{line[1] if line else len(text.splitlines())}: {error}"]) from None
    values: dict[str, Any] = {"data_dir": file.parent / KEYS["data_dir"].default}
    for name, value in _flatten(tree):
        key = KEYS.get(name)
        if key is None:
            problems.append(f"{file}:{_line_of(text, name)}: {_unknown(name)}")
            continue
        try:
            parsed = key.kind.parse(value)
        except (ValueError, TypeError):
            problems.append(f"{file}:{_line_of(text, name)}: {name} {key.kind.refusal(value)}")
            continue
        values[name] = file.parent / parsed if isinstance(parsed, Path) else parsed
    return values


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values; what lies in an unknown section is named by the section."""
    for name, value in tree.items():
        if prefix + name in _SECTIONS and isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _unknown(name: str) -> str:
    if name in _SECTIONS:
        return f"{name} must be a section: [{name}]"
    near = difflib.get_close_matches(name, [*KEYS, *_SECTIONS], 1)
    if not near:
        return f"unknown key {name}; see payd.toml for the keys there are"
    key = KEYS.get(near[0])
    return f"unknown key {name}; did you mean {near[0]}" + (f" ({key.kind.words})?" if key else "?")


def _line_of(text: str, name: str) -> int:
    """The line where `name` is set: the first one after the longest beginning of `text` that lacks it.

    Parsing beginnings finds it however it is written: section, dotted key, inline table, list over lines.
    """
    lines = text.splitlines(keepends=True)
    lacking = 0
    for count in range(1, len(lines) + 1):
        try:
            tree: Any = tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue
        for part in name.split("."):
            tree = tree.get(part) if isinstance(tree, dict) else None
        if tree is not None:
            break
        lacking = count
    return lacking + 1


def _build(section: type[Any], values: Mapping[str, Any], prefix: str = "") -> Any:
    hints = typing.get_type_hints(section)
    given: dict[str, Any] = {}
    for each in dataclasses.fields(section):
        hint, name = hints[each.name], prefix + each.name
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            given[each.name] = _build(hint, values, f"{name}.")
        elif name in values:
            given[each.name] = values[name]
    return section(**given)
