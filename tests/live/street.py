"""A shop that takes live payments on a local chain, with its server in this process, and wallets that pay it.

Everything goes the way it goes in the world: HTTP to the server, JSON-RPC to nodes, keys that sign.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import trio
from eth_account.messages import encode_typed_data

from payd.chains import keystore
from payd.clock import WallMs, system_wall_ms
from payd.store.chain_cursors import find_cursor
from payd.web.house import House
from tests.live.anvil import Anvil
from tests.live.chain import (
    BUYER,
    BUYER_2,
    MERCHANT,
    MULTICALL3,
    RELAYER,
    LocalChain,
    account,
    address,
)
from tests.live.chain import (
    FIRST_CONTRACT as FIRST_CONTRACT,
)
from tests.live.front import PATIENCE_S as PATIENCE_S
from tests.live.front import (
    Front,
    Wall,
    furnish,
    running_house,
    save_headers,
    saved_headers,
    write_configuration,
)

CHAIN: Final = "eip155:31337"
USDC: Final = f"{CHAIN}/erc20:{FIRST_CONTRACT}"
ETH: Final = f"{CHAIN}/slip44:60"
# A token that takes no signatures, as far as payd knows.
SECOND_CONTRACT: Final = "0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512"
DAI: Final = f"{CHAIN}/erc20:{SECOND_CONTRACT}"
PASSWORD: Final = "a password of a test"
# A relayer's first look at its node takes no longer.
LOOK_MAX_S: Final = 5.0
# What each of the buyers has in tokens: 10,000.
MINTED: Final = 10_000_000_000


@dataclass
class Shopfront(Front):
    """What people see of a shop on an EVM chain.

    Attributes:
        chain: A local chain with a token on it.
    """

    chain: LocalChain

    async def block(self) -> None:
        """One more block."""
        await self.chain.mine()

    @property
    def anvil(self) -> Anvil:
        """The node behind it all."""
        return self.chain.anvil

    async def options(self, payment_id: str, *places: int) -> list[dict[str, Any]]:
        """What the accounts at these places are offered; the buyer's, when none is named."""
        return await self.options_of(payment_id, *(address(place) for place in places or (BUYER,)))

    async def options_of(self, payment_id: str, *addresses: str) -> list[dict[str, Any]]:
        """What these addresses are offered."""
        return await self.offered(payment_id, *(f"{CHAIN}:{one}" for one in addresses))

    async def option(self, payment_id: str, asset: str = USDC, place: int = BUYER) -> dict[str, Any]:
        """The option in this asset."""
        offered = await self.options(payment_id, place)
        unit = f"caip19/{asset}".lower()
        return next(one for one in offered if one["amount"]["unit"].lower() == unit)

    async def execute(self, option: dict[str, Any], place: int = BUYER) -> list[str]:
        """Do an option's actions as a wallet does, and give its results."""
        return [await self.act(action, place) for action in option["actions"]]

    async def act(self, action: dict[str, Any], place: int = BUYER) -> str:
        """Sign, or send."""
        params = json.loads(action["params"])
        if action["method"] == "eth_signTypedData_v4":
            assert params[0].lower() == address(place).lower()
            return signed(params[1], place)
        [asked] = params
        assert asked["from"].lower() == address(place).lower()
        data = bytes.fromhex(asked.get("data", "0x")[2:])
        value = int(asked.get("value", "0x0"), 16)
        return await self.chain.send_as(account(place), asked["to"], data, value, gas=300_000)

    async def pay(self, payment_id: str, asset: str = USDC, place: int = BUYER) -> httpx.Response:
        """Take the option in this asset, do it, confirm it."""
        option = await self.option(payment_id, asset, place)
        return await self.confirm(payment_id, option, *await self.execute(option, place))


@dataclass
class Street(Shopfront):
    """A shop whose server runs in this process.

    Attributes:
        house: The server's inside, for what no page shows.
    """

    house: House

    async def relayers_looked(self) -> None:
        """Until each relayer knows what it has: before that, it offers to bring nothing."""
        relayers = [chain.relayer for chain in self.house.realms["live"].live_chains]
        while any(one is not None and one.stats().balance is None for one in relayers):
            await trio.sleep(0.01)

    def wake(self) -> None:
        """Have the chain read now: where nothing is open, that is every 15 seconds."""
        for one in self.house.realms["live"].live_chains:
            one.watcher.wake()

    async def later(self, seconds: int) -> None:
        """Let so much time go by, for the server and for the chain; what is in the pool is mined."""
        self.wall.ahead_ms += seconds * 1000
        await self.chain.rpc("evm_increaseTime", seconds)
        await self.chain.mine()
        self.house.realms["live"].payments.tending.deadlines.reload()
        self.wake()

    async def caught_up(self) -> None:
        """Wait until the server has read the newest block, and what is final; have it do all that is due."""
        head = await self.chain.head()
        final = int((await self.chain.rpc("eth_getBlockByNumber", "finalized", False))["number"], 16)
        realm = self.house.realms["live"]

        async def there() -> bool:
            at = [realm.db.point(find_cursor, CHAIN, kind) for kind in ("head", "final")]
            wanted = zip(at, (head, final), strict=True)
            return all(cursor is not None and cursor.number >= number for cursor, number in wanted)

        await self.wait_for(there)
        realm.payments.tending.deadlines.reload()


