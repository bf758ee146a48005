"""A shop that takes live payments on a local chain, with its server in this process, and wallets that pay it.

Everything goes the way it goes in the world: HTTP to the server, JSON-RPC to nodes, keys that sign.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import trio
from eth_account.messages import encode_typed_data

from payd.chains import keystore
from payd.clock import WallMs, system_wall_ms
from payd.config import load
from payd.server import open_house, serve
from payd.store.chain_cursors import find_cursor
from payd.web.commands import run_command
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

CHAIN: Final = "eip155:31337"
USDC: Final = f"{CHAIN}/erc20:{FIRST_CONTRACT}"
ETH: Final = f"{CHAIN}/slip44:60"
# A token that takes no signatures, as far as payd knows.
SECOND_CONTRACT: Final = "0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512"
DAI: Final = f"{CHAIN}/erc20:{SECOND_CONTRACT}"
PASSWORD: Final = "a password of a test"
# Long past anything that is still well.
PATIENCE_S: Final = 30.0
# What each of the buyers has in tokens: 10,000.
MINTED: Final = 10_000_000_000


class Wall:
    """Some other clock, as long as nobody puts this one forward."""

    def __init__(self, wall: WallMs = system_wall_ms) -> None:
        self._wall = wall
        self.ahead_ms = 0

    def __call__(self) -> int:
        return self._wall() + self.ahead_ms


@dataclass
class Shopfront:
    """What people see of a shop: its server's address, and its chain.

    Attributes:
        url: Of the server.
        http: Asks it.
        chain: A local chain with a token on it.
        headers: What the merchant's backend sends.
        wall: The server's clock.
    """

    url: str
    http: httpx.AsyncClient
    chain: LocalChain
    headers: dict[str, str] = field(default_factory=dict, kw_only=True)
    wall: Wall = field(default_factory=Wall, kw_only=True)

    @property
    def anvil(self) -> Anvil:
        """The node behind it all."""
        return self.chain.anvil

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """One request of the merchant's backend; header names with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        content = {} if body is None else {"json": body}
        return await self.http.request(method, self.url + path, headers=self.headers | named, **content)

    async def payment(self, value: str = "2500", unit: str = "iso4217/USD", **more: Any) -> str:
        """A payment's id."""
        body = {"referenceId": "order-1", "amount": {"unit": unit, "value": value}, **more}
        made = await self.call("POST", "/v1/payments", body)
        assert made.status_code == 201, made.text
        return str(made.json()["paymentId"])

    async def options(self, payment_id: str, *places: int) -> list[dict[str, Any]]:
        """What the accounts at these places are offered; the buyer's, when none is named."""
        return await self.options_of(payment_id, *(address(place) for place in places or (BUYER,)))

    async def options_of(self, payment_id: str, *addresses: str) -> list[dict[str, Any]]:
        """What these addresses are offered."""
        accounts = [f"{CHAIN}:{one}" for one in addresses]
        asked = await self.call("POST", f"/v1/gateway/payment/{payment_id}/options", accounts)
        assert asked.status_code == 200, asked.text
        options: list[dict[str, Any]] = asked.json()["options"]
        return options

    async def option(self, payment_id: str, asset: str = USDC, place: int = BUYER) -> dict[str, Any]:
        """The option in this asset."""
        offered = await self.options(payment_id, place)
        unit = f"caip19/{asset}".lower()
        return next(one for one in offered if one["amount"]["unit"].lower() == unit)

    async def confirm(self, payment_id: str, option: dict[str, Any], *data: str) -> httpx.Response:
        """Send a wallet's results, one string each."""
        results = [{"type": "walletRpc", "data": [item]} for item in data]
        body = {"optionId": option["id"], "results": results}
        return await self.call("POST", f"/v1/gateway/payment/{payment_id}/confirm", body)

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

    async def status(self, payment_id: str) -> str:
        """As the merchant sees it."""
        found = await self.call("GET", f"/v1/payments/{payment_id}/status")
        return str(found.json()["status"])

    async def detail(self, payment_id: str) -> dict[str, Any]:
        """Everything about it."""
        found: dict[str, Any] = (await self.call("GET", f"/v1/payments/{payment_id}")).json()
        return found

    async def events(self, payment_id: str) -> list[str]:
        """The types of its events, oldest first."""
        found: list[str] = []
        cursor = ""
        while True:
            page = (await self.call("GET", f"/v1/events?limit=100{cursor}")).json()
            found += [one["type"] for one in page["data"] if one["paymentId"] == payment_id]
            if page["nextCursor"] is None:
                return found[::-1]
            cursor = f"&cursor={page['nextCursor']}"

    async def until(self, payment_id: str, *wanted: str, mining: bool = False) -> str:
        """Wait until the payment has one of these statuses (or `settled`), and give it."""

        async def reached() -> str | None:
            detail = await self.detail(payment_id)
            now = "settled" if detail["settlement"] and detail["settlement"]["settled"] else detail["status"]
            return now if now in wanted else None

        return str(await self.wait_for(reached, mining=mining))

    async def wait_for(self, question: Callable[[], Any], *, mining: bool = False) -> Any:
        """Ask until the answer is true, and give it; with `mining`, a block comes with each question."""
        with trio.fail_after(PATIENCE_S):
            while not (answer := await question()):
                if mining:
                    await self.chain.mine()
                await trio.sleep(0.05)
        return answer


