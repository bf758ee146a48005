"""What the live realm is built from: nodes, prices, the keystore, and for each chain who works on it.

Imported only when a chain is configured, and of `evm.py` and `solana.py` only the one whose chains there are:
signing libraries cost half a second and 40 MiB.

Source: DESIGN.md, "3. Two realms"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog
import trio

from payd.actors.live_chain import LiveChain
from payd.chains import keystore
from payd.chains.assets import AssetBook
from payd.chains.dialect import Dialect
from payd.chains.keystore import Addresses, KeystoreUnusable, Unlocked
from payd.chains.market.prices import Prices
from payd.chains.rpc import Rpc
from payd.clock import Clock
from payd.config import ChainConfig, Config, ConfigError, EvmChainConfig
from payd.live.parts import News, Parts
from payd.live.prices import open_prices
from payd.store.db import Database

if TYPE_CHECKING:
    from payd.chains.evm.chain import EvmChain
    from payd.chains.solana.chain import SolanaChain

LookedAt: TypeAlias = "EvmChain | SolanaChain"

log = structlog.get_logger("payd.live")

# Python's own. What signs brings a library that lifts it a hundredfold for the whole process when it is
# imported: then JSON of nothing but brackets, a stranger's or a node's, overflows the stack and ends the
# server.
NESTING_MAX: Final = 1000


@asynccontextmanager
async def open_chains(
    config: Config, db: Database, clock: Clock, book: AssetBook, *, news: News, relays: bool
) -> AsyncIterator[tuple[LiveChain, ...]]:
    """The configured chains; nothing is asked of their nodes yet.

    Args:
        config: With at least one chain.
        db: The live realm's store.
        clock: Its clock.
        book: The assets of these chains.
        news: Told of a payment and the chain that has something on it.
        relays: Whether the relayer's key is unlocked, its work done, and what was signed submitted.

    Raises:
        ConfigError: A chain wants a relayer, and its key cannot be unlocked.
    """
    async with AsyncExitStack() as stack:
        nodes = _open_nodes(config, stack)
        parts = Parts(db, clock, book, open_prices(config, nodes, stack), news)
        unlocked = await _unlocked(config) if relays else None
        opened = tuple(
            _open(config, chain, nodes[chain.id], parts, unlocked, relays) for chain in config.chains
        )
        sys.setrecursionlimit(NESTING_MAX)
        yield opened


@asynccontextmanager
async def open_to_look(
    config: Config, addresses: Addresses
) -> AsyncIterator[tuple[tuple[LookedAt, ...], Prices]]:
    """The configured chains and their prices, for who only asks: no store is opened, and no key.

    What would read the store raises StoreUnavailable.

    Args:
        config: With at least one chain.
        addresses: Of the relayer's key; None where there is none.
    """
    closed = Database(config.data_dir / "live.db", 0, inline=True)
    book = AssetBook(config.assets, {chain.id: chain.shipped.name for chain in config.chains})
    async with AsyncExitStack() as stack:
        nodes = _open_nodes(config, stack)
        parts = Parts(closed, Clock(), book, open_prices(config, nodes, stack), _nobody)
        opened = tuple(_to_look(config, chain, nodes[chain.id], parts, addresses) for chain in config.chains)
        sys.setrecursionlimit(NESTING_MAX)
        yield opened, parts.prices


def dialect_of(chain: ChainConfig) -> Dialect:
    """How the nodes of a chain are asked."""
    if isinstance(chain, EvmChainConfig):
        from payd.chains.evm.dialect import EvmDialect

        return EvmDialect(chain.number)
    from payd.chains.solana.dialect import SolanaDialect

    return SolanaDialect(chain.genesis)


def _open_nodes(config: Config, stack: AsyncExitStack) -> dict[str, Rpc]:
    nodes = {chain.id: Rpc(chain.rpc, dialect_of(chain)) for chain in config.chains}
    for rpc in nodes.values():
        stack.push_async_callback(rpc.aclose)
    return nodes


def _open(
    config: Config, chain: ChainConfig, rpc: Rpc, parts: Parts, key: Unlocked | None, relays: bool
) -> LiveChain:
    if isinstance(chain, EvmChainConfig):
        from payd.live.evm import open_evm

        return open_evm(config, chain, rpc, parts, None if key is None else key.signer())
    from payd.live.solana import open_solana

    try:
        fee_payer = None if key is None else key.fee_payer()
    except KeystoreUnusable as unusable:
        raise ConfigError([f"[relayer] {unusable}"]) from unusable
    return open_solana(config, chain, rpc, parts, fee_payer, submits=relays)


def _to_look(config: Config, chain: ChainConfig, rpc: Rpc, parts: Parts, addresses: Addresses) -> LookedAt:
    if isinstance(chain, EvmChainConfig):
        from payd.live.evm import evm_to_look

        return evm_to_look(config, chain, rpc, parts, addresses.evm)
    from payd.live.solana import solana_to_look

    return solana_to_look(config, chain, rpc, parts, addresses.solana)


async def _nobody(payment_id: str, chain: str) -> None:
    """Nobody is told by who only looks."""


async def _unlocked(config: Config) -> Unlocked | None:
    """The relayer's key, where a chain wants one and there is one."""
    if not any(chain.sponsor for chain in config.chains):
        return None
    file = config.relayer.keystore
    if file is None:
        log.info("relayer.none", advice="Buyers pay gas themselves. `payd relayer create FILE` makes a key.")
        return None
    try:
        password = keystore.read_password(config.relayer.password_file, os.environ)
        if password is None:
            raise KeystoreUnusable(
                f"Nothing opens {file}: set password_file, or the variable {keystore.PASSWORD_VARIABLE}."
            )
        return await trio.to_thread.run_sync(partial(keystore.unlock, file, password))
    except KeystoreUnusable as unusable:
        raise ConfigError([f"[relayer] {unusable}"]) from unusable
