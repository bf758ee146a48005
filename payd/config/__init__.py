"""Configuration: `payd.toml` and `PAYD_*` become one frozen `Config`, and a mistake names its line.

`sections.py` is the table of keys, `chains.py` and `assets.py` those of the two arrays of tables; `loader.py`
reads them. Rooms receive values, never the `Config`.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from payd.config.chains import ChainConfig, EvmChainConfig, SolanaChainConfig, chain_config
from payd.config.keys import Key
from payd.config.kinds import Address
from payd.config.loader import FILE_NAME, ConfigError, load, unknown_variables
from payd.config.sections import KEYS, ROWS, VARIABLES, Config

__all__ = [
    "FILE_NAME",
    "KEYS",
    "ROWS",
    "VARIABLES",
    "Address",
    "ChainConfig",
    "Config",
    "ConfigError",
    "EvmChainConfig",
    "Key",
    "SolanaChainConfig",
    "chain_config",
    "load",
    "unknown_variables",
]