@dataclass
class Street(Shopfront):
    """A shop whose server runs in this process.

    Attributes:
        house: The server's inside, for what no page shows.
    """

    house: House

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
table = { "USDC/USD" = "1", "DAI/USD" = "1", "ETH/USD" = "2500" }

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
    """An account with a live key, and a merchant that is paid in the token and in the coin."""

    async def do(command: str, **args: Any) -> dict[str, Any]:
        made = await run_command(house, command, msgspec.json.encode(args))
        return dict(msgspec.to_builtins(made))

    await do("account.create", name="shop")
    key = await do("key.create", mode="live", name="till", scopes=list(SCOPES))
    merchant = await do("merchant.create", mode="live", name="Shop", email="till@shop.example")
    to = destination or address(MERCHANT)
    for asset in (USDC, DAI, ETH):
        where = {"merchant": merchant["id"], "asset": asset, "destination": f"{CHAIN}:{to}"}
        await do("destination.add", mode="live", **where)
    return {"api-key": str(key["apiKey"]), "merchant-id": str(merchant["id"])}


SCOPES: Final = (
    "merchants:read",
    "merchants:write",
    "settlements:write",
    "payments:read",
    "payments:write",
    "webhooks:read",
    "gateway",
)


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
    config = load(folder / "payd.toml", {"PAYD_DATA_DIR": str(folder / "data"), "PAYD_LISTEN": "127.0.0.1:0"})
    stop, ready, stopped = trio.Event(), trio.Event(), trio.Event()
    ahead = Wall(wall)

    async def announce(house: House) -> None:
        ready.set()

    async def run() -> None:
        await serve(house, config, stop, announce)
        stopped.set()

    async with (
        open_house(config, wall=ahead) as house,
        httpx.AsyncClient(timeout=PATIENCE_S) as http,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(run)
        await ready.wait()
        if block_s is not None:
            nursery.start_soon(mine_for_ever, chain, block_s)
        street = Street(house.own_url, http, chain, house, wall=ahead)
        if first:
            street.headers = await furnish_house(house, destination)
            save_headers(folder, street.headers)
        else:
            street.headers = saved_headers(folder)
        yield street
        # A connection that stays open is one that the server waits for.
        await http.aclose()
        stop.set()
        await stopped.wait()
        nursery.cancel_scope.cancel()


async def mine_for_ever(chain: LocalChain, block_s: float) -> None:
    """Blocks at the pace of a chain."""
    while True:
        await trio.sleep(block_s)
        await chain.mine()


def prepare(folder: Path, text: str) -> bool:
    """Write what a server starts with; whether it is the first time."""
    folder.mkdir(parents=True, exist_ok=True)
    first = not (folder / "payd.toml").exists()
    (folder / "payd.toml").write_text(text)
    if first:
        write_keystore(folder)
    return first


def save_headers(folder: Path, headers: dict[str, str]) -> None:
    """Keep what the merchant's backend sends, for another start."""
    (folder / "headers.json").write_text(json.dumps(headers))


def saved_headers(folder: Path) -> dict[str, str]:
    """What the merchant's backend sends."""
    return dict(json.loads((folder / "headers.json").read_text()))
