"""Where the live realm's prices come from: the operator's table, or exchanges and the oracles on its chains.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial

from payd.chains.evm.codec import from_data, to_data
from payd.chains.market.chainlink import ChainlinkSource, shipped_feeds
from payd.chains.market.coinbase import CoinbaseSource
from payd.chains.market.http import market_client
from payd.chains.market.kraken import KrakenSource
from payd.chains.market.prices import MarketPrices, Prices
from payd.chains.market.source import Source, SourceFailed
from payd.chains.market.table import TablePrices
from payd.chains.rpc import NodesDown, Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.config import Config


def open_prices(config: Config, nodes: Mapping[str, Rpc], stack: AsyncExitStack) -> Prices:
    """The prices.

    Args:
        config: Says whether the table holds.
        nodes: Those of each chain, by CAIP-2: some of the chains have oracles.
        stack: Closes what was opened.
    """
    if config.rates.source == "table":
        return TablePrices(dict(config.rates.table))
    client = market_client()
    stack.push_async_callback(client.aclose)
    sources: list[Source] = [KrakenSource(client), CoinbaseSource(client)]
    feeds = shipped_feeds()
    sources += [
        ChainlinkSource(name, partial(read_feed, rpc), feeds[name])
        for name, rpc in nodes.items()
        if name in feeds
    ]
    return MarketPrices(sources)


async def read_feed(rpc: Rpc, address: str, data: bytes) -> bytes:
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
