"""What the live realm is built from: nodes, prices, the relayer's key, and for each chain who works on it.

Imported only when a chain is configured: signing libraries cost half a second and 40 MiB.

Source: DESIGN.md, "3. Two realms"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from fractions import Fraction
from functools import partial
from typing import Final

import structlog
import trio

from payd.actors.block_watcher import block_watcher
from payd.actors.live_chain import LiveChain
from payd.actors.relayer import Relayer
from payd.actors.watcher import FollowHeads
from payd.chains.assets import AssetBook
from payd.chains.evm import keystore
from payd.chains.evm.chain import EvmChain
from payd.chains.evm.codec import from_data, to_data
from payd.chains.evm.dialect import EvmDialect
from payd.chains.evm.keystore import KeystoreUnusable
from payd.chains.evm.signer import Signer
from payd.chains.evm.terms import Terms
from payd.chains.fee_terms import FeeTerms
from payd.chains.heads import follow_heads
from payd.chains.market.chainlink import ChainlinkSource, shipped_feeds
from payd.chains.market.coinbase import CoinbaseSource
from payd.chains.market.http import market_client
from payd.chains.market.kraken import KrakenSource
from payd.chains.market.prices import MarketPrices, Prices
from payd.chains.market.source import Source, SourceFailed
from payd.chains.market.table import TablePrices
from payd.chains.rpc import NodesDown, Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.clock import Clock
from payd.config import Config, ConfigError
from payd.config.chains import ChainConfig
from payd.core.caip import parse_chain
from payd.core.relay import RelayLimits
from payd.store.db import Database

log = structlog.get_logger("payd.live")

News = Callable[[str, str], Awaitable[None]]

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
        relays: Whether the relayer's key is unlocked, and its work done.

    Raises:
        ConfigError: A chain wants a relayer, and its key cannot be unlocked.
    """
    sys.setrecursionlimit(NESTING_MAX)
    async with AsyncExitStack() as stack:
        nodes = {chain.id: Rpc(chain.rpc, EvmDialect(chain.number)) for chain in config.chains}
        for rpc in nodes.values():
            stack.push_async_callback(rpc.aclose)
        prices = _prices(config, nodes, stack)
        signer = await _unlocked(config) if relays else None
        yield tuple(
            _open(config, chain, nodes[chain.id], db, clock, book, prices, signer, news)
            for chain in config.chains
        )


@asynccontextmanager
async def open_to_look(
    config: Config, relayer: str | None
) -> AsyncIterator[tuple[tuple[EvmChain, ...], Prices]]:
    """The configured chains and their prices, for who only asks: no store is opened, and no key.

    What would read the store raises StoreUnavailable.

    Args:
        config: With at least one chain.
        relayer: The address of the relayer's key; None: there is none.
    """
    closed = Database(config.data_dir / "live.db", 0, inline=True)
    book = AssetBook(config.assets, {chain.id: chain.shipped.name for chain in config.chains})
    async with AsyncExitStack() as stack:
        nodes = {chain.id: Rpc(chain.rpc, EvmDialect(chain.number)) for chain in config.chains}
        for rpc in nodes.values():
            stack.push_async_callback(rpc.aclose)
        prices = _prices(config, nodes, stack)
        yield (
            tuple(
                EvmChain(
                    terms_of(config, chain, relayer if chain.sponsor else None),
                    rpc=nodes[chain.id],
                    db=closed,
                    book=book,
                    prices=prices,
                )
                for chain in config.chains
            ),
            prices,
        )


def _open(
    config: Config,
    chain: ChainConfig,
    rpc: Rpc,
    db: Database,
    clock: Clock,
    book: AssetBook,
    prices: Prices,
    signer: Signer | None,
    news: News,
) -> LiveChain:
    chain_id = parse_chain(chain.id)
    # The relayer and the watcher wake each other.
    made: list[LiveChain] = []
    relayer = None
    if signer is not None and chain.sponsor:
        limits = RelayLimits(
            max_fee=chain.max_fee_wei,
            gas_per_day=chain.gas_per_day_wei,
            relays_per_buyer=chain.relays_per_buyer,
            bump_after_ms=chain.shipped.bump_after_ms,
        )
        relayer = Relayer(db, clock, rpc, chain_id, signer, limits, news, lambda: made[0].watcher.wake())
    watcher = block_watcher(
        db=db,
        clock=clock,
        rpc=rpc,
        chain=chain_id,
        book=book,
        poll_ms=chain.poll_ms,
        final=chain.final,
        news=news,
        wake_relayer=(lambda: None) if relayer is None else relayer.wake,
        follow_heads=_heads(chain),
    )
    terms = terms_of(config, chain, None if relayer is None or signer is None else signer.address)
    evm = EvmChain(
        terms,
        rpc=rpc,
        db=db,
        book=book,
        prices=prices,
        can_relay=(lambda buyer: False) if relayer is None else relayer.can_relay,
    )
    made.append(LiveChain(chain.id, rpc, evm, watcher, relayer, prices))
    return made[0]


def terms_of(config: Config, chain: ChainConfig, relayer: str | None) -> Terms:
    """What the operator set for a chain; `relayer` is the address of the key, None where there is none."""
    takes_fee = bool(chain.fee_address and (config.fee.percent or config.fee.base_usd))
    return Terms(
        chain=parse_chain(chain.id),
        block_ms=chain.shipped.block_ms,
        depth=chain.depth,
        final=chain.final,
        sponsor=chain.sponsor,
        relayer=None if relayer is None else relayer.lower(),
        fee=FeeTerms(
            share=config.fee.share,
            base_usd=Fraction(config.fee.base_usd),
            address=chain.fee_address,
            mandatory=config.fee.mandatory,
        )
        if takes_fee
        else None,
    )


def _heads(chain: ChainConfig) -> FollowHeads | None:
    return None if not chain.ws else partial(follow_heads, chain.ws)


def _prices(config: Config, nodes: dict[str, Rpc], stack: AsyncExitStack) -> Prices:
    if config.rates.source == "table":
        return TablePrices(dict(config.rates.table))
    client = market_client()
    stack.push_async_callback(client.aclose)
    sources: list[Source] = [KrakenSource(client), CoinbaseSource(client)]
    feeds = shipped_feeds()
    sources += [
        ChainlinkSource(name, partial(_read_feed, rpc), feeds[name])
        for name, rpc in nodes.items()
        if name in feeds
    ]
    return MarketPrices(sources)


async def _read_feed(rpc: Rpc, address: str, data: bytes) -> bytes:
    """What a feed's contract answers; nothing where it refuses.

    Raises:
        SourceFailed: No node answers.
    """
    try:
        return from_data(await rpc.call("eth_call", {"to": address, "data": to_data(data)}, "latest"))
    except RpcError:
        return b""
    except (NodesDown, BadAnswer) as error:
        raise SourceFailed(str(error)) from None


async def _unlocked(config: Config) -> Signer | None:
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
        return await trio.to_thread.run_sync(keystore.unlock, file, password)
    except KeystoreUnusable as unusable:
        raise ConfigError([f"[relayer] {unusable}"]) from unusable
