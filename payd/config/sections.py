"""The sections of payd.toml: type, what is allowed, unit, default and meaning of each key stand together.

Rooms receive values, never the `Config`.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Final

from payd.chains.assets import Asset
from payd.config.assets import ASSET_ROWS
from payd.config.chains import CHAIN_ROWS, ChainConfig
from payd.config.keys import Key, Rows, keys_of, rows_of
from payd.config.kinds import (
    ADDRESS,
    COUNT_MAX,
    DAY_MS,
    DAY_S,
    FILE,
    FLAG,
    FOLDER,
    NETWORKS,
    OPEN,
    PROXY,
    RATE,
    SOURCES,
    TARGET,
    TOKEN,
    URL,
    Address,
    Kind,
    Network,
    choice,
    decimal,
    need,
    number,
    split_list,
)
from payd.core.settlement_change import DELAY_S_MAX

LISTEN_DEFAULT: Final = Address("127.0.0.1", 8420)
PAIRS_MAX: Final = 1000  # more than there are assets and currencies that a shop takes


def _parse_table(value: Any) -> tuple[tuple[str, str], ...]:
    need(type(value) is dict and len(value) <= PAIRS_MAX)
    need(all(type(price) in (str, int) for price in value.values()))
    table = {pair: str(price) for pair, price in value.items()}
    if table:
        from payd.chains.market.table import TablePrices  # brings the HTTP client, which few commands need

        TablePrices(table)
    return tuple(table.items())


def _split_table(text: str) -> dict[str, str]:
    """A table as a variable has it: `USDC/USD=1, ETH/USD=2500`."""
    pairs = [item.partition("=") for item in split_list(text)]
    return {pair.strip(): price.strip() for pair, _, price in pairs}


TABLE: Final = Kind(
    'a table of SYMBOL/CURRENCY and a decimal above 0 in quotes, such as { "USDC/USD" = "1" }',
    _parse_table,
    _split_table,
    shown=dict,
)


@dataclass(frozen=True, slots=True)
class Log:
    """`[log]`."""

    format: Annotated[str, choice("auto", "console", "json"), "auto: console on a tty, else json."] = "auto"
    level: Annotated[str, choice("debug", "info", "warning", "error"), "What is logged: it and up."] = "info"


@dataclass(frozen=True, slots=True)
class Http:
    """`[http]`."""

    trusted_proxies: Annotated[
        tuple[Network, ...], NETWORKS, "Proxies whose X-Forwarded-For is believed; nobody else's is."
    ] = ()
    connections_max: Annotated[
        int, number("connections", 1, COUNT_MAX), "Open ones in all; one more ends the longest idle."
    ] = 25_000
    connections_per_ip: Annotated[int, OPEN, "Those of one address, proxies aside; 0 is no limit."] = 1000


@dataclass(frozen=True, slots=True)
class Api:
    """`[api]`."""

    body_max: Annotated[int, number("bytes", 1024, 16 << 20), "Largest request body; over it: 413."] = 65_536


@dataclass(frozen=True, slots=True)
class RateLimits:
    """`[rate_limits]`: token buckets; 0 is off."""

    per_key: Annotated[int, RATE, "Of one API key; 0 is off."] = 1000
    per_ip: Annotated[int, RATE, "Of one address, without a key; 0 is off."] = 200
    failed_auth: Annotated[
        int, number("failures a minute", 0, COUNT_MAX), "Failed authentications of one address; 0 is off."
    ] = 10


@dataclass(frozen=True, slots=True)
class Payments:
    """`[payments]`."""

    lifetime_s: Annotated[
        int, number("seconds", 1, DAY_S), "How long a payment can be paid when its creator does not say."
    ] = 900
    collected_days: Annotated[
        int, number("days", 1, 3650), "How long what buyers answered to a merchant's questions is kept."
    ] = 90


@dataclass(frozen=True, slots=True)
class Settlements:
    """`[settlements]`: where live money goes."""

    change_delay_s: Annotated[
        int, number("seconds", 0, DELAY_S_MAX), "How long a live destination's change is held back; 0 is off."
    ] = 0


@dataclass(frozen=True, slots=True)
class Simulated:
    """`[test]`: how fast the simulated chain is."""

    confirm_after_ms: Annotated[
        int, number("milliseconds", 0, DAY_MS), "From the confirmed results to succeeded."
    ] = 1000
    settle_after_ms: Annotated[int, number("milliseconds", 0, DAY_MS), "From succeeded to settled."] = 1000


@dataclass(frozen=True, slots=True)
class LiveWebhooks:
    """`[webhooks.live]`: endpoints are https on public addresses."""

    allow_networks: Annotated[
        tuple[Network, ...], NETWORKS, "Networks that are not public and may be called."
    ] = ()
    ca_file: Annotated[Path | None, FILE, "PEM file of authorities to trust besides the usual ones."] = None


@dataclass(frozen=True, slots=True)
class TestWebhooks(LiveWebhooks):
    """`[webhooks.test]`: as live, and plain http may be opened for a laptop."""

    __test__ = False  # not a test case, whatever its name

    allow_http: Annotated[bool, FLAG, "Accept http:// endpoints."] = False


@dataclass(frozen=True, slots=True)
class Webhooks:
    """`[webhooks]`: deliveries of both modes."""

    bind: Annotated[
        tuple[str, ...], SOURCES, "Source addresses, one of each family at most; none: the system's choice."
    ] = ()
    proxy: Annotated[str, PROXY, "HTTP proxy for all deliveries; none is read from the environment."] = ""
    keep_days: Annotated[
        int, number("days", 15, 3650), "How long events, deliveries and their attempts are kept."
    ] = 30
    canary: Annotated[bool, FLAG, "Prove each minute that a delivery arrives, by one to payd itself."] = True
    test: TestWebhooks = field(default_factory=TestWebhooks)
    live: LiveWebhooks = field(default_factory=LiveWebhooks)


@dataclass(frozen=True, slots=True)
class Notify:
    """`[notify]`: where the operator hears of endpoints that fail, and of live destinations that change."""

    url: Annotated[str, TARGET, "Gets a signed POST; `payd notify show` shows the secret."] = ""


@dataclass(frozen=True, slots=True)
class Audit:
    """`[audit]`: who did what."""

    keep_days: Annotated[
        int, number("days", 90, 36_500), "How long acts are kept, with keys and apps that were revoked."
    ] = 3650


@dataclass(frozen=True, slots=True)
class Feeds:
    """`[feeds]`: websockets."""

    max: Annotated[int, OPEN, "Open feeds in all."] = 20_000
    per_ip: Annotated[int, OPEN, "Those of one address; 0 is no limit."] = 200
    per_payment: Annotated[int, OPEN, "Those that follow one payment; 0 is no limit."] = 2000


@dataclass(frozen=True, slots=True)
class Metrics:
    """`[metrics]`: who may read `GET /metrics`."""

    token: Annotated[str, TOKEN, "Bearer token for scrapes from other machines."] = ""


@dataclass(frozen=True, slots=True)
class Rates:
    """`[rates]`: what live payments cost in an asset."""

    source: Annotated[
        str, choice("market", "table"), "market: what exchanges and oracles agree on; table: the table alone."
    ] = "market"
    table: Annotated[
        tuple[tuple[str, str], ...], TABLE, "What one unit of an asset is worth in a currency."
    ] = ()


@dataclass(frozen=True, slots=True)
class Relayer:
    """`[relayer]`: the key that pays for gas, and holds nothing else."""

    keystore: Annotated[Path | None, FILE, "Encrypted key; `payd relayer create FILE` makes one."] = None
    password_file: Annotated[
        Path | None, FILE, "File with its password; else PAYD_RELAYER_PASSWORD has it."
    ] = None


@dataclass(frozen=True, slots=True)
class Fee:
    """`[fee]`: what the operator takes of live payments; fee_address of a chain says where it goes."""

    percent: Annotated[Decimal, decimal("percent", 100, 4), "A share of the payment."] = Decimal(0)
    base_usd: Annotated[
        Decimal, decimal("US dollars", 1_000_000, 6), "For each payment, besides the share."
    ] = Decimal(0)
    mandatory: Annotated[
        bool, FLAG, "Offer nothing that cannot take the fee; else such options are without it."
    ] = False

    @property
    def share(self) -> Fraction:
        """The share as a fraction: 2.9 percent is 29/1000."""
        return Fraction(self.percent) / 100

    @property
    def is_on(self) -> bool:
        """Whether there is a fee at all."""
        return self.percent > 0 or self.base_usd > 0


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration; `file` is where it came from, if from a file."""

    data_dir: Annotated[Path, FOLDER, "Databases, seal key and admin socket."] = Path("data")
    listen: Annotated[Address, ADDRESS, "Where HTTP is served; put TLS in front of it."] = LISTEN_DEFAULT
    base_url: Annotated[str, URL, 'What links begin with; "" is http://<listen>.'] = ""
    log: Log = field(default_factory=Log)
    http: Http = field(default_factory=Http)
    api: Api = field(default_factory=Api)
    rate_limits: RateLimits = field(default_factory=RateLimits)
    payments: Payments = field(default_factory=Payments)
    settlements: Settlements = field(default_factory=Settlements)
    test: Simulated = field(default_factory=Simulated)
    webhooks: Webhooks = field(default_factory=Webhooks)
    notify: Notify = field(default_factory=Notify)
    audit: Audit = field(default_factory=Audit)
    feeds: Feeds = field(default_factory=Feeds)
    metrics: Metrics = field(default_factory=Metrics)
    rates: Rates = field(default_factory=Rates)
    relayer: Relayer = field(default_factory=Relayer)
    fee: Fee = field(default_factory=Fee)
    chains: Annotated[tuple[ChainConfig, ...], CHAIN_ROWS] = ()
    assets: Annotated[tuple[Asset, ...], ASSET_ROWS] = ()
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


KEYS: Final[Mapping[str, Key]] = dict(keys_of(Config))
"""Every key by its dotted name, but for those of arrays of tables."""

ROWS: Final[Mapping[str, Rows]] = dict(rows_of(Config))
"""Every array of tables by its name. A variable cannot hold one."""

VARIABLES: Final[Mapping[str, str]] = {"PAYD_" + key.upper().replace(".", "_"): key for key in KEYS}
"""The key that each environment variable sets."""

SECTIONS: Final = frozenset(key[:at] for key in KEYS for at, letter in enumerate(key) if letter == ".")
"""Every section by its dotted name."""
