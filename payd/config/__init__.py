"""Configuration: `payd.toml` and `PAYD_*` become one frozen `Config`, and a mistake names its line.

`sections.py` is the table of keys, `chains.py` and `assets.py` those of the two arrays of tables; `loader.py`
reads them. Rooms receive values, never the `Config`.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from payd.config.chains import ChainConfig, EvmChainConfig, SolanaChainConfig, chain_config, shown_node
from payd.config.keys import Key, Row, Rows
from payd.config.kinds import COUNT_MAX, DAY_MS, DAY_S, Address, Kind, Network
from payd.config.loader import FILE_BYTES_MAX, FILE_NAME, NEAR, ConfigError, load, unknown_variables
from payd.config.sections import (
    KEYS,
    ROWS,
    VARIABLES,
    Api,
    Config,
    Fee,
    Feeds,
    Http,
    LiveWebhooks,
    Log,
    Metrics,
    Notify,
    Payments,
    RateLimits,
    Rates,
    Relayer,
    Simulated,
    TestWebhooks,
    Webhooks,
)

__all__ = [
    "COUNT_MAX",
    "DAY_MS",
    "DAY_S",
    "FILE_BYTES_MAX",
    "FILE_NAME",
    "KEYS",
    "NEAR",
    "ROWS",
    "VARIABLES",
    "Address",
    "Api",
    "ChainConfig",
    "Config",
    "ConfigError",
    "EvmChainConfig",
    "Fee",
    "Feeds",
    "Http",
    "Key",
    "Kind",
    "LiveWebhooks",
    "Log",
    "Metrics",
    "Network",
    "Notify",
    "Payments",
    "RateLimits",
    "Rates",
    "Relayer",
    "Row",
    "Rows",
    "Simulated",
    "SolanaChainConfig",
    "TestWebhooks",
    "Webhooks",
    "chain_config",
    "load",
    "shown_node",
    "unknown_variables",
]
