"""A shop that is paid for real by wallets in its page: on an EVM node, and on a Solana that is played."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from payd.config import load
from payd.server import open_house
from tests.live import solana
from tests.live.anvil import Anvil, running_anvil
from tests.live.chain import MERCHANT, LocalChain, address
from tests.live.front import furnish
from tests.live.node_process import NodeProcess
from tests.live.solana_street import furnish_street
from tests.live.street import CHAIN as STREET_CHAIN
from tests.live.street import DAI, ETH, USDC, configuration, furnish_chain, prepare
from tests.live.svm_node import running_svm_node
from tests.process import Server

# A network that wallets have a name for, and may have to add.
CHAIN_ID: Final = 8453
CHAIN: Final = f"eip155:{CHAIN_ID}"
BLOCK_S: Final = 0.25
SLOT_MS: Final = 200
SETTLED_MAX_S: Final = 30


@dataclass
class PaidShop:
    """What its merchant sees.

    Attributes:
        server: Its process.
        headers: What the merchant's backend sends.
    """

    server: Server
    headers: dict[str, str]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One call of the API; its body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=SETTLED_MAX_S)
        try:
            sent = self.headers | {"content-type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def pay(self, value: str = "2500") -> str:
        """Create a payment; the link to its page."""
        body = {"referenceId": "ORDER-1042", "amount": {"unit": "iso4217/USD", "value": value}}
        return f"{self.server.url}/pay/{self.call('POST', '/v1/payments', body)['paymentId']}"

    def detail(self, link: str) -> Any:
        """All of the payment of a page."""
        return self.call("GET", f"/v1/payments/{link.rpartition('/')[2]}")

    def transfers(self, link: str) -> list[tuple[str, str]]:
        """What the chain shows for it: kind and asset's symbol."""
        return [
            (one["kind"], one["amount"]["display"]["assetSymbol"]) for one in self.detail(link)["transfers"]
        ]


@dataclass
class WalletShop(PaidShop):
    """One on both chains.

    Attributes:
        anvil: The EVM chain's node.
        svm: Solana's.
    """

    anvil: Anvil
    svm: NodeProcess


def on_base(text: str) -> str:
    """The same on this shop's chain."""
    return text.replace(STREET_CHAIN, CHAIN)


@contextmanager
def open_wallet_shop(
    folder: Path, fee: str = "", fee_address: str = "", on_solana: Sequence[str] = (solana.USDC,)
) -> Iterator[WalletShop]:
    """A running server on both chains, until the block ends; a test may kill and start it.

    Args:
        folder: For its data.
        fee: Lines of [fee].
        fee_address: Where the operator's fee goes on the EVM chain.
        on_solana: The assets that its merchant takes there.
    """
    with (
        running_anvil(chain_id=CHAIN_ID, slots_in_an_epoch=1, block_time_s=BLOCK_S) as anvil,
        running_svm_node(slot_ms=SLOT_MS) as svm,
    ):
        headers = trio.run(_furnish, folder, anvil, svm, fee, fee_address, on_solana)
        with running_server(folder) as server:
            yield WalletShop(server, headers, anvil, svm)


@contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    """What is configured in a folder, in a process of its own."""
    server = Server(folder / "data", {"PAYD_CONFIG": str(folder / "payd.toml")})
    try:
        server.start()
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.kill()


async def _furnish(
    folder: Path, anvil: Anvil, svm: NodeProcess, fee: str, fee_address: str, on_solana: Sequence[str]
) -> dict[str, str]:
    await furnish_chain(LocalChain(anvil))
    await furnish_street(solana.LocalSolana(svm))
    operator = f'fee_address = "{fee_address}"\n' if fee_address else ""
    lines = f'depth = 2\n{operator}\n[[chains]]\nid = "{solana.CHAIN}"\nrpc = ["{svm.url}"]\npoll_ms = 100\n'
    prepare(folder, on_base(configuration([anvil.url], lines, fee)))
    given = {"PAYD_DATA_DIR": str(folder / "data"), "PAYD_LISTEN": "127.0.0.1:0"}
    merchant = f"{CHAIN}:{address(MERCHANT)}"
    destinations = {on_base(asset): merchant for asset in (USDC, DAI, ETH)}
    destinations |= dict.fromkeys(on_solana, solana.account_id(solana.MERCHANT))
    async with open_house(load(folder / "payd.toml", given), inline=True) as house:
        return await furnish(house, destinations)
