"""What every shop with live payments has, whatever chain it is on: a server, and a merchant's backend.

`street.py` adds an EVM chain and its wallets, `solana_street.py` Solana and its.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import trio

from payd.clock import WallMs, system_wall_ms
from payd.config import load
from payd.server import open_house, serve
from payd.web.commands import run_command
from payd.web.house import House

# Long past anything that is still well.
PATIENCE_S: Final = 60.0
SCOPES: Final = (
    "merchants:read",
    "merchants:write",
    "settlements:write",
    "payments:read",
    "payments:write",
    "webhooks:read",
    "gateway",
)


class Wall:
    """Some other clock, as long as nobody puts this one forward."""

    def __init__(self, wall: WallMs = system_wall_ms) -> None:
        self._wall = wall
        self.ahead_ms = 0

    def __call__(self) -> int:
        return self._wall() + self.ahead_ms


@dataclass
class Front:
    """What people see of a shop.

    Attributes:
        url: Of the server.
        http: Asks it.
        headers: What the merchant's backend sends.
        wall: The server's clock.
    """

    url: str
    http: httpx.AsyncClient
    headers: dict[str, str] = field(default_factory=dict, kw_only=True)
    wall: Wall = field(default_factory=Wall, kw_only=True)

    async def block(self) -> None:
        """One more block on its chain."""
        raise NotImplementedError

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

    async def offered(self, payment_id: str, *accounts: str) -> list[dict[str, Any]]:
        """What these accounts, in CAIP-10, are offered."""
        asked = await self.call("POST", f"/v1/gateway/payment/{payment_id}/options", accounts)
        assert asked.status_code == 200, asked.text
        options: list[dict[str, Any]] = asked.json()["options"]
        return options

    async def confirm(self, payment_id: str, option: dict[str, Any], *data: str) -> httpx.Response:
        """Send a wallet's results, one string each."""
        results = [{"type": "walletRpc", "data": [item]} for item in data]
        body = {"optionId": option["id"], "results": results}
        return await self.call("POST", f"/v1/gateway/payment/{payment_id}/confirm", body)

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
                    await self.block()
                await trio.sleep(0.05)
        return answer


@dataclass(frozen=True)
class Running:
    """A server in this process.

    Attributes:
        house: Its inside.
        http: A client that goes with it.
        wall: Its clock.
    """

    house: House
    http: httpx.AsyncClient
    wall: Wall

    @property
    def url(self) -> str:
        """Where it serves."""
        return self.house.own_url


@asynccontextmanager
async def running_house(folder: Path, wall: Wall) -> AsyncIterator[Running]:
    """The server that is configured in `folder`, on a free port, until the block ends."""
    config = load(folder / "payd.toml", {"PAYD_DATA_DIR": str(folder / "data"), "PAYD_LISTEN": "127.0.0.1:0"})
    stop, ready, stopped = trio.Event(), trio.Event(), trio.Event()

    async def announce(house: House) -> None:
        ready.set()

    async def run() -> None:
        await serve(house, config, stop, announce)
        stopped.set()

    async with (
        open_house(config, wall=wall) as house,
        # By http alone: the machine's certificates, which it would read first, are many.
        httpx.AsyncClient(timeout=PATIENCE_S, verify=False) as http,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(run)
        await ready.wait()
        yield Running(house, http, wall)
        # A connection that stays open is one that the server waits for.
        await http.aclose()
        stop.set()
        await stopped.wait()
        nursery.cancel_scope.cancel()


async def furnish(house: House, destinations: Mapping[str, str]) -> dict[str, str]:
    """An account with a live key, and a merchant; gives the headers of its backend.

    Args:
        house: The server's inside.
        destinations: Where the merchant is paid (CAIP-10), by asset (CAIP-19).
    """

    async def do(command: str, **args: Any) -> dict[str, Any]:
        made = await run_command(house, command, msgspec.json.encode(args))
        return dict(msgspec.to_builtins(made))

    await do("account.create", name="shop")
    key = await do("key.create", mode="live", name="till", scopes=list(SCOPES))
    merchant = await do("merchant.create", mode="live", name="Shop", email="till@shop.example")
    for asset, destination in destinations.items():
        where = {"merchant": merchant["id"], "asset": asset, "destination": destination}
        await do("destination.add", mode="live", **where)
    return {"api-key": str(key["apiKey"]), "merchant-id": str(merchant["id"])}


def write_configuration(folder: Path, text: str) -> bool:
    """Write payd.toml; whether it is the first time."""
    folder.mkdir(parents=True, exist_ok=True)
    first = not (folder / "payd.toml").exists()
    (folder / "payd.toml").write_text(text)
    return first


def save_headers(folder: Path, headers: dict[str, str]) -> None:
    """Keep what the merchant's backend sends, for another start."""
    (folder / "headers.json").write_text(json.dumps(headers))


def saved_headers(folder: Path) -> dict[str, str]:
    """What the merchant's backend sends."""
    return dict(json.loads((folder / "headers.json").read_text()))
