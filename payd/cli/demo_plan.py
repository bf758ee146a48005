"""What `payd demo --mode live` may do: on which chain, with whose money, to whom.

On a chain that is not for tests nothing happens unless real money, its owner and its receiver were all named.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from payd.chains.assets import Asset, AssetBook
from payd.chains.defaults import described_chains
from payd.cli import seed
from payd.cli.failure import Refused
from payd.cli.pasted import pasted
from payd.config import ChainConfig, Config, EvmChainConfig, SolanaChainConfig
from payd.core.caip import MalformedCaip, canonical_chain, parse_chain

# Chains of development nodes: anvil and hardhat; ganache.
LOCAL: Final = frozenset({31337, 1337})
# A node of Solana that runs here and is of no public cluster is one for development.
LOCAL_HOSTS: Final = frozenset({"127.0.0.1", "::1", "localhost"})
EVM_WALLET: Final = "buyer.json"
SOLANA_WALLET: Final = "buyer-solana.json"
PAID_IN: Final = frozenset({"eip3009", "erc20", "native", "spl"})


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed, besides where the server is.

    Attributes:
        send: Pay by a transaction of the wallet, not by a signature.
        chain: CAIP-2; None: the only one that is configured, or the first if it is a local one.
        wallet: A keystore, or a keypair file of Solana; None: the one beside payd.toml, on a local chain.
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
        return is_local(self.chain)


def plan_of(config: Config, asked: Asked) -> Plan:
    """Decide on everything, or refuse.

    Raises:
        Refused: There is no such chain, or real money would be spent without it being said.
    """
    chain = _chain(config, asked.chain)
    book = AssetBook(config.assets, {chain.id: chain.shipped.name})
    rows = tuple(row for row in book.rows_of(parse_chain(chain.id)) if row.kind in PAID_IN)
    if not is_local(chain):
        _check_real(chain, asked)
    on_solana = isinstance(chain, SolanaChainConfig)
    if on_solana and asked.send:
        raise Refused("On Solana the wallet signs whoever pays the fee. Leave --send out.")
    beside = Path("." if config.file is None else config.file.parent)
    file = asked.wallet or beside / (SOLANA_WALLET if on_solana else EVM_WALLET)
    password_file = asked.password_file
    if password_file is None and file.with_suffix(".password").exists():
        password_file = file.with_suffix(".password")
    destination = asked.destination or (seed.SOLANA_ADDRESS if on_solana else seed.EVM_ADDRESS)
    return Plan(chain, rows, file, password_file, destination, asked.send, asked.cents)


def is_local(chain: ChainConfig) -> bool:
    """Whether a chain is that of a development node."""
    if isinstance(chain, EvmChainConfig):
        return chain.number in LOCAL
    hosts = {urlsplit(url).hostname for url in chain.rpc}
    return chain.id not in described_chains() and hosts <= LOCAL_HOSTS


def _chain(config: Config, wanted: str | None) -> ChainConfig:
    configured = {chain.id: chain for chain in config.chains}
    if not configured:
        raise Refused(
            "No chain is configured, so there is nothing to pay on. scripts/nodes runs a local one; then:\n"
            f"  {pasted('demo --mode live --config .cache/nodes/payd.toml')}"
        )
    if wanted is None and (len(configured) == 1 or is_local(config.chains[0])):
        return config.chains[0]
    if wanted is not None and (named := _named(wanted)) in configured:
        return configured[named]
    raise Refused(f"Choose one of the configured chains with --chain: {', '.join(configured)}")


def _named(wanted: str) -> str:
    """A chain as it is configured: `solana:devnet` is one of them by another name."""
    try:
        return str(canonical_chain(parse_chain(wanted)))
    except MalformedCaip:
        return wanted


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
