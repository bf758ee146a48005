"""What `payd demo --mode live` may do: on which chain, with whose money, to whom.

On a chain that is not for tests nothing happens unless real money, its owner and its receiver were all named.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from payd.chains.assets import Asset, AssetBook
from payd.cli import seed
from payd.cli.failure import Refused
from payd.cli.pasted import pasted
from payd.config import Config
from payd.config.chains import ChainConfig
from payd.core.caip import parse_chain

# Chains of development nodes: anvil and hardhat; ganache.
LOCAL: Final = frozenset({31337, 1337})
LOCAL_WALLET: Final = "buyer.json"
PAID_IN: Final = frozenset({"eip3009", "erc20", "native"})


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed, besides where the server is.

    Attributes:
        send: Pay by a transaction of the wallet, not by a signature.
        chain: CAIP-2; None: the only one that is configured.
        wallet: A keystore; None: `buyer.json` beside payd.toml, on a local chain.
        password_file: Of the keystore; None: its name with `.password` if there is such a file, else asked.
        destination: The merchant's address; None, on a local chain: nobody's.
        cents: What the payment is over, in US cents.
        spends: Whether real money may be spent.
    """

    send: bool = False
    chain: str | None = None
    wallet: Path | None = None
    password_file: Path | None = None
    destination: str | None = None
    cents: int = 1250
    spends: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done with it: everything that could be checked before anything was made."""

    chain: ChainConfig
    assets: tuple[Asset, ...]
    wallet: Path
    password_file: Path | None
    destination: str
    send: bool
    cents: int

    @property
    def is_local(self) -> bool:
        """Whether it is the chain of a development node, on which nothing is worth anything."""
        return self.chain.number in LOCAL


def plan_of(config: Config, asked: Asked) -> Plan:
    """Decide on everything, or refuse.

    Raises:
        Refused: There is no such chain, or real money would be spent without it being said.
    """
    chain = _chain(config, asked.chain)
    book = AssetBook(config.assets, {chain.id: chain.shipped.name})
    rows = tuple(row for row in book.rows_of(parse_chain(chain.id)) if row.kind in PAID_IN)
    local = chain.number in LOCAL
    if not local:
        _check_real(chain, asked)
    beside = Path("." if config.file is None else config.file.parent)
    file = asked.wallet or beside / LOCAL_WALLET
    password_file = asked.password_file
    if password_file is None and file.with_suffix(".password").exists():
        password_file = file.with_suffix(".password")
    destination = asked.destination or seed.EVM_ADDRESS
    return Plan(chain, rows, file, password_file, destination, asked.send, asked.cents)


def _chain(config: Config, wanted: str | None) -> ChainConfig:
    configured = {chain.id: chain for chain in config.chains}
    if not configured:
        raise Refused(
            "No chain is configured, so there is nothing to pay on. scripts/nodes runs a local one; then:\n"
            f"  {pasted('demo --mode live --config .cache/nodes/payd.toml')}"
        )
    if wanted is None and len(configured) == 1:
        return config.chains[0]
    if wanted not in configured:
        raise Refused(f"Choose one of the configured chains with --chain: {', '.join(configured)}")
    return configured[wanted]


def _check_real(chain: ChainConfig, asked: Asked) -> None:
    name = f"{chain.shipped.name} ({chain.id})"
    if not asked.spends:
        raise Refused(
            f"{name} is not a local test chain: this would spend real money. Nothing was done.\n"
            "For a chain on which nothing is worth anything: scripts/nodes. If you mean it:\n"
            "  --spend-real-money --wallet FILE --destination ADDRESS"
        )
    missing = [
        name
        for name, given in (("--wallet FILE", asked.wallet), ("--destination ADDRESS", asked.destination))
        if given is None
    ]
    if missing:
        raise Refused(f"To spend real money on {name}, say whose and to whom: {' '.join(missing)}")