def signed(typed_data: str, place: int = BUYER) -> str:
    """A signature of typed data as a wallet shows it."""
    message = encode_typed_data(full_message=json.loads(typed_data))
    return "0x" + bytes(account(place).sign_message(message).signature).hex()


CONFIGURATION: Final = """
[rates]
source = "table"
table = { "USDC/USD" = "1", "DAI/USD" = "1", "ETH/USD" = "2500", "SOL/USD" = "100" }

[relayer]
keystore = "relayer.json"
password_file = "password"

[fee]
@fee

[[chains]]
id = "@id"
rpc = @rpc
poll_ms = @poll
relays_per_buyer = @relays
@chain

[[assets]]
asset = "@id/erc20:@usdc"
symbol = "USDC"
name = "USD Coin"
decimals = 6
kind = "eip3009"
domain = { name = "USD Coin", version = "2" }
par = "USD"

[[assets]]
asset = "@id/erc20:@dai"
symbol = "DAI"
name = "Dai"
decimals = 6
kind = "erc20"
par = "USD"

[[assets]]
asset = "@id/slip44:60"
symbol = "ETH"
name = "Ether"
decimals = 18
kind = "native"

[rate_limits]
per_key = 0
per_ip = 0

[webhooks]
canary = false
"""


def configuration(
    urls: Sequence[str],
    lines: str = "depth = 2",
    fee: str = "",
    poll_ms: str = "50",
    relays: str = "1000",
) -> str:
    """payd.toml of a shop on these nodes.

    Args:
        urls: Of the nodes.
        lines: More lines of its [[chains]], and tables after it.
        fee: Lines of [fee].
        poll_ms: How often the nodes are asked for new blocks.
        relays: How many of one buyer's payments the relayer carries.
    """
    values = {
        "id": CHAIN,
        "rpc": json.dumps(list(urls)),
        "chain": lines,
        "fee": fee,
        "poll": poll_ms,
        "relays": relays,
    }
    text = CONFIGURATION.replace("@usdc", FIRST_CONTRACT).replace("@dai", SECOND_CONTRACT)
    for name, value in values.items():
        text = text.replace(f"@{name}", value)
    return text


def write_keystore(folder: Path) -> None:
    """The relayer's key: that of the development account which is rich in gas."""
    from eth_keyfile.keyfile import create_keyfile_json

    file = folder / "relayer.json"
    key = create_keyfile_json(bytes(account(RELAYER).key), PASSWORD.encode(), kdf="scrypt", iterations=4096)
    file.write_text(json.dumps(key))
    file.chmod(0o600)
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o600)
    assert keystore.addresses_in(file).evm == address(RELAYER).lower()


async def furnish_chain(chain: LocalChain) -> None:
    """A token with a few rich buyers, and Multicall3 where it is everywhere."""
    await chain.place("Multicall3", MULTICALL3)
    assert await chain.token() == FIRST_CONTRACT
    assert await chain.token("Dai", "DAI", "1") == SECOND_CONTRACT
    for token in (FIRST_CONTRACT, SECOND_CONTRACT):
        for place in (BUYER, BUYER_2):
            await chain.mint(token, address(place), MINTED)
    await chain.mine(3)


async def furnish_house(house: House, destination: str | None = None) -> dict[str, str]:
    """An account with a live key, and a merchant that is paid in the tokens and in the coin."""
    to = f"{CHAIN}:{destination or address(MERCHANT)}"
    return await furnish(house, dict.fromkeys((USDC, DAI, ETH), to))


@asynccontextmanager
async def open_street(
    folder: Path,
    chain: LocalChain,
    /,
    urls: Sequence[str] = (),
    *,
    destination: str | None = None,
    block_s: float | None = None,
    wall: WallMs = system_wall_ms,
    **configured: str,
) -> AsyncIterator[Street]:
    """A running shop.

    Args:
        folder: For its data; one that was used before goes on.
        chain: Already furnished.
        urls: Of the nodes that the server asks; the chain's own when there is none.
        destination: The merchant's address.
        block_s: A block comes so often, besides those of transactions.
        wall: The server's clock, which `Street.later` puts forward.
        configured: As for `configuration`.
    """
    first = prepare(folder, configuration(urls or (chain.anvil.url,), **configured))
    async with trio.open_nursery() as blocks:
        async with running_house(folder, Wall(wall)) as running:
            if block_s is not None:
                blocks.start_soon(mine_for_ever, chain, block_s)
            street = Street(running.url, running.http, chain, running.house, wall=running.wall)
            if first:
                save_headers(folder, await furnish_house(running.house, destination))
            street.headers = saved_headers(folder)
            with trio.move_on_after(LOOK_MAX_S):  # a test may begin with nodes that say nothing
                await street.relayers_looked()
            yield street
        blocks.cancel_scope.cancel()


async def mine_for_ever(chain: LocalChain, block_s: float) -> None:
    """Blocks at the pace of a chain."""
    while True:
        await trio.sleep(block_s)
        await chain.mine()


def prepare(folder: Path, text: str) -> bool:
    """Write what a server starts with; whether it is the first time."""
    first = write_configuration(folder, text)
    if first:
        write_keystore(folder)
    return first
