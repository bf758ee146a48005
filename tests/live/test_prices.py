"""Prices come from the table, or from exchanges and from the oracles of the chains that have some."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from payd.chains.market.prices import MarketPrices, Prices
from payd.chains.market.source import SourceFailed
from payd.chains.market.table import TablePrices
from payd.chains.rpc import NodesDown, Rpc
from payd.chains.rpc_errors import RpcError
from payd.config import load
from payd.live import dialect_of
from payd.live.prices import open_prices, read_feed

TABLES = "".join(
    f'[[chains]]\nid = "{chain}"\nrpc = ["http://127.0.0.1:9"]\n' for chain in ("eip155:1", "solana:mainnet")
)


async def opened(folder: Path, rates: str, stack: AsyncExitStack) -> Prices:
    (folder / "payd.toml").write_text(f"{TABLES}[rates]\n{rates}")
    config = load(folder / "payd.toml")
    nodes = {chain.id: Rpc(chain.rpc, dialect_of(chain)) for chain in config.chains}
    return open_prices(config, nodes, stack)


async def test_a_table_is_asked_alone(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        found = await opened(tmp_path, 'source = "table"\ntable = { "SOL/USD" = "150" }\n', stack)
        assert isinstance(found, TablePrices)


async def test_markets_are_two_exchanges_and_an_oracle_for_each_chain_that_has_one(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        found = await opened(tmp_path, 'source = "market"\n', stack)
        assert isinstance(found, MarketPrices)
        sources = [one.source for one in found.health(0)]
        assert sources == ["kraken", "coinbase", "chainlink/eip155:1"]


class Node(Rpc):
    """It answers so."""

    def __init__(self, answer: Any) -> None:
        from payd.chains.evm.dialect import EvmDialect

        super().__init__(["http://127.0.0.1:9"], EvmDialect(1))
        self._answer = answer

    async def call(self, method: str, *params: Any, node: Any = None) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        assert (method, params) == ("eth_call", ({"to": "0xfeed", "data": "0x01"}, "latest"))
        return self._answer


async def test_a_feed_is_read_by_a_call_of_its_contract() -> None:
    assert await read_feed(Node("0x07"), "0xfeed", b"\x01") == b"\x07"


async def test_a_feed_that_refuses_has_no_price_and_one_that_nobody_reads_is_a_source_that_failed() -> None:
    assert await read_feed(Node(RpcError(3, "reverted", None, "answer")), "0xfeed", b"\x01") == b""
    for down in (NodesDown("none answers"), "junk"):
        with pytest.raises(SourceFailed):
            await read_feed(Node(down), "0xfeed", b"\x01")
